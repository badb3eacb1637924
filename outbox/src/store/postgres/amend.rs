//! Changing a message that waits, inside the caller's transaction.

use std::sync::Arc;

use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::{
    super::{Amended, Amendment, Target},
    listen::{Signals, Waking},
};
use crate::{Error, MessageState, Outbox, error::Doing as _};

#[derive(Debug)]
pub(super) struct Statements {
    by_id: Arc<str>,
    by_dedup_key: Arc<str>,
    cancel: Arc<str>,
    reschedule: Waking,
}

/// Waits for whoever has the row locked, and holds it until the caller's transaction ends: what is
/// said of its state stays true that long.
const BY_ID: &str = r#"SELECT id, state FROM "public"."outbox" WHERE id = $1 FOR UPDATE"#;

const BY_DEDUP_KEY: &str =
    r#"SELECT id, state FROM "public"."outbox" WHERE topic = $1 AND dedup_key = $2 FOR UPDATE"#;

const CANCEL: &str = r#"DELETE FROM "public"."outbox" WHERE id = $1 AND state = 'pending'"#;

/// A row that was left unsettled is due by its lease.
const RESCHEDULE: &str = r#"
UPDATE "public"."outbox" AS o
SET available_at = due.at, leased_until = CASE WHEN o.unsettled > 0 THEN due.at END
FROM (SELECT COALESCE(clock_timestamp() + $2 * interval '1 microsecond',
    GREATEST(clock_timestamp(), timestamptz 'epoch' + $3 * interval '1 microsecond')) AS at) AS due
WHERE o.id = $1 AND o.state = 'pending'
RETURNING o.id"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>, signals: Signals) -> Self {
        Self {
            by_id: render(BY_ID),
            by_dedup_key: render(BY_DEDUP_KEY),
            cancel: render(CANCEL),
            reschedule: Waking::new(render(RESCHEDULE), signals),
        }
    }
}

pub(crate) async fn amend(
    outbox: &Outbox,
    connection: &mut PgConnection,
    target: &Target,
    amendment: Amendment,
) -> Result<Amended, Error> {
    let doing = amendment.doing();
    let statements = &outbox.statements().postgres.amend;
    let find = match target {
        Target::Id(id) => super::query(outbox, &statements.by_id).bind(*id),
        Target::DedupKey { topic, key } => super::query(outbox, &statements.by_dedup_key)
            .bind(topic.clone())
            .bind(key.clone()),
    };
    let Some(row) = find.fetch_optional(&mut *connection).await.doing(doing)? else {
        return Ok(Amended::Not(None));
    };
    let id: Uuid = row.try_get(0).doing(doing)?;
    let state = MessageState::parse(row.try_get(1).doing(doing)?);
    if state != Some(MessageState::Pending) {
        return Ok(Amended::Not(state));
    }
    let query = match amendment {
        Amendment::Cancel => super::query(outbox, &statements.cancel).bind(id),
        Amendment::Reschedule(due) => {
            let (delay, at) = due.micros();
            super::query(outbox, statements.reschedule.of(outbox))
                .bind(id)
                .bind(delay)
                .bind(at)
        }
    };
    query.execute(connection).await.doing(doing)?;
    Ok(Amended::Done)
}
