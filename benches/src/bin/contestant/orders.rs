//! The business around the messages: a table of orders, and producers that write them.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, PgPool, PgTransaction, postgres::PgPoolOptions};
use tokio::sync::mpsc;

pub(crate) const ITEM: &str = "teapot";
pub(crate) const QUANTITY: i32 = 3;
pub(crate) const NOTE: &str = "please ring twice, the bell is broken";

/// About a hundred bytes.
pub(crate) fn payload(order: i64) -> String {
    json!({"order_id": order, "item": ITEM, "quantity": QUANTITY, "note": NOTE}).to_string()
}

/// Messages of one transaction, where there are many.
pub(crate) const BATCH: u64 = 1_000;

pub(crate) async fn create(pool: &PgPool) -> Result<(), sqlx::Error> {
    const TABLE: &str =
        "CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL, quantity int NOT NULL)";
    sqlx::query(TABLE).execute(pool).await?;
    Ok(())
}

pub(crate) async fn one_connection(url: &str) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(1).connect(url).await
}

/// Writes one order; its id.
async fn place(tx: &mut PgTransaction<'_>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("INSERT INTO orders (item, quantity) VALUES ($1, $2) RETURNING id")
        .bind(ITEM)
        .bind(QUANTITY)
        .fetch_one(&mut **tx)
        .await
}

/// Commits orders for so many seconds, each with what `message` adds to its transaction.
pub(crate) async fn publish<M>(
    url: &str,
    seconds: u64,
    producers: usize,
    message: M,
) -> Result<Value, Box<dyn Error>>
where
    M: AsyncFn(&mut PgTransaction<'_>, i64) -> Result<(), Box<dyn Error>>,
{
    let mut connections = Vec::new();
    for _ in 0..producers {
        connections.push(PgConnection::connect(url).await?);
    }
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds);
    let message = &message;
    let producers = connections.into_iter().map(|mut connection| async move {
        let mut transactions = 0_u64;
        while Instant::now() < end {
            let mut tx = connection.begin().await?;
            let order = place(&mut tx).await?;
            message(&mut tx, order).await?;
            tx.commit().await?;
            transactions += 1;
        }
        Ok::<_, Box<dyn Error>>(transactions)
    });
    let transactions: u64 = futures_util::future::try_join_all(producers)
        .await?
        .iter()
        .sum();
    Ok(json!({"transactions": transactions, "seconds": began.elapsed().as_secs_f64()}))
}

/// Commits orders one by one, with a pause before each, and takes the times from just before each COMMIT, and from its
/// answer, to the start of its handler.
pub(crate) async fn latencies<M>(
    pool: &PgPool,
    messages: u64,
    started: &mut mpsc::UnboundedReceiver<Instant>,
    message: M,
) -> Result<Value, Box<dyn Error>>
where
    M: AsyncFn(&mut PgTransaction<'_>, i64) -> Result<(), Box<dyn Error>>,
{
    let (mut from_commit, mut from_answer) = (Vec::new(), Vec::new());
    for n in 0..=messages {
        // Not in step with anybody's clock.
        tokio::time::sleep(Duration::from_micros(20_000 + n * 7_919 % 5_000)).await;
        let mut tx = pool.begin().await?;
        let order = place(&mut tx).await?;
        message(&mut tx, order).await?;
        let sent = Instant::now();
        tx.commit().await?;
        let answered = Instant::now();
        let start = tokio::time::timeout(Duration::from_secs(5), started.recv()).await?;
        let start = start.ok_or("the relay has ended")?;
        // The first is for whatever is done once.
        if n > 0 {
            let millis = |since| start.saturating_duration_since(since).as_secs_f64() * 1_000.0;
            from_commit.push(millis(sent));
            from_answer.push(millis(answered));
        }
    }
    Ok(json!({"from_commit_ms": from_commit, "from_answer_ms": from_answer}))
}
