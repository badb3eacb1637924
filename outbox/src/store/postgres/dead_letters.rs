//! Dead letters: listed, redriven, discarded.

use std::sync::Arc;

use sqlx::{Row as _, postgres::PgRow};
use uuid::Uuid;

use super::{
    super::{
        operate::{Action, Chunk, Corrected, Filter, Page, Swept},
        row::{count, wide},
    },
    Postgres, Query,
    listen::{Signals, Waking},
    time,
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
    redrive: Waking,
    redrive_many: Waking,
    discard_many: Arc<str>,
    sweep: Arc<str>,
    discarded: Arc<str>,
}

/// When a row died. Rows that were made dead by hand may lack the time.
macro_rules! died {
    () => {
        "coalesce(o.settled_at, o.created_at)"
    };
}

/// A bound number of microseconds as a time.
macro_rules! at {
    ($parameter:literal) => {
        concat!(
            "timestamptz 'epoch' + ",
            $parameter,
            " * interval '1 microsecond'"
        )
    };
}

/// Binds $1 to $5.
macro_rules! filtered {
    () => {
        concat!(
            r#"FROM "public"."outbox" AS o
WHERE o.state = 'dead'
    AND ($1::text IS NULL OR o.topic = $1) AND ($2::text IS NULL OR o.key = $2)
    AND ($3::text IS NULL OR strpos(o.errors->-1->>'text', $3) > 0)
    AND ($4::bigint IS NULL OR "#,
            died!(),
            " <= ",
            at!("$4"),
            ")
    AND ($5::bigint IS NULL OR ",
            died!(),
            " >= ",
            at!("$5"),
            ")"
        )
    };
}

macro_rules! letter {
    () => {
        concat!(
            "o.id, o.topic, o.version, o.key, o.attempts, o.redrives, o.errors::text,
    (extract(epoch FROM o.created_at) * 1000000)::bigint, (extract(epoch FROM ",
            died!(),
            ") * 1000000)::bigint"
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
    " <= coalesce(",
    at!("$6"),
    ", 'infinity')\n    AND ($6::bigint IS NULL OR (",
    died!(),
    ", o.id) < (",
    at!("$6"),
    ", $7::uuid))\nORDER BY ",
    died!(),
    " DESC, o.id DESC\nLIMIT $8"
);

const INSPECT: &str = concat!(
    "SELECT ",
    letter!(),
    r#", o.payload::text, o.headers::text
FROM "public"."outbox" AS o
WHERE o.id = $1 AND o.state = 'dead'"#
);

const COUNT: &str = concat!(
    "SELECT count(*) FROM (SELECT ",
    filtered!(),
    " LIMIT $6) AS few"
);

macro_rules! redrive {
    ($rows:literal) => {
        concat!(
            r#"
UPDATE "public"."outbox" AS o
SET state = 'pending', attempts = 0, unsettled = 0, redrives = o.redrives + 1, token = NULL,
    payload = coalesce($2::json, o.payload), version = coalesce($4::int, o.version),
    available_at = statement_timestamp(), leased_until = NULL, settled_at = NULL
WHERE "#,
            $rows,
            r#" AND o.state = 'dead'
    AND ($3::text IS NULL OR (o.topic = $3 AND o.version BETWEEN $5::int AND $4::int))
RETURNING o.id"#
        )
    };
}

const REDRIVE: &str = redrive!("o.id = $1");

const REDRIVE_MANY: &str = redrive!("o.id = ANY($1::uuid[])");

/// A message may be published again under the id of one that was discarded.
const DISCARD_MANY: &str = concat!(
    r#"
WITH discarded AS (
    DELETE FROM "public"."outbox" AS o
    WHERE o.id = ANY($1::uuid[]) AND o.state = 'dead'
    RETURNING o.id, o.topic, o.version, o.key, o.attempts, o.redrives, o.errors, o.created_at, "#,
    died!(),
    r#" AS died_at
)
INSERT INTO "public"."outbox_discarded" AS noted
    (id, topic, version, key, attempts, redrives, errors, reason, created_at, died_at)
SELECT id, topic, version, key, attempts, redrives, errors, $2, created_at, died_at FROM discarded
ON CONFLICT (id) DO UPDATE SET topic = excluded.topic, version = excluded.version, key = excluded.key,
    attempts = excluded.attempts, redrives = excluded.redrives, errors = excluded.errors,
    reason = excluded.reason, created_at = excluded.created_at, died_at = excluded.died_at,
    discarded_at = excluded.discarded_at
RETURNING noted.id"#
);

/// The next rows of a sweep. Those that somebody has locked are in other hands already.
const SWEEP: &str = concat!(
    "SELECT o.id, (extract(epoch FROM ",
    died!(),
    ") * 1000000)::bigint\n",
    filtered!(),
    "\n    AND ",
    died!(),
    " >= coalesce(",
    at!("$6"),
    ", '-infinity')\n    AND ($6::bigint IS NULL OR (",
    died!(),
    ", o.id) > (",
    at!("$6"),
    ", $7::uuid))\nORDER BY ",
    died!(),
    ", o.id\nLIMIT $8\nFOR UPDATE SKIP LOCKED"
);

const DISCARDED: &str = concat!(
    r#"
SELECT o.id, o.topic, o.version, o.key, o.attempts, o.redrives, o.errors::text,
    (extract(epoch FROM o.created_at) * 1000000)::bigint, (extract(epoch FROM o.died_at) * 1000000)::bigint,
    o.reason, (extract(epoch FROM o.discarded_at) * 1000000)::bigint
FROM "public"."outbox_discarded" AS o
WHERE ($1::text IS NULL OR o.topic = $1)
    AND ($2::bigint IS NULL OR (o.discarded_at, o.id) < ("#,
    at!("$2"),
    r#", $3::uuid))
ORDER BY o.discarded_at DESC, o.id DESC
LIMIT $4"#
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>, signals: Signals) -> Self {
        Self {
            list: render(LIST),
            inspect: render(INSPECT),
            count: render(COUNT),
            redrive: Waking::new(render(REDRIVE), signals),
            redrive_many: Waking::new(render(REDRIVE_MANY), signals),
            discard_many: render(DISCARD_MANY),
            sweep: render(SWEEP),
            discarded: render(DISCARDED),
        }
    }
}

impl Postgres {
    /// A statement with the filter bound as its first five parameters.
    fn filtered(&self, sql: &Arc<str>, filter: &Filter) -> Query {
        super::query(&self.outbox, sql)
            .bind(filter.topic.clone())
            .bind(filter.key.clone())
            .bind(filter.error.clone())
            .bind(filter.until)
            .bind(filter.since)
    }
}

fn letter(row: &PgRow) -> Result<DeadLetter, sqlx::Error> {
    Ok(DeadLetter {
        id: row.try_get(0)?,
        topic: row.try_get(1)?,
        version: count(row.try_get::<i32, _>(2)?.into()),
        key: row.try_get(3)?,
        attempts: count(row.try_get::<i32, _>(4)?.into()),
        redrives: count(row.try_get::<i32, _>(5)?.into()),
        errors: failures(row.try_get(6)?),
        created_at: time(row.try_get(7)?),
        died_at: time(row.try_get(8)?),
    })
}

pub(super) async fn list(store: &Postgres, page: &Page) -> Result<Vec<DeadLetter>, Error> {
    const DOING: &str = "listing dead letters";
    let query = store
        .filtered(&store.statements().dead_letters.list, &page.filter)
        .bind(page.after.map(|(at, _)| at))
        .bind(page.after.map(|(_, id)| id))
        .bind(i64::from(page.limit));
    let rows = store.run(query).await.doing(DOING)?;
    rows.iter()
        .map(letter)
        .collect::<Result<_, _>>()
        .doing(DOING)
}

pub(super) async fn inspect(store: &Postgres, id: Uuid) -> Result<Option<Inspected>, Error> {
    const DOING: &str = "reading a dead letter";
    let query = super::query(&store.outbox, &store.statements().dead_letters.inspect).bind(id);
    let rows = store.run(query).await.doing(DOING)?;
    let inspected = rows.first().map(|row| {
        Ok(Inspected {
            letter: letter(row)?,
            payload: row.try_get(9)?,
            headers: headers(row.try_get(10)?),
        })
    });
    inspected.transpose().doing(DOING)
}

pub(super) async fn count_dead(
    store: &Postgres,
    filter: &Filter,
    limit: Option<u64>,
) -> Result<u64, Error> {
    const DOING: &str = "counting dead letters";
    let query = store
        .filtered(&store.statements().dead_letters.count, filter)
        .bind(limit.map(wide));
    let rows = store.run(query).await.doing(DOING)?;
    let counted: i64 = rows[0].try_get(0).doing(DOING)?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn redrive(
    store: &Postgres,
    id: Uuid,
    corrected: Option<&Corrected>,
) -> Result<bool, Error> {
    let redrive = store.statements().dead_letters.redrive.of(&store.outbox);
    let made = corrected.and_then(|corrected| corrected.made);
    let query = super::query(&store.outbox, redrive)
        .bind(id)
        .bind(corrected.map(|corrected| corrected.payload.clone()))
        .bind(made.map(|made| made.topic))
        .bind(made.map(|made| made.version))
        .bind(made.map(|made| made.oldest));
    let redriven = store.run(query).await.doing("redriving a dead letter")?;
    Ok(!redriven.is_empty())
}

pub(super) async fn discard(store: &Postgres, id: Uuid, reason: &str) -> Result<bool, Error> {
    let query = super::query(&store.outbox, &store.statements().dead_letters.discard_many)
        .bind(vec![id])
        .bind(reason.to_owned());
    let discarded = store.run(query).await.doing("discarding a dead letter")?;
    Ok(!discarded.is_empty())
}

pub(super) async fn sweep(
    store: &Postgres,
    filter: &Filter,
    action: &Action,
    chunk: Chunk,
) -> Result<Swept, Error> {
    let doing = match action {
        Action::Redrive => "redriving dead letters",
        Action::Discard(_) => "discarding dead letters",
    };
    let statements = &store.statements().dead_letters;
    let next = store
        .filtered(&statements.sweep, filter)
        .bind(chunk.after.map(|(at, _)| at))
        .bind(chunk.after.map(|(_, id)| id))
        .bind(wide(chunk.limit));
    let mut tx = store.begin().await.doing(doing)?;
    let rows = next.fetch_all(&mut *tx).await.doing(doing)?;
    let cursors = rows
        .iter()
        .map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let cursors: Vec<(i64, Uuid)> = cursors.collect::<Result<_, sqlx::Error>>().doing(doing)?;
    let ids: Vec<_> = cursors.iter().map(|(_, id)| *id).collect();
    let query = match action {
        Action::Redrive => super::query(&store.outbox, statements.redrive_many.of(&store.outbox))
            .bind(ids)
            .bind(None::<String>)
            .bind(None::<String>)
            .bind(None::<i32>)
            .bind(None::<i32>),
        Action::Discard(reason) => super::query(&store.outbox, &statements.discard_many)
            .bind(ids)
            .bind(reason.clone()),
    };
    let changed = query.fetch_all(&mut *tx).await.doing(doing)?;
    tx.commit().await.doing(doing)?;
    Ok(Swept {
        changed: changed.len() as u64,
        next: cursors.last().copied(),
    })
}

pub(super) async fn discarded(store: &Postgres, page: &Page) -> Result<Vec<Discarded>, Error> {
    const DOING: &str = "listing discarded messages";
    let query = super::query(&store.outbox, &store.statements().dead_letters.discarded)
        .bind(page.filter.topic.clone())
        .bind(page.after.map(|(at, _)| at))
        .bind(page.after.map(|(_, id)| id))
        .bind(i64::from(page.limit));
    let rows = store.run(query).await.doing(DOING)?;
    let discarded = rows.iter().map(|row| {
        Ok(Discarded {
            letter: letter(row)?,
            reason: row.try_get(9)?,
            discarded_at: time(row.try_get(10)?),
        })
    });
    discarded.collect::<Result<_, sqlx::Error>>().doing(DOING)
}
