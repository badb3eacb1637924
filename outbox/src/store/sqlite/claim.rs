//! Probe, claim and take-over.

use std::sync::Arc;

use serde_json::json;
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    super::{
        Claim, Claimed, Probe, Route, TakenOver,
        row::{count, routes_json},
        take_over::Plan,
    },
    Connected, now,
    values::{millis, text, time, uuid},
};
use crate::{Error, Outbox, error::Doing as _, lifecycle::Retry};

#[derive(Debug)]
pub(super) struct Statements {
    probe: Arc<str>,
    claim: Arc<str>,
    lapsed: Arc<str>,
    take_over: Arc<str>,
    give_up: Arc<str>,
}

/// One descent of each index per route. In milliseconds.
const PROBE: &str = concat!(
    r#"
SELECT min(clock.now, ifnull(?2, clock.now)),
    (SELECT available_at FROM "main"."outbox" AS o
     WHERE o.topic = route.value->>0 AND o.version = route.value->>1 AND o.state = 'pending' AND o.unsettled = 0
     ORDER BY available_at LIMIT 1),
    (SELECT leased_until FROM "main"."outbox" AS o
     WHERE o.topic = route.value->>0 AND o.version = route.value->>1 AND o.unsettled > 0
     ORDER BY leased_until LIMIT 1),
    EXISTS (SELECT 1 FROM "main"."outbox_paused" AS paused WHERE paused.topic = route.value->>0)
FROM json_each(?1) AS route, (SELECT "#,
    now!(),
    r#" AS now) AS clock
ORDER BY route.key"#
);

const CLAIM: &str = concat!(
    r#"
UPDATE "main"."outbox"
SET state = 'processing', attempts = attempts + 1, unsettled = 1, token = ?4, leased_until = "#,
    now!(),
    r#" + ?5
WHERE id IN (
        SELECT id FROM "main"."outbox"
        WHERE topic = ?1 AND version = ?2 AND state = 'pending' AND unsettled = 0
            AND available_at <= min("#,
    now!(),
    ", ifnull(?6, ",
    now!(),
    r#"))
        ORDER BY available_at, id
        LIMIT ?3)
    AND state = 'pending' AND unsettled = 0
RETURNING id, key, payload, headers, attempts, created_at, available_at, "#,
    now!()
);

const LAPSED: &str = concat!(
    r#"
SELECT id, attempts, unsettled FROM "main"."outbox"
WHERE topic = ?1 AND version = ?2 AND unsettled > 0 AND state IN ('pending', 'processing')
    AND leased_until <= min("#,
    now!(),
    ", ifnull(?4, ",
    now!(),
    r#"))
ORDER BY leased_until, id
LIMIT ?3"#
);

const TAKE_OVER: &str = concat!(
    r#"
UPDATE "main"."outbox" AS o
SET state = 'processing', attempts = o.attempts + 1, unsettled = taken.value->>1, token = ?2,
    leased_until = "#,
    now!(),
    r#" + ?3
FROM json_each(?1) AS taken
WHERE o.id = taken.value->>0 AND o.unsettled > 0 AND o.state IN ('pending', 'processing')
    AND o.leased_until <= "#,
    now!(),
    r#"
RETURNING id, key, payload, headers, attempts, created_at, available_at, "#,
    now!()
);

const GIVE_UP: &str = concat!(
    r#"
UPDATE "main"."outbox"
SET state = 'dead', unsettled = 0, token = NULL, leased_until = NULL, settled_at = "#,
    now!(),
    r#",
    errors = json_insert(CASE WHEN json_array_length(errors) >= 10 THEN json_remove(errors, '$[0]') ELSE errors END,
        '$[#]', json_object('attempt', attempts, 'at', "#,
    now!(),
    r#", 'text', ?2))
WHERE id IN (SELECT value FROM json_each(?1)) AND unsettled > 0 AND state IN ('pending', 'processing')
    AND leased_until <= "#,
    now!(),
    r#"
RETURNING id"#
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

pub(super) const NOW: &str = concat!("SELECT ", now!());

pub(super) async fn now(session: &mut Connected) -> Result<i64, Error> {
    let row = sqlx::query(NOW)
        .fetch_one(&mut session.connection)
        .await
        .doing("asking for the time")?;
    Ok(row.try_get::<i64, _>(0).doing("asking for the time")? * 1_000)
}

/// Changes whenever another connection commits to the file, in this process or in another one.
pub(super) async fn data_version(connection: &mut SqliteConnection) -> Result<i64, Error> {
    let row = sqlx::query("PRAGMA data_version")
        .fetch_one(connection)
        .await;
    row.and_then(|row| row.try_get(0))
        .doing("watching for messages")
}

pub(super) async fn probe(
    session: &mut Connected,
    routes: &[Route],
    cutoff: Option<i64>,
) -> Result<Probe, Error> {
    const DOING: &str = "looking for due messages";
    // Read before the probe: what is committed after it must count as a change.
    session.data_version = data_version(&mut session.connection).await?;
    let query = super::query(&session.outbox.statements().sqlite.claim.probe)
        .bind(routes_json(routes))
        .bind(cutoff.map(|cutoff| cutoff / 1_000));
    let rows = query
        .fetch_all(&mut session.connection)
        .await
        .doing(DOING)?;
    probed(&rows).doing(DOING)
}

fn probed(rows: &[SqliteRow]) -> Result<Probe, sqlx::Error> {
    let mut probe = Probe::default();
    for (n, row) in rows.iter().enumerate() {
        let micros = |column: usize| {
            let millis = row.try_get::<Option<i64>, _>(column)?;
            Ok::<_, sqlx::Error>(millis.map(|millis| millis.saturating_mul(1_000)))
        };
        probe.now = micros(0)?.unwrap_or_default();
        probe.add(n, micros(1)?, micros(2)?, row.try_get(3)?);
    }
    Ok(probe)
}

pub(super) async fn claim(session: &mut Connected, claim: &Claim) -> Result<Vec<Claimed>, Error> {
    const DOING: &str = "claiming messages";
    let query = super::query(&session.outbox.statements().sqlite.claim.claim)
        .bind(claim.route.topic)
        .bind(claim.route.version)
        .bind(claim.limit)
        .bind(claim.token.to_string())
        .bind(millis(claim.lease))
        .bind(claim.cutoff.map(|cutoff| cutoff / 1_000));

    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    let mut tx = session.begin().await.doing(DOING)?;
    let rows = query.fetch_all(&mut *tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    claimed(&rows, |_| 0).doing(DOING)
}

pub(super) async fn take_over(
    session: &mut Connected,
    claim: &Claim,
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, Error> {
    let outbox = session.outbox.clone();
    let lapsed = super::query(&outbox.statements().sqlite.claim.lapsed)
        .bind(claim.route.topic)
        .bind(claim.route.version)
        .bind(claim.limit)
        .bind(claim.cutoff.map(|cutoff| cutoff / 1_000));
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    let mut tx = session.begin().await.doing(TAKING_OVER)?;
    let rows = lapsed.fetch_all(&mut *tx).await.doing(TAKING_OVER)?;
    let taken = take(&outbox, &mut tx, claim, &rows, retry, alone).await?;
    tx.commit().await.doing(TAKING_OVER)?;
    Ok(taken)
}

const TAKING_OVER: &str = "taking over lapsed messages";

/// Does with these lapsed rows what [`Plan::of`] says.
pub(super) async fn take(
    outbox: &Outbox,
    tx: &mut SqliteConnection,
    claim: &Claim,
    lapsed: &[SqliteRow],
    retry: &Retry,
    alone: bool,
) -> Result<TakenOver, Error> {
    let statements = &outbox.statements().sqlite.claim;
    let lapsed = lapsed.iter().map(|row| {
        Ok((
            uuid(row, 0)?,
            count(row.try_get(1)?),
            count(row.try_get(2)?),
        ))
    });
    let lapsed: Vec<_> = lapsed
        .collect::<Result<_, sqlx::Error>>()
        .doing(TAKING_OVER)?;
    let plan = Plan::of(&lapsed, retry, alone);

    let mut taken = TakenOver {
        alone: plan.alone,
        waiting: plan.waiting,
        ..TakenOver::default()
    };
    if !plan.run.is_empty() {
        let run = plan.run.iter().map(|run| json!([run.id, run.unsettled]));
        let rows = super::query(&statements.take_over)
            .bind(serde_json::Value::from_iter(run).to_string())
            .bind(claim.token.to_string())
            .bind(millis(claim.lease))
            .fetch_all(&mut *tx)
            .await
            .doing(TAKING_OVER)?;
        taken.rows = claimed(&rows, |id| plan.unsettled_before(id)).doing(TAKING_OVER)?;
    }
    for (text, ids) in plan.dead_by_text() {
        let rows = super::query(&statements.give_up)
            .bind(json!(ids).to_string())
            .bind(text);
        for row in &rows.fetch_all(&mut *tx).await.doing(TAKING_OVER)? {
            taken.dead.push(uuid(row, 0).doing(TAKING_OVER)?);
        }
    }
    Ok(taken)
}

/// Reads claimed rows and puts them back into claim order: RETURNING has an order of its own.
pub(super) fn claimed(
    rows: &[SqliteRow],
    unsettled_before: impl Fn(Uuid) -> u32,
) -> Result<Vec<Claimed>, sqlx::Error> {
    let mut claimed = rows
        .iter()
        .map(|row| {
            let id = uuid(row, 0)?;
            let texts = [text(row, 1)?, text(row, 2)?, text(row, 3)?];
            let unreadable = texts.iter().any(Result::is_err);
            let [key, payload, headers] = texts.map(Result::unwrap_or_default);
            let (due_at, now): (i64, i64) = (row.try_get(6)?, row.try_get(7)?);
            Ok(Claimed {
                id,
                key,
                payload: payload.unwrap_or_default(),
                headers,
                attempts: count(row.try_get(4)?),
                unsettled_before: unsettled_before(id),
                created_at: time(row.try_get(5)?),
                unreadable,
                due_at: due_at.saturating_mul(1_000),
                late: now.saturating_sub(due_at).saturating_mul(1_000),
            })
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    claimed.sort_by_key(|row| (row.due_at, row.id));
    Ok(claimed)
}
