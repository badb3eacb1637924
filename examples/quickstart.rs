//! A small shop on SQLite: orders and their messages commit together, and a relay delivers them.
//!
//! Run it with `cargo run --example quickstart`. It needs no database server, and every figure it
//! prints is read back from the database or counted in the handler.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use outbox::{Delivery, FromRef, Outbox, Relay, State};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

/// What the shop tells the rest of the world. The attribute gives it its topic, makes it
/// serializable, and lets it be published; the rules run at publish and again before the handler.
#[outbox::message(topic = "orders.placed")]
#[derive(Debug, garde::Validate)]
struct OrderPlaced {
    #[outbox(key)]
    #[garde(skip)]
    order_id: i64,
    #[garde(length(min = 1))]
    item: String,
    #[garde(range(min = 1))]
    quantity: u32,
}

/// What the handlers need besides the message.
#[derive(Clone, FromRef)]
struct App {
    mailer: Mailer,
}

/// A mail server that is down for the first two tries to reach it with order 2.
#[derive(Clone, Default)]
struct Mailer {
    calls: Arc<AtomicU32>,
    sent: Arc<AtomicU32>,
}

/// Runs once the order's transaction has committed: again after an error, until it succeeds.
#[outbox::handler(topic = "orders.placed", max_attempts = 5, backoff = "100ms..1s")]
async fn send_confirmation(
    order: OrderPlaced,
    State(mailer): State<Mailer>,
    delivery: Delivery,
) -> Result<(), outbox::HandlerError> {
    mailer.calls.fetch_add(1, Ordering::Relaxed);
    let attempt = delivery.attempt();
    if order.order_id == 2 && attempt < 3 {
        println!(
            "   order {}: attempt {attempt} failed, it will be repeated",
            order.order_id
        );
        return Err(std::io::Error::other("the mail server is down").into());
    }
    mailer.sent.fetch_add(1, Ordering::Relaxed);
    println!(
        "   order {}: confirmed {} x {} (attempt {attempt})",
        order.order_id, order.quantity, order.item
    );
    Ok(())
}

/// If this compiles, every handler takes the message of its topic, no topic has two handlers, and
/// `OrderPlaced` has one.
static ROUTER: outbox::Router<App> = outbox::router![send_confirmation; requires OrderPlaced];

// One thread, so that its lines always come in the same order.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("shop.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(options).await?;
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, quantity INTEGER NOT NULL)")
        .execute(&pool)
        .await?;
    outbox::migrate(&pool).await?;

    println!("1. Three customers order. Each order and its message commit together.");
    for (order_id, item, quantity) in [(1, "teapot", 1), (2, "cup", 6), (3, "kettle", 1)] {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
        place(
            &OrderPlaced {
                order_id,
                item: item.to_owned(),
                quantity,
            },
            &mut tx,
        )
        .await?;
        tx.commit().await?;
    }
    print_tables(&pool).await?;

    println!("2. A fourth order is written and published, then its transaction rolls back.");
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    place(
        &OrderPlaced {
            order_id: 4,
            item: "spoon".to_owned(),
            quantity: 2,
        },
        &mut tx,
    )
    .await?;
    tx.rollback().await?;
    print_tables(&pool).await?;

    println!("3. A message with a quantity of 0 can't be published: its rules run before any SQL.");
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let refused = OrderPlaced {
        order_id: 5,
        item: "fork".to_owned(),
        quantity: 0,
    }
    .publish(&mut tx)
    .await;
    if let Err(error) = refused {
        println!("   {error}");
    }
    tx.rollback().await?;
    println!("   But somebody writes such a row by plain SQL.");
    sqlx::query("INSERT INTO outbox (topic, payload) VALUES ('orders.placed', ?1)")
        .bind(r#"{"order_id": 5, "item": "fork", "quantity": 0}"#)
        .execute(&pool)
        .await?;
    print_tables(&pool).await?;

    println!("4. A relay starts.");
    let mailer = Mailer::default();
    let relay = Relay::builder(&pool, &ROUTER)
        .state(App {
            mailer: mailer.clone(),
        })
        // One at a time and without jitter, for the same reason.
        .concurrency(1)
        .jitter(0.0)
        .build()
        .await?;
    let handle = relay.spawn();
    while waiting(&pool).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counts = handle.shutdown().await?;

    println!("5. Nothing is left to do.");
    print_tables(&pool).await?;
    println!(
        "   the relay delivered {} and repeated {} attempts; the handler was called {} times and sent {} mails",
        counts.delivered,
        counts.retried,
        mailer.calls.load(Ordering::Relaxed),
        mailer.sent.load(Ordering::Relaxed),
    );
    for letter in Outbox::default().dead_letters(&pool).list().await? {
        println!(
            "   dead letter {}, topic {}, attempt {}:",
            letter.id, letter.topic, letter.attempts
        );
        for failure in &letter.errors {
            println!("     {}", failure.text);
        }
    }
    pool.close().await;
    Ok(())
}

/// Writes the order and publishes its message, both in the caller's transaction.
async fn place(order: &OrderPlaced, tx: &mut sqlx::SqliteTransaction<'_>) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO orders (id, item, quantity) VALUES (?1, ?2, ?3)")
        .bind(order.order_id)
        .bind(&order.item)
        .bind(order.quantity)
        .execute(&mut **tx)
        .await?;
    order.publish(tx).await?;
    Ok(())
}

async fn print_tables(pool: &SqlitePool) -> anyhow::Result<()> {
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(pool)
        .await?;
    let stats = Outbox::default().stats(pool).await?;
    let (waiting, dead) = stats.routes.iter().fold((0, 0), |(waiting, dead), route| {
        (
            waiting + route.pending() + route.processing,
            dead + route.dead,
        )
    });
    println!("   in the database: {orders} orders; messages: {waiting} waiting, {dead} dead");
    Ok(())
}

async fn waiting(pool: &SqlitePool) -> anyhow::Result<u64> {
    let stats = Outbox::default().stats(pool).await?;
    Ok(stats
        .routes
        .iter()
        .map(|route| route.pending() + route.processing)
        .sum())
}
