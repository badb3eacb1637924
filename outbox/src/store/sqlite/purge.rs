//! Removing what has settled, in chunks, by one relay at a time.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{
        operate::{Old, Settled, What},
        row::wide,
    },
    Connected, Query, now,
    values::millis,
};
use crate::{Error, error::Doing as _};

#[derive(Debug)]
pub(super) struct Statements {
    delivered: OfState,
    dead: OfState,
    count_notes: Arc<str>,
    purge_notes: Arc<str>,
    take_duty: Arc<str>,
}

/// The statements for the settled rows of one state.
#[derive(Debug)]
struct OfState {
    routes: Arc<str>,
    count: Arc<str>,
    purge: Arc<str>,
}

/// Finds each route by two descents of the index. A comparison of the pair would look at every row of its
/// topic.
macro_rules! routes_with {
    ($rows:literal) => {
        concat!(
            r#"
WITH RECURSIVE route (topic, version) AS (
    SELECT topic, version FROM (
        SELECT topic, version FROM "main"."outbox" WHERE "#,
            $rows,
            r#" ORDER BY topic, version LIMIT 1)
    UNION ALL
    SELECT later.topic, later.version FROM route
    JOIN "main"."outbox" AS later ON later.rowid = ifnull(
        (SELECT rowid FROM "main"."outbox" AS o
         WHERE "#,
            $rows,
            r#" AND o.topic = route.topic AND o.version > route.version
         ORDER BY o.version LIMIT 1),
        (SELECT rowid FROM "main"."outbox" AS o
         WHERE "#,
            $rows,
            " AND o.topic > route.topic
         ORDER BY o.topic, o.version LIMIT 1))
)
SELECT topic, version FROM route"
        )
    };
}
pub(super) use routes_with;

/// Binds ?1 to ?3.
macro_rules! old {
    ($state:literal) => {
        concat!(
            "topic = ?1 AND version = ?2 AND state = '",
            $state,
            "' AND ifnull(settled_at, created_at) <= ?3"
        )
    };
}

macro_rules! count {
    ($state:literal) => {
        concat!(
            r#"SELECT count(*) FROM (SELECT 1 FROM "main"."outbox" WHERE "#,
            old!($state),
            " LIMIT ifnull(?4, -1))"
        )
    };
}

/// The plus keeps the outer DELETE from looking at all that is old enough, for each chunk again.
macro_rules! purge {
    ($state:literal) => {
        concat!(
            r#"
DELETE FROM "main"."outbox"
WHERE id IN (
        SELECT id FROM "main"."outbox"
        WHERE "#,
            old!($state),
            "
        ORDER BY ifnull(settled_at, created_at), id
        LIMIT ?4)
    AND +",
            old!($state)
        )
    };
}

const COUNT_NOTES: &str = r#"
SELECT count(*) FROM (SELECT 1 FROM "main"."outbox_discarded" WHERE discarded_at <= ?1 LIMIT ifnull(?2, -1))"#;

const PURGE_NOTES: &str = r#"
DELETE FROM "main"."outbox_discarded"
WHERE id IN (
        SELECT id FROM "main"."outbox_discarded" WHERE discarded_at <= ?1 ORDER BY discarded_at, id LIMIT ?2)
    AND discarded_at <= ?1"#;

const TAKE_DUTY: &str = concat!(
    r#"
INSERT INTO "main"."outbox_duties" AS duty (name, holder, held_until) VALUES (?1, ?2, "#,
    now!(),
    r#" + ?3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
WHERE duty.holder = excluded.holder OR duty.held_until <= "#,
    now!()
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        let of_state = |routes: &str, count: &str, purge: &str| OfState {
            routes: render(routes),
            count: render(count),
            purge: render(purge),
        };
        Self {
            delivered: of_state(
                routes_with!("state = 'delivered'"),
                count!("delivered"),
                purge!("delivered"),
            ),
            dead: of_state(
                routes_with!("state = 'dead'"),
                count!("dead"),
                purge!("dead"),
            ),
            count_notes: render(COUNT_NOTES),
            purge_notes: render(PURGE_NOTES),
            take_duty: render(TAKE_DUTY),
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
    let sql = &session.outbox.statements().sqlite.purge.of(settled).routes;
    let query = super::query(sql);
    let rows = query
        .fetch_all(&mut session.connection)
        .await
        .doing(DOING)?;
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
    let statements = &session.outbox.statements().sqlite.purge;
    let sql = match &old.what {
        What::Rows { settled, .. } => &statements.of(*settled).count,
        What::Notes => &statements.count_notes,
    };
    let query = bound(sql, old).bind(limit.map(wide));
    let row = query
        .fetch_one(&mut session.connection)
        .await
        .doing(DOING)?;
    let counted: i64 = row.try_get(0).doing(DOING)?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn purge(session: &mut Connected, old: &Old, limit: u64) -> Result<u64, Error> {
    const DOING: &str = "purging messages";
    let statements = &session.outbox.statements().sqlite.purge;
    let sql = match &old.what {
        What::Rows { settled, .. } => &statements.of(*settled).purge,
        What::Notes => &statements.purge_notes,
    };
    let query = bound(sql, old).bind(wide(limit));
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    let mut tx = session.begin().await.doing(DOING)?;
    let purged = query.execute(&mut *tx).await.doing(DOING)?.rows_affected();
    tx.commit().await.doing(DOING)?;
    Ok(purged)
}

fn bound(sql: &Arc<str>, old: &Old) -> Query {
    let query = super::query(sql);
    match &old.what {
        What::Rows { topic, version, .. } => query.bind(topic.clone()).bind(*version),
        What::Notes => query,
    }
    .bind(old.until.div_euclid(1_000))
}

pub(super) async fn take_duty(
    session: &mut Connected,
    duty: &'static str,
    relay: Uuid,
    hold: Duration,
) -> Result<bool, Error> {
    const DOING: &str = "taking a duty";
    let query = super::query(&session.outbox.statements().sqlite.purge.take_duty)
        .bind(duty)
        .bind(relay.to_string())
        .bind(millis(hold));
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    let taken = query.execute(&mut session.connection).await.doing(DOING)?;
    Ok(taken.rows_affected() == 1)
}
