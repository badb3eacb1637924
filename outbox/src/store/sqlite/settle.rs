//! Renewal and settle: what happens to a row while and after it is leased.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sqlx::{SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    super::{LeaseId, Renewed, Settlement, Verdict},
    Connected, now,
    values::{millis, uuid},
};
use crate::{Error, Outbox, error::Doing as _};

#[derive(Debug)]
pub(super) struct Statements {
    renew: Arc<str>,
    delete: Arc<str>,
    keep: Arc<str>,
    retry: Arc<str>,
    dead: Arc<str>,
    give_back: Arc<str>,
}

const RENEW: &str = concat!(
    r#"
UPDATE "main"."outbox" AS o
SET leased_until = "#,
    now!(),
    r#" + ?2
FROM json_each(?1) AS lease
WHERE o.id = lease.value->>0 AND o.token = lease.value->>1 AND o.state = 'processing'
RETURNING id, token"#
);

const DELETE: &str = r#"
DELETE FROM "main"."outbox"
WHERE id IN (SELECT value->>0 FROM json_each(?1))
    AND (id, token) IN (SELECT value->>0, value->>1 FROM json_each(?1))
    AND state = 'processing'
RETURNING id"#;

macro_rules! settle {
    ($($change:expr),+) => {
        concat!(
            r#"UPDATE "main"."outbox" AS o SET token = NULL, "#, $($change),+, r#"
FROM json_each(?1) AS settled
WHERE o.id = settled.value->>0 AND o.token = settled.value->>1 AND o.state = 'processing'
RETURNING id"#
        )
    };
}

macro_rules! error_added {
    () => {
        concat!(
            "errors = json_insert(
        CASE WHEN json_array_length(o.errors) >= 10 THEN json_remove(o.errors, '$[0]') ELSE o.errors END,
        '$[#]', json_object('attempt', o.attempts, 'at', ", now!(), ", 'text', settled.value->>2))"
        )
    };
}

const KEEP: &str = settle!(
    "state = 'delivered', unsettled = 0, leased_until = NULL, settled_at = ",
    now!()
);

const RETRY: &str = settle!(
    "state = 'pending', unsettled = 0, leased_until = NULL, available_at = ",
    now!(),
    " + (settled.value->>3), ",
    error_added!()
);

const DEAD: &str = settle!(
    "state = 'dead', unsettled = 0, leased_until = NULL, settled_at = ",
    now!(),
    ", ",
    error_added!()
);

/// A row that had been left unsettled before goes back to whoever takes over lapsed leases.
const GIVE_BACK: &str = settle!(
    "state = 'pending', attempts = settled.value->>2, unsettled = settled.value->>3,
    leased_until = CASE WHEN settled.value->>3 > 0 THEN ",
    now!(),
    " END"
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            renew: render(RENEW),
            delete: render(DELETE),
            keep: render(KEEP),
            retry: render(RETRY),
            dead: render(DEAD),
            give_back: render(GIVE_BACK),
        }
    }
}

pub(super) async fn renew(
    session: &mut Connected,
    leases: &[LeaseId],
    lease: Duration,
) -> Result<Renewed, Error> {
    const DOING: &str = "renewing leases";
    let query = super::query(&session.outbox.statements().sqlite.settle.renew)
        .bind(json!(leases).to_string())
        .bind(millis(lease));
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take_first().await;
    let mut tx = session.begin().await.doing(DOING)?;
    let rows = query.fetch_all(&mut *tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    let moved = rows
        .iter()
        .map(|row| Ok((uuid(row, 0)?, uuid(row, 1)?)))
        .collect::<Result<_, sqlx::Error>>()
        .doing(DOING)?;
    Ok(Renewed {
        moved,
        locked: Vec::new(),
    })
}

pub(super) async fn settle(
    session: &mut Connected,
    batch: &[Settlement],
) -> Result<Vec<Uuid>, Error> {
    const DOING: &str = "settling messages";
    let outbox = session.outbox.clone();
    let mut sorted = Sorted::default();
    for settlement in batch {
        sorted.add(settlement);
    }
    let turn = Arc::clone(&session.turn);
    let _turn = turn.take().await;
    let mut tx = session.begin().await.doing(DOING)?;
    let rows = sorted.run(&outbox, &mut tx).await.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    rows.iter()
        .map(|row| uuid(row, 0))
        .collect::<Result<_, _>>()
        .doing(DOING)
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
        let Settlement {
            lease: (id, token),
            verdict,
            ..
        } = settlement;
        match verdict {
            Verdict::Delivered => self.delivered.push(json!([id, token])),
            Verdict::Kept => self.kept.push(json!([id, token])),
            Verdict::Retry { delay, text } => {
                self.retry.push(json!([id, token, text, millis(*delay)]))
            }
            Verdict::Dead { text } => self.dead.push(json!([id, token, text])),
            Verdict::GiveBack {
                attempts,
                unsettled,
            } => self.give_back.push(json!([id, token, attempts, unsettled])),
        }
    }

    async fn run(
        self,
        outbox: &Outbox,
        tx: &mut SqliteConnection,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let statements = &outbox.statements().sqlite.settle;
        let mut rows = Vec::new();
        for (sql, settled) in [
            (&statements.delete, self.delivered),
            (&statements.keep, self.kept),
            (&statements.retry, self.retry),
            (&statements.dead, self.dead),
            (&statements.give_back, self.give_back),
        ] {
            if !settled.is_empty() {
                rows.extend(
                    super::query(sql)
                        .bind(Value::from(settled).to_string())
                        .fetch_all(&mut *tx)
                        .await?,
                );
            }
        }
        Ok(rows)
    }
}
