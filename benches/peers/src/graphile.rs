//! graphile_worker: the Rust port of Graphile Worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, Schema, TaskHandler,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::task::JoinHandle;

use crate::database::v0_9 as database;
use crate::handled;
use crate::payload::Payload;
use crate::peer::{Aim, Commit, Peer, Producer, Worker};

const CONNECTIONS: u32 = 4;

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct OrderPlaced(Payload);

impl TaskHandler for OrderPlaced {
    const IDENTIFIER: &'static str = "order_placed";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        handled::record(&self.0);
        Ok::<(), String>(())
    }
}

pub struct Graphile;

impl Peer for Graphile {
    type Worker = GraphileWorker;
    type Producer = GraphileProducer;

    async fn setup(url: &str) -> Result<()> {
        database::create_orders(&mut database::connect(url).await?).await?;
        utils(url)?.migrate().await?;
        Ok(())
    }

    async fn fill(url: &str, payloads: &[Payload]) -> Result<()> {
        let utils = utils(url)?;
        for chunk in payloads.chunks(5000) {
            let jobs = chunk
                .iter()
                .map(|payload| {
                    Ok(RawJobSpec {
                        identifier: OrderPlaced::IDENTIFIER.into(),
                        payload: serde_json::to_value(payload)?,
                        spec: JobSpec::default(),
                    })
                })
                .collect::<Result<Vec<_>>>()?;
            utils.add_raw_jobs(&jobs).await?;
        }
        Ok(())
    }

    async fn waiting(url: &str) -> Result<i64> {
        let sql = "SELECT count(*) FROM graphile_worker._private_jobs";
        Ok(database::count(url, sql).await?)
    }

    async fn worker(url: &str, aim: Aim) -> Result<GraphileWorker> {
        let options = WorkerOptions::default()
            .pg_pool(database::pool(url, CONNECTIONS).await?)
            .define_job::<OrderPlaced>();
        let options = match aim {
            Aim::Throughput => options
                .concurrency(64)
                .local_queue(
                    LocalQueueConfig::default()
                        .with_size(1000)
                        .with_queue_count(2),
                )
                .complete_job_batch_delay(Duration::from_millis(1)),
            Aim::Latency => options.concurrency(1),
        };
        Ok(GraphileWorker {
            worker: Arc::new(options.init().await?),
            running: None,
        })
    }

    async fn producer(url: &str) -> Result<GraphileProducer> {
        Ok(GraphileProducer {
            connection: database::connect(url).await?,
            utils: utils(url)?,
        })
    }
}

fn utils(url: &str) -> Result<WorkerUtils> {
    Ok(WorkerUtils::new(
        PgPool::connect_lazy(url)?,
        Schema::default(),
    ))
}

pub struct GraphileWorker {
    worker: Arc<graphile_worker::Worker>,
    running: Option<JoinHandle<Result<()>>>,
}

impl Worker for GraphileWorker {
    async fn start(&mut self) -> Result<()> {
        let worker = self.worker.clone();
        self.running = Some(tokio::spawn(async move { Ok(worker.run().await?) }));
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        self.worker.request_shutdown();
        self.running.context("not started")?.await?
    }
}

pub struct GraphileProducer {
    connection: PgConnection,
    /// Only builds the statements; they run on the connection.
    utils: WorkerUtils,
}

impl Producer for GraphileProducer {
    async fn publish(&mut self, payload: &Payload) -> Result<Commit> {
        let mut transaction = self.connection.begin().await?;
        database::insert_order(&mut transaction, payload).await?;
        self.utils
            .clone()
            .with_executor(&mut transaction)
            .add_job(OrderPlaced(payload.clone()), JobSpec::default())
            .await?;
        let sent = Instant::now();
        transaction.commit().await?;
        Ok(Commit::answered(sent))
    }
}
