//! Dead letters: listed, redriven, discarded.

use std::sync::Arc;

use serde_json::json;
use sqlx::{Row as _, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    super::{
        operate::{Action, Chunk, Corrected, Filter, Page, Swept},
        row::{count, wide},
    },
    Query, Sqlite, now,
    values::{shown, time, uuid},
};
use crate::{
    DeadLetter, Discarded, Error, Inspected,
    error::Doing as _,
    operator::dead_letters::{failures, headers},
};

#[derive(Debug)]
pub(super) struct Statements {
    list: Arc<str>,
    inspect: Arc<str>,
    count: Arc<str>,
    redrive: Arc<str>,
    note: Arc<str>,
    discard: Arc<str>,
    sweep: Arc<str>,
    discarded: Arc<str>,
}

/// When a row died. Rows that were made dead by hand may lack the time.
macro_rules! died {
    () => {
        "ifnull(o.settled_at, o.created_at)"
    };
}

/// Binds ?1 to ?5.
macro_rules! filtered {
    () => {
        concat!(
            r#"FROM "main"."outbox" AS o
WHERE o.state = 'dead'
    AND (?1 IS NULL OR o.topic = ?1) AND (?2 IS NULL OR o.key = ?2)
    AND (?3 IS NULL OR instr(json_extract(o.errors, '$[#-1].text'), ?3) > 0)
    AND (?4 IS NULL OR "#,
            died!(),
            " <= ?4)
    AND (?5 IS NULL OR ",
            died!(),
            " >= ?5)"
        )
    };
}

macro_rules! letter {
    () => {
        concat!(
            "o.id, o.topic, o.version, o.key, o.attempts, o.redrives, o.errors, o.created_at, ",
            died!()
        )
    };
}

/// The bound of the time alone is what the index is searched by.
const LIST: &str = concat!(
    "SELECT ",
    letter!(),
    "\n",
    filtered!(),
    "\n    AND ",
    died!(),
    " <= ifnull(?6, 9223372036854775807)\n    AND (?6 IS NULL OR (",
    died!(),
    ", o.id) < (?6, ?7))\nORDER BY ",
    died!(),
    " DESC, o.id DESC\nLIMIT ?8"
);

const INSPECT: &str = concat!(
    "SELECT ",
    letter!(),
    r#", o.payload, o.headers
FROM "main"."outbox" AS o
WHERE o.id = ?1 AND o.state = 'dead'"#
);

/// A negative LIMIT is none.
const COUNT: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 ",
    filtered!(),
    " LIMIT ifnull(?6, -1))"
);

const REDRIVE: &str = concat!(
    r#"
UPDATE "main"."outbox"
SET state = 'pending', attempts = 0, unsettled = 0, redrives = redrives + 1, token = NULL,
    payload = ifnull(?2, payload), version = ifnull(?4, version), available_at = "#,
    now!(),
    r#", leased_until = NULL, settled_at = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'dead'
    AND (?3 IS NULL OR (topic = ?3 AND version BETWEEN ?5 AND ?4))"#
);

/// A message may be published again under the id of one that was discarded.
const NOTE: &str = concat!(
    r#"
INSERT INTO "main"."outbox_discarded"
    (id, topic, version, key, attempts, redrives, errors, reason, created_at, died_at)
SELECT o.id, o.topic, o.version, o.key, o.attempts, o.redrives, o.errors, ?2, o.created_at, "#,
    died!(),
    r#"
FROM "main"."outbox" AS o
WHERE o.id IN (SELECT value FROM json_each(?1)) AND o.state = 'dead'
ON CONFLICT (id) DO UPDATE SET topic = excluded.topic, version = excluded.version, key = excluded.key,
    attempts = excluded.attempts, redrives = excluded.redrives, errors = excluded.errors,
    reason = excluded.reason, created_at = excluded.created_at, died_at = excluded.died_at,
    discarded_at = excluded.discarded_at"#
);

const DISCARD: &str = r#"
DELETE FROM "main"."outbox" WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'dead'"#;

const SWEEP: &str = concat!(
    "SELECT o.id, ",
    died!(),
    "\n",
    filtered!(),
    "\n    AND ",
    died!(),
    " >= ifnull(?6, 0)\n    AND (?6 IS NULL OR (",
    died!(),
    ", o.id) > (?6, ?7))\nORDER BY ",
    died!(),
    ", o.id\nLIMIT ?8"
);

const DISCARDED: &str = r#"
SELECT id, topic, version, key, attempts, redrives, errors, created_at, died_at, reason, discarded_at
FROM "main"."outbox_discarded"
WHERE (?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR (discarded_at, id) < (?2, ?3))
ORDER BY discarded_at DESC, id DESC
LIMIT ?4"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            list: render(LIST),
            inspect: render(INSPECT),
            count: render(COUNT),
            redrive: render(REDRIVE),
            note: render(NOTE),
            discard: render(DISCARD),
            sweep: render(SWEEP),
            discarded: render(DISCARDED),
        }
    }
}

