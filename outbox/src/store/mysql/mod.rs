//! MySQL 8.0.17 and MariaDB 10.6, and later.
//!
//! Neither has partial indexes, arrays, or a clock in UTC that moves within a statement; only MariaDB returns what a
//! statement has written. So lists are JSON, a generated column stands in for a partial index, and what is to be
//! changed is locked and read first.

mod amend;
mod claim;
mod dead_letters;
mod migrate;
mod operate;
mod publish;
mod purge;
mod register;
mod retried;
mod rights;
mod session;
mod settle;
mod stats;
#[cfg(feature = "testing")]
mod testing;
mod values;
mod version;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, MySqlPool, Transaction,
    mysql::{MySqlArguments, MySqlDatabaseError},
};

use self::session::Connected;
use tokio::sync::watch;

#[cfg(feature = "testing")]
pub(super) use self::testing::waiting;
pub(super) use self::{amend::amend, publish::insert};
use super::{
    Ears, Limits, ListenerAddress, MigrationScript, MissingRights, Session, Store, Table, Version,
    operate::Operate,
};
use crate::{Error, Outbox, config::Settings};

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

impl Statements {
    pub(super) fn new(settings: &Settings) -> Self {
        let render = |sql: &str| -> Arc<str> { rendered(&settings.table, sql).into() };
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

/// Puts the names into SQL written for the default ones: the prefix `outbox` of a name in backticks, which all are
/// tables', becomes the table's name, with its schema before it.
fn rendered(table: &Table, sql: &str) -> String {
    table.render_in_backticks(sql)
}

/// An outbox in MySQL or MariaDB.
#[derive(Debug)]
pub(super) struct Mysql {
    outbox: Outbox,
    pool: MySqlPool,
}

impl Mysql {
    pub(super) fn new(outbox: &Outbox, pool: MySqlPool) -> Self {
        Self {
            outbox: outbox.clone(),
            pool,
        }
    }

    fn statements(&self) -> &Statements {
        &self.outbox.statements().mysql
    }
}

/// A transaction on one of the pool's connections, for the operator's statements: in one at REPEATABLE READ, they
/// would lock the gaps between rows, in which others publish.
async fn begin(
    connection: &mut MySqlConnection,
) -> Result<Transaction<'_, sqlx::MySql>, sqlx::Error> {
    const NEXT: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";
    connection.execute(NEXT).await?;
    connection.begin().await
}

/// Ends a transaction as its work has ended. One that is dropped instead keeps its locks until somebody uses the
/// connection again.
async fn ended<T>(
    tx: Transaction<'_, sqlx::MySql>,
    work: Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    match work {
        Ok(done) => tx.commit().await.map(|()| done),
        Err(error) => {
            // What is wrong has been said; a connection that can't roll back does it by ending.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

type Query = sqlx::query::Query<'static, sqlx::MySql, MySqlArguments>;

fn query(sql: &Arc<str>) -> Query {
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
}

/// The server's number of an error.
fn code(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

impl Store for Mysql {
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
        Box::pin(rights::missing(self, purges))
    }

    fn open(&self, limits: Limits) -> BoxFuture<'_, Result<Box<dyn Session>, Error>> {
        Box::pin(async move {
            let options = self.pool.connect_options();
            let session = Connected::open(&self.outbox, &options, limits).await?;
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }

    fn watch_interval(&self) -> Option<Duration> {
        None
    }

    fn published(&self) -> Option<watch::Receiver<()>> {
        let wake = self.outbox.settings().wake;
        wake.then(|| self.outbox.published().subscribe())
    }

    fn ears(&self, _: &ListenerAddress) -> Result<Arc<dyn Ears>, Error> {
        Err(Error::config(
            "MySQL and MariaDB have nothing to listen to; leave `.listener(..)` out: the relay polls",
        ))
    }

    #[cfg(feature = "testing")]
    fn testing(&self) -> &dyn super::testing::Testing {
        self
    }
}
