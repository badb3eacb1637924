import { setTimeout as sleep } from 'node:timers/promises'
import PgBoss from 'pg-boss'
import * as database from './database.mjs'

const QUEUE = 'orders'
const LOOPS = 2
const BATCH = 1000
const POLL_MS = 1

async function connect(url, options) {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options })
  boss.on('error', console.error)
  await boss.start()
  return boss
}

async function close(boss) {
  await boss.stop({ graceful: false, wait: true })
}

export async function setup(url) {
  await database.createOrders(url)
  const boss = await connect(url)
  await boss.createQueue(QUEUE)
  await close(boss)
}

export async function fill(url, payloads) {
  const boss = await connect(url)
  for (let i = 0; i < payloads.length; i += 5000) {
    await boss.insert(payloads.slice(i, i + 5000).map((data) => ({ name: QUEUE, data })))
  }
  await close(boss)
}

export async function waiting(url) {
  const rows = await database.query(
    url,
    `SELECT count(*) FROM pgboss.job WHERE name = '${QUEUE}' AND state <> 'completed'`,
  )
  return Number(rows[0].count)
}

/** Loops of fetch and complete: `work()` polls twice a second at the most. */
export async function worker(url, aim, handler) {
  const boss = await connect(url)
  let running = true
  let loops = []

  async function loop() {
    while (running) {
      const jobs = await boss.fetch(QUEUE, { batchSize: BATCH })
      if (jobs.length === 0) {
        await sleep(POLL_MS)
        continue
      }
      await Promise.all(jobs.map((job) => handler(job.data)))
      await boss.complete(QUEUE, jobs.map((job) => job.id))
    }
  }

  return {
    async start() {
      loops = Array.from({ length: aim === 'throughput' ? LOOPS : 1 }, loop)
    },
    async stop() {
      running = false
      await Promise.all(loops)
    },
    async close() {
      await close(boss)
    },
  }
}

export async function producer(url) {
  const boss = await connect(url, { max: 1 })
  const client = await database.connect(url)
  const db = { executeSql: (text, values) => client.query(text, values) }
  return {
    publish: (payload) =>
      database.publish(client, payload, () => boss.send(QUEUE, payload, { db })),
    async close() {
      await client.end()
      await close(boss)
    },
  }
}
