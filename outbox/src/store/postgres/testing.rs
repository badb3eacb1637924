//! What only the test kit asks.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::{
    super::{
        Claim, TakenOver,
        row::count,
        testing::{Standing, Testing, Waiting},
    },
    Postgres,
    claim::{claimed, take},
    claimed_columns,
};
use crate::{Error, MessageState, Outbox, error::Doing as _, lifecycle::Retry, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    waiting: Arc<str>,
    look: Arc<str>,
    claim: Arc<str>,
    lapsed: Arc<str>,
    lapse: Arc<str>,
    advance: [Arc<str>; 5],
}

const WAITING: &str = r#"
SELECT id, key, payload::text, headers::text, dedup_key,
    (extract(epoch FROM available_at - created_at) * 1000000)::bigint
FROM "public"."outbox"
WHERE topic = $1 AND version = $2 AND state IN ('pending', 'processing')
ORDER BY created_at, id"#;

const LOOK: &str = r#"
SELECT topic, version, state, unsettled,
    (extract(epoch FROM available_at - statement_timestamp()) * 1000000)::bigint,
    (extract(epoch FROM leased_until - statement_timestamp()) * 1000000)::bigint,
    errors::text
FROM "public"."outbox"
WHERE id = $1"#;

/// A row that somebody has locked is left to them, as by every claim.
const CLAIM: &str = concat!(
    r#"
UPDATE "public"."outbox" AS o
SET state = 'processing', attempts = o.attempts + 1, unsettled = 1, token = $2,
    leased_until = statement_timestamp() + $3 * interval '1 microsecond'
WHERE o.id = ANY(ARRAY(SELECT id FROM "public"."outbox" WHERE id = $1 FOR UPDATE SKIP LOCKED))
    AND o.state = 'pending' AND o.unsettled = 0 AND o.available_at <= statement_timestamp()
"#,
    claimed_columns!()
);

const LAPSED: &str = r#"
SELECT id, attempts, unsettled FROM "public"."outbox"
WHERE id = $1 AND unsettled > 0 AND state IN ('pending', 'processing')
    AND leased_until <= statement_timestamp()
FOR UPDATE SKIP LOCKED"#;

const LAPSE: &str = r#"
UPDATE "public"."outbox"
SET token = $2, leased_until = statement_timestamp() + interval '1 millisecond'
WHERE id = $1 AND unsettled > 0 AND state = 'processing'"#;

/// A time so many microseconds earlier, where there is one; the tables hold none before 1970.
macro_rules! earlier {
    ($column:literal) => {
        concat!(
            $column,
            " = CASE WHEN ",
            $column,
            " IS NOT NULL THEN GREATEST(",
            $column,
            " - $1 * interval '1 microsecond', timestamptz 'epoch') END"
        )
    };
}

/// The same of the failures; one that is not of our form stays as it is.
macro_rules! errors_earlier {
    () => {
        "errors = (
        SELECT COALESCE(jsonb_agg(CASE
            WHEN jsonb_typeof(failure.value) = 'object' AND jsonb_typeof(failure.value -> 'at') = 'number'
            THEN jsonb_set(failure.value, '{at}',
                to_jsonb(GREATEST((failure.value ->> 'at')::numeric - $1 / 1000, 0)))
            ELSE failure.value END ORDER BY failure.n), '[]')
        FROM jsonb_array_elements(errors) WITH ORDINALITY AS failure (value, n))"
    };
}

/// Locks the rows in the order in which settles lock theirs.
const ADVANCE_MESSAGES: &str = concat!(
    r#"
WITH locked AS MATERIALIZED (SELECT id AS locked_id FROM "public"."outbox" ORDER BY id FOR UPDATE)
UPDATE "public"."outbox" SET "#,
    earlier!("available_at"),
    ", ",
    earlier!("leased_until"),
    ", ",
    earlier!("created_at"),
    ", ",
    earlier!("settled_at"),
    ", ",
    errors_earlier!(),
    " FROM locked WHERE id = locked_id"
);

const ADVANCE_RELAYS: &str = concat!(
    r#"UPDATE "public"."outbox_relays" SET "#,
    earlier!("started_at"),
    ", ",
    earlier!("seen_at")
);

const ADVANCE_PAUSED: &str = concat!(
    r#"UPDATE "public"."outbox_paused" SET "#,
    earlier!("paused_at")
);

