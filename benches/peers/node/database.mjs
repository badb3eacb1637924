import pg from 'pg'

export async function connect(url) {
  const client = new pg.Client({ connectionString: url })
  client.on('error', console.error)
  await client.connect()
  return client
}

/** A pool with all its connections open. */
export async function pool(url, connections) {
  const pool = new pg.Pool({ connectionString: url, max: connections })
  pool.on('error', console.error)
  pool.on('connect', (client) => client.on('error', console.error))
  const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()))
  for (const client of clients) client.release()
  return pool
}

export async function query(url, sql) {
  const client = await connect(url)
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

export async function createOrders(url) {
  await query(url, `CREATE TABLE IF NOT EXISTS orders
    (id bigserial PRIMARY KEY, item text NOT NULL, quantity int NOT NULL)`)
}

/**
 * Inserts an order and enqueues its message in one transaction. Returns when COMMIT was about to
 * be sent, and when its answer was there.
 */
export async function publish(client, payload, enqueue) {
  await client.query('BEGIN')
  await client.query({
    name: 'insert-order',
    text: 'INSERT INTO orders (item, quantity) VALUES ($1, $2)',
    values: [payload.item, payload.quantity],
  })
  await enqueue()
  const sent = performance.now()
  await client.query('COMMIT')
  return { sent, answered: performance.now() }
}
