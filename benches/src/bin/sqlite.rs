//! How fast the outbox is on SQLite, beside a loop that is written by hand for the same table.
//!
//! ```text
//! cargo run --release -p outbox-benches --bin sqlite [-- ROUNDS]
//! ```

use std::{error::Error, time::Instant};

use outbox::{Relay, State};
use outbox_benches::table::{Figures, number, print};
use sqlx::{
    Connection as _, Row as _, SqliteConnection, SqlitePool, SqliteTransaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use uuid::Uuid;

const MESSAGES: u64 = 20_000;
const TRANSACTIONS: u64 = 2_000;

#[outbox::message(topic = "orders.placed")]
#[derive(Debug, Clone)]
struct OrderPlaced {
    order_id: u64,
    note: String,
}

impl OrderPlaced {
    fn new(order_id: u64) -> Self {
        Self {
            order_id,
            note: "a teapot, three times; please ring twice, the bell is broken".to_owned(),
        }
    }
}

#[outbox::handler]
async fn count(_order: OrderPlaced, State(handled): State<Arc<AtomicU64>>) {
    handled.fetch_add(1, Ordering::Relaxed);
}

static ROUTER: outbox::Router<Arc<AtomicU64>> = outbox::router![count];

/// One claim, by hand; the rows are leased, and their token is the fence of the DELETE.
const CLAIM: &str = "UPDATE outbox SET state = 'processing', attempts = attempts + 1, unsettled = 1, token = ?1, \
        leased_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 30000 \
    WHERE id IN (SELECT id FROM outbox WHERE topic = 'orders.placed' AND version = 1 AND state = 'pending' \
        AND unsettled = 0 AND available_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) \
        ORDER BY available_at, id LIMIT 500) \
    RETURNING id, payload";

const SETTLE: &str = "DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2 \
    AND state = 'processing'";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args()
        .nth(1)
        .map_or(Ok(3), |rounds| rounds.parse())?;
    let mut figures: [[Figures; 2]; 2] = Default::default();
    for _ in 0..rounds {
        for (by_hand, figures) in [true, false].into_iter().zip(&mut figures) {
            let folder = std::env::temp_dir().join(format!("outbox-sqlite-{}", Uuid::new_v4()));
            std::fs::create_dir(&folder)?;
            let options = SqliteConnectOptions::new()
                .filename(folder.join("orders.db"))
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full);
            let pool = SqlitePool::connect_with(options).await?;
            outbox::migrate(&pool).await?;
            sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
                .execute(&pool)
                .await?;

            let began = Instant::now();
            for order in 0..TRANSACTIONS {
                publish(&pool, order, by_hand).await?;
            }
            figures[0].push(per_second(TRANSACTIONS, began));

            sqlx::query("DELETE FROM outbox").execute(&pool).await?;
            let orders: Vec<_> = (0..MESSAGES).map(OrderPlaced::new).collect();
            let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
            OrderPlaced::publish_all(&orders, &mut tx).await?;
            tx.commit().await?;
            let began = Instant::now();
            let handled = if by_hand {
                drain(&pool).await?
            } else {
                relay(&pool).await?
            };
            figures[1].push(per_second(MESSAGES, began));
            if handled != MESSAGES {
                return Err(format!("{handled} of {MESSAGES} messages were handled").into());
            }
            pool.close().await;
            std::fs::remove_dir_all(&folder)?;
        }
    }
    let [by_hand, outbox] = &figures;
    let rows: Vec<_> = [
        "publish: an order and a message in each transaction",
        "drain of 20,000",
    ]
    .iter()
    .enumerate()
    .map(|(n, what)| {
        let ratio = outbox[n].median() / by_hand[n].median();
        vec![
            (*what).to_owned(),
            by_hand[n].spread(0),
            outbox[n].spread(0),
            number(ratio, 2),
        ]
    })
    .collect();
    print(
        "SQLite, a second",
        &["", "by hand", "outbox", "× by hand"],
        &rows,
    );
    Ok(())
}

async fn publish(pool: &SqlitePool, order: u64, by_hand: bool) -> Result<(), Box<dyn Error>> {
    let mut tx: SqliteTransaction<'_> = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO orders (item) VALUES ('teapot')")
        .execute(&mut *tx)
        .await?;
    let order = OrderPlaced::new(order);
    if by_hand {
        sqlx::query("INSERT INTO outbox (id, topic, payload) VALUES (?1, 'orders.placed', ?2)")
            .bind(Uuid::now_v7().to_string())
            .bind(serde_json::json!({"order_id": order.order_id, "note": order.note}).to_string())
            .execute(&mut *tx)
            .await?;
    } else {
        order.publish(&mut tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

async fn drain(pool: &SqlitePool) -> Result<u64, Box<dyn Error>> {
    let mut connection = pool.acquire().await?;
    let mut handled = 0;
    loop {
        let token = Uuid::new_v4().to_string();
        let rows = claim(&mut connection, &token).await?;
        if rows.is_empty() {
            return Ok(handled);
        }
        handled += rows.len() as u64;
        let ids = serde_json::to_string(&rows)?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query(SETTLE)
            .bind(ids)
            .bind(token)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
    }
}

async fn claim(connection: &mut SqliteConnection, token: &str) -> Result<Vec<String>, sqlx::Error> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let rows = sqlx::query(CLAIM).bind(token).fetch_all(&mut *tx).await?;
    tx.commit().await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn relay(pool: &SqlitePool) -> Result<u64, Box<dyn Error>> {
    let handled = Arc::new(AtomicU64::new(0));
    let relay = Relay::builder(pool, &ROUTER)
        .state(Arc::clone(&handled))
        .window(2_000);
    relay.build().await?.drain().await?;
    Ok(handled.load(Ordering::Relaxed))
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn per_second(count: u64, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64()
}
