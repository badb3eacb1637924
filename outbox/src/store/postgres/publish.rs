//! The INSERT that joins the caller's transaction.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::BoxFuture;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::{
    super::insert::{self as chunks, Existing, Writer},
    Query,
    listen::{Signals, Waking},
};
use crate::{
    Error, MessageState, Outbox, Published,
    error::{Doing as _, Kind},
    publish::Envelope,
};

#[derive(Debug)]
pub(super) struct Statements {
    one: Waking,
    many: Waking,
    one_fresh: Waking,
    many_fresh: Waking,
    existing: Arc<str>,
    strict: Arc<str>,
}

/// A delay counts from this statement, not from the transaction's start; a time in the past is now.
macro_rules! one {
    ($rest:literal) => {
        concat!(
            r#"
INSERT INTO "public"."outbox"
    (id, topic, version, key, payload, headers, available_at, dedup_key, state, settled_at)
VALUES ($1, $2, $3, $4, $5::json, $6::json,
    COALESCE(clock_timestamp() + $7 * interval '1 microsecond',
        GREATEST(clock_timestamp(), timestamptz 'epoch' + $8 * interval '1 microsecond')),
    $9, 'pending', NULL)
"#,
            $rest
        )
    };
}

macro_rules! many {
    ($rest:literal) => {
        concat!(
            r#"
INSERT INTO "public"."outbox"
    (id, topic, version, key, payload, headers, available_at, dedup_key, state, settled_at)
SELECT id, topic, version, key, payload::json, headers::json,
    COALESCE(clock_timestamp() + delay * interval '1 microsecond',
        GREATEST(clock_timestamp(), timestamptz 'epoch' + at * interval '1 microsecond')),
    dedup_key, 'pending', NULL
FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[])
    WITH ORDINALITY AS row (id, topic, version, key, payload, headers, delay, at, dedup_key, n)
ORDER BY n
"#,
            $rest
        )
    };
}

const EXISTING: &str = r#"
SELECT id, topic, dedup_key, state FROM "public"."outbox" WHERE id = ANY($1::uuid[])
UNION ALL
SELECT o.id, o.topic, o.dedup_key, o.state
FROM unnest($2::text[], $3::text[]) AS taken (topic, dedup_key)
JOIN "public"."outbox" AS o ON o.topic = taken.topic AND o.dedup_key = taken.dedup_key"#;

/// Refused outside of a transaction, and takes no more than the INSERT takes itself.
const STRICT: &str = r#"LOCK TABLE "public"."outbox" IN ROW EXCLUSIVE MODE"#;

/// For programs in other languages; the page `plain_sql` says what else may be given.
const PLAIN: &str = r#"INSERT INTO "public"."outbox" ("topic", "payload")
VALUES ('orders.placed', '{"order": 42}');
"#;

const PLAIN_CAPTURED: &str = r#"INSERT INTO "public"."outbox" ("topic", "payload", "state", "settled_at")
VALUES ('orders.placed', '{"order": 42}', 'pending', NULL);
"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>, signals: Signals, captured: bool) -> Self {
        let writing = |sql: &str| render(&written(sql, captured));
        Self {
            one: Waking::new(
                writing(one!("ON CONFLICT DO NOTHING RETURNING id")),
                signals,
            ),
            many: Waking::new(
                writing(many!("ON CONFLICT DO NOTHING RETURNING id")),
                signals,
            ),
            one_fresh: Waking::counting(&writing(one!("RETURNING 1")), signals),
            many_fresh: Waking::counting(&writing(many!("RETURNING 1")), signals),
            existing: render(EXISTING),
            strict: render(STRICT),
        }
    }
}

/// The statement as it is, or as the outbox is for a reader of the stream of changes.
fn written(sql: &str, captured: bool) -> String {
    match captured {
        true => sql.replace("'pending', NULL", "'delivered', clock_timestamp()"),
        false => sql.to_owned(),
    }
}

pub(super) fn plain_sql(outbox: &Outbox) -> String {
    let table = &outbox.settings().table;
    let insert = match outbox.settings().captured {
        true => written(PLAIN_CAPTURED, true),
        false => PLAIN.to_owned(),
    };
    let insert = table.render(&insert, super::DEFAULT_SCHEMA);
    match outbox.settings().wake {
        true => format!("{insert}{}", Signals::of(table).plain_sql()),
        false => insert,
    }
}

