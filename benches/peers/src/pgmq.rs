//! pgmq: queues of SQL functions; the worker is a loop of read, decode and delete.

use std::sync::Arc;
use std::time::Instant;

use ::pgmq::PGMQueueExt;
use anyhow::{Context, Result};
use sqlx_0_8::postgres::PgListener;
use sqlx_0_8::{Connection, PgConnection, PgPool};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::database::v0_8 as database;
use crate::handled;
use crate::payload::Payload;
use crate::peer::{Aim, Commit, Peer, Producer, Worker};

const QUEUE: &str = "orders";
const VISIBILITY_SECONDS: i32 = 30;
const BATCH: i32 = 2000;

pub struct Pgmq;

impl Peer for Pgmq {
    type Worker = PgmqWorker;
    type Producer = PgmqProducer;

    async fn setup(url: &str) -> Result<()> {
        database::create_orders(&mut database::connect(url).await?).await?;
        let queue = queue(url).await?;
        queue.install_sql_from_embedded().await?;
        queue.create(QUEUE).await?;
        Ok(())
    }

    async fn fill(url: &str, payloads: &[Payload]) -> Result<()> {
        let queue = queue(url).await?;
        for chunk in payloads.chunks(5000) {
            queue.send_batch(QUEUE, chunk).await?;
        }
        Ok(())
    }

    async fn waiting(url: &str) -> Result<i64> {
        Ok(database::count(url, "SELECT count(*) FROM pgmq.q_orders").await?)
    }

    async fn worker(url: &str, aim: Aim) -> Result<PgmqWorker> {
        let pool = database::pool(url, 2).await?;
        if aim == Aim::Latency {
            sqlx_0_8::query("SELECT pgmq.enable_notify_insert($1, 0)")
                .bind(QUEUE)
                .execute(&pool)
                .await?;
        }
        Ok(PgmqWorker {
            pool,
            aim,
            stop: Arc::new(Notify::new()),
            running: None,
        })
    }

    async fn producer(url: &str) -> Result<PgmqProducer> {
        Ok(PgmqProducer {
            connection: database::connect(url).await?,
            queue: PGMQueueExt::new_with_pool(PgPool::connect_lazy(url)?).await,
        })
    }
}

async fn queue(url: &str) -> Result<PGMQueueExt> {
    Ok(PGMQueueExt::new_with_pool(database::pool(url, 1).await?).await)
}

pub struct PgmqWorker {
    pool: PgPool,
    aim: Aim,
    stop: Arc<Notify>,
    running: Option<JoinHandle<Result<()>>>,
}

impl Worker for PgmqWorker {
    async fn start(&mut self) -> Result<()> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen("pgmq.q_orders.INSERT").await?;
        let queue = PGMQueueExt::new_with_pool(self.pool.clone()).await;
        let stop = self.stop.clone();
        self.running = Some(tokio::spawn(async move {
            loop {
                if handle_batch(&queue).await? {
                    continue;
                }
                tokio::select! {
                    inserted = listener.recv() => { inserted?; }
                    () = stop.notified() => return Ok(()),
                }
            }
        }));
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        self.stop.notify_one();
        self.running.context("not started")?.await??;
        if self.aim == Aim::Latency {
            sqlx_0_8::query("SELECT pgmq.disable_notify_insert($1)")
                .bind(QUEUE)
                .execute(&self.pool)
                .await?;
        }
        Ok(())
    }
}

/// Whether there was anything to handle.
async fn handle_batch(queue: &PGMQueueExt) -> Result<bool> {
    let messages = queue
        .read_batch::<Payload>(QUEUE, VISIBILITY_SECONDS, BATCH)
        .await?;
    if messages.is_empty() {
        return Ok(false);
    }
    for message in &messages {
        handled::record(&message.message);
    }
    let ids: Vec<i64> = messages.iter().map(|message| message.msg_id).collect();
    queue.delete_batch(QUEUE, &ids).await?;
    Ok(true)
}

pub struct PgmqProducer {
    connection: PgConnection,
    /// Only builds the statements; they run on the connection.
    queue: PGMQueueExt,
}

impl Producer for PgmqProducer {
    async fn publish(&mut self, payload: &Payload) -> Result<Commit> {
        let mut transaction = self.connection.begin().await?;
        database::insert_order(&mut transaction, payload).await?;
        self.queue
            .send_with_cxn(QUEUE, payload, &mut *transaction)
            .await?;
        let sent = Instant::now();
        transaction.commit().await?;
        Ok(Commit::answered(sent))
    }
}
