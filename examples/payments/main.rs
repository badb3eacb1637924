//! A small bank on Postgres: each transfer commits together with its message, a relay in a process of
//! its own writes the receipts, and that process is killed in the middle of it.
//!
//! Run it with `DATABASE_URL=postgres://… cargo run --example payments`, or let a private server be
//! started for it: `./scripts/test --serve cargo run --example payments`. All that it writes is in the
//! schema `payments_example`, which it makes anew each time.

mod audit;
mod bank;
mod process;
mod receipts;

use std::time::Duration;

use anyhow::Context as _;
use outbox::Outbox;
use sqlx::PgPool;

use crate::{bank::Outcome, process::RelayProcess};

/// From, to and how many cents. Each account opens with 100.00, so three of these can't be paid.
const TRANSFERS: [(i64, i64, i64); 12] = [
    (1, 2, 6_000),
    (1, 3, 5_000),
    (2, 4, 15_000),
    (3, 1, 2_500),
    (2, 3, 2_000),
    (4, 2, 20_000),
    (2, 1, 11_000),
    (1, 4, 17_500),
    (3, 2, 7_500),
    (1, 2, 1),
    (4, 3, 2_500),
    (2, 3, 10_000),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = database_url()?;
    match std::env::args().nth(1).as_deref() {
        None => tell(&url).await,
        Some("relay") => receipts::serve(&url).await,
        Some(other) => anyhow::bail!("no role `{other}`; run it without arguments"),
    }
}

fn database_url() -> anyhow::Result<String> {
    std::env::var("DATABASE_URL")
        .or_else(|_| std::env::var("OUTBOX_TEST_POSTGRES"))
        .ok()
        .context(
            "DATABASE_URL names no Postgres database; set it, or let a private server be started: \
             ./scripts/test --serve cargo run --example payments",
        )
}

async fn tell(url: &str) -> anyhow::Result<()> {
    let pool = bank::connect(url).await?;
    let outbox = bank::outbox()?;
    bank::open(&pool, &outbox).await?;

    println!("1. Transfers are made. Each one commits together with its message, or not at all.");
    let mut outcomes = Vec::new();
    for (from, to, cents) in TRANSFERS {
        outcomes.push(bank::transfer(&pool, &outbox, from, to, cents).await?);
    }
    let settled = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Settled(_)))
        .count();
    println!(
        "   {settled} settled, {} rolled back for want of funds; messages in the outbox: {}",
        outcomes.len() - settled,
        waiting(&pool, &outbox).await?
    );

    println!("2. A relay starts in a process of its own, and is killed while its handlers run.");
    let relay = RelayProcess::start()?;
    while receipts::written(&pool).await? == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    relay.kill()?;
    println!(
        "   killed; receipts written: {}, messages still in the outbox: {}",
        receipts::written(&pool).await?,
        waiting(&pool, &outbox).await?
    );

    println!("3. Another relay takes over as soon as the leases of the dead one have lapsed.");
    let relay = RelayProcess::start()?;
    while waiting(&pool, &outbox).await? > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    relay.stop()?;
    println!(
        "   receipts written: {}; messages that were handled twice, and have one receipt: {}",
        receipts::written(&pool).await?,
        receipts::handled_again(&pool).await?
    );

    println!("4. The books are checked.");
    audit::check(&pool, &outbox, &outcomes).await
}

/// How many messages are committed and not yet delivered.
async fn waiting(pool: &PgPool, outbox: &Outbox) -> anyhow::Result<u64> {
    let stats = outbox.stats(pool).await?;
    Ok(stats
        .routes
        .iter()
        .map(|route| route.pending() + route.processing)
        .sum())
}
