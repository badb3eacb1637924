//! On a SQLite file with a write-ahead log, which keeps what it commits.

use std::time::Instant;

use sqlx::{
    Connection as _, Row as _, SqliteConnection, SqlitePool, SqliteTransaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use uuid::Uuid;

use super::{Failure, MESSAGES, OrderPlaced, Rates, TRANSACTIONS, complete, drained, per_second};

/// One claim, by hand; the rows are leased, and their token is the fence of the DELETE.
const CLAIM: &str = "UPDATE outbox SET state = 'processing', attempts = attempts + 1, unsettled = 1, token = ?1, \
        leased_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 30000 \
    WHERE id IN (SELECT id FROM outbox WHERE topic = 'orders.placed' AND version = 1 AND state = 'pending' \
        AND unsettled = 0 AND available_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) \
        ORDER BY available_at, id LIMIT 500) \
    RETURNING id, payload";

const SETTLE: &str = "DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2 \
    AND state = 'processing'";

pub(super) async fn round(by_hand: bool) -> Result<Rates, Failure> {
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
    let published = per_second(TRANSACTIONS, began);

    sqlx::query("DELETE FROM outbox").execute(&pool).await?;
    let orders: Vec<_> = (0..MESSAGES).map(OrderPlaced::new).collect();
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    OrderPlaced::publish_all(&orders, &mut tx).await?;
    tx.commit().await?;
    let began = Instant::now();
    let handled = match by_hand {
        true => drain(&pool).await?,
        false => drained(&pool).await?,
    };
    let drained = per_second(MESSAGES, began);
    complete(handled)?;
    pool.close().await;
    std::fs::remove_dir_all(&folder)?;
    Ok([published, drained])
}

async fn publish(pool: &SqlitePool, order: u64, by_hand: bool) -> Result<(), Failure> {
    let mut tx: SqliteTransaction<'_> = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO orders (item) VALUES ('teapot')")
        .execute(&mut *tx)
        .await?;
    let order = OrderPlaced::new(order);
    if by_hand {
        sqlx::query("INSERT INTO outbox (id, topic, payload) VALUES (?1, 'orders.placed', ?2)")
            .bind(Uuid::now_v7().to_string())
            .bind(order.json())
            .execute(&mut *tx)
            .await?;
    } else {
        order.publish(&mut tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

async fn drain(pool: &SqlitePool) -> Result<u64, Failure> {
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
