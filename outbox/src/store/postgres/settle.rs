//! Renewal and settle: what happens to a row while and after it is leased.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;
use uuid::Uuid;

use super::{
    super::{LeaseId, Renewed, Settlement, Verdict},
    Query, error_added,
    session::Connected,
    stored,
};
use crate::{Error, Outbox, error::Doing as _, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    renew: Arc<str>,
    delete: Arc<str>,
    keep: Arc<str>,
    retry: Arc<str>,
    dead: Arc<str>,
    give_back: Arc<str>,
}

/// A row that somebody has locked is skipped and reported as such: its lease may still be ours.
const RENEW: &str = r#"
WITH held AS MATERIALIZED (
    SELECT o.id, o.token FROM unnest($1::uuid[], $2::uuid[]) AS lease (id, token)
    JOIN "public"."outbox" AS o ON o.id = lease.id
    WHERE o.token = lease.token AND o.state = 'processing'
), free AS MATERIALIZED (
    SELECT o.id FROM unnest($1::uuid[], $2::uuid[]) AS lease (id, token)
    JOIN "public"."outbox" AS o ON o.id = lease.id
    WHERE o.token = lease.token AND o.state = 'processing'
    ORDER BY o.id
    FOR UPDATE OF o SKIP LOCKED
), moved AS (
    UPDATE "public"."outbox" AS o
    SET leased_until = statement_timestamp() + $3 * interval '1 microsecond'
    WHERE o.id = ANY(ARRAY(SELECT id FROM free)) AND o.token = ANY($2::uuid[]) AND o.state = 'processing'
    RETURNING o.id
)
SELECT held.id, held.token, moved.id IS NOT NULL FROM held LEFT JOIN moved ON moved.id = held.id"#;

/// `$1` and `$2` are the leases' ids and tokens. The ids are looked up by one scan of the primary key; `IS TRUE`
/// keeps the planner from turning the pairs into a join, for which it may choose to compare each with each.
macro_rules! settle {
    ($change:expr) => {
        concat!(
            $change,
            r#"
WHERE o.id = ANY($1::uuid[]) AND ((o.id, o.token) IN (SELECT * FROM unnest($1::uuid[], $2::uuid[]))) IS TRUE
    AND o.state = 'processing'
RETURNING o.id"#
        )
    };
    ($change:expr, each has $columns:literal from $arrays:literal) => {
        concat!(
            $change,
            "\nFROM unnest($1::uuid[], $2::uuid[], ",
            $arrays,
            ") AS settled (id, token, ",
            $columns,
            r#")
WHERE o.id = settled.id AND o.token = settled.token AND o.state = 'processing'
RETURNING o.id"#
        )
    };
}

const DELETE: &str = settle!(r#"DELETE FROM "public"."outbox" AS o"#);

const KEEP: &str = settle!(
    r#"UPDATE "public"."outbox" AS o
SET state = 'delivered', unsettled = 0, token = NULL, leased_until = NULL, settled_at = statement_timestamp()"#
);

const RETRY: &str = settle!(
    concat!(
        r#"UPDATE "public"."outbox" AS o
SET state = 'pending', unsettled = 0, token = NULL, leased_until = NULL,
    available_at = statement_timestamp() + settled.delay * interval '1 microsecond',
    "#,
        error_added!("settled.text")
    ),
    each has "text, delay" from "$3::text[], $4::bigint[]"
);

const DEAD: &str = settle!(
    concat!(
        r#"UPDATE "public"."outbox" AS o
SET state = 'dead', unsettled = 0, token = NULL, leased_until = NULL, settled_at = statement_timestamp(),
    "#,
        error_added!("settled.text")
    ),
    each has "text" from "$3::text[]"
);

/// A row that had been left unsettled before goes back to whoever takes over lapsed leases.
const GIVE_BACK: &str = settle!(
    r#"UPDATE "public"."outbox" AS o
SET state = 'pending', attempts = settled.attempts, unsettled = settled.unsettled, token = NULL,
    leased_until = CASE WHEN settled.unsettled > 0 THEN statement_timestamp() END"#,
    each has "attempts, unsettled" from "$3::int[], $4::int[]"
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            renew: render(RENEW),
            delete: render(DELETE),
            keep: render(KEEP),
            retry: render(RETRY),
            dead: render(DEAD),
            give_back: render(GIVE_BACK),
        }
    }
}

