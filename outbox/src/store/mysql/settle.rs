//! Renewal and settle: what happens to a row while and after it is leased.
//!
//! No statement returns what it has changed. So the rows are locked and read first, and changed then by
//! statements that repeat what they rely on all the same. A lock that somebody else has is not waited for: the
//! server counts such waits in whole seconds.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use uuid::Uuid;

use super::{
    super::{LeaseId, Renewed, Settlement, Verdict},
    Query, ended,
    retried::retried,
    session::Connected,
    values::{ahead, error_added, hex, now, stored, text_type},
};
use crate::{Error, Outbox, error::Doing as _, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    free: Arc<str>,
    held: Arc<str>,
    renew: Arc<str>,
    lock: Arc<str>,
    delete: Arc<str>,
    keep: Arc<str>,
    retry: Arc<str>,
    dead: Arc<str>,
    give_back: Arc<str>,
}

/// The rows of these leases. Binds a JSON array of arrays that begin with an id and a token.
macro_rules! by_leases {
    () => {
        concat!(
            "JSON_TABLE(?, '$[*]' COLUMNS (
    id CHAR(32) PATH '$[0]', token CHAR(32) PATH '$[1]', text ",
            text_type!(),
            " PATH '$[2]', delay BIGINT PATH '$[3]',
    attempts INT PATH '$[4]', unsettled INT PATH '$[5]')) AS lease
STRAIGHT_JOIN `outbox` AS o FORCE INDEX (PRIMARY) ON o.id = UNHEX(lease.id)"
        )
    };
}

macro_rules! held {
    () => {
        "\nWHERE o.token = UNHEX(lease.token) AND o.state = 'processing'"
    };
}

macro_rules! leases {
    ($lock:literal) => {
        concat!(
            "SELECT o.id, o.token FROM ",
            by_leases!(),
            held!(),
            "\n",
            $lock
        )
    };
}

const RENEW: &str = concat!(
    "UPDATE ",
    by_leases!(),
    "\nSET o.leased_until = ",
    ahead!(),
    held!()
);

const DELETE: &str = concat!("DELETE o FROM ", by_leases!(), held!());

macro_rules! settle {
    ($($change:expr),+) => {
        concat!("UPDATE ", by_leases!(), "\nSET o.token = NULL, ", $($change),+, held!())
    };
}

const KEEP: &str = settle!(
    "o.state = 'delivered', o.unsettled = 0, o.leased_until = NULL, o.settled_at = ",
    now!()
);

const RETRY: &str = settle!(
    "o.state = 'pending', o.unsettled = 0, o.leased_until = NULL,
    o.available_at = ",
    now!(),
    " + INTERVAL lease.delay MICROSECOND, ",
    error_added!("lease.text")
);

const DEAD: &str = settle!(
    "o.state = 'dead', o.unsettled = 0, o.leased_until = NULL, o.settled_at = ",
    now!(),
    ", ",
    error_added!("lease.text")
);

/// A row that had been left unsettled before goes back to whoever takes over lapsed leases.
const GIVE_BACK: &str = settle!(
    "o.state = 'pending', o.attempts = lease.attempts, o.unsettled = lease.unsettled,
    o.leased_until = IF(lease.unsettled > 0, ",
    now!(),
    ", NULL)"
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            free: render(leases!("FOR UPDATE SKIP LOCKED")),
            held: render(leases!("")),
            renew: render(RENEW),
            lock: render(leases!("FOR UPDATE NOWAIT")),
            delete: render(DELETE),
            keep: render(KEEP),
            retry: render(RETRY),
            dead: render(DEAD),
            give_back: render(GIVE_BACK),
        }
    }
}

fn json_of(leases: impl IntoIterator<Item = LeaseId>) -> String {
    let leases = leases
        .into_iter()
        .map(|(id, token)| json!([hex(id), hex(token)]));
    Value::from_iter(leases).to_string()
}

