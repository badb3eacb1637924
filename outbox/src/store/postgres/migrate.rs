//! Migrations: numbered plain SQL from `migrations/postgres`, one transaction, one lock.

use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};

use super::{
    super::migrate::{LATEST, Migration, Version, compatible},
    DEFAULT_SCHEMA, Postgres,
};
use crate::{Error, error::Doing as _};

const HISTORY: &str = include_str!("../../../migrations/postgres/0000_history.sql");

const MIGRATIONS: [Migration; LATEST as usize] = [
    Migration {
        version: Version {
            version: 1,
            min_reader: 1,
        },
        sql: include_str!("../../../migrations/postgres/0001_outbox.sql"),
    },
    Migration {
        version: Version {
            version: 2,
            min_reader: 1,
        },
        sql: include_str!("../../../migrations/postgres/0002_operator.sql"),
    },
];

/// Waits at most this long for another migrator, or for a lock on the tables.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '10min'; \
    SET LOCAL idle_in_transaction_session_timeout = '1min'";

/// One lock per outbox; transaction-scoped, so that it works through a pooler and can't be left behind.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('outbox migration'), hashtext($1))";

pub(super) async fn migrate(store: &Postgres) -> Result<(), Error> {
    const DOING: &str = "migrating the outbox's tables";
    let table = &store.outbox.settings().table;
    let render = |sql: &str| AssertSqlSafe(table.render(sql, DEFAULT_SCHEMA));

    let mut tx = store.pool.begin_with(BEGIN).await.doing(DOING)?;
    sqlx::query(LOCK)
        .persistent(false)
        .bind(table.render(r#""public"."outbox""#, DEFAULT_SCHEMA))
        .execute(&mut *tx)
        .await
        .doing(DOING)?;
    let known = history(store, &mut tx).await.doing(DOING)?;
    if known.iter().any(|step| step.version >= LATEST) {
        // Up to date, or newer than this build: nothing to do, or nothing it may do.
        return compatible(&known);
    }
    if let Some(schema) = table.schema() {
        let there: bool =
            sqlx::query("SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)")
                .persistent(false)
                .bind(schema)
                .fetch_one(&mut *tx)
                .await
                .and_then(|row| row.try_get(0))
                .doing(DOING)?;
        if !there {
            tx.execute(AssertSqlSafe(format!("CREATE SCHEMA \"{schema}\"")))
                .await
                .doing(DOING)?;
        }
    }
    if known.is_empty() {
        tx.execute(render(HISTORY)).await.doing(DOING)?;
    }
    let newest = known.iter().map(|step| step.version).max().unwrap_or(0);
    for migration in MIGRATIONS
        .iter()
        .filter(|migration| migration.version.version > newest)
    {
        tx.execute(render(migration.sql)).await.doing(DOING)?;
        sqlx::query(render(
            r#"INSERT INTO "public"."outbox_history" (version, min_reader) VALUES ($1, $2)"#,
        ))
        .persistent(false)
        .bind(migration.version.version)
        .bind(migration.version.min_reader)
        .execute(&mut *tx)
        .await
        .doing(DOING)?;
    }
    tx.commit().await.doing(DOING)
}

pub(super) async fn versions(store: &Postgres) -> Result<Vec<Version>, Error> {
    const DOING: &str = "checking the outbox's tables";
    let mut tx = store.begin().await.doing(DOING)?;
    history(store, &mut tx).await.doing(DOING)
}

async fn history(store: &Postgres, tx: &mut PgConnection) -> Result<Vec<Version>, sqlx::Error> {
    let table = &store.outbox.settings().table;
    let name = table.render(r#""public"."outbox_history""#, DEFAULT_SCHEMA);
    let there = sqlx::query("SELECT to_regclass($1) IS NOT NULL")
        .persistent(false)
        .bind(name)
        .fetch_one(&mut *tx)
        .await?;
    if !there.try_get::<bool, _>(0)? {
        return Ok(Vec::new());
    }
    let sql = table.render(
        r#"SELECT version, min_reader FROM "public"."outbox_history" ORDER BY version"#,
        DEFAULT_SCHEMA,
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .persistent(false)
        .fetch_all(&mut *tx)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Version {
                version: row.try_get(0)?,
                min_reader: row.try_get(1)?,
            })
        })
        .collect()
}
