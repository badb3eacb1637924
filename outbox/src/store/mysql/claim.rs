//! Probe, claim and take-over.

use std::sync::Arc;

use serde_json::json;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use uuid::Uuid;

use super::{
    super::{Claim, Claimed, Probe, Route, TakenOver, row::count, take_over::Plan},
    Query, ended,
    retried::retried,
    session::Connected,
    values::{
        ahead, by_ids, error_added, hex, ids_json, micros, now, since_1970, stored, time, topic,
        until,
    },
};
use crate::{Error, Outbox, error::Doing as _, lifecycle::Retry, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    probe: Arc<str>,
    due: Arc<str>,
    claim: Arc<str>,
    lapsed: Arc<str>,
    take_over: Arc<str>,
    rows: Arc<str>,
    held: Arc<str>,
    give_up: Arc<str>,
}

/// Two descents of the index per route.
const PROBE: &str = concat!(
    "
SELECT ",
    micros!(until!()),
    ",
    ",
    micros!(
        "(SELECT o.phase_at FROM `outbox` AS o FORCE INDEX (phase)
        WHERE o.topic = ",
        topic!("route.topic"),
        " AND o.version = route.version AND o.phase = 'pending'
        ORDER BY o.phase_at LIMIT 1)"
    ),
    ",
    ",
    micros!(
        "(SELECT o.phase_at FROM `outbox` AS o FORCE INDEX (phase)
        WHERE o.topic = ",
        topic!("route.topic"),
        " AND o.version = route.version AND o.phase = 'leased'
        ORDER BY o.phase_at LIMIT 1)"
    ),
    ",
    EXISTS (SELECT 1 FROM `outbox_paused` AS paused WHERE paused.topic = ",
    topic!("route.topic"),
    ")
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    n FOR ORDINALITY, topic VARCHAR(255) PATH '$[0]', version INT PATH '$[1]')) AS route
ORDER BY route.n"
);

/// What [`claimed`] reads.
macro_rules! claimed_columns {
    () => {
        concat!(
            "o.id, o.`key`, o.payload, o.headers, o.attempts, ",
            micros!("o.created_at"),
            ", ",
            micros!("o.available_at"),
            ", ",
            micros!(now!())
        )
    };
}
#[cfg(feature = "testing")]
pub(super) use claimed_columns;

/// What is due, locked, as it stands before the claim.
const DUE: &str = concat!(
    "
SELECT ",
    claimed_columns!(),
    "
FROM `outbox` AS o FORCE INDEX (phase)
WHERE o.topic = ? AND o.version = ? AND o.phase = 'pending'
    AND o.phase_at <= ",
    until!(),
    " AND o.phase_at >= IFNULL(",
    time!(),
    ", '1970-01-01')
ORDER BY o.phase_at, o.id
LIMIT ?
FOR UPDATE SKIP LOCKED"
);

pub(super) const CLAIM: &str = concat!(
    "
UPDATE ",
    by_ids!(),
    "
SET o.state = 'processing', o.attempts = o.attempts + 1, o.unsettled = 1, o.token = ?, o.leased_until = ",
    ahead!(),
    "
WHERE o.state = 'pending' AND o.unsettled = 0"
);

const LAPSED: &str = concat!(
    "
SELECT o.id, o.attempts, o.unsettled
FROM `outbox` AS o FORCE INDEX (phase)
WHERE o.topic = ? AND o.version = ? AND o.phase = 'leased'
    AND o.phase_at <= ",
    until!(),
    "
ORDER BY o.phase_at, o.id
LIMIT ?
FOR UPDATE SKIP LOCKED"
);

const TAKE_OVER: &str = concat!(
    "
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id CHAR(32) PATH '$[0]', unsettled INT PATH '$[1]')) AS taken
STRAIGHT_JOIN `outbox` AS o FORCE INDEX (PRIMARY) ON o.id = UNHEX(taken.id)
SET o.state = 'processing', o.attempts = o.attempts + 1, o.unsettled = taken.unsettled, o.token = ?,
    o.leased_until = ",
    ahead!(),
    "
