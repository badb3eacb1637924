//! Statistics, dead letters, and the register of live relays.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{
        Route, RouteCount,
        row::{count, routes_json},
    },
    Connected, Postgres,
    listen::Waking,
    time,
};
use crate::{
    DeadLetter, Error, MessageState, dead_letters::failures, error::Doing as _, publish::to_micros,
};

#[derive(Debug)]
pub(super) struct Statements {
    stats: Arc<str>,
    dead_letters: Arc<str>,
    redrive: Waking,
    heartbeat: Arc<str>,
    forget: Arc<str>,
    farewell: Arc<str>,
}

const STATS: &str = r#"
SELECT o.topic, o.version, o.state, count(*),
    count(*) FILTER (WHERE o.state = 'pending' OR (o.state = 'processing' AND o.leased_until <= statement_timestamp())),
    (extract(epoch FROM statement_timestamp() - min(o.available_at)
        FILTER (WHERE o.state = 'pending' AND o.available_at <= statement_timestamp())) * 1000000)::bigint,
    EXISTS (
        SELECT FROM "public"."outbox_relays" AS relay
        WHERE relay.seen_at > statement_timestamp() - $1 * interval '1 microsecond'
            AND relay.routes @> jsonb_build_array(jsonb_build_array(o.topic, o.version)))
FROM "public"."outbox" AS o
GROUP BY o.topic, o.version, o.state"#;

const DEAD_LETTERS: &str = r#"
SELECT id, topic, version, key, attempts, redrives, errors::text,
    (extract(epoch FROM created_at) * 1000000)::bigint,
    (extract(epoch FROM settled_at) * 1000000)::bigint
FROM "public"."outbox"
WHERE state = 'dead'
ORDER BY settled_at DESC, id
LIMIT $1"#;

const REDRIVE: &str = r#"
UPDATE "public"."outbox"
SET state = 'pending', attempts = 0, unsettled = 0, redrives = redrives + 1, token = NULL,
    available_at = statement_timestamp(), leased_until = NULL, settled_at = NULL
WHERE id = $1 AND state = 'dead'
RETURNING id"#;

const HEARTBEAT: &str = r#"
INSERT INTO "public"."outbox_relays" (id, routes) VALUES ($1, $2::jsonb)
ON CONFLICT (id) DO UPDATE SET routes = excluded.routes, seen_at = excluded.seen_at"#;

const FORGET: &str = r#"
DELETE FROM "public"."outbox_relays" AS relay
WHERE relay.id = ANY(ARRAY(
        SELECT id FROM "public"."outbox_relays"
        WHERE seen_at < statement_timestamp() - $1 * interval '1 microsecond'
        FOR UPDATE SKIP LOCKED))
    AND relay.seen_at < statement_timestamp() - $1 * interval '1 microsecond'"#;

const FAREWELL: &str = r#"DELETE FROM "public"."outbox_relays" WHERE id = $1"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>, channel: &str) -> Self {
        Self {
            stats: render(STATS),
            dead_letters: render(DEAD_LETTERS),
            redrive: Waking::new(render(REDRIVE), channel),
            heartbeat: render(HEARTBEAT),
            forget: render(FORGET),
            farewell: render(FAREWELL),
        }
    }
}

pub(super) async fn stats(store: &Postgres, alive: Duration) -> Result<Vec<RouteCount>, Error> {
    const DOING: &str = "counting messages";
    let query =
        super::query(&store.outbox, &store.statements().operate.stats).bind(to_micros(alive));
    let mut tx = store.begin().await.doing(DOING)?;
    let rows = query.fetch_all(&mut *tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    let counts = rows.iter().map(|row| {
        Ok(RouteCount {
            topic: row.try_get(0)?,
            version: row.try_get(1)?,
            state: MessageState::parse(row.try_get(2)?).unwrap_or(MessageState::Pending),
            rows: u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0),
            waiting: row.try_get::<i64, _>(4)? > 0,
            oldest_due: row
                .try_get::<Option<i64>, _>(5)?
                .map(|age| Duration::from_micros(age.max(0).unsigned_abs())),
            served: row.try_get(6)?,
        })
    });
    counts.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn dead_letters(store: &Postgres, limit: u32) -> Result<Vec<DeadLetter>, Error> {
    const DOING: &str = "listing dead letters";
    let query = super::query(&store.outbox, &store.statements().operate.dead_letters)
        .bind(i64::from(limit));
    let mut tx = store.begin().await.doing(DOING)?;
    let rows = query.fetch_all(&mut *tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    let letters = rows.iter().map(|row| {
        Ok(DeadLetter {
            id: row.try_get(0)?,
            topic: row.try_get(1)?,
            version: count(row.try_get::<i32, _>(2)?.into()),
            key: row.try_get(3)?,
            attempts: count(row.try_get::<i32, _>(4)?.into()),
            redrives: count(row.try_get::<i32, _>(5)?.into()),
            errors: failures(row.try_get(6)?),
            created_at: time(row.try_get(7)?),
            died_at: time(row.try_get::<Option<i64>, _>(8)?.unwrap_or(0)),
        })
    });
    letters.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn redrive(store: &Postgres, id: Uuid) -> Result<bool, Error> {
    const DOING: &str = "redriving a dead letter";
    let redrive = store.statements().operate.redrive.of(&store.outbox);
    let query = super::query(&store.outbox, redrive).bind(id);
    let mut tx = store.begin().await.doing(DOING)?;
    let redriven = query.fetch_optional(&mut *tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    Ok(redriven.is_some())
}

pub(super) async fn heartbeat(
    session: &mut Connected,
    relay: Uuid,
    routes: &[Route],
    forget: Duration,
) -> Result<(), Error> {
    const DOING: &str = "registering the relay";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().postgres.operate;
    let mut tx = session.begin().await.doing(DOING)?;
    let beat = super::query(&outbox, &statements.heartbeat)
        .bind(relay)
        .bind(routes_json(routes));
    beat.execute(&mut *tx).await.doing(DOING)?;
    super::query(&outbox, &statements.forget)
        .bind(to_micros(forget))
        .execute(&mut *tx)
        .await
        .doing(DOING)?;
    tx.commit().await.doing(DOING)
}

pub(super) async fn farewell(session: &mut Connected, relay: Uuid) -> Result<(), Error> {
    const DOING: &str = "unregistering the relay";
    let outbox = session.outbox.clone();
    let query = super::query(&outbox, &outbox.statements().postgres.operate.farewell).bind(relay);
    let mut tx = session.begin().await.doing(DOING)?;
    query.execute(&mut *tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)
}
