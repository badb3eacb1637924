// Runs one job of the benchmark against one peer: `node peer.mjs NAME JOB URL [ARGUMENTS]`.

import { setTimeout as sleep } from 'node:timers/promises'
import * as graphileWorker from './graphile-worker.mjs'
import { Handled } from './handled.mjs'
import * as pgBoss from './pg-boss.mjs'

const peers = { 'graphile-worker': graphileWorker, 'pg-boss': pgBoss }

const jobs = {
  async setup(peer, url) {
    await peer.setup(url)
    return {}
  },

  async fill(peer, url, count) {
    await peer.fill(url, Array.from({ length: count }, (_, i) => payload(i + 1)))
    return {}
  },

  async drain(peer, url, count) {
    const handled = new Handled()
    const goal = handled.goal(count)
    const worker = await peer.worker(url, 'throughput', async () => handled.record())

    const start = performance.now()
    const cpuStart = process.cpuUsage()
    await worker.start()
    await goal
    await worker.stop()
    const cpu = process.cpuUsage(cpuStart)
    const elapsed = performance.now() - start

    await worker.close()
    await assertNoneWaiting(peer, url)
    return {
      messages: count,
      seconds: elapsed / 1000,
      cpu_seconds: (cpu.user + cpu.system) / 1e6,
    }
  },

  async publish(peer, url, seconds, count) {
    const producers = await Promise.all(Array.from({ length: count }, () => peer.producer(url)))

    const start = performance.now()
    const end = start + seconds * 1000
    let transactions = 0
    await Promise.all(
      producers.map(async (producer) => {
        while (performance.now() < end) {
          await producer.publish(payload(transactions))
          transactions += 1
        }
      }),
    )
    const elapsed = performance.now() - start

    await Promise.all(producers.map((producer) => producer.close()))
    return { transactions, seconds: elapsed / 1000 }
  },

  async latency(peer, url, count) {
    const handled = new Handled()
    const worker = await peer.worker(url, 'latency', async () => handled.record())
    const producer = await peer.producer(url)
    await worker.start()
    await sleep(500)

    const [fromCommit, fromAnswer] = [[], []]
    for (let i = 1; i <= count; i++) {
      await sleep(20 + ((i * 1237) % 5000) / 1000)
      const goal = handled.goal(i)
      const commit = await producer.publish(payload(i))
      const began = await goal
      fromCommit.push(began - commit.sent)
      fromAnswer.push(Math.max(began - commit.answered, 0))
    }

    await worker.stop()
    await worker.close()
    await producer.close()
    await assertNoneWaiting(peer, url)
    return { from_commit_ms: fromCommit, from_answer_ms: fromAnswer }
  },
}

function payload(orderId) {
  return {
    order_id: orderId,
    item: 'teapot',
    quantity: 3,
    note: 'leave it with the neighbours at no. 12',
  }
}

async function assertNoneWaiting(peer, url) {
  const waiting = await peer.waiting(url)
  if (waiting !== 0) throw new Error(`${waiting} messages are left`)
}

const [name, job, url, ...numbers] = process.argv.slice(2)
if (!(name in peers && job in jobs && url)) {
  throw new Error('usage: node peer.mjs graphile-worker|pg-boss JOB URL [ARGUMENTS]')
}
console.log(JSON.stringify(await jobs[job](peers[name], url, ...numbers.map(Number))))
