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
mod settle;
mod stats;
#[cfg(feature = "testing")]
mod testing;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool, Transaction,
    postgres::{PgArguments, PgRow},
};
use uuid::Uuid;

#[cfg(feature = "testing")]
pub(super) use self::testing::waiting;
pub(super) use self::{amend::amend, publish::insert};
use super::{
    Claim, Claimed, Ears, LeaseId, ListenerAddress, MigrationScript, MissingRights, Probe, Renewed,
    Route, Session, Settlement, Store, Table, TakenOver, Version,
    operate::{Old, Operate, Settled},
};
use crate::{Error, Outbox, error::Doing as _, lifecycle::Retry};

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
    pub(super) fn new(table: &Table) -> Self {
        let render = |sql: &str| -> Arc<str> { table.render(sql, DEFAULT_SCHEMA).into() };
        let channel = listen::channel(table);
        Self {
            publish: publish::Statements::new(render, &channel),
            claim: claim::Statements::new(render),
            settle: settle::Statements::new(render),
            amend: amend::Statements::new(render, &channel),
            dead_letters: dead_letters::Statements::new(render, &channel),
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

    fn versions(&self) -> BoxFuture<'_, Result<Vec<Version>, Error>> {
        Box::pin(migrate::versions(self))
    }

    fn missing_rights(&self, purges: bool) -> BoxFuture<'_, Result<Option<MissingRights>, Error>> {
        Box::pin(rights::missing(self, purges))
    }

    fn open(&self, timeout: Duration) -> BoxFuture<'_, Result<Box<dyn Session>, Error>> {
        Box::pin(async move {
            let connection = self
                .pool
                .connect_options()
                .connect()
                .await
                .doing("connecting the relay")?;
            Ok(Box::new(Connected::new(&self.outbox, connection, timeout)) as Box<dyn Session>)
        })
    }

    fn watch_interval(&self) -> Option<Duration> {
        None
    }

    fn ears(&self, address: &ListenerAddress) -> Result<Arc<dyn Ears>, Error> {
        Ok(Arc::new(listen::Listening {
            options: address.postgres()?,
            channel: listen::channel(&self.outbox.settings().table),
        }))
    }

    #[cfg(feature = "testing")]
    fn testing(&self) -> &dyn super::testing::Testing {
        self
    }
}

/// A connection of a relay's own.
struct Connected {
    outbox: Outbox,
    connection: PgConnection,
    /// How each transaction begins: it says its isolation itself, and overrides the timeouts that a
    /// role or a database may set for interactive use. Our statements look at few rows; where a plan looks
    /// costly all the same, compiling it takes longer than running it. One round trip, since it has no
    /// parameters.
    begin: Arc<str>,
    /// The same, but it waits only shortly for a row's lock: one locked row must not hold up a batch.
    begin_settle: Arc<str>,
}

/// The longest wait for the lock of a row that is being settled.
const SETTLE_LOCK_TIMEOUT: Duration = Duration::from_millis(100);

impl Connected {
    fn new(outbox: &Outbox, connection: PgConnection, timeout: Duration) -> Self {
        let begin = |lock_timeout: Duration| -> Arc<str> {
            let [statement, lock] =
                [timeout, lock_timeout].map(|timeout| timeout.as_millis().max(1));
            format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
                 SET LOCAL jit = off; \
                 SET LOCAL statement_timeout = {statement}; \
                 SET LOCAL lock_timeout = {lock}; \
                 SET LOCAL idle_in_transaction_session_timeout = {statement}"
            )
            .into()
        };
        Self {
            outbox: outbox.clone(),
            connection,
            begin: begin(timeout),
            begin_settle: begin(SETTLE_LOCK_TIMEOUT.min(timeout / 4)),
        }
    }

    async fn begin(&mut self) -> Result<Transaction<'_, sqlx::Postgres>, sqlx::Error> {
        let begin = Arc::clone(&self.begin);
        self.connection.begin_with(AssertSqlSafe(begin)).await
    }

    async fn begin_settle(&mut self) -> Result<Transaction<'_, sqlx::Postgres>, sqlx::Error> {
        let begin = Arc::clone(&self.begin_settle);
        self.connection.begin_with(AssertSqlSafe(begin)).await
    }
}

impl Session for Connected {
    fn now(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
        Box::pin(claim::now(self))
    }

    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>> {
        Box::pin(claim::probe(self, routes, cutoff))
    }

    fn claim<'a>(&'a mut self, claim: &'a Claim) -> BoxFuture<'a, Result<Vec<Claimed>, Error>> {
        Box::pin(claim::claim(self, claim))
    }

    fn take_over<'a>(
        &'a mut self,
        claim: &'a Claim,
        retry: &'a Retry,
        alone: bool,
    ) -> BoxFuture<'a, Result<TakenOver, Error>> {
        Box::pin(claim::take_over(self, claim, retry, alone))
    }

    fn renew<'a>(
        &'a mut self,
        leases: &'a [LeaseId],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Renewed, Error>> {
        Box::pin(settle::renew(self, leases, lease))
    }

    fn settle<'a>(
        &'a mut self,
        batch: &'a [Settlement],
    ) -> BoxFuture<'a, Result<Vec<Uuid>, Error>> {
        Box::pin(settle::settle(self, batch))
    }

    fn heartbeat<'a>(
        &'a mut self,
        relay: Uuid,
        routes: &'a [Route],
        forget: Duration,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(register::heartbeat(self, relay, routes, forget))
    }

    fn farewell(&mut self, relay: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(register::farewell(self, relay))
    }

    fn take_duty<'a>(
        &'a mut self,
        duty: &'static str,
        relay: Uuid,
        hold: Duration,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(purge::take_duty(self, duty, relay, hold))
    }

    fn settled_routes(
        &mut self,
        settled: Settled,
    ) -> BoxFuture<'_, Result<Vec<(String, i32)>, Error>> {
        Box::pin(purge::routes(self, settled))
    }

    fn count_old<'a>(
        &'a mut self,
        old: &'a Old,
        limit: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(purge::count(self, old, limit))
    }

    fn purge<'a>(&'a mut self, old: &'a Old, limit: u64) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(purge::purge(self, old, limit))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Whether the other side still listens makes no difference any more.
            let _ = self.connection.close().await;
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        // There is no watch interval; a listener tells.
        Box::pin(async { Ok(false) })
    }

    fn test_listeners(&mut self, test: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            const DOING: &str = "testing the listener";
            let outbox = self.outbox.clone();
            let mut tx = self.begin().await.doing(DOING)?;
            let test = listen::test_payload(test);
            listen::notify(&outbox, &mut tx, &test).await.doing(DOING)?;
            tx.commit().await.doing(DOING)
        })
    }
}
