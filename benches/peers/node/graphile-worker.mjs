import { Logger, makeWorkerUtils, run, runMigrations } from 'graphile-worker'
import * as database from './database.mjs'

const TASK = 'order_placed'
const CONNECTIONS = 10

const logger = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message)
})

const settings = {
  throughput: {
    concurrency: 24,
    preset: {
      worker: { localQueue: { size: 2000 }, completeJobBatchDelay: 1, failJobBatchDelay: 1 },
    },
  },
  latency: { concurrency: 1 },
}

export async function setup(url) {
  await database.createOrders(url)
  await runMigrations({ connectionString: url, logger })
}

export async function fill(url, payloads) {
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  for (let i = 0; i < payloads.length; i += 5000) {
    const chunk = payloads.slice(i, i + 5000)
    await utils.addJobs(chunk.map((payload) => ({ identifier: TASK, payload })))
  }
  await utils.release()
}

export async function waiting(url) {
  const rows = await database.query(url, 'SELECT count(*) FROM graphile_worker._private_jobs')
  return Number(rows[0].count)
}

export async function worker(url, aim, handler) {
  const pgPool = await database.pool(url, CONNECTIONS)
  let runner
  return {
    async start() {
      runner = await run({
        pgPool,
        logger,
        noHandleSignals: true,
        taskList: { [TASK]: handler },
        ...settings[aim],
      })
    },
    async stop() {
      await runner.stop()
    },
    async close() {
      await pgPool.end()
    },
  }
}

export async function producer(url) {
  const client = await database.connect(url)
  const enqueue = (payload) =>
    client.query({
      name: 'enqueue',
      text: 'SELECT graphile_worker.add_job($1, $2::json)',
      values: [TASK, JSON.stringify(payload)],
    })
  return {
    publish: (payload) => database.publish(client, payload, () => enqueue(payload)),
    close: () => client.end(),
  }
}
