//! Postgres 14 and later.

mod amend;
mod claim;
mod dead_letters;
mod listen;
mod migrate;
mod operate;
mod publish;
mod purge;
mod register;
mod rights;
mod session;
mod settle;
mod stats;
#[cfg(feature = "testing")]
mod testing;
mod values;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, PgPool, Transaction,
    postgres::{PgArguments, PgRow},
};

use self::session::Connected;
#[cfg(feature = "testing")]
pub(super) use self::testing::waiting;
pub(super) use self::{amend::amend, publish::insert};
use super::{
    Ears, Limits, ListenerAddress, MigrationScript, MissingRights, Session, Store, Version,
    operate::Operate,
};
use crate::{Error, Outbox, config::Settings};

/// Appends a failure to the last nine; its text is an SQL expression.
macro_rules! error_added {
    ($text:literal) => {
        concat!(
            "errors = (CASE WHEN jsonb_array_length(o.errors) >= 10 THEN o.errors - 0 ELSE o.errors END)
        || jsonb_build_array(jsonb_build_object('attempt', o.attempts,
            'at', (extract(epoch FROM statement_timestamp()) * 1000)::bigint, 'text', ",
            $text,
            "))"
        )
    };
}
use error_added;

/// What `claim::claimed` reads.
macro_rules! claimed_columns {
    () => {
        "RETURNING o.id, o.key, o.payload, o.headers, o.attempts, o.created_at, o.available_at, statement_timestamp()"
    };
}
use claimed_columns;

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
const DEFAULT_SCHEMA: &str = "public";

impl Statements {
    pub(super) fn new(settings: &Settings) -> Self {
        let table = &settings.table;
        let render = |sql: &str| -> Arc<str> { table.render(sql, DEFAULT_SCHEMA).into() };
        let signals = listen::Signals::of(table);
        Self {
            publish: publish::Statements::new(render, signals, settings.captured),
            claim: claim::Statements::new(render),
            settle: settle::Statements::new(render),
            amend: amend::Statements::new(render, signals),
            dead_letters: dead_letters::Statements::new(render, signals),
            purge: purge::Statements::new(render),
            register: register::Statements::new(render),
            stats: stats::Statements::new(render),
            #[cfg(feature = "testing")]
            testing: testing::Statements::new(render),
        }
    }
}

/// An outbox in Postgres.
#[derive(Debug)]
pub(super) struct Postgres {
    outbox: Outbox,
    pool: PgPool,
}

impl Postgres {
    pub(super) fn new(outbox: &Outbox, pool: PgPool) -> Self {
        Self {
            outbox: outbox.clone(),
            pool,
        }
    }

    fn statements(&self) -> &Statements {
        &self.outbox.statements().postgres
    }

    /// A transaction on one of the pool's connections, for the operator's statements.
    async fn begin(&self) -> Result<Transaction<'_, sqlx::Postgres>, sqlx::Error> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL jit = off";
        self.pool.begin_with(BEGIN).await
    }

    /// Runs one statement in a transaction of its own.
    async fn run(&self, query: Query) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut tx = self.begin().await?;
        let rows = query.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(rows)
    }
}

type Query = sqlx::query::Query<'static, sqlx::Postgres, PgArguments>;

/// A statement of ours. Through a pooler in transaction mode it must not outlive its transaction.
fn query(outbox: &Outbox, sql: &Arc<str>) -> Query {
    sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(!outbox.settings().pooler)
}

/// A count as the integer that the columns are; a count never gets near its end.
fn stored(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Microseconds since 1970.
fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

impl Store for Postgres {
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

    fn ears(&self, address: &ListenerAddress) -> Result<Arc<dyn Ears>, Error> {
        Ok(Arc::new(listen::Listening {
            options: address.postgres()?,
            signals: listen::Signals::of(&self.outbox.settings().table),
        }))
    }

    #[cfg(feature = "testing")]
    fn testing(&self) -> &dyn super::testing::Testing {
        self
    }
}