pub(super) async fn renew(
    session: &mut Connected,
    leases: &[LeaseId],
    lease: Duration,
) -> Result<Renewed, Error> {
    const DOING: &str = "renewing leases";
    let (ids, tokens): (Vec<_>, Vec<_>) = leases.iter().copied().unzip();
    let sql = &session.outbox.statements().postgres.settle.renew;
    let query = super::query(&session.outbox, sql)
        .bind(ids)
        .bind(tokens)
        .bind(to_micros(lease));

    let rows = session.run(query).await.doing(DOING)?;

    let mut renewed = Renewed::default();
    for row in &rows {
        let lease = (row.try_get(0).doing(DOING)?, row.try_get(1).doing(DOING)?);
        match row.try_get(2).doing(DOING)? {
            true => renewed.moved.push(lease),
            false => renewed.locked.push(lease),
        }
    }
    Ok(renewed)
}

pub(super) async fn settle(
    session: &mut Connected,
    batch: &[Settlement],
) -> Result<Vec<Uuid>, Error> {
    const DOING: &str = "settling messages";
    let outbox = session.outbox.clone();
    let mut sorted = Sorted::default();
    for settlement in batch {
        sorted.add(settlement);
    }
    let statements = sorted.statements(&outbox);
    let rows = session.run_all(statements).await.doing(DOING)?;
    rows.iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()
        .doing(DOING)
}

/// A batch by verdict, as the columns of the statements' arrays.
#[derive(Default)]
struct Sorted<'a> {
    delivered: (Vec<Uuid>, Vec<Uuid>),
    kept: (Vec<Uuid>, Vec<Uuid>),
    retry: (Vec<Uuid>, Vec<Uuid>, Vec<&'a str>, Vec<i64>),
    dead: (Vec<Uuid>, Vec<Uuid>, Vec<&'a str>),
    give_back: (Vec<Uuid>, Vec<Uuid>, Vec<i32>, Vec<i32>),
}

impl<'a> Sorted<'a> {
    fn add(&mut self, settlement: &'a Settlement) {
        let Settlement {
            lease: (id, token),
            verdict,
            ..
        } = settlement;
        match verdict {
            Verdict::Delivered => self.delivered.extend([(*id, *token)]),
            Verdict::Kept => self.kept.extend([(*id, *token)]),
            Verdict::Retry { delay, text } => {
                self.retry
                    .extend([(*id, *token, text.as_str(), to_micros(*delay))])
            }
            Verdict::Dead { text } => self.dead.extend([(*id, *token, text.as_str())]),
            Verdict::GiveBack {
                attempts,
                unsettled,
            } => {
                self.give_back
                    .extend([(*id, *token, stored(*attempts), stored(*unsettled))]);
            }
        }
    }

    fn statements(self, outbox: &Outbox) -> Vec<Query> {
        let sql = &outbox.statements().postgres.settle;
        let mut statements = Vec::new();
        for (sql, (ids, tokens)) in [(&sql.delete, self.delivered), (&sql.keep, self.kept)] {
            if !ids.is_empty() {
                statements.push(super::query(outbox, sql).bind(ids).bind(tokens));
            }
        }
        let (ids, tokens, texts, delays) = self.retry;
        if !ids.is_empty() {
            let retry = super::query(outbox, &sql.retry);
            statements.push(retry.bind(ids).bind(tokens).bind(texts).bind(delays));
        }
        let (ids, tokens, texts) = self.dead;
        if !ids.is_empty() {
            let dead = super::query(outbox, &sql.dead);
            statements.push(dead.bind(ids).bind(tokens).bind(texts));
        }
        let (ids, tokens, attempts, unsettled) = self.give_back;
        if !ids.is_empty() {
            let give_back = super::query(outbox, &sql.give_back);
            statements.push(
                give_back
                    .bind(ids)
                    .bind(tokens)
                    .bind(attempts)
                    .bind(unsettled),
            );
        }
        statements
    }
}