pub(crate) async fn insert(
    outbox: &Outbox,
    connection: &mut PgConnection,
    envelopes: &[Envelope],
) -> Result<Vec<Published>, Error> {
    if outbox.settings().strict.unwrap_or(false) {
        let probe = super::query(outbox, &outbox.statements().postgres.publish.strict);
        if let Err(error) = probe.execute(&mut *connection).await {
            let code = error.as_database_error().and_then(|error| error.code());
            return match code.as_deref() {
                // no_active_sql_transaction
                Some("25P01") => Err(Error::new(Kind::NotInTransaction)),
                _ => Err(error).doing("asking for the open transaction"),
            };
        }
    }
    chunks::insert(&mut Inserts { outbox, connection }, envelopes).await
}

struct Inserts<'a> {
    outbox: &'a Outbox,
    connection: &'a mut PgConnection,
}

impl Inserts<'_> {
    fn bound(&self, chunk: &[&Envelope], one: &Waking, many: &Waking) -> Query {
        match chunk {
            [row] => {
                let (delay, at) = row.due.micros();
                super::query(self.outbox, one.of(self.outbox))
                    .bind(row.id)
                    .bind(row.topic)
                    .bind(row.version)
                    .bind(row.key.as_deref())
                    .bind(row.payload.as_str())
                    .bind(row.headers.as_deref())
                    .bind(delay)
                    .bind(at)
                    .bind(row.dedup_key.as_deref())
            }
            rows => {
                let (delays, times): (Vec<_>, Vec<_>) =
                    rows.iter().map(|row| row.due.micros()).unzip();
                super::query(self.outbox, many.of(self.outbox))
                    .bind(column(rows, |row| row.id))
                    .bind(column(rows, |row| row.topic))
                    .bind(column(rows, |row| row.version))
                    .bind(column(rows, |row| row.key.as_deref()))
                    .bind(column(rows, |row| row.payload.as_str()))
                    .bind(column(rows, |row| row.headers.as_deref()))
                    .bind(delays)
                    .bind(times)
                    .bind(column(rows, |row| row.dedup_key.as_deref()))
            }
        }
    }
}

const PUBLISHING: &str = "publishing";

impl Writer for Inserts<'_> {
    fn insert<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<HashSet<Uuid>, Error>> {
        let statements = &self.outbox.statements().postgres.publish;
        let query = self.bound(chunk, &statements.one, &statements.many);
        Box::pin(async move {
            let rows = query
                .fetch_all(&mut *self.connection)
                .await
                .doing(PUBLISHING)?;
            rows.iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()
                .doing(PUBLISHING)
        })
    }

    fn insert_fresh<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<usize, Error>> {
        let statements = &self.outbox.statements().postgres.publish;
        let query = self.bound(chunk, &statements.one_fresh, &statements.many_fresh);
        Box::pin(async move {
            let row = query
                .fetch_one(&mut *self.connection)
                .await
                .doing(PUBLISHING)?;
            let written: i64 = row.try_get(0).doing(PUBLISHING)?;
            Ok(usize::try_from(written).unwrap_or(usize::MAX))
        })
    }

    fn existing<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<Vec<Existing>, Error>> {
        let statements = &self.outbox.statements().postgres.publish;
        Box::pin(async move {
            let keyed: Vec<_> = chunk
                .iter()
                .filter_map(|row| Some((row.topic, row.dedup_key.as_deref()?)))
                .collect();
            let (topics, keys): (Vec<_>, Vec<_>) = keyed.into_iter().unzip();
            let query = super::query(self.outbox, &statements.existing)
                .bind(column(chunk, |row| row.id))
                .bind(topics)
                .bind(keys);
            let rows = query
                .fetch_all(&mut *self.connection)
                .await
                .doing("looking for duplicates")?;
            let existing = rows.iter().map(|row| {
                Ok(Existing {
                    id: row.try_get(0)?,
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

fn column<'a, T>(rows: &'a [&'a Envelope], value: impl Fn(&'a Envelope) -> T) -> Vec<T> {
    rows.iter().map(|row| value(row)).collect()
}
