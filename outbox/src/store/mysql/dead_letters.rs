//! Dead letters: listed, redriven, discarded.

use std::{sync::Arc, time::Duration};

use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use uuid::Uuid;

use super::{
    super::{
        operate::{Action, Chunk, Corrected, Cursor, Filter, Page, Swept},
        row::count,
    },
    Mysql, Query, ended,
    retried::retried,
    values::{by_ids, ids_json, micros, now, since_1970, time, topic},
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

/// Binds what [`filtered`] binds. A time that is NULL lets all through.
macro_rules! filtered {
    () => {
        concat!(
            "FROM `outbox` AS o FORCE INDEX (dead)
WHERE o.state = 'dead' AND o.died_at >= IFNULL(",
            time!(),
            ", '1970-01-01') AND o.died_at <= IFNULL(",
            time!(),
            ", '9999-12-31')
    AND (? IS NULL OR o.topic = ",
            topic!(),
            ") AND (? IS NULL OR o.`key` = ?)
    AND (? IS NULL OR INSTR(
        JSON_UNQUOTE(JSON_EXTRACT(o.errors, CONCAT('$[', GREATEST(JSON_LENGTH(o.errors) - 1, 0), '].text'))) COLLATE utf8mb4_bin,
        ?) > 0)"
        )
    };
}

macro_rules! letter {
    () => {
        concat!(
            "o.id, o.topic, o.version, o.`key`, o.attempts, o.redrives, o.errors, ",
            micros!("o.created_at"),
            ", ",
            micros!("COALESCE(o.settled_at, o.created_at)")
        )
    };
}

/// The bound of the time alone is what the index is searched by.
const LIST: &str = concat!(
    "SELECT ",
    letter!(),
    "\n",
    filtered!(),
    "\n    AND o.died_at <= IFNULL(",
    time!(),
    ", '9999-12-31') AND (? IS NULL OR (o.died_at, o.id) < (",
    time!(),
    ", ?))\nORDER BY o.died_at DESC, o.id DESC\nLIMIT ?"
);

const INSPECT: &str = concat!(
    "SELECT ",
    letter!(),
    ", o.payload, o.headers FROM `outbox` AS o WHERE o.id = ? AND o.state = 'dead'"
);

const COUNT: &str = concat!(
    "SELECT COUNT(*) FROM (SELECT 1 ",
    filtered!(),
    " LIMIT ?) AS counted"
);

const REDRIVE: &str = concat!(
    "
UPDATE ",
    by_ids!(),
    "
SET o.state = 'pending', o.attempts = 0, o.unsettled = 0, o.redrives = o.redrives + 1, o.token = NULL,
    o.payload = IFNULL(?, o.payload), o.version = IFNULL(?, o.version), o.available_at = ",
    now!(),
    ", o.leased_until = NULL, o.settled_at = NULL
WHERE o.state = 'dead' AND (? IS NULL OR (o.topic = ? AND o.version BETWEEN ? AND ?))"
);

/// A message may be published again under the id of one that was discarded.
const NOTE: &str = concat!(
    "
REPLACE INTO `outbox_discarded`
    (id, topic, version, `key`, attempts, redrives, errors, reason, created_at, died_at)
SELECT o.id, o.topic, o.version, o.`key`, o.attempts, o.redrives, o.errors, ?, o.created_at,
    COALESCE(o.settled_at, o.created_at)
FROM ",
    by_ids!(),
    "
WHERE o.state = 'dead'
FOR UPDATE"
);

const DISCARD: &str = concat!("DELETE o FROM ", by_ids!(), "\nWHERE o.state = 'dead'");

const SWEEP: &str = concat!(
    "SELECT o.id, ",
    micros!("o.died_at"),
    "\n",
    filtered!(),
    "\n    AND o.died_at >= IFNULL(",
    time!(),
    ", '1970-01-01') AND (? IS NULL OR (o.died_at, o.id) > (",
    time!(),
    ", ?))\nORDER BY o.died_at, o.id\nLIMIT ?\nFOR UPDATE SKIP LOCKED"
);

const DISCARDED: &str = concat!(
    "
SELECT id, topic, version, `key`, attempts, redrives, errors, ",
    micros!("created_at"),
    ", ",
    micros!("died_at"),
    ", reason, ",
    micros!("discarded_at"),
    "
FROM `outbox_discarded`
WHERE (? IS NULL OR topic = ",
    topic!(),
    ") AND discarded_at <= IFNULL(",
    time!(),
    ", '9999-12-31') AND (? IS NULL OR (discarded_at, id) < (",
    time!(),
    ", ?))
ORDER BY discarded_at DESC, id DESC
LIMIT ?"
);

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

/// A statement with the filter bound as its first parameters.
fn filtered(sql: &Arc<str>, filter: &Filter) -> Query {
    let query = super::query(sql).bind(filter.since).bind(filter.until);
    let texts = [&filter.topic, &filter.key, &filter.error];
    texts.into_iter().fold(query, |query, text| {
        query.bind(text.clone()).bind(text.clone())
    })
}

/// The last entry before a page.
fn after(query: Query, cursor: Option<Cursor>) -> Query {
    let (at, id) = cursor.unzip();
    query.bind(at).bind(at).bind(at).bind(id)
}

fn letter(row: &MySqlRow) -> Result<DeadLetter, sqlx::Error> {
    let number = |column: usize| Ok::<_, sqlx::Error>(count(row.try_get::<i32, _>(column)?.into()));
    Ok(DeadLetter {
        id: row.try_get(0)?,
        topic: row.try_get(1)?,
        version: number(2)?,
        key: row.try_get(3)?,
        attempts: number(4)?,
        redrives: number(5)?,
        errors: failures(row.try_get(6)?),
        created_at: since_1970(row.try_get(7)?),
        died_at: since_1970(row.try_get(8)?),
    })
}

pub(super) async fn list(store: &Mysql, page: &Page) -> Result<Vec<DeadLetter>, Error> {
    const DOING: &str = "listing dead letters";
    let query = filtered(&store.statements().dead_letters.list, &page.filter);
    let query = after(query, page.after).bind(page.limit);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    rows.iter()
        .map(letter)
        .collect::<Result<_, _>>()
        .doing(DOING)
}

pub(super) async fn inspect(store: &Mysql, id: Uuid) -> Result<Option<Inspected>, Error> {
    const DOING: &str = "reading a dead letter";
    let query = super::query(&store.statements().dead_letters.inspect).bind(id);
    let row = query.fetch_optional(&store.pool).await.doing(DOING)?;
    let inspected = row.map(|row| {
        Ok(Inspected {
            letter: letter(&row)?,
            payload: row.try_get(9)?,
            headers: headers(row.try_get(10)?),
        })
    });
    inspected.transpose().doing(DOING)
}

pub(super) async fn count_dead(
    store: &Mysql,
    filter: &Filter,
    limit: Option<u64>,
) -> Result<u64, Error> {
    const DOING: &str = "counting dead letters";
    let query = filtered(&store.statements().dead_letters.count, filter);
    let query = query.bind(limit.unwrap_or(u64::MAX));
    let row = query.fetch_one(&store.pool).await.doing(DOING)?;
    let counted: i64 = row.try_get(0).doing(DOING)?;
    Ok(counted.unsigned_abs())
}

fn redrives(
    store: &Mysql,
    ids: impl IntoIterator<Item = Uuid>,
    corrected: Option<&Corrected>,
) -> Query {
    let made = corrected.and_then(|corrected| corrected.made);
    let (topic, version) = (made.map(|made| made.topic), made.map(|made| made.version));
    super::query(&store.statements().dead_letters.redrive)
        .bind(ids_json(ids))
        .bind(corrected.map(|corrected| corrected.payload.clone()))
        .bind(version)
        .bind(topic)
        .bind(topic)
        .bind(made.map(|made| made.oldest))
        .bind(version)
}

pub(super) async fn redrive(
    store: &Mysql,
    id: Uuid,
    corrected: Option<&Corrected>,
) -> Result<bool, Error> {
    let redriven = redrives(store, [id], corrected).execute(&store.pool).await;
    store.outbox.published().send_replace(());
    Ok(redriven.doing("redriving a dead letter")?.rows_affected() == 1)
}

pub(super) async fn discard(store: &Mysql, id: Uuid, reason: &str) -> Result<bool, Error> {
    const DOING: &str = "discarding a dead letter";
    let mut connection = store.pool.acquire().await.doing(DOING)?;
    let mut tx = super::begin(&mut connection).await.doing(DOING)?;
    let discarded = note_and_delete(store, &mut tx, &[id], reason).await;
    let discarded = ended(tx, discarded).await.doing(DOING)?;
    Ok(discarded == 1)
}

/// The note's statement locks the rows that it reads, so that nobody takes them in between.
async fn note_and_delete(
    store: &Mysql,
    tx: &mut MySqlConnection,
    ids: &[Uuid],
    reason: &str,
) -> Result<u64, sqlx::Error> {
    let statements = &store.statements().dead_letters;
    let ids = ids_json(ids.iter().copied());
    super::query(&statements.note)
        .bind(reason.to_owned())
        .bind(ids.clone())
        .execute(&mut *tx)
        .await?;
    let deleted = super::query(&statements.discard)
        .bind(ids)
        .execute(tx)
        .await?;
    Ok(deleted.rows_affected())
}

/// An operator's sweep is long: it should not end by a race that a chunk has lost.
pub(super) async fn sweep(
    store: &Mysql,
    filter: &Filter,
    action: &Action,
    chunk: Chunk,
) -> Result<Swept, Error> {
    retried!(
        Duration::ZERO,
        "sweep",
        try_sweep(store, filter, action, chunk)
    )
}

async fn try_sweep(
    store: &Mysql,
    filter: &Filter,
    action: &Action,
    chunk: Chunk,
) -> Result<Swept, Error> {
    let doing = match action {
        Action::Redrive => "redriving dead letters",
        Action::Discard(_) => "discarding dead letters",
    };
    let statements = &store.statements().dead_letters;
    let next = after(filtered(&statements.sweep, filter), chunk.after).bind(chunk.limit);
    let mut connection = store.pool.acquire().await.doing(doing)?;
    let mut tx = super::begin(&mut connection).await.doing(doing)?;
    let swept = sweep_next(store, &mut tx, next, action).await;
    let swept = ended(tx, swept).await.doing(doing)?;
    if matches!(action, Action::Redrive) {
        store.outbox.published().send_replace(());
    }
    Ok(swept)
}

async fn sweep_next(
    store: &Mysql,
    tx: &mut MySqlConnection,
    next: Query,
    action: &Action,
) -> Result<Swept, sqlx::Error> {
    let rows = next.fetch_all(&mut *tx).await?;
    let cursors = rows
        .iter()
        .map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let cursors: Vec<Cursor> = cursors.collect::<Result<_, sqlx::Error>>()?;
    let ids: Vec<_> = cursors.iter().map(|(_, id)| *id).collect();
    let changed = match action {
        _ if ids.is_empty() => 0,
        Action::Redrive => {
            let redriven = redrives(store, ids, None).execute(tx).await?;
            redriven.rows_affected()
        }
        Action::Discard(reason) => note_and_delete(store, tx, &ids, reason).await?,
    };
    Ok(Swept {
        changed,
        next: cursors.last().copied(),
    })
}

pub(super) async fn discarded(store: &Mysql, page: &Page) -> Result<Vec<Discarded>, Error> {
    const DOING: &str = "listing discarded messages";
    let query = super::query(&store.statements().dead_letters.discarded)
        .bind(page.filter.topic.clone())
        .bind(page.filter.topic.clone());
    let query = after(query, page.after).bind(page.limit);
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let discarded = rows.iter().map(|row| {
        Ok(Discarded {
            letter: letter(row)?,
            reason: row.try_get(9)?,
            discarded_at: since_1970(row.try_get(10)?),
        })
    });
    discarded.collect::<Result<_, sqlx::Error>>().doing(DOING)
}
