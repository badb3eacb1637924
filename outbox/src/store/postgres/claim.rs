//! Probe, claim and take-over.

use std::sync::Arc;

use sqlx::{PgConnection, Row as _, postgres::PgRow};
use uuid::Uuid;

use super::{
    super::{Claim, Claimed, Mark, Probe, Route, TakenOver, row::count, take_over::Plan},
    claimed_columns, error_added,
    session::Connected,
    stored, time,
    values::{json, maybe_time_at, time_at},
};
use crate::{Error, Outbox, error::Doing as _, lifecycle::Retry, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    probe: Arc<str>,
    claim: Arc<str>,
    lapsed: Arc<str>,
    take_over: Arc<str>,
    give_up: Arc<str>,
}

/// One descent of each index per route. `LEAST` and `GREATEST` ignore what is NULL.
const PROBE: &str = r#"
WITH clock AS (SELECT LEAST(statement_timestamp(), timestamptz 'epoch' + $4 * interval '1 microsecond') AS now)
SELECT clock.now, pending.at, lease.at,
    EXISTS (SELECT FROM "public"."outbox_paused" AS paused WHERE paused.topic = route.topic)
FROM clock, unnest($1::text[], $2::int[], $3::bigint[], $5::bigint[]) WITH ORDINALITY AS route (topic, version, due, lease, n)
LEFT JOIN LATERAL (
    SELECT available_at AS at FROM "public"."outbox" AS o
    WHERE o.topic = route.topic AND o.version = route.version AND o.state = 'pending' AND o.unsettled = 0
        AND o.available_at >= GREATEST(timestamptz 'epoch', timestamptz 'epoch' + route.due * interval '1 microsecond')
    ORDER BY available_at LIMIT 1
) AS pending ON true
LEFT JOIN LATERAL (
    SELECT leased_until AS at FROM "public"."outbox" AS o
    WHERE o.topic = route.topic AND o.version = route.version AND o.unsettled > 0
        AND o.leased_until >= GREATEST(timestamptz 'epoch', timestamptz 'epoch' + route.lease * interval '1 microsecond')
        AND o.leased_until <= CASE WHEN pending.at <= clock.now OR $4 IS NOT NULL THEN clock.now ELSE 'infinity' END
    ORDER BY leased_until LIMIT 1
) AS lease ON true
ORDER BY route.n"#;

/// The array makes the LIMIT exact: as `IN (SELECT ... LIMIT n)`, the planner may run the subselect
/// once per outer row, and each run skips what the last one locked.
const CLAIM: &str = concat!(
    r#"
UPDATE "public"."outbox" AS o
SET state = 'processing', attempts = o.attempts + 1, unsettled = 1, token = $4,
    leased_until = statement_timestamp() + $5 * interval '1 microsecond'
WHERE o.ctid = ANY(ARRAY(
        SELECT ctid FROM "public"."outbox"
        WHERE topic = $1 AND version = $2 AND state = 'pending' AND unsettled = 0
            AND available_at <= LEAST(statement_timestamp(), timestamptz 'epoch' + $6 * interval '1 microsecond')
            AND available_at >= GREATEST(timestamptz 'epoch', timestamptz 'epoch' + $7 * interval '1 microsecond')
        ORDER BY available_at, id
        LIMIT $3
        FOR UPDATE SKIP LOCKED))
    AND o.state = 'pending' AND o.unsettled = 0
"#,
    claimed_columns!()
);

const LAPSED: &str = r#"
SELECT id, attempts, unsettled FROM "public"."outbox"
WHERE topic = $1 AND version = $2 AND unsettled > 0 AND state IN ('pending', 'processing')
    AND leased_until <= LEAST(statement_timestamp(), timestamptz 'epoch' + $4 * interval '1 microsecond')
    AND leased_until >= GREATEST(timestamptz 'epoch', timestamptz 'epoch' + $5 * interval '1 microsecond')
ORDER BY leased_until, id
LIMIT $3
FOR UPDATE SKIP LOCKED"#;

const TAKE_OVER: &str = concat!(
    r#"
UPDATE "public"."outbox" AS o
SET state = 'processing', attempts = o.attempts + 1, unsettled = taken.unsettled, token = $3,
    leased_until = statement_timestamp() + $4 * interval '1 microsecond'
FROM unnest($1::uuid[], $2::int[]) AS taken (id, unsettled)
WHERE o.id = taken.id AND o.unsettled > 0 AND o.state IN ('pending', 'processing')
    AND o.leased_until <= statement_timestamp()
"#,
    claimed_columns!()
);

const GIVE_UP: &str = concat!(
    r#"
UPDATE "public"."outbox" AS o
SET state = 'dead', unsettled = 0, token = NULL, leased_until = NULL, settled_at = statement_timestamp(),
    "#,
    error_added!("$2::text"),
    r#"
WHERE o.id = ANY($1::uuid[]) AND o.unsettled > 0 AND o.state IN ('pending', 'processing')
    AND o.leased_until <= statement_timestamp()
RETURNING o.id"#
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            probe: render(PROBE),
            claim: render(CLAIM),
            lapsed: render(LAPSED),
            take_over: render(TAKE_OVER),
            give_up: render(GIVE_UP),
        }
    }
}

pub(super) const NOW: &str = "SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint";

pub(super) async fn now(session: &mut Connected) -> Result<i64, Error> {
    const DOING: &str = "asking for the time";
    let query = super::query(&session.outbox, &Arc::from(NOW));
    let row = session.run_for_one(query).await.doing(DOING)?;
    row.try_get(0).doing(DOING)
}

