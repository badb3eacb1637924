//! Migrations: numbered plain SQL from `migrations/postgres`, one transaction, one lock.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};

use super::{
    super::{
        Table,
        migrate::{LATEST, Migration, MigrationScript, Migrations, Version, compatible},
    },
    DEFAULT_SCHEMA, Postgres,
};
use crate::{Error, error::Doing as _};

const MIGRATIONS: Migrations = Migrations {
    render: |table, sql| table.render(sql, DEFAULT_SCHEMA),
    history: include_str!("../../../migrations/postgres/0000_history.sql"),
    steps: [
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
    ],
    note: r#"INSERT INTO "public"."outbox_history" ("version", "min_reader") VALUES"#,
};

/// Waits at most this long for another migrator.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '10min'; \
    SET LOCAL idle_in_transaction_session_timeout = '1min'";

/// Whoever comes after a statement that waits for a table's lock waits as well, publishers included. So
/// it waits shortly, and comes again.
const SHORT_WAITS: &str = "SET LOCAL lock_timeout = '300ms'";

/// How long a migration that others stand in the way of comes again.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it leaves the others alone in between.
const PAUSE: Duration = Duration::from_millis(500);

/// One lock per outbox; transaction-scoped, so that it works through a pooler and can't be left behind.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('outbox migration'), hashtext($1))";

pub(super) async fn migrate(store: &Postgres) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        match attempt(store).await {
            Err(error) if error.is_retryable() && began.elapsed() < PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) if error.is_retryable() => {
                return Err(error.while_doing(
                    "migrating the outbox's tables, which for 10 s others have been using: another \
                     migrator, or a transaction left open (pg_stat_activity tells)",
                ));
            }
            done => return done,
        }
    }
}

async fn attempt(store: &Postgres) -> Result<(), Error> {
    const DOING: &str = "migrating the outbox's tables";
    let table = &store.outbox.settings().table;
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
    tx.execute(SHORT_WAITS).await.doing(DOING)?;
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
            tx.execute(AssertSqlSafe(create_schema(schema)))
                .await
                .doing(DOING)?;
        }
    }
    let newest = known.iter().map(|step| step.version).max().unwrap_or(0);
    for script in MIGRATIONS.scripts(table) {
        if script.version > newest.unsigned_abs() {
            tx.execute(AssertSqlSafe(script.sql)).await.doing(DOING)?;
        }
    }
    tx.commit().await.doing(DOING)
}

fn create_schema(schema: &str) -> String {
    format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n")
}

/// The scripts for people, who may have to make the schema first.
pub(super) fn scripts(table: &Table) -> Vec<MigrationScript> {
    let mut scripts = MIGRATIONS.scripts(table);
    if let (Some(schema), Some(first)) = (table.schema(), scripts.first_mut()) {
        first.sql.insert_str(0, &create_schema(schema));
    }
    scripts
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