const ADVANCE_DUTIES: &str = concat!(
    r#"UPDATE "public"."outbox_duties" SET "#,
    earlier!("held_until")
);

const ADVANCE_DISCARDED: &str = concat!(
    r#"UPDATE "public"."outbox_discarded" SET "#,
    earlier!("created_at"),
    ", ",
    earlier!("died_at"),
    ", ",
    earlier!("discarded_at"),
    ", ",
    errors_earlier!()
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            waiting: render(WAITING),
            look: render(LOOK),
            claim: render(CLAIM),
            lapsed: render(LAPSED),
            lapse: render(LAPSE),
            advance: [
                render(ADVANCE_MESSAGES),
                render(ADVANCE_RELAYS),
                render(ADVANCE_PAUSED),
                render(ADVANCE_DUTIES),
                render(ADVANCE_DISCARDED),
            ],
        }
    }
}

pub(crate) async fn waiting(
    outbox: &Outbox,
    connection: &mut PgConnection,
    topic: &'static str,
    version: i64,
) -> Result<Vec<Waiting>, Error> {
    const DOING: &str = "reading what was published";
    let query = super::query(outbox, &outbox.statements().postgres.testing.waiting)
        .bind(topic)
        .bind(version);
    let rows = query.fetch_all(connection).await.doing(DOING)?;
    let waiting = rows.iter().map(|row| {
        Ok(Waiting {
            id: row.try_get(0)?,
            key: row.try_get(1)?,
            payload: row.try_get(2)?,
            headers: row.try_get(3)?,
            dedup_key: row.try_get(4)?,
            delay: row.try_get(5)?,
            unreadable: false,
        })
    });
    waiting.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

impl Testing for Postgres {
    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Standing>, Error>> {
        const DOING: &str = "looking at a message";
        Box::pin(async move {
            let query = super::query(&self.outbox, &self.statements().testing.look).bind(id);
            let rows = self.run(query).await.doing(DOING)?;
            let standing = rows.first().map(|row| {
                Ok(Standing {
                    topic: row.try_get(0)?,
                    version: row.try_get(1)?,
                    state: MessageState::parse(row.try_get(2)?).unwrap_or(MessageState::Pending),
                    unsettled: count(row.try_get::<i32, _>(3)?.into()),
                    due_in: row.try_get(4)?,
                    leased_for: row.try_get(5)?,
                    errors: row.try_get(6)?,
                })
            });
            standing.transpose().doing(DOING)
        })
    }

    fn take_one<'a>(
        &'a self,
        claim: &'a Claim,
        retry: &'a Retry,
        id: Uuid,
    ) -> BoxFuture<'a, Result<TakenOver, Error>> {
        const DOING: &str = "claiming a message";
        Box::pin(async move {
            let statements = &self.statements().testing;
            let mut tx = self.begin().await.doing(DOING)?;
            let due = super::query(&self.outbox, &statements.claim)
                .bind(id)
                .bind(claim.token)
                .bind(to_micros(claim.lease));
            let due = due.fetch_all(&mut *tx).await.doing(DOING)?;
            let taken = if due.is_empty() {
                let lapsed = super::query(&self.outbox, &statements.lapsed).bind(id);
                let lapsed = lapsed.fetch_all(&mut *tx).await.doing(DOING)?;
                take(&self.outbox, &mut tx, claim, &lapsed, retry, true).await?
            } else {
                TakenOver {
                    rows: claimed(&due, |_| 0).doing(DOING)?,
                    ..TakenOver::default()
                }
            };
            tx.commit().await.doing(DOING)?;
            Ok(taken)
        })
    }

    fn lapse(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let query = super::query(&self.outbox, &self.statements().testing.lapse)
                .bind(id)
                .bind(Uuid::new_v4());
            self.run(query).await.doing("ending a lease")?;
            Ok(())
        })
    }

    fn advance(&self, by: Duration) -> BoxFuture<'_, Result<(), Error>> {
        const DOING: &str = "moving the clock";
        Box::pin(async move {
            let mut tx = self.begin().await.doing(DOING)?;
            for sql in &self.statements().testing.advance {
                let query = super::query(&self.outbox, sql).bind(to_micros(by));
                query.execute(&mut *tx).await.doing(DOING)?;
            }
            tx.commit().await.doing(DOING)
        })
    }
}
