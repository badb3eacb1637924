//! Changing a message that waits, inside the caller's transaction.

use std::sync::Arc;

use sqlx::{MySqlConnection, Row as _};

use super::{
    super::{Amended, Amendment, Target},
    Query,
    values::{ahead, now, time, topic},
};
use crate::{Error, MessageState, Outbox, error::Doing as _};

/// The statements for a row by its id, and by its dedup key: each finds it by a unique index, and locks no other.
#[derive(Debug)]
pub(super) struct Statements {
    cancel: [Arc<str>; 2],
    reschedule: [Arc<str>; 2],
    state: [Arc<str>; 2],
}

const BY: [&str; 2] = [
    "id = ?",
    concat!("topic = ", topic!(), " AND dedup_key = ?"),
];

const CANCEL: &str = "DELETE FROM `outbox` WHERE state = 'pending' AND ";

/// Binds a delay and a time, of which one is NULL.
macro_rules! due {
    () => {
        concat!(
            "IFNULL(",
            ahead!(),
            ", GREATEST(",
            now!(),
            ", ",
            time!(),
            "))"
        )
    };
}

/// A row that was left unsettled is due by its lease. Whether a later assignment sees what an earlier one has made
/// is a question of the session's mode.
const RESCHEDULE: &str = concat!(
    "
UPDATE `outbox`
SET available_at = ",
    due!(),
    ", leased_until = IF(unsettled > 0, ",
    due!(),
    ", NULL)
WHERE state = 'pending' AND "
);

/// As it is now, whatever the transaction has seen before.
const STATE: &str = "SELECT state FROM `outbox` WHERE ";

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        let both = |sql: &str, lock: &str| BY.map(|by| render(&format!("{sql}{by}{lock}")));
        Self {
            cancel: both(CANCEL, ""),
            reschedule: both(RESCHEDULE, ""),
            state: both(STATE, " LOCK IN SHARE MODE"),
        }
    }
}

pub(crate) async fn amend(
    outbox: &Outbox,
    connection: &mut MySqlConnection,
    target: &Target,
    amendment: Amendment,
) -> Result<Amended, Error> {
    let doing = amendment.doing();
    let statements = &outbox.statements().mysql.amend;
    let query = match amendment {
        Amendment::Cancel => super::query(of(&statements.cancel, target)),
        Amendment::Reschedule(due) => {
            let (delay, at) = due.micros();
            super::query(of(&statements.reschedule, target))
                .bind(delay)
                .bind(at)
                .bind(delay)
                .bind(at)
        }
    };
    let amended = bound(query, target).execute(&mut *connection).await;
    if amended.doing(doing)?.rows_affected() > 0 {
        if matches!(amendment, Amendment::Reschedule(_)) {
            outbox.published().send_replace(());
        }
        return Ok(Amended::Done);
    }
    let row = bound(super::query(of(&statements.state, target)), target)
        .fetch_optional(connection)
        .await
        .doing(doing)?;
    let state = row.map(|row| row.try_get::<&str, _>(0).map(MessageState::parse));
    Ok(Amended::Not(state.transpose().doing(doing)?.flatten()))
}

fn of<'s>(statements: &'s [Arc<str>; 2], target: &Target) -> &'s Arc<str> {
    let [by_id, by_key] = statements;
    match target {
        Target::Id(_) => by_id,
        Target::DedupKey { .. } => by_key,
    }
}

fn bound(query: Query, target: &Target) -> Query {
    match target {
        Target::Id(id) => query.bind(*id),
        Target::DedupKey { topic, key } => query.bind(topic.clone()).bind(key.clone().into_bytes()),
    }
}
