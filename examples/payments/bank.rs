//! The bank: accounts, a ledger, and transfers that tell the rest of the world.

use std::str::FromStr as _;

use anyhow::Context as _;
use outbox::Outbox;
use sqlx::{PgPool, postgres::PgConnectOptions};
use uuid::Uuid;

/// What each account opens with: 100.00.
pub(crate) const OPENING_CENTS: i64 = 10_000;

pub(crate) const ACCOUNTS: i64 = 4;

/// What the bank tells the rest of the world. The rules run before it is published, so a payment of
/// nothing is refused before any SQL, and again before it is handled.
#[outbox::message(topic = "payments.settled")]
#[derive(Debug, garde::Validate)]
pub(crate) struct PaymentSettled {
    /// The account that was paid.
    #[outbox(key)]
    #[garde(range(min = 1))]
    pub(crate) account_id: i64,
    #[garde(range(min = 1))]
    pub(crate) amount_cents: i64,
}

/// What became of a transfer, with the id of its message.
#[derive(Debug)]
pub(crate) enum Outcome {
    Settled(Uuid),
    /// The payer had too little; all was rolled back.
    Refused(Uuid),
}

/// The bank and its outbox live in a schema of their own.
pub(crate) async fn connect(url: &str) -> anyhow::Result<PgPool> {
    let options = PgConnectOptions::from_str(url)
        .context("DATABASE_URL is not the URL of a Postgres database")?
        .options([("search_path", "payments_example")]);
    PgPool::connect_with(options)
        .await
        .context("the database of DATABASE_URL does not answer")
}

/// The only thing that differs from `Outbox::default()` is where its table stands.
pub(crate) fn outbox() -> Result<Outbox, outbox::Error> {
    Outbox::builder().table("payments_example.outbox").build()
}

/// Makes the tables anew, and opens the accounts.
pub(crate) async fn open(pool: &PgPool, outbox: &Outbox) -> anyhow::Result<()> {
    sqlx::raw_sql(
        "DROP SCHEMA IF EXISTS payments_example CASCADE;
         CREATE SCHEMA payments_example;
         CREATE TABLE accounts (id bigint PRIMARY KEY, cents bigint NOT NULL);
         CREATE TABLE ledger (account_id bigint NOT NULL REFERENCES accounts, cents bigint NOT NULL);",
    )
    .execute(pool)
    .await?;
    crate::receipts::create_tables(pool).await?;
    outbox.migrate(pool).await?;
    sqlx::query("INSERT INTO accounts (id, cents) SELECT id, $1 FROM generate_series(1, $2) AS id")
        .bind(OPENING_CENTS)
        .bind(ACCOUNTS)
        .execute(pool)
        .await?;
    Ok(())
}

/// Moves money, and publishes that it did, in one transaction.
pub(crate) async fn transfer(
    pool: &PgPool,
    outbox: &Outbox,
    from: i64,
    to: i64,
    cents: i64,
) -> anyhow::Result<Outcome> {
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO ledger (account_id, cents) VALUES ($1, -$3), ($2, $3)")
        .bind(from)
        .bind(to)
        .bind(cents)
        .execute(&mut *tx)
        .await?;
    sqlx::query("UPDATE accounts SET cents = cents + $2 WHERE id = $1")
        .bind(to)
        .bind(cents)
        .execute(&mut *tx)
        .await?;
    let payment = PaymentSettled {
        account_id: to,
        amount_cents: cents,
    };
    let message = outbox.publish(&payment, &mut tx).await?.id;

    // A real bank would look first. Here the message is in the table by now, and goes with the rest.
    let debited =
        sqlx::query("UPDATE accounts SET cents = cents - $2 WHERE id = $1 AND cents >= $2")
            .bind(from)
            .bind(cents)
            .execute(&mut *tx)
            .await?;
    if debited.rows_affected() == 0 {
        tx.rollback().await?;
        return Ok(Outcome::Refused(message));
    }
    tx.commit().await?;
    Ok(Outcome::Settled(message))
}