WHERE o.unsettled > 0 AND o.state IN ('pending', 'processing') AND o.leased_until <= ",
    now!()
);

/// The rows that this transaction has claimed.
const ROWS: &str = concat!(
    "SELECT ",
    claimed_columns!(),
    "\nFROM ",
    by_ids!(),
    "\nWHERE o.token = ? AND o.state = 'processing'"
);

/// Rows that are locked already; which of them may be given up.
const HELD: &str = concat!(
    "SELECT o.id FROM ",
    by_ids!(),
    "\nWHERE o.unsettled > 0 AND o.state IN ('pending', 'processing') AND o.leased_until <= ",
    now!(),
    "\nFOR UPDATE"
);

const GIVE_UP: &str = concat!(
    "
UPDATE ",
    by_ids!(),
    "
SET o.state = 'dead', o.unsettled = 0, o.token = NULL, o.leased_until = NULL, o.settled_at = ",
    now!(),
    ",
    ",
    error_added!("?"),
    "
WHERE o.unsettled > 0 AND o.state IN ('pending', 'processing') AND o.leased_until <= ",
    now!()
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            probe: render(PROBE),
            due: render(DUE),
            claim: render(CLAIM),
            lapsed: render(LAPSED),
            take_over: render(TAKE_OVER),
            rows: render(ROWS),
            held: render(HELD),
            give_up: render(GIVE_UP),
        }
    }
}

pub(super) const NOW: &str = concat!("SELECT ", micros!(now!()));

pub(super) async fn now(session: &mut Connected) -> Result<i64, Error> {
    let row = sqlx::query(NOW).fetch_one(session.connection()).await;
    row.and_then(|row| row.try_get(0))
        .doing("asking for the time")
}

/// No mark can be of use here: an index is not searched by a bound that differs by route.
pub(super) async fn probe(
    session: &mut Connected,
    routes: &[Route],
    cutoff: Option<i64>,
) -> Result<Probe, Error> {
    const DOING: &str = "looking for due messages";
    let listed: Vec<_> = routes
        .iter()
        .map(|route| json!([route.topic, route.version]))
        .collect();
    let query = super::query(&session.outbox.statements().mysql.claim.probe)
        .bind(cutoff)
        .bind(serde_json::Value::from(listed).to_string());
    let rows = query.fetch_all(session.connection()).await.doing(DOING)?;
    probed(&rows).doing(DOING)
}

