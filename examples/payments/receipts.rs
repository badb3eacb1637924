//! The receipts: a handler that may run twice for the same message and writes one receipt, and the
//! relay that calls it.

use std::time::Duration;

use outbox::{Delivery, FromRef, HandlerError, Relay, State};
use sqlx::PgPool;

use crate::bank::{self, PaymentSettled};

/// How long the printer takes, after the receipt was written.
const PRINTING: Duration = Duration::from_millis(500);

/// What the handlers need besides the message.
#[derive(Clone, FromRef)]
struct App {
    pool: PgPool,
}

/// If this compiles, `PaymentSettled` has its handler, and no topic has two.
static ROUTER: outbox::Router<App> = outbox::router![write_receipt; requires PaymentSettled];

/// Writes the receipt in a transaction of its own, with the message's id as primary key. The id is
/// the same at every attempt: whoever comes second finds the receipt there, and is done as well.
#[outbox::handler]
async fn write_receipt(
    payment: PaymentSettled,
    State(pool): State<PgPool>,
    delivery: Delivery,
) -> Result<(), HandlerError> {
    let mut tx = pool.begin().await?;
    sqlx::query(
        "INSERT INTO receipts (message_id, account_id, cents) VALUES ($1, $2, $3)
         ON CONFLICT (message_id) DO NOTHING",
    )
    .bind(delivery.id())
    .bind(payment.account_id)
    .bind(payment.amount_cents)
    .execute(&mut *tx)
    .await?;
    // For this story only: how often the handler got this far.
    sqlx::query("INSERT INTO handled (message_id, attempt) VALUES ($1, $2)")
        .bind(delivery.id())
        .bind(i64::from(delivery.attempt()))
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;

    // The receipt is there, and the outbox does not know it yet: who is killed here, or before the
    // relay has settled the message, leaves it to be delivered again.
    tokio::time::sleep(PRINTING).await;
    Ok(())
}

/// Runs the relay until the process that started it closes its standard input.
pub(crate) async fn serve(url: &str) -> anyhow::Result<()> {
    let pool = bank::connect(url).await?;
    let relay = Relay::builder(&pool, &ROUTER)
        .outbox(&bank::outbox()?)
        .state(App { pool: pool.clone() })
        // What a dead relay held waits for its lease. By default that is 30 s, too long for a story.
        .lease(Duration::from_secs(2))
        .build()
        .await?;
    // A service would wait for a signal: `tokio::signal::ctrl_c()`.
    let counts = relay.run_until(input_closed()).await?;
    println!("   this relay delivered {}, and stops", counts.delivered);
    Ok(())
}

async fn input_closed() {
    let read = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    // An error means the same as the end.
    let _ = tokio::task::spawn_blocking(read).await;
}

pub(crate) async fn create_tables(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "CREATE TABLE receipts (message_id uuid PRIMARY KEY, account_id bigint NOT NULL, cents bigint NOT NULL);
         CREATE TABLE handled (message_id uuid NOT NULL, attempt bigint NOT NULL);",
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(crate) async fn written(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM receipts")
        .fetch_one(pool)
        .await
}

/// How many messages the handler got more than once.
pub(crate) async fn handled_again(pool: &PgPool) -> Result<i64, sqlx::Error> {
    let again = "SELECT message_id FROM handled GROUP BY message_id HAVING count(*) > 1";
    sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
        "SELECT count(*) FROM ({again}) AS again"
    )))
    .fetch_one(pool)
    .await
}