/// A statement with the filter bound as its first five parameters.
fn filtered(sql: &Arc<str>, filter: &Filter) -> Query {
    super::query(sql)
        .bind(filter.topic.clone())
        .bind(filter.key.clone())
        .bind(filter.error.clone())
        .bind(filter.until.map(|until| until.div_euclid(1_000)))
        .bind(filter.since.map(|since| -(-since).div_euclid(1_000)))
}

/// The last entry before a page: a time in milliseconds, and an id.
fn after(query: Query, cursor: Option<(i64, Uuid)>) -> Query {
    query
        .bind(cursor.map(|(at, _)| at.div_euclid(1_000)))
        .bind(cursor.map(|(_, id)| id.to_string()))
}

fn letter(row: &SqliteRow) -> Result<DeadLetter, sqlx::Error> {
    Ok(DeadLetter {
        id: uuid(row, 0)?,
        topic: shown(row, 1)?.unwrap_or_default(),
        version: count(row.try_get(2)?),
        key: shown(row, 3)?,
        attempts: count(row.try_get(4)?),
        redrives: count(row.try_get(5)?),
        errors: failures(&shown(row, 6)?.unwrap_or_default()),
        created_at: time(row.try_get(7)?),
        died_at: time(row.try_get(8)?),
    })
}

pub(super) async fn list(store: &Sqlite, page: &Page) -> Result<Vec<DeadLetter>, Error> {
    const DOING: &str = "listing dead letters";
    let query = filtered(&store.statements().dead_letters.list, &page.filter);
    let query = after(query, page.after).bind(page.limit);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    rows.iter()
        .map(letter)
        .collect::<Result<_, _>>()
        .doing(DOING)
}

pub(super) async fn inspect(store: &Sqlite, id: Uuid) -> Result<Option<Inspected>, Error> {
    const DOING: &str = "reading a dead letter";
    let query = super::query(&store.statements().dead_letters.inspect).bind(id.to_string());
    let row = query.fetch_optional(&store.pool).await.doing(DOING)?;
    let inspected = row.map(|row| {
        Ok(Inspected {
            letter: letter(&row)?,
            payload: shown(&row, 9)?.unwrap_or_default(),
            headers: headers(shown(&row, 10)?.as_deref()),
        })
    });
    inspected.transpose().doing(DOING)
}

