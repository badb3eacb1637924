//! The control tables: which relays live, and which topics are paused.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{Route, row::routes_json},
    Postgres, listen,
    session::Connected,
    time,
};
use crate::{Error, Paused, error::Doing as _, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    heartbeat: Arc<str>,
    forget: Arc<str>,
    farewell: Arc<str>,
    pause: Arc<str>,
    resume: Arc<str>,
    paused: Arc<str>,
}

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

const PAUSE: &str = r#"
INSERT INTO "public"."outbox_paused" (topic, reason) VALUES ($1, $2)
ON CONFLICT (topic) DO NOTHING
RETURNING topic"#;

const RESUME: &str = r#"DELETE FROM "public"."outbox_paused" WHERE topic = $1 RETURNING topic"#;

const PAUSED: &str = r#"
SELECT topic, reason, (extract(epoch FROM paused_at) * 1000000)::bigint
FROM "public"."outbox_paused""#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            heartbeat: render(HEARTBEAT),
            forget: render(FORGET),
            farewell: render(FAREWELL),
            pause: render(PAUSE),
            resume: render(RESUME),
            paused: render(PAUSED),
        }
    }
}

pub(super) async fn heartbeat(
    session: &mut Connected,
    relay: Uuid,
    routes: &[Route],
    forget: Duration,
) -> Result<(), Error> {
    const DOING: &str = "registering the relay";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().postgres.register;
    let beat = super::query(&outbox, &statements.heartbeat)
        .bind(relay)
        .bind(routes_json(routes));
    let forget = super::query(&outbox, &statements.forget).bind(to_micros(forget));
    session.run_all(vec![beat, forget]).await.doing(DOING)?;
    Ok(())
}

pub(super) async fn farewell(session: &mut Connected, relay: Uuid) -> Result<(), Error> {
    const DOING: &str = "unregistering the relay";
    let outbox = session.outbox.clone();
    let query = super::query(&outbox, &outbox.statements().postgres.register.farewell).bind(relay);
    session.run(query).await.doing(DOING)?;
    Ok(())
}

pub(super) async fn pause(
    store: &Postgres,
    topic: &str,
    reason: Option<&str>,
) -> Result<bool, Error> {
    let query = super::query(&store.outbox, &store.statements().register.pause)
        .bind(topic.to_owned())
        .bind(reason.map(str::to_owned));
    let paused = store.run(query).await.doing("pausing a topic")?;
    Ok(!paused.is_empty())
}

pub(super) async fn resume(store: &Postgres, topic: &str) -> Result<bool, Error> {
    const DOING: &str = "resuming a topic";
    let query =
        super::query(&store.outbox, &store.statements().register.resume).bind(topic.to_owned());
    let mut tx = store.begin().await.doing(DOING)?;
    let resumed = !query.fetch_all(&mut *tx).await.doing(DOING)?.is_empty();
    if resumed && store.outbox.settings().wake {
        let notify = listen::notify(&store.outbox, String::new());
        notify.execute(&mut *tx).await.doing(DOING)?;
    }
    tx.commit().await.doing(DOING)?;
    Ok(resumed)
}

pub(super) async fn paused(store: &Postgres) -> Result<Vec<Paused>, Error> {
    const DOING: &str = "listing paused topics";
    let query = super::query(&store.outbox, &store.statements().register.paused);
    let rows = store.run(query).await.doing(DOING)?;
    let paused = rows.iter().map(|row| {
        Ok(Paused {
            topic: row.try_get(0)?,
            reason: row.try_get(1)?,
            paused_at: time(row.try_get(2)?),
        })
    });
    paused.collect::<Result<_, sqlx::Error>>().doing(DOING)
}