fn probed(rows: &[MySqlRow]) -> Result<Probe, sqlx::Error> {
    let mut probe = Probe::default();
    for (n, row) in rows.iter().enumerate() {
        probe.now = row.try_get(0)?;
        probe.add(n, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    }
    Ok(probe)
}

pub(super) async fn claim(session: &mut Connected, claim: &Claim) -> Result<Vec<Claimed>, Error> {
    retried!(session.patience, "claim", try_claim(session, claim))
}

async fn try_claim(session: &mut Connected, claim: &Claim) -> Result<Vec<Claimed>, Error> {
    const DOING: &str = "claiming messages";
    let outbox = session.outbox.clone();
    let statements = &outbox.statements().mysql.claim;
    let due = super::query(&statements.due)
        .bind(claim.route.topic)
        .bind(claim.route.version)
        .bind(claim.cutoff)
        .bind(claim.mark.due)
        .bind(claim.limit);
    let mut tx = session.begin().await.doing(DOING)?;
    let claimed = claim_due(&mut tx, due, &statements.claim, claim).await;
    ended(tx, claimed).await.doing(DOING)
}

/// Claims the rows that a query finds and locks: they stay as it has seen them.
pub(super) async fn claim_due(
    tx: &mut MySqlConnection,
    due: Query,
    sql: &Arc<str>,
    claim: &Claim,
) -> Result<Vec<Claimed>, sqlx::Error> {
    let mut rows = claimed(&due.fetch_all(&mut *tx).await?, |_| 0)?;
    if rows.is_empty() {
        return Ok(rows);
    }
    for row in &mut rows {
        row.attempts += 1;
    }
    super::query(sql)
        .bind(ids_json(rows.iter().map(|row| row.id)))
        .bind(claim.token)
        .bind(to_micros(claim.lease))
        .execute(tx)
        .await?;
    Ok(rows)
}

const TAKING_OVER: &str = "taking over lapsed messages";

pub(super) async fn take_over(
    session: &mut Connected,
    claim: &Claim,
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, Error> {
    retried!(
        session.patience,
        "claim",
        try_take_over(session, claim, retry, alone)
    )
}

async fn try_take_over(
    session: &mut Connected,
    claim: &Claim,
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, Error> {
    let outbox = session.outbox.clone();
    let lapsed = super::query(&outbox.statements().mysql.claim.lapsed)
        .bind(claim.route.topic)
        .bind(claim.route.version)
        .bind(claim.cutoff)
        .bind(claim.limit);
    let mut tx = session.begin().await.doing(TAKING_OVER)?;
    let taken = take(&outbox, &mut tx, claim, lapsed, retry, alone).await;
    ended(tx, taken).await.doing(TAKING_OVER)
}

/// Does with the lapsed rows that a query finds and locks what [`Plan::of`] says.
pub(super) async fn take(
    outbox: &Outbox,
    tx: &mut MySqlConnection,
    claim: &Claim,
    lapsed: Query,
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, sqlx::Error> {
    let statements = &outbox.statements().mysql.claim;
    let lapsed = lapsed.fetch_all(&mut *tx).await?;
    let lapsed = lapsed.iter().map(|row| {
        Ok((
            row.try_get(0)?,
            count(row.try_get::<i32, _>(1)?.into()),
            count(row.try_get::<i32, _>(2)?.into()),
        ))
    });
    let lapsed: Vec<(Uuid, u32, u32)> = lapsed.collect::<Result<_, sqlx::Error>>()?;
    let plan = Plan::of(&lapsed, retry, alone);

    let mut taken = TakenOver {
        alone: plan.alone,
        waiting: plan.waiting,
        ..TakenOver::default()
    };
    if !plan.run.is_empty() {
        let run = plan
            .run
            .iter()
            .map(|run| json!([hex(run.id), stored(run.unsettled)]));
        super::query(&statements.take_over)
            .bind(serde_json::Value::from_iter(run).to_string())
            .bind(claim.token)
            .bind(to_micros(claim.lease))
            .execute(&mut *tx)
            .await?;
        let rows = super::query(&statements.rows)
            .bind(ids_json(plan.run.iter().map(|run| run.id)))
            .bind(claim.token)
            .fetch_all(&mut *tx)
            .await?;
        taken.rows = claimed(&rows, |id| plan.unsettled_before(id))?;
    }
    for (text, ids) in plan.dead_by_text() {
        let held = super::query(&statements.held).bind(ids_json(ids));
        let held = held.fetch_all(&mut *tx).await?;
        let held: Vec<Uuid> = held
            .iter()
            .map(|row| row.try_get(0))
            .collect::<Result<_, _>>()?;
        super::query(&statements.give_up)
            .bind(ids_json(held.iter().copied()))
            .bind(text)
            .execute(&mut *tx)
            .await?;
        taken.dead.extend(held);
    }
    Ok(taken)
}

/// Reads claimed rows, in claim order.
fn claimed(
    rows: &[MySqlRow],
    unsettled_before: impl Fn(Uuid) -> u32,
) -> Result<Vec<Claimed>, sqlx::Error> {
    let mut claimed = rows
        .iter()
        .map(|row| {
            let id = row.try_get(0)?;
            let (due_at, now): (i64, i64) = (row.try_get(6)?, row.try_get(7)?);
            Ok(Claimed {
                id,
                key: row.try_get(1)?,
                payload: row.try_get(2)?,
                headers: row.try_get(3)?,
                attempts: count(row.try_get::<i32, _>(4)?.into()),
                unsettled_before: unsettled_before(id),
                created_at: since_1970(row.try_get(5)?),
                unreadable: false,
                due_at,
                late: now.saturating_sub(due_at),
            })
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    claimed.sort_by_key(|row| (row.due_at, row.id));
    Ok(claimed)
}
