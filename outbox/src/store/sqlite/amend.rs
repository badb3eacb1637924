//! Changing a message that waits, inside the caller's transaction.

use std::sync::Arc;

use sqlx::{Row as _, SqliteConnection};

use super::{
    super::{Amended, Amendment, Target},
    now,
};
use crate::{Error, MessageState, Outbox, error::Doing as _};

#[derive(Debug)]
pub(super) struct Statements {
    cancel: Arc<str>,
    reschedule: Arc<str>,
    state: Arc<str>,
}

/// Binds ?1 to ?3; the last two are NULL for an id.
macro_rules! target {
    () => {
        "(id = ?1 OR (topic = ?2 AND dedup_key = ?3))"
    };
}

const CANCEL: &str = concat!(
    r#"DELETE FROM "main"."outbox" WHERE "#,
    target!(),
    " AND state = 'pending'"
);

/// A row that was left unsettled is due by its lease.
const RESCHEDULE: &str = concat!(
    r#"
UPDATE "main"."outbox" AS o
SET available_at = due.at, leased_until = CASE WHEN o.unsettled > 0 THEN due.at END
FROM (SELECT ifnull("#,
    now!(),
    " + ?4, max(",
    now!(),
    r#", ?5)) AS at) AS due
WHERE "#,
    target!(),
    " AND o.state = 'pending'"
);

const STATE: &str = concat!(r#"SELECT state FROM "main"."outbox" WHERE "#, target!());

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            cancel: render(CANCEL),
            reschedule: render(RESCHEDULE),
            state: render(STATE),
        }
    }
}

/// The writing statement comes first: it takes the file's write lock, so that what is said of the
/// state stays true until the caller's transaction ends.
pub(crate) async fn amend(
    outbox: &Outbox,
    connection: &mut SqliteConnection,
    target: &Target,
    amendment: Amendment,
) -> Result<Amended, Error> {
    let doing = amendment.doing();
    let statements = &outbox.statements().sqlite.amend;
    let found = |sql: &Arc<str>| {
        let (id, topic, key) = match target {
            Target::Id(id) => (Some(id.to_string()), None, None),
            Target::DedupKey { topic, key } => (None, Some(topic.clone()), Some(key.clone())),
        };
        super::query(sql).bind(id).bind(topic).bind(key)
    };
    let query = match amendment {
        Amendment::Cancel => found(&statements.cancel),
        Amendment::Reschedule(due) => {
            let (delay, at) = super::publish::millis(due);
            found(&statements.reschedule).bind(delay).bind(at)
        }
    };
    let amended = query.execute(&mut *connection).await.doing(doing)?;
    if amended.rows_affected() > 0 {
        return Ok(Amended::Done);
    }
    let row = found(&statements.state)
        .fetch_optional(connection)
        .await
        .doing(doing)?;
    let state = row.map(|row| row.try_get::<&str, _>(0).map(MessageState::parse));
    Ok(Amended::Not(state.transpose().doing(doing)?.flatten()))
}
