//! The outbox with all that it promises: typed decode, rules, leases, fences, one call of a handler for each
//! message.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use outbox::{Outbox, Relay, State};
use outbox_benches::contest::{Job, Stopwatch, Work};
use serde_json::{Value, json};
use sqlx::{PgPool, PgTransaction, postgres::PgPoolOptions};
use tokio::sync::mpsc;

use crate::orders::{self, BATCH};

#[outbox::message(topic = "orders.placed")]
#[derive(Debug, Clone, garde::Validate)]
struct OrderPlaced {
    #[garde(skip)]
    order_id: i64,
    #[garde(length(min = 1))]
    item: String,
    #[garde(range(min = 1))]
    quantity: i32,
    #[garde(length(max = 1_000))]
    note: String,
}

impl OrderPlaced {
    fn new(order_id: i64) -> Self {
        Self {
            order_id,
            item: orders::ITEM.to_owned(),
            quantity: orders::QUANTITY,
            note: orders::NOTE.to_owned(),
        }
    }
}

static COUNTED: outbox::Router<Arc<AtomicU64>> = outbox::router![count];
static TOLD: outbox::Router<mpsc::UnboundedSender<Instant>> = outbox::router![tell];

#[outbox::message(topic = "orders.never")]
#[derive(Debug, Clone)]
struct OrderNever;

static NEVER: outbox::Router<()> = outbox::router![never];

#[outbox::handler]
async fn never(_order: OrderNever) {}

#[outbox::handler]
async fn count(_order: OrderPlaced, State(handled): State<Arc<AtomicU64>>) {
    handled.fetch_add(1, Ordering::Relaxed);
}

#[outbox::handler]
async fn tell(_order: OrderPlaced, State(starts): State<mpsc::UnboundedSender<Instant>>) {
    let _ = starts.send(Instant::now());
}

/// How the relay and the outbox are built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    window: Option<usize>,
    wake: bool,
}

impl Settings {
    /// What a user gets without asking.
    pub(crate) const DEFAULT: Self = Self {
        window: None,
        wake: true,
    };
    /// What a drain is done best with.
    pub(crate) const BEST: Self = Self {
        window: Some(4_000),
        ..Self::DEFAULT
    };
    /// Nobody is woken.
    pub(crate) const SILENT: Self = Self {
        wake: false,
        ..Self::DEFAULT
    };

    fn outbox(self) -> Result<Outbox, outbox::Error> {
        Outbox::builder().wake(self.wake).build()
    }
}

pub(crate) async fn run(job: &Job, settings: Settings) -> Result<Value, Box<dyn Error>> {
    match job.work {
        Work::Setup => {
            let pool = PgPool::connect(&job.url).await?;
            orders::create(&pool).await?;
            outbox::migrate(&pool).await?;
            Ok(json!({}))
        }
        Work::Fill(messages) => {
            let pool = PgPool::connect(&job.url).await?;
            bulk(&pool, messages).await?;
            Ok(json!({}))
        }
        Work::Drain(messages) => drain(job, settings, messages).await,
        Work::Publish(seconds, producers) => {
            let outbox = &settings.outbox()?;
            orders::publish(&job.url, seconds, producers, async |tx, order| {
                outbox.publish(&OrderPlaced::new(order), tx).await?;
                Ok(())
            })
            .await
        }
        Work::Bulk(transactions) => {
            let pool = orders::one_connection(&job.url).await?;
            let watch = Stopwatch::start();
            bulk(&pool, transactions * BATCH).await?;
            Ok(watch.stop(transactions * BATCH))
        }
        Work::Latency(messages) => latency(job, messages).await,
        Work::Serve(seconds) => {
            let pool = orders::one_connection(&job.url).await?;
            let relay = Relay::builder(&pool, &COUNTED).state(Arc::default());
            serve(relay.listener(&*job.url).build().await?, seconds).await
        }
        Work::Idle(seconds) => {
            let pool = orders::one_connection(&job.url).await?;
            let relay = Relay::builder(&pool, &NEVER).listener(&*job.url);
            serve(relay.build().await?, seconds).await
        }
    }
}

async fn bulk(pool: &PgPool, messages: u64) -> Result<(), Box<dyn Error>> {
    for first in (0..messages).step_by(usize::try_from(BATCH)?) {
        let orders: Vec<_> = (first..messages.min(first + BATCH))
            .map(|order| OrderPlaced::new(order.cast_signed()))
            .collect();
        let mut tx: PgTransaction<'_> = pool.begin().await?;
        OrderPlaced::publish_all(&orders, &mut tx).await?;
        tx.commit().await?;
    }
    Ok(())
}

async fn drain(job: &Job, settings: Settings, messages: u64) -> Result<Value, Box<dyn Error>> {
    let pool = PgPool::connect(&job.url).await?;
    let handled = Arc::new(AtomicU64::new(0));
    let mut relay = Relay::builder(&pool, &COUNTED).state(Arc::clone(&handled));
    if let Some(window) = settings.window {
        relay = relay.window(window);
    }
    let relay = relay.build().await?;
    let watch = Stopwatch::start();
    let counts = relay.drain().await?;
    let done = watch.stop(messages);
    let handled = handled.load(Ordering::Relaxed);
    if (handled, counts.delivered) != (messages, messages) {
        return Err(format!("{handled} of {messages} messages were handled: {counts:?}").into());
    }
    Ok(done)
}

async fn serve<S: Send + Sync + 'static>(
    relay: Relay<S>,
    seconds: u64,
) -> Result<Value, Box<dyn Error>> {
    let watch = Stopwatch::start();
    let end = tokio::time::sleep(Duration::from_secs(seconds));
    let counts = relay.run_until(end).await?;
    Ok(watch.stop(counts.delivered))
}

async fn latency(job: &Job, messages: u64) -> Result<Value, Box<dyn Error>> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect(&job.url)
        .await?;
    let (starts, mut started) = mpsc::unbounded_channel();
    let relay = Relay::builder(&pool, &TOLD)
        .state(starts)
        .listener(&*job.url)
        .build()
        .await?;
    let relay = relay.spawn();
    let done = orders::latencies(&pool, messages, &mut started, async |tx, order| {
        OrderPlaced::new(order).publish(tx).await?;
        Ok(())
    })
    .await?;
    relay.shutdown().await?;
    Ok(done)
}
