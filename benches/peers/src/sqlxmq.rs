//! sqlxmq: jobs are polled in batches and completed one by one.

use std::time::{Duration, Instant};

use ::sqlxmq::{CurrentJob, JobRegistry, JobRunnerHandle, JobRunnerOptions, job};
use anyhow::{Context, Result};
use sqlx_0_8::{Connection, PgConnection};

use crate::database::v0_8 as database;
use crate::handled;
use crate::payload::Payload;
use crate::peer::{Aim, Commit, Peer, Producer, Worker};

const CONNECTIONS: u32 = 32;

/// The crate has no migrator: its users copy these files.
const MIGRATIONS: [&str; 5] = [
    include_str!(concat!(
        env!("SQLXMQ"),
        "/migrations/20210316025847_setup.up.sql"
    )),
    include_str!(concat!(
        env!("SQLXMQ"),
        "/migrations/20210921115907_clear.up.sql"
    )),
    include_str!(concat!(
        env!("SQLXMQ"),
        "/migrations/20211013151757_fix_mq_latest_message.up.sql"
    )),
    include_str!(concat!(
        env!("SQLXMQ"),
        "/migrations/20220208120856_fix_concurrent_poll.up.sql"
    )),
    include_str!(concat!(
        env!("SQLXMQ"),
        "/migrations/20220713122907_fix-clear_all-keep-nil-message.up.sql"
    )),
];

/// What [`::sqlxmq::JobBuilder::spawn`] sends, for many payloads.
const INSERT_MANY: &str = "SELECT mq_insert(array_agg((gen_random_uuid(), interval '0', 4, \
     interval '1 second', '', '', NULL, false, $1, payload, NULL)::mq_new_t)) \
     FROM unnest($2::text[]) payload";

#[job]
async fn order_placed(mut job: CurrentJob) -> Result<()> {
    let payload: Payload = job.json()?.context("no payload")?;
    handled::record(&payload);
    job.complete().await?;
    Ok(())
}

pub struct Sqlxmq;

impl Peer for Sqlxmq {
    type Worker = SqlxmqWorker;
    type Producer = SqlxmqProducer;

    async fn setup(url: &str) -> Result<()> {
        let mut connection = database::connect(url).await?;
        database::create_orders(&mut connection).await?;
        for migration in MIGRATIONS {
            sqlx_0_8::raw_sql(migration)
                .execute(&mut connection)
                .await?;
        }
        Ok(())
    }

    async fn fill(url: &str, payloads: &[Payload]) -> Result<()> {
        let mut connection = database::connect(url).await?;
        for chunk in payloads.chunks(5000) {
            let payloads = chunk
                .iter()
                .map(serde_json::to_string)
                .collect::<Result<Vec<_>, _>>()?;
            sqlx_0_8::query(INSERT_MANY)
                .bind(order_placed.name())
                .bind(payloads)
                .execute(&mut connection)
                .await?;
        }
        Ok(())
    }

    async fn waiting(url: &str) -> Result<i64> {
        let sql = "SELECT count(*) FROM mq_msgs WHERE id <> uuid_nil()";
        Ok(database::count(url, sql).await?)
    }

    async fn worker(url: &str, _: Aim) -> Result<SqlxmqWorker> {
        let pool = database::pool(url, CONNECTIONS).await?;
        let mut options = JobRegistry::new(&[order_placed]).runner(&pool);
        options.set_concurrency(100, 200);
        Ok(SqlxmqWorker {
            options,
            running: None,
        })
    }

    async fn producer(url: &str) -> Result<SqlxmqProducer> {
        let connection = database::connect(url).await?;
        Ok(SqlxmqProducer { connection })
    }
}

pub struct SqlxmqWorker {
    options: JobRunnerOptions,
    running: Option<JobRunnerHandle>,
}

impl Worker for SqlxmqWorker {
    async fn start(&mut self) -> Result<()> {
        self.running = Some(self.options.run().await?);
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        let mut running = self.running.context("not started")?;
        running.stop().await;
        running.wait_jobs_finish(Duration::from_secs(10)).await;
        Ok(())
    }
}

pub struct SqlxmqProducer {
    connection: PgConnection,
}

impl Producer for SqlxmqProducer {
    async fn publish(&mut self, payload: &Payload) -> Result<Commit> {
        let mut transaction = self.connection.begin().await?;
        database::insert_order(&mut transaction, payload).await?;
        order_placed
            .builder()
            .set_json(payload)?
            .spawn(&mut *transaction)
            .await?;
        let sent = Instant::now();
        transaction.commit().await?;
        Ok(Commit::answered(sent))
    }
}
