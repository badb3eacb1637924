//! underway, by its tasks rather than its jobs of many steps, which are built on them.

use std::sync::Arc;
use std::time::Instant;

use ::underway::task::Result as TaskResult;
use ::underway::{Queue, Task};
use anyhow::{Context, Result};
use jiff::{Span, ToSpan};
use sqlx_0_8::{Connection, PgConnection, PgPool, Postgres, Transaction};
use tokio::task::JoinHandle;

use crate::database::v0_8 as database;
use crate::handled;
use crate::payload::Payload;
use crate::peer::{Aim, Commit, Peer, Producer, Worker};

/// Two listeners, and up to two for each of the concurrent loops.
const CONNECTIONS: u32 = 18;

struct OrderPlaced;

impl Task for OrderPlaced {
    type Input = Payload;
    type Output = ();

    async fn execute(&self, tx: Transaction<'_, Postgres>, payload: Payload) -> TaskResult<()> {
        handled::record(&payload);
        tx.commit().await?;
        Ok(())
    }
}

pub struct Underway;

impl Peer for Underway {
    type Worker = UnderwayWorker;
    type Producer = UnderwayProducer;

    async fn setup(url: &str) -> Result<()> {
        let mut connection = database::connect(url).await?;
        database::create_orders(&mut connection).await?;
        ::underway::run_migrations(&mut connection).await?;
        Ok(())
    }

    async fn fill(url: &str, payloads: &[Payload]) -> Result<()> {
        let pool = database::pool(url, 1).await?;
        let queue = queue(pool.clone()).await?;
        queue.enqueue_multi(&pool, &OrderPlaced, payloads).await?;
        Ok(())
    }

    async fn waiting(url: &str) -> Result<i64> {
        let sql = "SELECT count(*) FROM underway.task WHERE state <> 'succeeded'";
        Ok(database::count(url, sql).await?)
    }

    async fn worker(url: &str, aim: Aim) -> Result<UnderwayWorker> {
        // Each poll starts one more of the concurrent loops while there are messages.
        let (concurrency, poll) = match aim {
            Aim::Throughput => (8, 10.milliseconds()),
            Aim::Latency => (1, 1.second()),
        };
        let queue = queue(database::pool(url, CONNECTIONS).await?).await?;
        let mut worker = ::underway::Worker::new(Arc::new(queue), OrderPlaced);
        worker.set_concurrency_limit(concurrency);
        Ok(UnderwayWorker {
            worker,
            poll,
            running: None,
        })
    }

    async fn producer(url: &str) -> Result<UnderwayProducer> {
        Ok(UnderwayProducer {
            connection: database::connect(url).await?,
            queue: queue(database::pool(url, 1).await?).await?,
        })
    }
}

async fn queue(pool: PgPool) -> Result<Queue<OrderPlaced>> {
    Ok(Queue::builder().name("orders").pool(pool).build().await?)
}

pub struct UnderwayWorker {
    worker: ::underway::Worker<OrderPlaced>,
    poll: Span,
    running: Option<JoinHandle<Result<()>>>,
}

impl Worker for UnderwayWorker {
    async fn start(&mut self) -> Result<()> {
        let (worker, poll) = (self.worker.clone(), self.poll);
        self.running = Some(tokio::spawn(
            async move { Ok(worker.run_every(poll).await?) },
        ));
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        self.worker.shutdown();
        self.running.context("not started")?.await?
    }
}

pub struct UnderwayProducer {
    connection: PgConnection,
    queue: Queue<OrderPlaced>,
}

impl Producer for UnderwayProducer {
    async fn publish(&mut self, payload: &Payload) -> Result<Commit> {
        let mut transaction = self.connection.begin().await?;
        database::insert_order(&mut transaction, payload).await?;
        self.queue
            .enqueue(&mut *transaction, &OrderPlaced, payload)
            .await?;
        let sent = Instant::now();
        transaction.commit().await?;
        Ok(Commit::answered(sent))
    }
}
