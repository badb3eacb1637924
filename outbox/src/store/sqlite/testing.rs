//! What only the test kit asks.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{Row as _, SqliteConnection, Transaction};
use uuid::Uuid;

use super::{
    super::{
        Claim, TakenOver,
        row::count,
        testing::{Standing, Testing, Waiting},
    },
    Sqlite,
    claim::{claimed, take},
    now,
    values::{millis, shown, text, uuid},
};
use crate::{Error, MessageState, Outbox, error::Doing as _, lifecycle::Retry};

#[derive(Debug)]
pub(super) struct Statements {
    waiting: Arc<str>,
    look: Arc<str>,
    claim: Arc<str>,
    lapsed: Arc<str>,
    lapse: Arc<str>,
    advance: [Arc<str>; 5],
}

/// A row gets a greater rowid than all that are there: the order of publishing, where many rows share a
/// millisecond.
const WAITING: &str = r#"
SELECT id, key, payload, headers, dedup_key, (available_at - created_at) * 1000
FROM "main"."outbox"
WHERE topic = ?1 AND version = ?2 AND state IN ('pending', 'processing')
ORDER BY rowid"#;

const LOOK: &str = concat!(
    "
SELECT topic, version, state, unsettled, (available_at - ",
    now!(),
    ") * 1000, (leased_until - ",
    now!(),
    r#") * 1000, errors
FROM "main"."outbox"
WHERE id = ?1"#
);

const CLAIM: &str = concat!(
    r#"
UPDATE "main"."outbox"
SET state = 'processing', attempts = attempts + 1, unsettled = 1, token = ?2, leased_until = "#,
    now!(),
    r#" + ?3
WHERE id = ?1 AND state = 'pending' AND unsettled = 0 AND available_at <= "#,
    now!(),
    r#"
RETURNING id, key, payload, headers, attempts, created_at, available_at, "#,
    now!()
);

const LAPSED: &str = concat!(
    r#"
SELECT id, attempts, unsettled FROM "main"."outbox"
WHERE id = ?1 AND unsettled > 0 AND state IN ('pending', 'processing') AND leased_until <= "#,
    now!()
);

const LAPSE: &str = concat!(
    r#"
UPDATE "main"."outbox" SET token = ?2, leased_until = "#,
    now!(),
    r#" + 1
WHERE id = ?1 AND unsettled > 0 AND state = 'processing'"#
);

/// A time so many milliseconds earlier, where there is one; the tables hold none before 1970.
macro_rules! earlier {
    ($column:literal) => {
        concat!($column, " = max(", $column, " - ?1, 0)")
    };
}

/// The same of the failures, of which a row keeps ten; `json_replace` leaves out what is not there.
macro_rules! errors_earlier {
    ($($n:literal)+) => {
        concat!(
            "errors = json_replace(errors",
            $(", '$[", $n, "].at', max((errors->>'$[", $n, "].at') - ?1, 0)"),+,
            ")"
        )
    };
    () => {
        errors_earlier!(0 1 2 3 4 5 6 7 8 9)
    };
}

const ADVANCE_MESSAGES: &str = concat!(
    r#"UPDATE "main"."outbox" SET "#,
    earlier!("available_at"),
    ", ",
    earlier!("leased_until"),
    ", ",
    earlier!("created_at"),
    ", ",
    earlier!("settled_at"),
    ", ",
    errors_earlier!()
);

const ADVANCE_RELAYS: &str = concat!(
    r#"UPDATE "main"."outbox_relays" SET "#,
    earlier!("started_at"),
    ", ",
    earlier!("seen_at")
);

const ADVANCE_PAUSED: &str = concat!(
    r#"UPDATE "main"."outbox_paused" SET "#,
    earlier!("paused_at")
);

const ADVANCE_DUTIES: &str = concat!(
    r#"UPDATE "main"."outbox_duties" SET "#,
    earlier!("held_until")
);

const ADVANCE_DISCARDED: &str = concat!(
    r#"UPDATE "main"."outbox_discarded" SET "#,
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
    connection: &mut SqliteConnection,
    topic: &'static str,
    version: i64,
) -> Result<Vec<Waiting>, Error> {
    const DOING: &str = "reading what was published";
    let query = super::query(&outbox.statements().sqlite.testing.waiting)
        .bind(topic)
        .bind(version);
    let rows = query.fetch_all(connection).await.doing(DOING)?;
    let waiting = rows.iter().map(|row| {
        let texts = [text(row, 1)?, text(row, 2)?, text(row, 3)?, text(row, 4)?];
        let unreadable = texts.iter().any(Result::is_err);
        let [key, payload, headers, dedup_key] = texts.map(Result::unwrap_or_default);
        Ok(Waiting {
            id: uuid(row, 0)?,
            key,
            payload: payload.unwrap_or_default(),
            headers,
            dedup_key,
            delay: row.try_get(5)?,
            unreadable,
        })
    });
    waiting.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

impl Sqlite {
    /// A writing transaction on one of the pool's connections.
    async fn begin_writing(&self) -> Result<Transaction<'_, sqlx::Sqlite>, sqlx::Error> {
        self.pool.begin_with("BEGIN IMMEDIATE").await
    }
}

impl Testing for Sqlite {
    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Standing>, Error>> {
        const DOING: &str = "looking at a message";
        Box::pin(async move {
            let query = super::query(&self.statements().testing.look).bind(id.to_string());
            let row = query.fetch_optional(&self.pool).await.doing(DOING)?;
            let standing = row.map(|row| {
                Ok(Standing {
                    topic: shown(&row, 0)?.unwrap_or_default(),
                    version: row.try_get(1)?,
                    state: MessageState::parse(row.try_get(2)?).unwrap_or(MessageState::Pending),
                    unsettled: count(row.try_get(3)?),
                    due_in: row.try_get(4)?,
                    leased_for: row.try_get(5)?,
                    errors: shown(&row, 6)?.unwrap_or_default(),
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
            let mut tx = self.begin_writing().await.doing(DOING)?;
            let due = super::query(&statements.claim)
                .bind(id.to_string())
                .bind(claim.token.to_string())
                .bind(millis(claim.lease));
            let due = due.fetch_all(&mut *tx).await.doing(DOING)?;
            let taken = if due.is_empty() {
                let lapsed = super::query(&statements.lapsed).bind(id.to_string());
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
        const DOING: &str = "ending a lease";
        Box::pin(async move {
            let query = super::query(&self.statements().testing.lapse)
                .bind(id.to_string())
                .bind(Uuid::new_v4().to_string());
            let mut tx = self.begin_writing().await.doing(DOING)?;
            query.execute(&mut *tx).await.doing(DOING)?;
            tx.commit().await.doing(DOING)
        })
    }

    fn advance(&self, by: Duration) -> BoxFuture<'_, Result<(), Error>> {
        const DOING: &str = "moving the clock";
        Box::pin(async move {
            let mut tx = self.begin_writing().await.doing(DOING)?;
            for sql in &self.statements().testing.advance {
                let query = super::query(sql).bind(millis(by));
                query.execute(&mut *tx).await.doing(DOING)?;
            }
            tx.commit().await.doing(DOING)
        })
    }
}
