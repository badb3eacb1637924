//! Removing what has settled, in chunks, by one relay at a time.

use std::{sync::Arc, time::Duration};

use sqlx::{MySqlConnection, Row as _};
use uuid::Uuid;

use super::{
    super::{
        fault::is_duplicate,
        operate::{Old, Settled, What},
    },
    Query, ended,
    retried::retried,
    session::Connected,
    values::{ahead, by_ids, ids_json, now, time},
};
use crate::{Error, error::Doing as _, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    delivered: OfState,
    dead: OfState,
    count_notes: Arc<str>,
    purge_notes: Arc<str>,
    keep_duty: Arc<str>,
    first_duty: Arc<str>,
}

/// The statements for the settled rows of one state.
#[derive(Debug)]
struct OfState {
    routes: Arc<str>,
    count: Arc<str>,
    next: Arc<str>,
    purge: Arc<str>,
}

/// The routes that have rows, each found by a descent of the index.
macro_rules! all_routes {
    () => {
        "(SELECT topic, version FROM `outbox` FORCE INDEX (phase) GROUP BY topic, version) AS route"
    };
}
pub(super) use all_routes;

/// A descent for each of them. As EXISTS, it would be made a join that reads the whole index.
macro_rules! routes_with {
    ($state:literal) => {
        concat!(
            "SELECT route.topic, route.version FROM ",
            all_routes!(),
            "\nWHERE (SELECT 1 FROM `outbox` AS o FORCE INDEX (phase)
    WHERE o.topic = route.topic AND o.version = route.version AND o.phase = '",
            $state,
            "' LIMIT 1) = 1"
        )
    };
}

/// Binds topic, version and time.
macro_rules! old {
    ($state:literal) => {
        concat!(
            "FROM `outbox` FORCE INDEX (phase)
WHERE topic = ? AND version = ? AND phase = '",
            $state,
            "' AND phase_at <= ",
            time!()
        )
    };
}

macro_rules! count {
    ($state:literal) => {
        concat!(
            "SELECT COUNT(*) FROM (SELECT 1 ",
            old!($state),
            " LIMIT ?) AS counted"
        )
    };
}

macro_rules! next {
    ($state:literal) => {
        concat!(
            "SELECT id ",
            old!($state),
            "\nORDER BY phase_at, id LIMIT ? FOR UPDATE SKIP LOCKED"
        )
    };
}

macro_rules! purge {
    ($state:literal) => {
        concat!(
            "DELETE o FROM ",
            by_ids!(),
            "\nWHERE o.state = '",
            $state,
            "' AND COALESCE(o.settled_at, o.created_at) <= ",
            time!()
        )
    };
}

const COUNT_NOTES: &str = concat!(
    "SELECT COUNT(*) FROM (SELECT 1 FROM `outbox_discarded` WHERE discarded_at <= ",
    time!(),
    " LIMIT ?) AS counted"
);

const PURGE_NOTES: &str = concat!(
    "DELETE FROM `outbox_discarded` WHERE discarded_at <= ",
    time!(),
    " ORDER BY discarded_at, id LIMIT ?"
);

const KEEP_DUTY: &str = concat!(
    "UPDATE `outbox_duties` SET holder = ?, held_until = ",
    ahead!(),
    " WHERE name = ? AND (holder = ? OR held_until <= ",
    now!(),
    ")"
);

const FIRST_DUTY: &str = concat!(
    "INSERT INTO `outbox_duties` (holder, held_until, name) VALUES (?, ",
    ahead!(),
    ", ?)"
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        let of_state = |routes: &str, count: &str, next: &str, purge: &str| OfState {
            routes: render(routes),
            count: render(count),
            next: render(next),
            purge: render(purge),
        };
        Self {
            delivered: of_state(
                routes_with!("delivered"),
                count!("delivered"),
                next!("delivered"),
                purge!("delivered"),
            ),
            dead: of_state(
                routes_with!("dead"),
                count!("dead"),
                next!("dead"),
                purge!("dead"),
            ),
            count_notes: render(COUNT_NOTES),
            purge_notes: render(PURGE_NOTES),
            keep_duty: render(KEEP_DUTY),
            first_duty: render(FIRST_DUTY),
        }
    }

    fn of(&self, settled: Settled) -> &OfState {
        match settled {
            Settled::Delivered => &self.delivered,
            Settled::Dead => &self.dead,
        }
    }
}

