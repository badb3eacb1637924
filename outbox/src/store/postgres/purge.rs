//! Removing what has settled, in chunks, by one relay at a time.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{
        operate::{Old, Settled, What},
        row::wide,
    },
    Query,
    session::Connected,
};
use crate::{Error, Outbox, error::Doing as _, publish::to_micros};

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

/// Finds each route by one descent of the index.
macro_rules! routes_with {
    ($rows:literal) => {
        concat!(
            r#"
WITH RECURSIVE route AS (
    (SELECT topic, version FROM "public"."outbox" WHERE "#,
            $rows,
            r#" ORDER BY topic, version LIMIT 1)
    UNION ALL
    SELECT later.topic, later.version FROM route, LATERAL (
        SELECT o.topic, o.version FROM "public"."outbox" AS o
        WHERE "#,
            $rows,
            " AND (o.topic, o.version) > (route.topic, route.version)
        ORDER BY o.topic, o.version LIMIT 1) AS later
)
SELECT topic, version FROM route"
        )
    };
}
pub(super) use routes_with;

/// Binds $1 to $3.
macro_rules! old {
    ($state:literal) => {
        concat!(
            "o.topic = $1 AND o.version = $2 AND o.state = '",
            $state,
            "'
        AND coalesce(o.settled_at, o.created_at) <= timestamptz 'epoch' + $3 * interval '1 microsecond'"
        )
    };
}

macro_rules! count {
    ($state:literal) => {
        concat!(
            r#"SELECT count(*) FROM (SELECT FROM "public"."outbox" AS o WHERE "#,
            old!($state),
            " LIMIT $4) AS few"
        )
    };
}

/// The outer WHERE repeats all of it: a row that was redriven while this waited is not what it was.
macro_rules! purge {
    ($state:literal) => {
        concat!(
            r#"
DELETE FROM "public"."outbox" AS o
WHERE o.id = ANY(ARRAY(
        SELECT o.id FROM "public"."outbox" AS o
        WHERE "#,
            old!($state),
            "
        ORDER BY coalesce(o.settled_at, o.created_at), o.id
        LIMIT $4
        FOR UPDATE SKIP LOCKED))
    AND ",
            old!($state)
        )
    };
}

macro_rules! old_note {
    () => {
        "o.discarded_at <= timestamptz 'epoch' + $1 * interval '1 microsecond'"
    };
}

const COUNT_NOTES: &str = concat!(
    r#"SELECT count(*) FROM (SELECT FROM "public"."outbox_discarded" AS o WHERE "#,
    old_note!(),
    " LIMIT $2) AS few"
);

const PURGE_NOTES: &str = concat!(
    r#"
DELETE FROM "public"."outbox_discarded" AS o
WHERE o.id = ANY(ARRAY(
        SELECT o.id FROM "public"."outbox_discarded" AS o
        WHERE "#,
    old_note!(),
    "
        ORDER BY o.discarded_at, o.id
        LIMIT $2
        FOR UPDATE SKIP LOCKED))
    AND ",
    old_note!()
);

/// One statement, so that of two relays one has it.
const TAKE_DUTY: &str = r#"
INSERT INTO "public"."outbox_duties" AS duty (name, holder, held_until)
VALUES ($1, $2, statement_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
WHERE duty.holder = excluded.holder OR duty.held_until <= statement_timestamp()
RETURNING duty.name"#;

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
    let outbox = session.outbox.clone();
    let query = super::query(
        &outbox,
        &outbox.statements().postgres.purge.of(settled).routes,
    );
    let rows = session.run(query).await.doing(DOING)?;
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
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().postgres.purge;
    let sql = match &old.what {
        What::Rows { settled, .. } => &statements.of(*settled).count,
        What::Notes => &statements.count_notes,
    };
    let query = bound(&outbox, sql, old).bind(limit.map(wide));
    let row = session.run_for_one(query).await.doing(DOING)?;
    let counted: i64 = row.try_get(0).doing(DOING)?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn purge(session: &mut Connected, old: &Old, limit: u64) -> Result<u64, Error> {
    const DOING: &str = "purging messages";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().postgres.purge;
    let sql = match &old.what {
        What::Rows { settled, .. } => &statements.of(*settled).purge,
        What::Notes => &statements.purge_notes,
    };
    let query = bound(&outbox, sql, old).bind(wide(limit));
    let mut tx = session.begin().await.doing(DOING)?;
    let purged = query.execute(&mut *tx).await.doing(DOING)?.rows_affected();
    tx.commit().await.doing(DOING)?;
    Ok(purged)
}

fn bound(outbox: &Outbox, sql: &Arc<str>, old: &Old) -> Query {
    let query = super::query(outbox, sql);
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
    const DOING: &str = "taking a duty";
    let outbox = session.outbox.clone();
    let query = super::query(&outbox, &outbox.statements().postgres.purge.take_duty)
        .bind(duty)
        .bind(relay)
        .bind(to_micros(hold));
    let taken = session.run(query).await.doing(DOING)?;
    Ok(!taken.is_empty())
}
