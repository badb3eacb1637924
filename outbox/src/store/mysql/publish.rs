//! The INSERT that joins the caller's transaction.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::json;
use sqlx::{MySqlConnection, Row as _};
use uuid::Uuid;

use super::{
    super::insert::{self as chunks, CHUNK_BYTES, Existing, Writer},
    Query,
    values::{ahead, by_ids, dedup_key, hex, ids_json, now, text_type, time, topic},
};
use crate::{
    Error, MessageState, Outbox, Published,
    error::{Doing as _, Kind},
    publish::Envelope,
};

#[derive(Debug)]
pub(super) struct Statements {
    one: Arc<str>,
    many: Arc<str>,
    one_fresh: Arc<str>,
    many_fresh: Arc<str>,
    written: Arc<str>,
    untoken: Arc<str>,
    by_id: Arc<str>,
    by_key: Arc<str>,
}

/// A delay counts from this statement; a time in the past is now.
macro_rules! one {
    ($rest:literal) => {
        concat!(
            "
INSERT INTO `outbox`
    (id, topic, version, `key`, payload, headers, available_at, dedup_key, token, state, settled_at)
VALUES (?, ?, ?, ?, ?, ?, IFNULL(",
            ahead!(),
            ", GREATEST(",
            now!(),
            ", ",
            time!(),
            ")), ?, ?, 'pending', NULL)",
            $rest
        )
    };
}

/// The clock stands still for a statement; its rows are a microsecond apart, so that their order is kept.
macro_rules! nth {
    () => {
        concat!("(", now!(), " + INTERVAL message.n - 1 MICROSECOND)")
    };
}

macro_rules! many {
    ($rest:literal) => {
        concat!(
            "
INSERT INTO `outbox`
    (id, topic, version, `key`, payload, headers, created_at, available_at, dedup_key, token, state, settled_at)
SELECT UNHEX(message.m_id), message.m_topic, message.m_version, message.m_key, message.m_payload, message.m_headers,
    ",
            nth!(),
            ", IFNULL(",
            nth!(),
            " + INTERVAL message.m_delay MICROSECOND, GREATEST(",
            nth!(),
            ", TIMESTAMP'1970-01-01 00:00:00' + INTERVAL message.m_at MICROSECOND)),
    CAST(message.m_dedup_key AS BINARY), ?, 'pending', NULL
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    n FOR ORDINALITY, m_id CHAR(32) PATH '$[0]', m_topic VARCHAR(255) PATH '$[1]', m_version INT PATH '$[2]',
    m_key ",
            text_type!(),
            " PATH '$[3]', m_payload ",
            text_type!(),
            " PATH '$[4]', m_headers ",
            text_type!(),
            " PATH '$[5]',
    m_delay BIGINT PATH '$[6]', m_at BIGINT PATH '$[7]', m_dedup_key ",
            text_type!(),
            " PATH '$[8]')) AS message
ORDER BY message.n",
            $rest
        )
    };
}

/// Leaves a row that is in the way as it is. INSERT IGNORE would let pass what is wrong with a row as well.
macro_rules! skipping {
    ($insert:ident) => {
        $insert!("\nON DUPLICATE KEY UPDATE `outbox`.attempts = `outbox`.attempts")
    };
}

/// How many rows were changed does not tell those that were written from those that were in the way. The token does,
/// and is taken away again.
const WRITTEN: &str = concat!("SELECT o.id FROM ", by_ids!(), "\nWHERE o.token = ?");

const UNTOKEN: &str = concat!(
    "UPDATE ",
    by_ids!(),
    "\nSET o.token = NULL\nWHERE o.token = ?"
);

/// As they are now, whatever the transaction has seen before.
const BY_ID: &str = concat!(
    "SELECT o.id, o.topic, o.dedup_key, o.state FROM ",
    by_ids!(),
    "\nLOCK IN SHARE MODE"
);

const BY_KEY: &str = concat!(
    "
SELECT o.id, o.topic, o.dedup_key, o.state
FROM JSON_TABLE(?, '$[*]' COLUMNS (topic VARCHAR(255) PATH '$[0]', dedup_key ",
    text_type!(),
    " PATH '$[1]')) AS taken
STRAIGHT_JOIN `outbox` AS o FORCE INDEX (dedup) ON o.topic = ",
    topic!("taken.topic"),
    " AND o.dedup_key = CAST(taken.dedup_key AS BINARY)
LOCK IN SHARE MODE"
);

/// Refused outside of a transaction: there, a savepoint is gone with the statement that made it. DDL ends a
/// transaction, and sqlx does not hear of it.
const STRICT: &str = "SAVEPOINT outbox_in_transaction; RELEASE SAVEPOINT outbox_in_transaction";

/// For programs in other languages; the page `plain_sql` says what else may be given.
const PLAIN: &str = "INSERT INTO `outbox` (`topic`, `payload`)
VALUES ('orders.placed', '{\"order\": 42}');
";

const PLAIN_CAPTURED: &str = "INSERT INTO `outbox` (`topic`, `payload`, `state`, `settled_at`)
VALUES ('orders.placed', '{\"order\": 42}', 'pending', NULL);
";

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>, captured: bool) -> Self {
        let writing = |sql: &str| render(&written(sql, captured));
        Self {
            one: writing(skipping!(one)),
            many: writing(skipping!(many)),
            one_fresh: writing(one!("")),
            many_fresh: writing(many!("")),
            written: render(WRITTEN),
            untoken: render(UNTOKEN),
            by_id: render(BY_ID),
            by_key: render(BY_KEY),
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
    super::rendered(&settings.table, &insert)
}

pub(crate) async fn insert(
    outbox: &Outbox,
    connection: &mut MySqlConnection,
    envelopes: &[Envelope],
) -> Result<Vec<Published>, Error> {
    if outbox.settings().strict.unwrap_or(true)
        && let Err(error) = sqlx::raw_sql(STRICT).execute(&mut *connection).await
    {
        return match super::code(&error) {
            // ER_SP_DOES_NOT_EXIST
            Some(1305) => Err(Error::new(Kind::NotInTransaction)),
            _ => Err(error).doing("asking for the open transaction"),
        };
    }
    let published = chunks::insert(&mut Inserts { outbox, connection }, envelopes).await?;
    outbox.published().send_replace(());
    Ok(published)
}

struct Inserts<'a> {
    outbox: &'a Outbox,
    connection: &'a mut MySqlConnection,
}

/// Below this no server's `max_allowed_packet` is worth a question.
const SMALL: usize = 64 * 1024;

/// What a statement has beside the texts of its rows.
const OVERHEAD: usize = 4 * 1024;

const PUBLISHING: &str = "publishing";

impl Inserts<'_> {
    /// How many bytes the server takes in one packet. What is larger it does not refuse: it ends the connection.
    async fn packet(&mut self) -> Result<usize, Error> {
        let row = sqlx::query("SELECT CAST(@@max_allowed_packet AS SIGNED)")
            .fetch_one(&mut *self.connection)
            .await;
        let bytes: i64 = row
            .and_then(|row| row.try_get(0))
            .doing("asking for max_allowed_packet")?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    async fn fits(&mut self, row: &Envelope) -> Result<(), Error> {
        let bytes = row.bytes();
        if bytes < SMALL {
            return Ok(());
        }
        let limit = self.packet().await?;
        if bytes + OVERHEAD > limit {
            return Err(Error::new(Kind::TooLargeForServer {
                topic: row.topic,
                bytes,
                limit,
            }));
        }
        Ok(())
    }

    fn bound(chunk: &[&Envelope], one: &Arc<str>, many: &Arc<str>, token: Option<Uuid>) -> Query {
        match chunk {
            [row] => {
                let (delay, at) = row.due.micros();
                super::query(one)
                    .bind(row.id)
                    .bind(row.topic)
                    .bind(row.version)
                    .bind(row.key.clone())
                    .bind(row.payload.clone())
                    .bind(row.headers.clone())
                    .bind(delay)
                    .bind(at)
                    .bind(row.dedup_key.clone().map(String::into_bytes))
                    .bind(token)
            }
            rows => {
                let rows = rows.iter().map(|row| {
                    let (delay, at) = row.due.micros();
                    json!([
                        hex(row.id),
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
                super::query(many)
                    .bind(token)
                    .bind(serde_json::Value::from_iter(rows).to_string())
            }
        }
    }

    async fn found(&mut self, query: Query) -> Result<Vec<Existing>, sqlx::Error> {
        let rows = query.fetch_all(&mut *self.connection).await?;
        let existing = rows.iter().map(|row| {
            Ok(Existing {
                id: row.try_get(0)?,
                topic: row.try_get(1)?,
                dedup_key: dedup_key(row, 2)?.unwrap_or_default(),
                state: MessageState::parse(row.try_get(3)?).unwrap_or(MessageState::Pending),
            })
        });
        existing.collect()
    }

    async fn write(
        &mut self,
        chunk: &[&Envelope],
        one: &Arc<str>,
        many: &Arc<str>,
        token: Option<Uuid>,
    ) -> Result<u64, Error> {
        if let [row] = chunk {
            self.fits(row).await?;
        }
        let query = Self::bound(chunk, one, many, token);
        let written = query.execute(&mut *self.connection).await;
        Ok(written.doing(PUBLISHING)?.rows_affected())
    }
}

impl Writer for Inserts<'_> {
    fn chunk_bytes(&mut self, all: usize) -> BoxFuture<'_, Result<usize, Error>> {
        Box::pin(async move {
            if all < SMALL {
                return Ok(CHUNK_BYTES);
            }
            // Quotes take two bytes when they are written as JSON inside of JSON, control characters six.
            Ok((self.packet().await? / 8).clamp(1, CHUNK_BYTES))
        })
    }

    fn insert<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<HashSet<Uuid>, Error>> {
        let statements = &self.outbox.statements().mysql.publish;
        Box::pin(async move {
            let token = Uuid::new_v4();
            self.write(chunk, &statements.one, &statements.many, Some(token))
                .await?;
            let rows = super::query(&statements.written)
                .bind(ids_json(chunk.iter().map(|row| row.id)))
                .bind(token)
                .fetch_all(&mut *self.connection)
                .await
                .doing(PUBLISHING)?;
            let written: HashSet<Uuid> = rows
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()
                .doing(PUBLISHING)?;
            if !written.is_empty() {
                super::query(&statements.untoken)
                    .bind(ids_json(written.iter().copied()))
                    .bind(token)
                    .execute(&mut *self.connection)
                    .await
                    .doing(PUBLISHING)?;
            }
            Ok(written)
        })
    }

    fn insert_fresh<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<usize, Error>> {
        let statements = &self.outbox.statements().mysql.publish;
        Box::pin(async move {
            let (one, many) = (&statements.one_fresh, &statements.many_fresh);
            let written = self.write(chunk, one, many, None).await?;
            Ok(usize::try_from(written).unwrap_or(usize::MAX))
        })
    }

    fn existing<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<Vec<Existing>, Error>> {
        const DOING: &str = "looking for duplicates";
        let statements = &self.outbox.statements().mysql.publish;
        Box::pin(async move {
            // At REPEATABLE READ, to look for what is not there locks the place where it would be, in which others
            // publish. A row whose key is taken is most likely not there by its id.
            let keyed = chunk
                .iter()
                .filter_map(|row| Some(json!([row.topic, row.dedup_key.as_deref()?])));
            let keyed: Vec<_> = keyed.collect();
            let mut existing = Vec::new();
            if !keyed.is_empty() {
                let query = super::query(&statements.by_key)
                    .bind(serde_json::Value::from(keyed).to_string());
                existing = self.found(query).await.doing(DOING)?;
            }
            let taken = |row: &Envelope| {
                existing
                    .iter()
                    .any(|known| known.topic == row.topic && known.dedup_key == row.dedup_key)
            };
            let others = chunk
                .iter()
                .filter(|row| row.dedup_key.is_none() || !taken(row))
                .map(|row| row.id);
            let others: Vec<_> = others.collect();
            if !others.is_empty() {
                let query = super::query(&statements.by_id).bind(ids_json(others));
                existing.extend(self.found(query).await.doing(DOING)?);
            }
            Ok(existing)
        })
    }
}
