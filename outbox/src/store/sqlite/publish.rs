//! The INSERT that joins the caller's transaction.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::json;
use sqlx::{Row as _, SqliteConnection};
use uuid::Uuid;

use super::{
    super::insert::{self as chunks, Existing, Writer},
    now,
    values::uuid,
};
use crate::{
    Error, MessageState, Outbox, Published,
    error::Doing as _,
    publish::{Due, Envelope},
};

#[derive(Debug)]
pub(super) struct Statements {
    one: Arc<str>,
    many: Arc<str>,
    existing: Arc<str>,
}

/// A delay counts from this statement; a time in the past is now.
const ONE: &str = concat!(
    r#"
INSERT INTO "main"."outbox"
    (id, topic, version, key, payload, headers, available_at, dedup_key, state, settled_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ifnull("#,
    now!(),
    " + ?7, max(",
    now!(),
    r#", ?8)), ?9, 'pending', NULL)
ON CONFLICT DO NOTHING
RETURNING id"#
);

/// `WHERE true` keeps the parser from reading ON CONFLICT as a join's condition.
const MANY: &str = concat!(
    r#"
INSERT INTO "main"."outbox"
    (id, topic, version, key, payload, headers, available_at, dedup_key, state, settled_at)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5,
    ifnull("#,
    now!(),
    " + (value->>6), max(",
    now!(),
    r#", value->>7)), value->>8, 'pending', NULL
FROM json_each(?1)
WHERE true
ORDER BY key
ON CONFLICT DO NOTHING
RETURNING id"#
);

const EXISTING: &str = r#"
SELECT id, topic, dedup_key, state FROM "main"."outbox" WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT o.id, o.topic, o.dedup_key, o.state
FROM json_each(?2) AS taken
JOIN "main"."outbox" AS o ON o.topic = taken.value->>0 AND o.dedup_key = taken.value->>1"#;

/// For programs in other languages; the page `plain_sql` says what else may be given.
const PLAIN: &str = r#"INSERT INTO "main"."outbox" ("topic", "payload")
VALUES ('orders.placed', '{"order": 42}');
"#;

const PLAIN_CAPTURED: &str = r#"INSERT INTO "main"."outbox" ("topic", "payload", "state", "settled_at")
VALUES ('orders.placed', '{"order": 42}', 'pending', NULL);
"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>, captured: bool) -> Self {
        let writing = |sql: &str| render(&written(sql, captured));
        Self {
            one: writing(ONE),
            many: writing(MANY),
            existing: render(EXISTING),
        }
    }
}

/// The statement as it is, or as the outbox is for a reader of the stream of changes.
fn written(sql: &str, captured: bool) -> String {
    match captured {
        true => sql.replace("'pending', NULL", concat!("'delivered', ", now!())),
        false => sql.to_owned(),
    }
}

pub(super) fn plain_sql(outbox: &Outbox) -> String {
    let settings = outbox.settings();
    let insert = match settings.captured {
        true => written(PLAIN_CAPTURED, true),
        false => PLAIN.to_owned(),
    };
    settings.table.render(&insert, super::DEFAULT_SCHEMA)
}

pub(crate) async fn insert(
    outbox: &Outbox,
    connection: &mut SqliteConnection,
    envelopes: &[Envelope],
) -> Result<Vec<Published>, Error> {
    chunks::insert(&mut Inserts { outbox, connection }, envelopes).await
}

struct Inserts<'a> {
    outbox: &'a Outbox,
    connection: &'a mut SqliteConnection,
}

impl Writer for Inserts<'_> {
    fn insert<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<HashSet<Uuid>, Error>> {
        let statements = &self.outbox.statements().sqlite.publish;
        Box::pin(async move {
            let query = match chunk {
                [row] => {
                    let (delay, at) = millis(row.due);
                    super::query(&statements.one)
                        .bind(row.id.to_string())
                        .bind(row.topic)
                        .bind(row.version)
                        .bind(row.key.clone())
                        .bind(row.payload.clone())
                        .bind(row.headers.clone())
                        .bind(delay)
                        .bind(at)
                        .bind(row.dedup_key.clone())
                }
                rows => {
                    let rows = rows.iter().map(|row| {
                        let (delay, at) = millis(row.due);
                        json!([
                            row.id,
                            row.topic,
                            row.version,
                            row.key,
                            row.payload,
                            row.headers,
                            delay,
                            at,
                            row.dedup_key
                        ])
                    });
                    super::query(&statements.many)
                        .bind(serde_json::Value::from_iter(rows).to_string())
                }
            };
            let rows = query
                .fetch_all(&mut *self.connection)
                .await
                .doing("publishing")?;
            rows.iter()
                .map(|row| uuid(row, 0))
                .collect::<Result<_, _>>()
                .doing("publishing")
        })
    }

    fn existing<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<Vec<Existing>, Error>> {
        let statements = &self.outbox.statements().sqlite.publish;
        Box::pin(async move {
            let ids = chunk.iter().map(|row| json!(row.id));
            let keyed = chunk
                .iter()
                .filter_map(|row| Some(json!([row.topic, row.dedup_key.as_deref()?])));
            let query = super::query(&statements.existing)
                .bind(serde_json::Value::from_iter(ids).to_string())
                .bind(serde_json::Value::from_iter(keyed).to_string());
            let rows = query
                .fetch_all(&mut *self.connection)
                .await
                .doing("looking for duplicates")?;
            let existing = rows.iter().map(|row| {
                Ok(Existing {
                    id: uuid(row, 0)?,
                    topic: row.try_get(1)?,
                    dedup_key: row.try_get(2)?,
                    state: MessageState::parse(row.try_get(3)?).unwrap_or(MessageState::Pending),
                })
            });
            existing
                .collect::<Result<_, sqlx::Error>>()
                .doing("looking for duplicates")
        })
    }
}

/// The delay and the due time in milliseconds, rounded up: never earlier than asked for.
pub(super) fn millis(due: Due) -> (Option<i64>, Option<i64>) {
    let (delay, at) = due.micros();
    let millis = |micros: i64| (micros + 999) / 1_000;
    (delay.map(millis), at.map(millis))
}
