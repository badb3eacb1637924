//! The control tables: which relays live, and which topics are paused.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{Route, row::routes_json},
    Connected, Sqlite, now,
    values::{millis, shown, time},
};
use crate::{Error, Paused, error::Doing as _};

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
INSERT INTO "main"."outbox_relays" (id, routes) VALUES (?1, ?2)
ON CONFLICT (id) DO UPDATE SET routes = excluded.routes, seen_at = excluded.seen_at"#;

const FORGET: &str = concat!(
    r#"DELETE FROM "main"."outbox_relays" WHERE seen_at < "#,
    now!(),
    " - ?1"
);

const FAREWELL: &str = r#"DELETE FROM "main"."outbox_relays" WHERE id = ?1"#;

const PAUSE: &str = r#"
INSERT INTO "main"."outbox_paused" (topic, reason) VALUES (?1, ?2) ON CONFLICT (topic) DO NOTHING"#;

const RESUME: &str = r#"DELETE FROM "main"."outbox_paused" WHERE topic = ?1"#;

const PAUSED: &str = r#"SELECT topic, reason, paused_at FROM "main"."outbox_paused""#;

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
    let statements = &outbox.statements().sqlite.register;
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
        super::query(&session.outbox.statements().sqlite.register.farewell).bind(relay.to_string());
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    query
        .execute(&mut session.connection)
        .await
        .doing("unregistering the relay")?;
    Ok(())
}

pub(super) async fn pause(
    store: &Sqlite,
    topic: &str,
    reason: Option<&str>,
) -> Result<bool, Error> {
    let query = super::query(&store.statements().register.pause)
        .bind(topic.to_owned())
        .bind(reason.map(str::to_owned));
    let paused = query.execute(&store.pool).await.doing("pausing a topic")?;
    Ok(paused.rows_affected() == 1)
}

pub(super) async fn resume(store: &Sqlite, topic: &str) -> Result<bool, Error> {
    let query = super::query(&store.statements().register.resume).bind(topic.to_owned());
    let resumed = query.execute(&store.pool).await.doing("resuming a topic")?;
    Ok(resumed.rows_affected() == 1)
}

pub(super) async fn paused(store: &Sqlite) -> Result<Vec<Paused>, Error> {
    const DOING: &str = "listing paused topics";
    let query = super::query(&store.statements().register.paused);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let paused = rows.iter().map(|row| {
        Ok(Paused {
            topic: shown(row, 0)?.unwrap_or_default(),
            reason: shown(row, 1)?,
            paused_at: time(row.try_get(2)?),
        })
    });
    paused.collect::<Result<_, sqlx::Error>>().doing(DOING)
}
