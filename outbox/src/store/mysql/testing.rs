//! What only the test kit asks.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{MySqlConnection, Row as _};
use uuid::Uuid;

use super::{
    super::{
        Claim, TakenOver,
        row::count,
        testing::{Standing, Testing, Waiting},
    },
    Mysql,
    claim::{CLAIM, claim_due, claimed_columns, take},
    ended,
    values::{dedup_key, micros, now},
};
use crate::{Error, MessageState, Outbox, error::Doing as _, lifecycle::Retry, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    waiting: Arc<str>,
    look: Arc<str>,
    due: Arc<str>,
    claim: Arc<str>,
    lapsed: Arc<str>,
    lapse: Arc<str>,
    advance: [Advance; 5],
}

/// A statement, and how often it takes the microseconds and the milliseconds.
#[derive(Debug)]
struct Advance {
    sql: Arc<str>,
    micros: usize,
    millis: usize,
}

const WAITING: &str = "
SELECT id, `key`, payload, headers, dedup_key, TIMESTAMPDIFF(MICROSECOND, created_at, available_at)
FROM `outbox`
WHERE topic = ? AND version = ? AND state IN ('pending', 'processing')
ORDER BY created_at, id";

const LOOK: &str = concat!(
    "
SELECT topic, version, state, unsettled, TIMESTAMPDIFF(MICROSECOND, ",
    now!(),
    ", available_at), TIMESTAMPDIFF(MICROSECOND, ",
    now!(),
    ", leased_until), errors
FROM `outbox` WHERE id = ?"
);

/// A row that somebody has locked is left to them, as by every claim.
const DUE: &str = concat!(
    "SELECT ",
    claimed_columns!(),
    " FROM `outbox` AS o
WHERE o.id = ? AND o.state = 'pending' AND o.unsettled = 0 AND o.available_at <= ",
    now!(),
    " FOR UPDATE SKIP LOCKED"
);

const LAPSED: &str = concat!(
    "SELECT id, attempts, unsettled FROM `outbox`
WHERE id = ? AND unsettled > 0 AND state IN ('pending', 'processing') AND leased_until <= ",
    now!(),
    " FOR UPDATE SKIP LOCKED"
);

const LAPSE: &str = concat!(
    "UPDATE `outbox` SET token = ?, leased_until = ",
    now!(),
    " + INTERVAL 1000 MICROSECOND WHERE id = ? AND unsettled > 0 AND state = 'processing'"
);

/// A time so many microseconds earlier, where there is one; the tables hold none before 1970.
macro_rules! earlier {
    ($column:literal) => {
        concat!(
            $column,
            " = GREATEST(",
            $column,
            " - INTERVAL ? MICROSECOND, '1970-01-01')"
        )
    };
}

/// The same of the failures, of which a row keeps ten; what is not there is left out.
macro_rules! errors_earlier {
    ($($n:literal)+) => {
        concat!(
            "errors = JSON_REPLACE(errors",
            $(
                ", '$[", $n, "].at', CAST(GREATEST(JSON_EXTRACT(errors, '$[", $n, "].at') - ?, 0) AS SIGNED)"
            ),+,
            ")"
        )
    };
    () => {
        errors_earlier!(0 1 2 3 4 5 6 7 8 9)
    };
}

const ADVANCE: [(&str, usize, usize); 5] = [
    (
        concat!(
            "UPDATE `outbox` SET ",
            earlier!("available_at"),
            ", ",
            earlier!("leased_until"),
            ", ",
            earlier!("created_at"),
            ", ",
            earlier!("settled_at"),
            ", ",
            errors_earlier!()
        ),
        4,
        10,
    ),
    (
        concat!(
            "UPDATE `outbox_relays` SET ",
            earlier!("started_at"),
            ", ",
            earlier!("seen_at")
        ),
        2,
        0,
    ),
    (
        concat!("UPDATE `outbox_paused` SET ", earlier!("paused_at")),
        1,
        0,
    ),
    (
        concat!("UPDATE `outbox_duties` SET ", earlier!("held_until")),
        1,
        0,
    ),
    (
        concat!(
            "UPDATE `outbox_discarded` SET ",
            earlier!("created_at"),
            ", ",
            earlier!("died_at"),
            ", ",
            earlier!("discarded_at"),
            ", ",
            errors_earlier!()
        ),
        3,
        10,
    ),
];

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            waiting: render(WAITING),
            look: render(LOOK),
            due: render(DUE),
            claim: render(CLAIM),
            lapsed: render(LAPSED),
            lapse: render(LAPSE),
            advance: ADVANCE.map(|(sql, micros, millis)| Advance {
                sql: render(sql),
                micros,
                millis,
            }),
        }
    }
}

pub(crate) async fn waiting(
    outbox: &Outbox,
    connection: &mut MySqlConnection,
    topic: &'static str,
    version: i64,
) -> Result<Vec<Waiting>, Error> {
    const DOING: &str = "reading what was published";
    let query = super::query(&outbox.statements().mysql.testing.waiting)
        .bind(topic)
        .bind(version);
    let rows = query.fetch_all(connection).await.doing(DOING)?;
    let waiting = rows.iter().map(|row| {
        let dedup_key = dedup_key(row, 4)?;
        Ok(Waiting {
            id: row.try_get(0)?,
            key: row.try_get(1)?,
            payload: row.try_get(2)?,
            headers: row.try_get(3)?,
            unreadable: dedup_key.is_err(),
            dedup_key: dedup_key.unwrap_or_default(),
            delay: row.try_get(5)?,
        })
    });
    waiting.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

impl Testing for Mysql {
    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Standing>, Error>> {
        const DOING: &str = "looking at a message";
        Box::pin(async move {
            let query = super::query(&self.statements().testing.look).bind(id);
            let row = query.fetch_optional(&self.pool).await.doing(DOING)?;
            let standing = row.map(|row| {
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
            let mut connection = self.pool.acquire().await.doing(DOING)?;
            let mut tx = super::begin(&mut connection).await.doing(DOING)?;
            let taken = async {
                let due = super::query(&statements.due).bind(id);
                let rows = claim_due(&mut tx, due, &statements.claim, claim).await?;
                if rows.is_empty() {
                    let lapsed = super::query(&statements.lapsed).bind(id);
                    return take(&self.outbox, &mut tx, claim, lapsed, retry, true).await;
                }
                Ok(TakenOver {
                    rows,
                    ..TakenOver::default()
                })
            };
            let taken = taken.await;
            ended(tx, taken).await.doing(DOING)
        })
    }

    fn lapse(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let query = super::query(&self.statements().testing.lapse)
                .bind(Uuid::new_v4())
                .bind(id);
            query
                .execute(&self.pool)
                .await
                .doing("ending a lease")
                .map(|_| ())
        })
    }

    fn advance(&self, by: Duration) -> BoxFuture<'_, Result<(), Error>> {
        const DOING: &str = "moving the clock";
        Box::pin(async move {
            let by = to_micros(by);
            let mut connection = self.pool.acquire().await.doing(DOING)?;
            let mut tx = super::begin(&mut connection).await.doing(DOING)?;
            let advanced = async {
                for advance in &self.statements().testing.advance {
                    let mut query = super::query(&advance.sql);
                    for _ in 0..advance.micros {
                        query = query.bind(by);
                    }
                    for _ in 0..advance.millis {
                        query = query.bind(by / 1_000);
                    }
                    query.execute(&mut *tx).await?;
                }
                Ok(())
            };
            let advanced = advanced.await;
            ended(tx, advanced).await.doing(DOING)
        })
    }
}
