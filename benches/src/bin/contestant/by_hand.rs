//! What Postgres allows: the claim, the lease and the fence of the outbox, written by hand in as few statements
//! as that takes, on a table that has nothing else. Nothing is decoded and no handler is called.

use std::{error::Error, time::Instant};

use outbox_benches::contest::{Job, Stopwatch, Work};
use serde_json::{Value, json};
use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, PgPool, Row as _,
    postgres::{PgConnectOptions, PgListener, PgRow},
};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::orders::{self, BATCH};

const TABLE: &str = "
CREATE TABLE by_hand (
    id uuid PRIMARY KEY,
    topic text NOT NULL,
    payload json NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    attempts int NOT NULL DEFAULT 0,
    token uuid,
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    leased_until timestamptz
)";

const INDEX: &str =
    "CREATE INDEX by_hand_claim ON by_hand (topic, available_at, id) WHERE state = 'pending'";

/// A million rows that are due stand in front of the index's dead entries: the claim begins where the last
/// one ended.
const CLAIM: &str = "
UPDATE by_hand SET state = 'processing', attempts = attempts + 1, token = $1, leased_until = now() + interval '30 s'
WHERE id = ANY(ARRAY(
    SELECT id FROM by_hand
    WHERE topic = $2 AND state = 'pending' AND available_at <= now()
        AND available_at >= timestamptz 'epoch' + $3 * interval '1 microsecond'
    ORDER BY available_at, id LIMIT $4 FOR UPDATE SKIP LOCKED))
RETURNING id, payload::text, attempts, (extract(epoch FROM available_at) * 1000000)::bigint";

const SETTLE: &str =
    "DELETE FROM by_hand WHERE id = ANY($1) AND token = $2 AND state = 'processing'";

/// Rows of one claim.
const CLAIMED: i64 = 500;

const TOPIC: &str = "orders.placed";

/// What a transaction carries beside its order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message {
    None,
    Silent,
    /// With a NOTIFY.
    Notifying,
}

pub(crate) async fn run(job: &Job, message: Message) -> Result<Value, Box<dyn Error>> {
    match job.work {
        Work::Setup => {
            let pool = PgPool::connect(&job.url).await?;
            orders::create(&pool).await?;
            for statement in [TABLE, INDEX] {
                sqlx::query(statement).execute(&pool).await?;
            }
            // What is written by hand goes into the outbox's own table.
            outbox::migrate(&pool).await?;
            Ok(json!({}))
        }
        Work::Fill(messages) => {
            let pool = PgPool::connect(&job.url).await?;
            bulk(&pool, "by_hand", messages).await?;
            Ok(json!({}))
        }
        Work::Drain(messages) => drain(job, messages).await,
        Work::Publish(seconds, producers) => {
            orders::publish(&job.url, seconds, producers, async |tx, order| {
                match message {
                    Message::None => return Ok(()),
                    Message::Silent => {}
                    Message::Notifying => {
                        sqlx::query("SELECT pg_notify('by_hand', '')")
                            .execute(&mut **tx)
                            .await?;
                    }
                }
                sqlx::query("INSERT INTO outbox (id, topic, payload) VALUES ($1, $2, $3::json)")
                    .bind(Uuid::now_v7())
                    .bind(TOPIC)
                    .bind(orders::payload(order))
                    .execute(&mut **tx)
                    .await?;
                Ok(())
            })
            .await
        }
        Work::Bulk(transactions) => {
            let pool = orders::one_connection(&job.url).await?;
            let watch = Stopwatch::start();
            bulk(&pool, "outbox", transactions * BATCH).await?;
            Ok(watch.stop(transactions * BATCH))
        }
        Work::Latency(messages) => latency(job, messages).await,
        Work::Serve(_) | Work::Idle(_) => Ok(json!({"unsupported": "nobody serves by hand"})),
    }
}