pub(super) async fn probe(
    session: &mut Connected,
    routes: &[Route],
    marks: &[Mark],
    cutoff: Option<i64>,
) -> Result<Probe, Error> {
    const DOING: &str = "looking for due messages";
    let topics: Vec<_> = routes.iter().map(|route| route.topic).collect();
    let versions: Vec<_> = routes.iter().map(|route| route.version).collect();
    let sql = &session.outbox.statements().postgres.claim.probe;
    let query = super::query(&session.outbox, sql)
        .bind(topics)
        .bind(versions)
        .bind(marks.iter().map(|mark| mark.due).collect::<Vec<_>>())
        .bind(cutoff)
        .bind(marks.iter().map(|mark| mark.lease).collect::<Vec<_>>());

    let rows = session.run(query).await.doing(DOING)?;

    probed(&rows).doing(DOING)
}

fn probed(rows: &[PgRow]) -> Result<Probe, sqlx::Error> {
    let mut probe = Probe::default();
    for (n, row) in rows.iter().enumerate() {
        probe.now = time_at(row, 0)?;
        probe.add(
            n,
            maybe_time_at(row, 1)?,
            maybe_time_at(row, 2)?,
            row.try_get(3)?,
        );
    }
    Ok(probe)
}

pub(super) async fn claim(session: &mut Connected, claim: &Claim) -> Result<Vec<Claimed>, Error> {
    const DOING: &str = "claiming messages";
    let sql = &session.outbox.statements().postgres.claim.claim;
    let query = super::query(&session.outbox, sql)
        .bind(claim.route.topic)
        .bind(claim.route.version)
        .bind(i64::from(claim.limit))
        .bind(claim.token)
        .bind(to_micros(claim.lease))
        .bind(claim.cutoff)
        .bind(claim.mark.due);

    let rows = session.run(query).await.doing(DOING)?;
    claimed(&rows, |_| 0).doing(DOING)
}

pub(super) async fn take_over(
    session: &mut Connected,
    claim: &Claim,
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, Error> {
    let outbox = session.outbox.clone();
    let lapsed = super::query(&outbox, &outbox.statements().postgres.claim.lapsed)
        .bind(claim.route.topic)
        .bind(claim.route.version)
        .bind(i64::from(claim.limit))
        .bind(claim.cutoff)
        .bind(claim.mark.lease);
    let mut tx = session.begin().await.doing(TAKING_OVER)?;
    let rows = lapsed.fetch_all(&mut *tx).await.doing(TAKING_OVER)?;
    let taken = take(&outbox, &mut tx, claim, &rows, retry, alone).await?;
    tx.commit().await.doing(TAKING_OVER)?;
    Ok(taken)
}

const TAKING_OVER: &str = "taking over lapsed messages";

/// Does with these lapsed rows, which are locked, what [`Plan::of`] says.
pub(super) async fn take(
    outbox: &Outbox,
    tx: &mut PgConnection,
    claim: &Claim,
    lapsed: &[PgRow],
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, Error> {
    let statements = &outbox.statements().postgres.claim;
    let lapsed = lapsed.iter().map(|row| {
        Ok((
            row.try_get(0)?,
            count(row.try_get::<i32, _>(1)?.into()),
            count(row.try_get::<i32, _>(2)?.into()),
        ))
    });
    let lapsed: Vec<(Uuid, u32, u32)> = lapsed
        .collect::<Result<_, sqlx::Error>>()
        .doing(TAKING_OVER)?;
    let plan = Plan::of(&lapsed, retry, alone);

    let mut taken = TakenOver {
        alone: plan.alone,
        waiting: plan.waiting,
        ..TakenOver::default()
    };
    if !plan.run.is_empty() {
        let (ids, unsettled): (Vec<_>, Vec<_>) = plan
            .run
            .iter()
            .map(|run| (run.id, stored(run.unsettled)))
            .unzip();
        let rows = super::query(outbox, &statements.take_over)
            .bind(ids)
            .bind(unsettled)
            .bind(claim.token)
            .bind(to_micros(claim.lease))
            .fetch_all(&mut *tx)
            .await
            .doing(TAKING_OVER)?;
        taken.rows = claimed(&rows, |id| plan.unsettled_before(id)).doing(TAKING_OVER)?;
    }
    for (text, ids) in plan.dead_by_text() {
        let rows = super::query(outbox, &statements.give_up)
            .bind(ids)
            .bind(text);
        let rows = rows.fetch_all(&mut *tx).await.doing(TAKING_OVER)?;
        for row in &rows {
            taken.dead.push(row.try_get(0).doing(TAKING_OVER)?);
        }
    }
    Ok(taken)
}

/// Reads claimed rows and puts them back into claim order: RETURNING has an order of its own.
pub(super) fn claimed(
    rows: &[PgRow],
    unsettled_before: impl Fn(Uuid) -> u32,
) -> Result<Vec<Claimed>, sqlx::Error> {
    let mut claimed = rows
        .iter()
        .map(|row| {
            let id = row.try_get(0)?;
            let (due_at, now) = (time_at(row, 6)?, time_at(row, 7)?);
            Ok(Claimed {
                id,
                key: row.try_get(1)?,
                payload: json(row, 2)?.unwrap_or_default(),
                headers: json(row, 3)?,
                attempts: count(row.try_get::<i32, _>(4)?.into()),
                unsettled_before: unsettled_before(id),
                created_at: time(time_at(row, 5)?),
                unreadable: false,
                due_at,
                late: now - due_at,
            })
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    claimed.sort_by_key(|row| (row.due_at, row.id));
    Ok(claimed)
}