fn lease_ids(rows: &[MySqlRow]) -> Result<Vec<LeaseId>, sqlx::Error> {
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

const RENEWING: &str = "renewing leases";

pub(super) async fn renew(
    session: &mut Connected,
    leases: &[LeaseId],
    lease: Duration,
) -> Result<Renewed, Error> {
    retried!(session.patience, "renew", try_renew(session, leases, lease))
}

async fn try_renew(
    session: &mut Connected,
    leases: &[LeaseId],
    lease: Duration,
) -> Result<Renewed, Error> {
    let outbox = session.outbox.clone();
    let mut tx = session.begin().await.doing(RENEWING)?;
    let renewed = move_deadlines(&outbox, &mut tx, leases, lease).await;
    ended(tx, renewed).await.doing(RENEWING)
}

async fn move_deadlines(
    outbox: &Outbox,
    tx: &mut MySqlConnection,
    leases: &[LeaseId],
    lease: Duration,
) -> Result<Renewed, sqlx::Error> {
    let statements = &outbox.statements().mysql.settle;
    let free = super::query(&statements.free).bind(json_of(leases.iter().copied()));
    let moved = lease_ids(&free.fetch_all(&mut *tx).await?)?;
    if !moved.is_empty() {
        super::query(&statements.renew)
            .bind(json_of(moved.iter().copied()))
            .bind(to_micros(lease))
            .execute(&mut *tx)
            .await?;
    }
    let seen: HashSet<LeaseId> = moved.iter().copied().collect();
    let others: Vec<_> = leases
        .iter()
        .copied()
        .filter(|lease| !seen.contains(lease))
        .collect();
    let mut locked = Vec::new();
    if !others.is_empty() {
        let held = super::query(&statements.held).bind(json_of(others));
        locked = lease_ids(&held.fetch_all(tx).await?)?;
    }
    Ok(Renewed { moved, locked })
}

const SETTLING: &str = "settling messages";

pub(super) async fn settle(
    session: &mut Connected,
    batch: &[Settlement],
) -> Result<Vec<Uuid>, Error> {
    retried!(session.patience, "settle", try_settle(session, batch))
}

async fn try_settle(session: &mut Connected, batch: &[Settlement]) -> Result<Vec<Uuid>, Error> {
    let outbox = session.outbox.clone();
    let mut sorted = Sorted::default();
    for settlement in batch {
        sorted.add(settlement);
    }
    let lock = super::query(&outbox.statements().mysql.settle.lock)
        .bind(json_of(batch.iter().map(|settlement| settlement.lease)));
    let mut tx = session.begin().await.doing(SETTLING)?;
    let settled = sorted.settle(&outbox, &mut tx, lock).await;
    ended(tx, settled).await.doing(SETTLING)
}

/// A batch by verdict, as the JSON arrays that the statements take.
#[derive(Default)]
struct Sorted {
    delivered: Vec<Value>,
    kept: Vec<Value>,
    retry: Vec<Value>,
    dead: Vec<Value>,
    give_back: Vec<Value>,
}

impl Sorted {
    fn add(&mut self, settlement: &Settlement) {
        let (id, token) = settlement.lease;
        let (id, token) = (hex(id), hex(token));
        match &settlement.verdict {
            Verdict::Delivered => self.delivered.push(json!([id, token])),
            Verdict::Kept => self.kept.push(json!([id, token])),
            Verdict::Retry { delay, text } => {
                self.retry.push(json!([id, token, text, to_micros(*delay)]));
            }
            Verdict::Dead { text } => self.dead.push(json!([id, token, text])),
            Verdict::GiveBack {
                attempts,
                unsettled,
            } => self.give_back.push(json!([
                id,
                token,
                null,
                null,
                stored(*attempts),
                stored(*unsettled)
            ])),
        }
    }

    async fn settle(
        self,
        outbox: &Outbox,
        tx: &mut MySqlConnection,
        lock: Query,
    ) -> Result<Vec<Uuid>, sqlx::Error> {
        let held = lease_ids(&lock.fetch_all(&mut *tx).await?)?;
        let statements = &outbox.statements().mysql.settle;
        for (sql, settled) in [
            (&statements.delete, self.delivered),
            (&statements.keep, self.kept),
            (&statements.retry, self.retry),
            (&statements.dead, self.dead),
            (&statements.give_back, self.give_back),
        ] {
            if !settled.is_empty() {
                super::query(sql)
                    .bind(Value::from(settled).to_string())
                    .execute(&mut *tx)
                    .await?;
            }
        }
        Ok(held.into_iter().map(|(id, _)| id).collect())
    }
}