pub(super) async fn count_dead(
    store: &Sqlite,
    filter: &Filter,
    limit: Option<u64>,
) -> Result<u64, Error> {
    const DOING: &str = "counting dead letters";
    let query = filtered(&store.statements().dead_letters.count, filter).bind(limit.map(wide));
    let row = query.fetch_one(&store.pool).await.doing(DOING)?;
    let counted: i64 = row.try_get(0).doing(DOING)?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn redrive(
    store: &Sqlite,
    id: Uuid,
    corrected: Option<&Corrected>,
) -> Result<bool, Error> {
    let made = corrected.and_then(|corrected| corrected.made);
    let query = super::query(&store.statements().dead_letters.redrive)
        .bind(json!([id]).to_string())
        .bind(corrected.map(|corrected| corrected.payload.clone()))
        .bind(made.map(|made| made.topic))
        .bind(made.map(|made| made.version))
        .bind(made.map(|made| made.oldest));
    let redriven = query.execute(&store.pool).await;
    Ok(redriven.doing("redriving a dead letter")?.rows_affected() == 1)
}

pub(super) async fn discard(store: &Sqlite, id: Uuid, reason: &str) -> Result<bool, Error> {
    const DOING: &str = "discarding a dead letter";
    let mut tx = store.begin().await.doing(DOING)?;
    let discarded = note_and_delete(store, &mut tx, &[id], reason).await;
    let discarded = discarded.doing(DOING)?;
    tx.commit().await.doing(DOING)?;
    Ok(discarded == 1)
}

async fn note_and_delete(
    store: &Sqlite,
    tx: &mut sqlx::SqliteConnection,
    ids: &[Uuid],
    reason: &str,
) -> Result<u64, sqlx::Error> {
    let statements = &store.statements().dead_letters;
    let ids = json!(ids).to_string();
    super::query(&statements.note)
        .bind(ids.clone())
        .bind(reason.to_owned())
        .execute(&mut *tx)
        .await?;
    let deleted = super::query(&statements.discard)
        .bind(ids)
        .execute(tx)
        .await?;
    Ok(deleted.rows_affected())
}

pub(super) async fn sweep(
    store: &Sqlite,
    filter: &Filter,
    action: &Action,
    chunk: Chunk,
) -> Result<Swept, Error> {
    let doing = match action {
        Action::Redrive => "redriving dead letters",
        Action::Discard(_) => "discarding dead letters",
    };
    let statements = &store.statements().dead_letters;
    let next = after(filtered(&statements.sweep, filter), chunk.after).bind(wide(chunk.limit));
    let mut tx = store.begin().await.doing(doing)?;
    let rows = next.fetch_all(&mut *tx).await.doing(doing)?;
    let cursors = rows.iter().map(|row| {
        Ok((
            row.try_get::<i64, _>(1)?.saturating_mul(1_000),
            uuid(row, 0)?,
        ))
    });
    let cursors: Vec<_> = cursors.collect::<Result<_, sqlx::Error>>().doing(doing)?;
    let ids: Vec<_> = cursors.iter().map(|(_, id)| *id).collect();
    let changed = match action {
        Action::Redrive => super::query(&statements.redrive)
            .bind(json!(ids).to_string())
            .bind(None::<String>)
            .bind(None::<String>)
            .bind(None::<i32>)
            .bind(None::<i32>)
            .execute(&mut *tx)
            .await
            .map(|redriven| redriven.rows_affected()),
        Action::Discard(reason) => note_and_delete(store, &mut tx, &ids, reason).await,
    };
    let changed = changed.doing(doing)?;
    tx.commit().await.doing(doing)?;
    Ok(Swept {
        changed,
        next: cursors.last().copied(),
    })
}

pub(super) async fn discarded(store: &Sqlite, page: &Page) -> Result<Vec<Discarded>, Error> {
    const DOING: &str = "listing discarded messages";
    let query =
        super::query(&store.statements().dead_letters.discarded).bind(page.filter.topic.clone());
    let query = after(query, page.after).bind(page.limit);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let discarded = rows.iter().map(|row| {
        Ok(Discarded {
            letter: letter(row)?,
            reason: shown(row, 9)?.unwrap_or_default(),
            discarded_at: time(row.try_get(10)?),
        })
    });
    discarded.collect::<Result<_, sqlx::Error>>().doing(DOING)
}
