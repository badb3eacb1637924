//! Migrations: numbered plain SQL from `migrations/mysql`, one migrator at a time.
//!
//! Each statement commits by itself here. So all of them can be run again, and the history is written last: a
//! migration that was cut off begins anew.

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, MySqlConnection, Row as _,
};

use super::{
    super::{
        Table,
        migrate::{LATEST, Migration, MigrationScript, Migrations, Version, compatible},
    },
    Mysql, rendered,
    version::Server,
};
use crate::{
    Error,
    error::{Doing as _, Kind},
};

const MIGRATIONS: Migrations = Migrations {
    render: rendered,
    history: include_str!("../../../migrations/mysql/0000_history.sql"),
    steps: [
        Migration {
            version: Version {
                version: 1,
                min_reader: 1,
            },
            sql: include_str!("../../../migrations/mysql/0001_outbox.sql"),
        },
        Migration {
            version: Version {
                version: 2,
                min_reader: 1,
            },
            sql: include_str!("../../../migrations/mysql/0002_operator.sql"),
        },
    ],
    note: "INSERT IGNORE INTO `outbox_history` (`version`, `min_reader`) VALUES",
};

const DOING: &str = "migrating the outbox's tables";

/// Waits at most this long for another migrator, and for a table's lock.
const SETTINGS: &str = "SET SESSION lock_wait_timeout = 10";

/// One lock per outbox. It belongs to the session, which is ours alone, and ends with it.
const LOCK: &str =
    "SELECT GET_LOCK(CONCAT('outbox ', SHA1(CONCAT(IFNULL(?, DATABASE()), '.', ?))), 10)";

pub(super) async fn migrate(store: &Mysql) -> Result<(), Error> {
    let table = &store.outbox.settings().table;
    if store.pool.is_closed() {
        return Err(sqlx::Error::PoolClosed).doing(DOING);
    }
    let options = store.pool.connect_options();
    let mut connection = options.connect().await.doing(DOING)?;
    Server::of(&mut connection).await?;
    connection.execute(SETTINGS).await.doing(DOING)?;
    let row = sqlx::query(LOCK)
        .bind(table.schema().map(str::to_owned))
        .bind(table.name().to_owned())
        .fetch_one(&mut connection)
        .await;
    let locked: Option<i64> = row.and_then(|row| row.try_get(0)).doing(DOING)?;
    if locked != Some(1) {
        return Err(Error::new(Kind::Busy(
            "migrating the outbox's tables, which another migrator has been doing for 10 s",
        )));
    }
    let known = history(table, &mut connection).await.doing(DOING)?;
    if known.iter().any(|step| step.version >= LATEST) {
        // Up to date, or newer than this build: nothing to do, or nothing it may do.
        return compatible(&known);
    }
    let newest = known.iter().map(|step| step.version).max().unwrap_or(0);
    for script in scripts(table) {
        if script.version > newest.unsigned_abs() {
            connection
                .execute(AssertSqlSafe(script.sql))
                .await
                .doing(DOING)?;
        }
    }
    connection.close().await.doing(DOING)
}

/// Makes the schema first, which is a database here.
pub(super) fn scripts(table: &Table) -> Vec<MigrationScript> {
    let mut scripts = MIGRATIONS.scripts(table);
    if let (Some(schema), Some(first)) = (table.schema(), scripts.first_mut()) {
        first
            .sql
            .insert_str(0, &format!("CREATE DATABASE IF NOT EXISTS `{schema}`;\n"));
    }
    scripts
}

pub(super) async fn versions(store: &Mysql) -> Result<Vec<Version>, Error> {
    const DOING: &str = "checking the outbox's tables";
    let mut connection = store.pool.acquire().await.doing(DOING)?;
    Server::of(&mut connection).await?;
    history(&store.outbox.settings().table, &mut connection)
        .await
        .doing(DOING)
}

async fn history(
    table: &Table,
    connection: &mut MySqlConnection,
) -> Result<Vec<Version>, sqlx::Error> {
    let there = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM information_schema.tables
         WHERE table_schema = IFNULL(?, DATABASE()) AND table_name = ?)",
    )
    .bind(table.schema().map(str::to_owned))
    .bind(format!("{}_history", table.name()))
    .fetch_one(&mut *connection)
    .await?;
    if !there.try_get::<bool, _>(0)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT version, min_reader FROM `outbox_history` ORDER BY version";
    let rows = sqlx::query(AssertSqlSafe(rendered(table, sql)))
        .fetch_all(connection)
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
