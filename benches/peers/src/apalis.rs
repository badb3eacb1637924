//! apalis with its Postgres backend.

use std::time::{Duration, Instant};

use ::apalis::prelude::*;
use anyhow::{Context, Result};
use apalis_postgres::queries::push_tasks;
use apalis_postgres::{Config, PgTask, PostgresStorage, Pubsub};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::database::v0_9 as database;
use crate::handled;
use crate::payload::Payload;
use crate::peer::{self, Aim, Commit, Peer, Producer};

const QUEUE: &str = "orders";
const CONNECTIONS: u32 = 4;

async fn order_placed(payload: Payload) -> Result<(), BoxDynError> {
    handled::record(&payload);
    Ok(())
}

pub struct Apalis;

impl Peer for Apalis {
    type Worker = ApalisWorker;
    type Producer = ApalisProducer;

    async fn setup(url: &str) -> Result<()> {
        let pool = database::pool(url, 1).await?;
        database::create_orders(&mut *pool.acquire().await?).await?;
        PostgresStorage::setup(&pool).await?;
        Ok(())
    }

    async fn fill(url: &str, payloads: &[Payload]) -> Result<()> {
        let mut connection = database::connect(url).await?;
        for chunk in payloads.chunks(5000) {
            let tasks = chunk.iter().map(task).collect::<Result<_>>()?;
            push_tasks(&mut connection, QUEUE, tasks).await?;
        }
        Ok(())
    }

    async fn waiting(url: &str) -> Result<i64> {
        let sql = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
        Ok(database::count(url, sql).await?)
    }

    async fn worker(url: &str, aim: Aim) -> Result<ApalisWorker> {
        Ok(ApalisWorker {
            pool: database::pool(url, CONNECTIONS).await?,
            aim,
            running: None,
        })
    }

    async fn producer(url: &str) -> Result<ApalisProducer> {
        let connection = database::connect(url).await?;
        Ok(ApalisProducer { connection })
    }
}

fn task(payload: &Payload) -> Result<PgTask> {
    Ok(TaskBuilder::new(serde_json::to_vec(payload)?).build())
}

pub struct ApalisWorker {
    pool: PgPool,
    aim: Aim,
    running: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl peer::Worker for ApalisWorker {
    async fn start(&mut self) -> Result<()> {
        let config = Config::default().queue(QUEUE).batch_size(2000);
        let polling = match self.aim {
            Aim::Throughput => Strategy::new().interval(Duration::from_millis(10)),
            Aim::Latency => Strategy::new()
                .stream(Pubsub::new(self.pool.clone(), QUEUE.into()))
                .interval(Duration::from_secs(1)),
        };
        let backend = PostgresStorage::<Payload>::new(&self.pool)
            .with_config(config)
            .poll_with_strategy(polling);
        let worker = WorkerBuilder::new("orders-1")
            .backend(backend)
            .build(order_placed);
        let (stop, stopped) = oneshot::channel();
        let signal = async move {
            stopped.await.ok();
            Ok::<(), WorkerError>(())
        };
        self.running = Some(Running {
            stop,
            worker: tokio::spawn(worker.run_until(signal)),
        });
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        let Running { stop, worker } = self.running.context("not started")?;
        stop.send(()).ok().context("the worker has ended")?;
        Ok(worker.await??)
    }
}

pub struct ApalisProducer {
    connection: PgConnection,
}

impl Producer for ApalisProducer {
    async fn publish(&mut self, payload: &Payload) -> Result<Commit> {
        let mut transaction = self.connection.begin().await?;
        database::insert_order(&mut transaction, payload).await?;
        push_tasks(&mut *transaction, QUEUE, vec![task(payload)?]).await?;
        let sent = Instant::now();
        transaction.commit().await?;
        Ok(Commit::answered(sent))
    }
}
