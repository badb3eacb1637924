//! Statistics, dead letters, and the register of live relays.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{
        Route, RouteCount,
        row::{count, routes_json},
    },
    Connected, Sqlite, now,
    values::{millis, shown, time, uuid},
};
use crate::{DeadLetter, Error, MessageState, dead_letters::failures, error::Doing as _};

#[derive(Debug)]
pub(super) struct Statements {
    stats: Arc<str>,
    dead_letters: Arc<str>,
    redrive: Arc<str>,
    heartbeat: Arc<str>,
    forget: Arc<str>,
    farewell: Arc<str>,
}

const STATS: &str = concat!(
    r#"
SELECT o.topic, o.version, o.state, count(*),
    count(*) FILTER (WHERE o.state = 'pending' OR (o.state = 'processing' AND o.leased_until <= "#,
    now!(),
    ")),
    ",
    now!(),
    " - min(o.available_at) FILTER (WHERE o.state = 'pending' AND o.available_at <= ",
    now!(),
    r#"),
    EXISTS (
        SELECT 1 FROM "main"."outbox_relays" AS relay, json_each(relay.routes) AS route
        WHERE relay.seen_at > "#,
    now!(),
    r#" - ?1
            AND route.value->>0 = o.topic AND route.value->>1 = o.version)
FROM "main"."outbox" AS o
GROUP BY o.topic, o.version, o.state"#
);

const DEAD_LETTERS: &str = r#"
SELECT id, topic, version, key, attempts, redrives, errors, created_at, settled_at
FROM "main"."outbox"
WHERE state = 'dead'
ORDER BY settled_at DESC, id
LIMIT ?1"#;

const REDRIVE: &str = concat!(
    r#"
UPDATE "main"."outbox"
SET state = 'pending', attempts = 0, unsettled = 0, redrives = redrives + 1, token = NULL,
    available_at = "#,
    now!(),
    r#", leased_until = NULL, settled_at = NULL
WHERE id = ?1 AND state = 'dead'"#
);

const HEARTBEAT: &str = r#"
INSERT INTO "main"."outbox_relays" (id, routes) VALUES (?1, ?2)
ON CONFLICT (id) DO UPDATE SET routes = excluded.routes, seen_at = excluded.seen_at"#;

const FORGET: &str = concat!(
    r#"DELETE FROM "main"."outbox_relays" WHERE seen_at < "#,
    now!(),
    " - ?1"
);

const FAREWELL: &str = r#"DELETE FROM "main"."outbox_relays" WHERE id = ?1"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            stats: render(STATS),
            dead_letters: render(DEAD_LETTERS),
            redrive: render(REDRIVE),
            heartbeat: render(HEARTBEAT),
            forget: render(FORGET),
            farewell: render(FAREWELL),
        }
    }
}

pub(super) async fn stats(store: &Sqlite, alive: Duration) -> Result<Vec<RouteCount>, Error> {
    const DOING: &str = "counting messages";
    let query = super::query(&store.statements().operate.stats).bind(millis(alive));
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let counts = rows.iter().map(|row| {
        Ok(RouteCount {
            topic: shown(row, 0)?.unwrap_or_default(),
            version: row.try_get(1)?,
            state: MessageState::parse(row.try_get(2)?).unwrap_or(MessageState::Pending),
            rows: u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0),
            waiting: row.try_get::<i64, _>(4)? > 0,
            oldest_due: row
                .try_get::<Option<i64>, _>(5)?
                .map(|age| Duration::from_millis(age.max(0).unsigned_abs())),
            served: row.try_get(6)?,
        })
    });
    counts.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn dead_letters(store: &Sqlite, limit: u32) -> Result<Vec<DeadLetter>, Error> {
    const DOING: &str = "listing dead letters";
    let query = super::query(&store.statements().operate.dead_letters).bind(limit);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let letters = rows.iter().map(|row| {
        Ok(DeadLetter {
            id: uuid(row, 0)?,
            topic: shown(row, 1)?.unwrap_or_default(),
            version: count(row.try_get(2)?),
            key: shown(row, 3)?,
            attempts: count(row.try_get(4)?),
            redrives: count(row.try_get(5)?),
            errors: failures(&shown(row, 6)?.unwrap_or_default()),
            created_at: time(row.try_get(7)?),
            died_at: time(row.try_get::<Option<i64>, _>(8)?.unwrap_or(0)),
        })
    });
    letters.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn redrive(store: &Sqlite, id: Uuid) -> Result<bool, Error> {
    let query = super::query(&store.statements().operate.redrive).bind(id.to_string());
    let redriven = query
        .execute(&store.pool)
        .await
        .doing("redriving a dead letter")?
        .rows_affected();
    Ok(redriven == 1)
}

pub(super) async fn heartbeat(
    session: &mut Connected,
    relay: Uuid,
    routes: &[Route],
    forget: Duration,
) -> Result<(), Error> {
    const DOING: &str = "registering the relay";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().sqlite.operate;
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    let mut tx = session.begin().await.doing(DOING)?;
    let beat = super::query(&statements.heartbeat)
        .bind(relay.to_string())
        .bind(routes_json(routes));
    beat.execute(&mut *tx).await.doing(DOING)?;
    super::query(&statements.forget)
        .bind(millis(forget))
        .execute(&mut *tx)
        .await
        .doing(DOING)?;
    tx.commit().await.doing(DOING)
}

pub(super) async fn farewell(session: &mut Connected, relay: Uuid) -> Result<(), Error> {
    let query =
        super::query(&session.outbox.statements().sqlite.operate.farewell).bind(relay.to_string());
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    query
        .execute(&mut session.connection)
        .await
        .doing("unregistering the relay")?;
    Ok(())
}