async fn bulk(pool: &PgPool, table: &str, messages: u64) -> Result<(), Box<dyn Error>> {
    let insert = format!(
        "INSERT INTO {table} (id, topic, payload) \
         SELECT id, $1, payload::json FROM unnest($2::uuid[], $3::text[]) AS message (id, payload)"
    );
    for first in (0..messages).step_by(usize::try_from(BATCH)?) {
        let (ids, payloads): (Vec<_>, Vec<_>) = (first..messages.min(first + BATCH))
            .map(|order| (Uuid::now_v7(), orders::payload(order.cast_signed())))
            .unzip();
        let mut tx = pool.begin().await?;
        sqlx::query(sqlx::AssertSqlSafe(insert.clone()))
            .bind(TOPIC)
            .bind(ids)
            .bind(payloads)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
    }
    Ok(())
}

/// Settles each batch while the next one is claimed.
async fn drain(job: &Job, messages: u64) -> Result<Value, Box<dyn Error>> {
    let (mut claims, mut settles) = (connect(job).await?, connect(job).await?);
    let watch = Stopwatch::start();
    let (mut handled, mut mark) = (0_u64, 0_i64);
    let (mut token, mut rows) = claim(&mut claims, mark).await?;
    while !rows.is_empty() {
        handled += rows.len() as u64;
        mark = rows.iter().map(|row| row.get(3)).max().unwrap_or(mark);
        let (next, settled) =
            tokio::join!(claim(&mut claims, mark), settle(&mut settles, token, &rows));
        settled?;
        (token, rows) = next?;
    }
    let done = watch.stop(messages);
    if handled != messages {
        return Err(format!("{handled} of {messages} messages were handled").into());
    }
    Ok(done)
}

/// A NOTIFY in each transaction, and whoever hears it claims at once.
async fn latency(job: &Job, messages: u64) -> Result<Value, Box<dyn Error>> {
    let pool = orders::one_connection(&job.url).await?;
    let (starts, mut started) = mpsc::unbounded_channel();
    let mut listener = PgListener::connect(&job.url).await?;
    listener.listen("by_hand").await?;
    let (mut claims, mut settles) = (connect(job).await?, connect(job).await?);
    let handling = tokio::spawn(async move {
        loop {
            listener.recv().await?;
            let (token, rows) = claim(&mut claims, 0).await?;
            for _ in &rows {
                // It can't be that nobody waits for it.
                let _ = starts.send(Instant::now());
            }
            settle(&mut settles, token, &rows).await?;
        }
        #[expect(unreachable_code, reason = "the type of what never ends")]
        Ok::<(), sqlx::Error>(())
    });
    let done = orders::latencies(&pool, messages, &mut started, async |tx, order| {
        sqlx::query(
            "WITH message AS (INSERT INTO by_hand (id, topic, payload) VALUES ($1, $2, $3::json)) \
             SELECT pg_notify('by_hand', '')",
        )
        .bind(Uuid::now_v7())
        .bind(TOPIC)
        .bind(orders::payload(order))
        .execute(&mut **tx)
        .await?;
        Ok(())
    })
    .await?;
    handling.abort();
    Ok(done)
}

async fn connect(job: &Job) -> Result<PgConnection, sqlx::Error> {
    let options: PgConnectOptions = job.url.parse()?;
    let options = options.options([("plan_cache_mode", "force_generic_plan")]);
    let mut connection = options.connect().await?;
    connection.ping().await?;
    Ok(connection)
}

async fn claim(
    connection: &mut PgConnection,
    mark: i64,
) -> Result<(Uuid, Vec<PgRow>), sqlx::Error> {
    let token = Uuid::new_v4();
    let claim = sqlx::query(CLAIM)
        .bind(token)
        .bind(TOPIC)
        .bind(mark)
        .bind(CLAIMED);
    Ok((token, claim.fetch_all(connection).await?))
}

async fn settle(
    connection: &mut PgConnection,
    token: Uuid,
    rows: &[PgRow],
) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let claimed = ids.len() as u64;
    let settled = sqlx::query(SETTLE)
        .bind(ids)
        .bind(token)
        .execute(connection)
        .await?;
    if settled.rows_affected() != claimed {
        return Err(sqlx::Error::RowNotFound);
    }
    Ok(())
}
