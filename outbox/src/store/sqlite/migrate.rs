//! Migrations: numbered plain SQL from `migrations/sqlite`, one transaction.

use sqlx::{AssertSqlSafe, Executor as _, Row as _, SqliteConnection};

use super::{
    super::{
        Table,
        migrate::{LATEST, Migration, MigrationScript, Migrations, Version, compatible},
    },
    DEFAULT_SCHEMA, Sqlite,
};
use crate::{Error, error::Doing as _};

const MIGRATIONS: Migrations = Migrations {
    render: |table, sql| table.render(sql, DEFAULT_SCHEMA),
    history: include_str!("../../../migrations/sqlite/0000_history.sql"),
    steps: [
        Migration {
            version: Version {
                version: 1,
                min_reader: 1,
            },
            sql: include_str!("../../../migrations/sqlite/0001_outbox.sql"),
        },
        Migration {
            version: Version {
                version: 2,
                min_reader: 1,
            },
            sql: include_str!("../../../migrations/sqlite/0002_operator.sql"),
        },
    ],
    note: r#"INSERT INTO "main"."outbox_history" ("version", "min_reader") VALUES"#,
};

pub(super) fn scripts(table: &Table) -> Vec<MigrationScript> {
    MIGRATIONS.scripts(table)
}

pub(super) async fn migrate(store: &Sqlite) -> Result<(), Error> {
    const DOING: &str = "migrating the outbox's tables";
    let table = &store.outbox.settings().table;
    // One writer: whoever comes second waits here, for as long as the pool's busy timeout says.
    let mut tx = store
        .pool
        .begin_with("BEGIN IMMEDIATE")
        .await
        .doing(DOING)?;
    let known = history(store, &mut tx).await.doing(DOING)?;
    if known.iter().any(|step| step.version >= LATEST) {
        // Up to date, or newer than this build: nothing to do, or nothing it may do.
        return compatible(&known);
    }
    let newest = known.iter().map(|step| step.version).max().unwrap_or(0);
    for script in MIGRATIONS.scripts(table) {
        if script.version > newest.unsigned_abs() {
            tx.execute(AssertSqlSafe(script.sql)).await.doing(DOING)?;
        }
    }
    tx.commit().await.doing(DOING)
}

pub(super) async fn versions(store: &Sqlite) -> Result<Vec<Version>, Error> {
    const DOING: &str = "checking the outbox's tables";
    let mut tx = store.pool.begin().await.doing(DOING)?;
    history(store, &mut tx).await.doing(DOING)
}

async fn history(store: &Sqlite, tx: &mut SqliteConnection) -> Result<Vec<Version>, sqlx::Error> {
    let table = &store.outbox.settings().table;
    let name = table.render(r#""outbox_history""#, DEFAULT_SCHEMA);
    let there = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1)",
    )
    .bind(name.trim_matches('"').to_owned())
    .fetch_one(&mut *tx)
    .await?;
    if !there.try_get::<bool, _>(0)? {
        return Ok(Vec::new());
    }
    let sql = table.render(
        r#"SELECT version, min_reader FROM "main"."outbox_history" ORDER BY version"#,
        DEFAULT_SCHEMA,
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *tx).await?;
    rows.iter()
        .map(|row| {
            Ok(Version {
                version: row.try_get(0)?,
                min_reader: row.try_get(1)?,
            })
        })
        .collect()
}