pub(super) async fn routes(
    session: &mut Connected,
    settled: Settled,
) -> Result<Vec<(String, i32)>, Error> {
    const DOING: &str = "looking for what to purge";
    let query = super::query(&session.outbox.statements().mysql.purge.of(settled).routes);
    let rows = query.fetch_all(session.connection()).await.doing(DOING)?;
    let routes = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    routes.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn count(
    session: &mut Connected,
    old: &Old,
    limit: Option<u64>,
) -> Result<u64, Error> {
    const DOING: &str = "counting what to purge";
    let statements = &session.outbox.statements().mysql.purge;
    let sql = match &old.what {
        What::Rows { settled, .. } => &statements.of(*settled).count,
        What::Notes => &statements.count_notes,
    };
    let query = bound(sql, old).bind(limit.unwrap_or(u64::MAX));
    let row = query.fetch_one(session.connection()).await.doing(DOING)?;
    let counted: i64 = row.try_get(0).doing(DOING)?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn purge(session: &mut Connected, old: &Old, limit: u64) -> Result<u64, Error> {
    retried!(session.patience, "purge", try_purge(session, old, limit))
}

async fn try_purge(session: &mut Connected, old: &Old, limit: u64) -> Result<u64, Error> {
    const DOING: &str = "purging messages";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().mysql.purge;
    let What::Rows { settled, .. } = &old.what else {
        let query = bound(&statements.purge_notes, old).bind(limit);
        let purged = query.execute(session.connection()).await.doing(DOING)?;
        return Ok(purged.rows_affected());
    };
    let of_state = statements.of(*settled);
    let mut tx = session.begin().await.doing(DOING)?;
    let purged = purge_next(&mut tx, of_state, old, limit).await;
    ended(tx, purged).await.doing(DOING)
}

async fn purge_next(
    tx: &mut MySqlConnection,
    of_state: &OfState,
    old: &Old,
    limit: u64,
) -> Result<u64, sqlx::Error> {
    let next = bound(&of_state.next, old).bind(limit);
    let rows = next.fetch_all(&mut *tx).await?;
    let ids: Vec<Uuid> = rows
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    let query = super::query(&of_state.purge)
        .bind(ids_json(ids))
        .bind(old.until);
    Ok(query.execute(tx).await?.rows_affected())
}

fn bound(sql: &Arc<str>, old: &Old) -> Query {
    let query = super::query(sql);
    match &old.what {
        What::Rows { topic, version, .. } => query.bind(topic.clone()).bind(*version),
        What::Notes => query,
    }
    .bind(old.until)
}

pub(super) async fn take_duty(
    session: &mut Connected,
    duty: &'static str,
    relay: Uuid,
    hold: Duration,
) -> Result<bool, Error> {
    retried!(
        session.patience,
        "purge",
        try_take_duty(session, duty, relay, hold)
    )
}

async fn try_take_duty(
    session: &mut Connected,
    duty: &'static str,
    relay: Uuid,
    hold: Duration,
) -> Result<bool, Error> {
    const DOING: &str = "taking a duty";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().mysql.purge;
    let bound = |sql| {
        super::query(sql)
            .bind(relay)
            .bind(to_micros(hold))
            .bind(duty)
    };
    let kept = bound(&statements.keep_duty).bind(relay);
    let kept = kept.execute(session.connection()).await.doing(DOING)?;
    if kept.rows_affected() == 1 {
        return Ok(true);
    }
    match bound(&statements.first_duty)
        .execute(session.connection())
        .await
    {
        Err(error) if is_duplicate(&error) => Ok(false),
        taken => taken.doing(DOING).map(|_| true),
    }
}
