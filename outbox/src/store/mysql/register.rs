//! The control tables: which relays live, and which topics are paused.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{Route, fault::is_duplicate, row::routes_json},
    Mysql,
    retried::retried,
    session::Connected,
    values::{micros, now, since_1970, topic},
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

const HEARTBEAT: &str = concat!(
    "INSERT INTO `outbox_relays` (id, routes) VALUES (?, ?) ON DUPLICATE KEY UPDATE routes = ?, seen_at = ",
    now!()
);

const FORGET: &str = concat!(
    "DELETE FROM `outbox_relays` WHERE seen_at < ",
    now!(),
    " - INTERVAL ? MICROSECOND"
);

const FAREWELL: &str = "DELETE FROM `outbox_relays` WHERE id = ?";

const PAUSE: &str = "INSERT INTO `outbox_paused` (topic, reason) VALUES (?, ?)";

const RESUME: &str = concat!("DELETE FROM `outbox_paused` WHERE topic = ", topic!());

const PAUSED: &str = concat!(
    "SELECT topic, reason, ",
    micros!("paused_at"),
    " FROM `outbox_paused`"
);

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
    retried!(
        session.patience,
        "register",
        try_heartbeat(session, relay, routes, forget)
    )
}

async fn try_heartbeat(
    session: &mut Connected,
    relay: Uuid,
    routes: &[Route],
    forget: Duration,
) -> Result<(), Error> {
    const DOING: &str = "registering the relay";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().mysql.register;
    let routes = routes_json(routes);
    super::query(&statements.heartbeat)
        .bind(relay)
        .bind(routes.clone())
        .bind(routes)
        .execute(session.connection())
        .await
        .doing(DOING)?;
    super::query(&statements.forget)
        .bind(to_micros(forget))
        .execute(session.connection())
        .await
        .doing(DOING)?;
    Ok(())
}

pub(super) async fn farewell(session: &mut Connected, relay: Uuid) -> Result<(), Error> {
    let query = super::query(&session.outbox.statements().mysql.register.farewell).bind(relay);
    query
        .execute(session.connection())
        .await
        .doing("unregistering the relay")?;
    Ok(())
}

pub(super) async fn pause(store: &Mysql, topic: &str, reason: Option<&str>) -> Result<bool, Error> {
    let query = super::query(&store.statements().register.pause)
        .bind(topic.to_owned())
        .bind(reason.map(str::to_owned));
    match query.execute(&store.pool).await {
        Err(error) if is_duplicate(&error) => Ok(false),
        paused => paused.doing("pausing a topic").map(|_| true),
    }
}

pub(super) async fn resume(store: &Mysql, topic: &str) -> Result<bool, Error> {
    let query = super::query(&store.statements().register.resume).bind(topic.to_owned());
    let resumed = query.execute(&store.pool).await.doing("resuming a topic")?;
    Ok(resumed.rows_affected() == 1)
}

pub(super) async fn paused(store: &Mysql) -> Result<Vec<Paused>, Error> {
    const DOING: &str = "listing paused topics";
    let query = super::query(&store.statements().register.paused);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let paused = rows.iter().map(|row| {
        Ok(Paused {
            topic: row.try_get(0)?,
            reason: row.try_get(1)?,
            paused_at: since_1970(row.try_get(2)?),
        })
    });
    paused.collect::<Result<_, sqlx::Error>>().doing(DOING)
}
