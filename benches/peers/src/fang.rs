//! fang, with its async Postgres queue.

use std::time::{Duration, Instant};

use ::fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use ::fang::{AsyncRunnable, AsyncWorkerPool, FangError, SleepParams};
use anyhow::Result;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sqlx_0_8::PgConnection;
use tokio::time::sleep;

use crate::database::v0_8 as database;
use crate::handled;
use crate::payload::Payload;
use crate::peer::{Aim, Commit, Peer, Producer, Worker};

/// The crate's own migrator needs diesel and libpq; the file is its only migration.
const MIGRATION: &str = include_str!(concat!(
    env!("FANG"),
    "/postgres_migrations/migrations/2022-08-20-151615_create_fang_tasks/up.sql"
));

/// What [`AsyncQueueable::insert_task`] sends, for many tasks.
const INSERT_MANY: &str = "INSERT INTO fang_tasks (id, metadata, task_type, scheduled_at) \
     SELECT gen_random_uuid(), metadata, 'common', now() FROM unnest($1::jsonb[]) metadata";

const WAITING: &str = "SELECT count(*) FROM fang_tasks";

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    payload: Payload,
}

#[typetag::serde]
#[async_trait]
impl AsyncRunnable for OrderPlaced {
    async fn run(&self, _: &dyn AsyncQueueable) -> Result<(), FangError> {
        handled::record(&self.payload);
        Ok(())
    }
}

pub struct Fang;

impl Peer for Fang {
    const NOT_TRANSACTIONAL: Option<&'static str> =
        Some("insert_task takes a connection from the queue's own pool and commits by itself");

    type Worker = FangWorker;
    type Producer = FangProducer;

    async fn setup(url: &str) -> Result<()> {
        let mut connection = database::connect(url).await?;
        database::create_orders(&mut connection).await?;
        sqlx_0_8::raw_sql(MIGRATION)
            .execute(&mut connection)
            .await?;
        Ok(())
    }

    async fn fill(url: &str, payloads: &[Payload]) -> Result<()> {
        let tasks = payloads
            .iter()
            .map(|payload| serde_json::to_value(task(payload).as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        sqlx_0_8::query(INSERT_MANY)
            .bind(tasks)
            .execute(&mut database::connect(url).await?)
            .await?;
        Ok(())
    }

    async fn waiting(url: &str) -> Result<i64> {
        Ok(database::count(url, WAITING).await?)
    }

    async fn worker(url: &str, _: Aim) -> Result<FangWorker> {
        let poll = Duration::from_millis(1);
        let workers = AsyncWorkerPool::builder()
            // Two would run some tasks twice, as a task is picked and marked in two statements
            // without a transaction; the one that then finds its task gone ends for good.
            .number_of_workers(1_u32)
            .queue(queue(url).await?)
            .sleep_params(SleepParams {
                sleep_period: poll,
                min_sleep_period: poll,
                max_sleep_period: poll,
                sleep_step: Duration::ZERO,
            })
            .build();
        Ok(FangWorker {
            workers,
            connection: database::connect(url).await?,
        })
    }

    async fn producer(url: &str) -> Result<FangProducer> {
        Ok(FangProducer {
            connection: database::connect(url).await?,
            queue: queue(url).await?,
        })
    }
}

fn task(payload: &Payload) -> Box<dyn AsyncRunnable> {
    Box::new(OrderPlaced {
        payload: payload.clone(),
    })
}

async fn queue(url: &str) -> Result<AsyncQueue> {
    let mut queue = AsyncQueue::builder().uri(url).max_pool_size(1_u32).build();
    queue.connect().await?;
    Ok(queue)
}

pub struct FangWorker {
    workers: AsyncWorkerPool<AsyncQueue>,
    connection: PgConnection,
}

impl Worker for FangWorker {
    async fn start(&mut self) -> Result<()> {
        self.workers.start().await;
        Ok(())
    }

    /// The workers can't be stopped, only watched.
    async fn stop(mut self) -> Result<()> {
        loop {
            let waiting: i64 = sqlx_0_8::query_scalar(WAITING)
                .fetch_one(&mut self.connection)
                .await?;
            if waiting == 0 {
                return Ok(());
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}

pub struct FangProducer {
    connection: PgConnection,
    queue: AsyncQueue,
}

impl Producer for FangProducer {
    /// The order's transaction is over before the message is enqueued: the moment is the one
    /// before the message's own commit.
    async fn publish(&mut self, payload: &Payload) -> Result<Commit> {
        database::insert_order(&mut self.connection, payload).await?;
        let sent = Instant::now();
        self.queue.insert_task(task(payload).as_ref()).await?;
        Ok(Commit::answered(sent))
    }
}
