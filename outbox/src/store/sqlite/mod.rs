//! SQLite, bundled: one file, one writer at a time.

mod amend;
mod claim;
mod dead_letters;
mod migrate;
mod operate;
mod publish;
mod purge;
mod register;
mod settle;
mod stats;
#[cfg(feature = "testing")]
mod testing;
mod turn;
mod values;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection, SqlitePool, Transaction,
    sqlite::{SqliteArguments, SqliteConnectOptions},
};
use uuid::Uuid;

#[cfg(feature = "testing")]
pub(super) use self::testing::waiting;
use self::turn::Turn;
pub(super) use self::{amend::amend, publish::insert};
use super::{
    Claim, Claimed, Ears, LeaseId, Limits, ListenerAddress, Mark, MigrationScript, MissingRights,
    Probe, Renewed, Route, Session, Settlement, Store, TakenOver, Version,
    operate::{Old, Operate, Settled},
    session,
};
use crate::{Error, Outbox, config::Settings, error::Doing as _, lifecycle::Retry};

/// The database's clock: milliseconds since 1970. The one expression by which SQL tells the time.
macro_rules! now {
    () => {
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
    };
}
use now;

/// The rendered SQL of one outbox.
#[derive(Debug)]
pub(super) struct Statements {
    publish: publish::Statements,
    claim: claim::Statements,
    settle: settle::Statements,
    amend: amend::Statements,
    dead_letters: dead_letters::Statements,
    purge: purge::Statements,
    register: register::Statements,
    stats: stats::Statements,
    #[cfg(feature = "testing")]
    testing: testing::Statements,
}

/// The schema that stands in the SQL's text.
const DEFAULT_SCHEMA: &str = "main";

impl Statements {
    pub(super) fn new(settings: &Settings) -> Self {
        let render = |sql: &str| -> Arc<str> { settings.table.render(sql, DEFAULT_SCHEMA).into() };
        Self {
            publish: publish::Statements::new(render, settings.captured),
            claim: claim::Statements::new(render),
            settle: settle::Statements::new(render),
            amend: amend::Statements::new(render),
            dead_letters: dead_letters::Statements::new(render),
            purge: purge::Statements::new(render),
            register: register::Statements::new(render),
            stats: stats::Statements::new(render),
            #[cfg(feature = "testing")]
            testing: testing::Statements::new(render),
        }
    }
}

/// An outbox in a SQLite file.
#[derive(Debug)]
pub(super) struct Sqlite {
    outbox: Outbox,
    pool: SqlitePool,
    turn: Arc<Turn>,
}

/// How often an idle relay asks whether the file has changed: 34 µs each.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);

impl Sqlite {
    pub(super) fn new(outbox: &Outbox, pool: SqlitePool) -> Result<Self, Error> {
        match outbox.settings().table.schema() {
            None | Some(DEFAULT_SCHEMA) => {}
            Some(schema) => {
                return Err(Error::config(format!(
                    "on SQLite the outbox can't be in the attached database `{schema}`: the relay's own \
                     connections don't have it; give the table's name alone"
                )));
            }
        }
        Ok(Self {
            outbox: outbox.clone(),
            pool,
            turn: Arc::default(),
        })
    }

    fn statements(&self) -> &Statements {
        &self.outbox.statements().sqlite
    }

    /// A writing transaction on one of the pool's connections, for the operator's statements.
    async fn begin(&self) -> Result<Transaction<'_, sqlx::Sqlite>, sqlx::Error> {
        self.pool.begin_with("BEGIN IMMEDIATE").await
    }
}

type Query = sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>;

fn query(sql: &Arc<str>) -> Query {
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
}

fn refuse_memory(options: &SqliteConnectOptions) -> Result<(), Error> {
    let name = options.get_filename().to_string_lossy();
    if name.is_empty()
        || name.contains(":memory:")
        || name.contains("sqlx-in-memory")
        || name.contains("mode=memory")
    {
        return Err(Error::config(
            "a relay can't serve a SQLite database in memory: its own connections would each see \
             another one; use a file (a temporary one will do)",
        ));
    }
    Ok(())
}

impl Store for Sqlite {
    fn operator(&self) -> &dyn Operate {
        self
    }

    fn migrate(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(migrate::migrate(self))
    }

    fn migration_scripts(&self) -> Vec<MigrationScript> {
        migrate::scripts(&self.outbox.settings().table)
    }

    fn plain_sql(&self) -> String {
        publish::plain_sql(&self.outbox)
    }

    fn versions(&self) -> BoxFuture<'_, Result<Vec<Version>, Error>> {
        Box::pin(migrate::versions(self))
    }

    fn missing_rights(&self, purges: bool) -> BoxFuture<'_, Result<Option<MissingRights>, Error>> {
        let _ = purges;
        // A file's permissions are not its tables'.
        Box::pin(async { Ok(None) })
    }

    fn open(&self, limits: Limits) -> BoxFuture<'_, Result<Box<dyn Session>, Error>> {
        Box::pin(async move {
            let options = self.pool.connect_options();
            refuse_memory(&options)?;
            let options = SqliteConnectOptions::clone(&options)
                .create_if_missing(false)
                .busy_timeout(limits.statement);
            let connection = options.connect().await.doing("connecting the relay")?;
            let session = Connected {
                outbox: self.outbox.clone(),
                connection,
                turn: Arc::clone(&self.turn),
                data_version: 0,
            };
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }

    fn watch_interval(&self) -> Option<Duration> {
        self.outbox.settings().wake.then_some(WATCH_INTERVAL)
    }

    fn ears(&self, _: &ListenerAddress) -> Result<Arc<dyn Ears>, Error> {
        Err(Error::config(
            "SQLite has nothing to listen to; leave `.listener(..)` out: the relay notices commits by itself",
        ))
    }

    #[cfg(feature = "testing")]
    fn testing(&self) -> &dyn super::testing::Testing {
        self
    }
}

/// A connection of a relay's own.
struct Connected {
    outbox: Outbox,
    connection: SqliteConnection,
    turn: Arc<Turn>,
    /// The file's version when the last probe was made.
    data_version: i64,
}

impl Connected {
    /// A writing transaction. It takes the file's write lock at once, so that it can't lose a race
    /// halfway.
    async fn begin(&mut self) -> Result<Transaction<'_, sqlx::Sqlite>, sqlx::Error> {
        self.connection.begin_with("BEGIN IMMEDIATE").await
    }
}

session!(Connected {
    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        // A deleted row leaves nothing behind in SQLite's indexes.
        _: &'a [Mark],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>> {
        Box::pin(claim::probe(self, routes, cutoff))
    }

    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async {
            Ok(claim::data_version(&mut self.connection).await? != self.data_version)
        })
    }

    fn test_listeners(&mut self, _: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        // There are none.
        Box::pin(async { Ok(()) })
    }
});
