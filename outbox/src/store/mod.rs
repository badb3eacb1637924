//! The seam between the library and the databases. All SQL stands below this folder.
//!
//! [`Store`] is one outbox in one database; [`Session`] is one connection that a relay owns. They
//! assume neither RETURNING, nor arrays, nor one statement per step: what a step needs, it does
//! inside one transaction of its own. The rule under all of it: every statement that changes a row
//! repeats the state, and the token where there is one, that it relies on in its outer WHERE.

mod fault;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod insert;
mod listener;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
pub(crate) mod operate;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
mod table;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod take_over;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use uuid::Uuid;

use self::operate::{Old, Operate, Settled};
pub(crate) use self::{
    fault::{
        Fault, fault, is_connection, is_down, is_missing_table, is_mixed_up, is_read_only,
        is_retryable,
    },
    migrate::{Version, compatible},
    row::{Claimed, LeaseId, Mark, Probe, Route, RouteCount, Settlement, TakenOver, Verdict},
    table::Table,
};
pub use self::{listener::ListenerAddress, migrate::MigrationScript, pool::DatabasePool};
use crate::{
    Error, MessageState, Outbox, Published,
    config::Settings,
    lifecycle::Retry,
    publish::{Due, Envelope, On},
};

/// One outbox in one database, reached through the application's pool.
pub(crate) trait Store: Send + Sync {
    /// What an operator may ask of it.
    fn operator(&self) -> &dyn Operate;

    /// Brings the tables up to date; waits for other migrators, within bounds.
    fn migrate(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// What [`migrate`](Self::migrate) runs, oldest first.
    fn migration_scripts(&self) -> Vec<MigrationScript>;

    /// The statements by which a program in any language publishes a message.
    fn plain_sql(&self) -> String;

    /// The migrations in place, oldest first; empty without the history table.
    fn versions(&self) -> BoxFuture<'_, Result<Vec<Version>, Error>>;

    /// The rights that a relay needs and its role lacks, as `DELETE on "public"."outbox"`, and the statement
    /// that grants them.
    fn missing_rights(&self, purges: bool) -> BoxFuture<'_, Result<Option<MissingRights>, Error>>;

    /// Opens a connection of the relay's own, from the pool's options.
    fn open(&self, limits: Limits) -> BoxFuture<'_, Result<Box<dyn Session>, Error>>;

    /// Where relays hear of commits before they poll.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for an address that is none, or where there is nothing to listen to.
    fn ears(&self, address: &ListenerAddress) -> Result<Arc<dyn Ears>, Error>;

    /// How often an idle relay may ask [`Session::changed`], where that is cheaper than a probe.
    fn watch_interval(&self) -> Option<Duration>;

    /// What tells of each publish to this outbox in this process, before its commit; only where nothing tells of
    /// commits.
    fn published(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// The same outbox as the test kit sees it.
    #[cfg(feature = "testing")]
    fn testing(&self) -> &dyn testing::Testing;
}

/// A connection that belongs to a relay. An operation that fails leaves no transaction open.
pub(crate) trait Session: Send + Sync {
    /// The database's clock, in microseconds since 1970.
    fn now(&mut self) -> BoxFuture<'_, Result<i64, Error>>;

    /// One statement that tells which routes have something to claim, and when the next row is due.
    /// `cutoff` replaces the database's clock as the time up to which rows count as due. What lies before
    /// a route's mark need not be looked at, nor leases that have not ended where a row is due or there is a cutoff.
    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        marks: &'a [Mark],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>>;

    /// Claims at most `limit` pending rows of the route, in the order they are due.
    fn claim<'a>(&'a mut self, claim: &'a Claim) -> BoxFuture<'a, Result<Vec<Claimed>, Error>>;

    /// Claims rows whose lease lapsed, by what [`Retry::take_over`] says of each: some run, one at
    /// most runs alone (if `alone` allows it), some are dead.
    fn take_over<'a>(
        &'a mut self,
        claim: &'a Claim,
        retry: &'a Retry,
        alone: bool,
    ) -> BoxFuture<'a, Result<TakenOver, Error>>;

    /// Moves the deadline of these leases to `lease` from now. Returns those that were moved and
    /// those that are still held but locked by somebody; all others are lost.
    fn renew<'a>(
        &'a mut self,
        leases: &'a [LeaseId],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Renewed, Error>>;

    /// Settles a batch, in which no row stands twice, each row only if it is still processing under its token. Returns the ids
    /// that were settled; the leases of the others are lost.
    fn settle<'a>(&'a mut self, batch: &'a [Settlement])
    -> BoxFuture<'a, Result<Vec<Uuid>, Error>>;

    /// Writes down that this relay lives and what it serves; forgets relays not seen for `forget`.
    fn heartbeat<'a>(
        &'a mut self,
        relay: Uuid,
        routes: &'a [Route],
        forget: Duration,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Writes down that this relay is gone.
    fn farewell(&mut self, relay: Uuid) -> BoxFuture<'_, Result<(), Error>>;

    /// Takes a duty, or keeps it, for `hold` from now; false while another relay has it.
    fn take_duty<'a>(
        &'a mut self,
        duty: &'static str,
        relay: Uuid,
        hold: Duration,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// The routes that have rows of this state.
    fn settled_routes(
        &mut self,
        settled: Settled,
    ) -> BoxFuture<'_, Result<Vec<(String, i32)>, Error>>;

    /// How much a purge would remove; no more than `limit` is counted.
    fn count_old<'a>(
        &'a mut self,
        old: &'a Old,
        limit: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, Error>>;

    /// Removes at most `limit` rows, the oldest first; how many it were.
    fn purge<'a>(&'a mut self, old: &'a Old, limit: u64) -> BoxFuture<'a, Result<u64, Error>>;

    /// Ends the connection in an orderly way.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// Whether anything was committed since the last probe; only where the store has a watch interval.
    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>>;

    /// Sends what every listener of this outbox hears; only where there are [`Ears`].
    fn test_listeners(&mut self, test: Uuid) -> BoxFuture<'_, Result<(), Error>>;
}

/// Implements [`Session`] for a connection by the functions of the database's modules `claim`, `settle`, `register` and
/// `purge`, and by what stands in the braces.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
macro_rules! session {
    ($connected:ty { $($own:item)+ }) => {
        impl Session for $connected {
            fn now(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
                Box::pin(claim::now(self))
            }

            fn claim<'a>(
                &'a mut self,
                claim: &'a Claim,
            ) -> BoxFuture<'a, Result<Vec<Claimed>, Error>> {
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

            fn purge<'a>(
                &'a mut self,
                old: &'a Old,
                limit: u64,
            ) -> BoxFuture<'a, Result<u64, Error>> {
                Box::pin(purge::purge(self, old, limit))
            }

            fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
                Box::pin(async move {
                    // Whether the other side still listens makes no difference any more.
                    let _ = self.connection.close().await;
                })
            }

            $($own)+
        }
    };
}
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use session;

/// Makes listeners, and what publishers ask for whether anybody listens.
pub(crate) trait Ears: Send + Sync {
    /// A new one, on a new connection; none if that connection has no session of its own to listen on.
    /// Once this side is silent for as long as `silence`, the server ends the session by itself.
    fn open(&self, silence: Duration) -> BoxFuture<'_, Result<Option<Box<dyn Ear>>, Error>>;

    /// A connection for the lookout, which ends in the same way.
    fn lookout(&self, silence: Duration) -> BoxFuture<'_, Result<Box<dyn Lookout>, Error>>;
}

/// A connection that hears of commits. After an error it is of no more use.
pub(crate) trait Ear: Send {
    /// Waits for the next thing to hear. Safe to cancel.
    fn hear(&mut self) -> BoxFuture<'_, Result<Heard, Error>>;

    /// Asks whether the other side is still there; true once this relay is the lookout of all that
    /// listen. It stays the lookout for as long as the connection lives.
    fn beat(&mut self) -> BoxFuture<'_, Result<bool, Error>>;
}

/// Tells publishers whether anybody waits to be woken: a NOTIFY in each transaction would make all commits
/// of the database wait for each other. After an error it is of no more use.
pub(crate) trait Lookout: Send {
    /// From now on publishers wake those who listen. It waits, though not for long, for the transactions of those
    /// who have published in silence: once it is true, they have ended. False if one of them takes longer.
    fn arm(&mut self) -> BoxFuture<'_, Result<bool, Error>>;

    /// Tells everybody to look for what was published in silence.
    fn call(&mut self) -> BoxFuture<'_, Result<(), Error>>;

    /// From now on publishers keep silent.
    fn disarm(&mut self) -> BoxFuture<'_, Result<(), Error>>;

    /// Asks whether the other side is still there.
    fn beat(&mut self) -> BoxFuture<'_, Result<(), Error>>;
}

/// What a listener hears.
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only Postgres has listeners")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Somebody has published.
    Wake,
    /// Somebody may have published in silence.
    Look,
    /// Somebody tests their listener.
    Test(Uuid),
    /// The connection is gone.
    Lost,
}

/// How long the database may take for an operation of a relay's connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) statement: Duration,
    /// For the lock of a row, where others can be locked one by one.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        expect(dead_code, reason = "SQLite locks the whole file")
    )]
    pub(crate) lock: Duration,
}

impl From<Duration> for Limits {
    fn from(timeout: Duration) -> Self {
        Self {
            statement: timeout,
            lock: timeout,
        }
    }
}

/// What a relay asks of a claim.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) route: Route,
    /// At least 1.
    pub(crate) limit: u32,
    /// Drawn at random for this call, so that it never repeats for a row.
    pub(crate) token: Uuid,
    pub(crate) lease: Duration,
    /// See [`Session::probe`].
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        expect(dead_code, reason = "SQLite has no use for marks")
    )]
    pub(crate) mark: Mark,
    /// See [`Session::probe`].
    pub(crate) cutoff: Option<i64>,
}

/// What became of the leases of one renewal.
#[derive(Debug, Default)]
pub(crate) struct Renewed {
    pub(crate) moved: Vec<LeaseId>,
    pub(crate) locked: Vec<LeaseId>,
}

/// The rendered SQL of one outbox for each database.
#[derive(Debug)]
pub(crate) struct Statements {
    #[cfg(feature = "mysql")]
    mysql: mysql::Statements,
    #[cfg(feature = "postgres")]
    postgres: postgres::Statements,
    #[cfg(feature = "sqlite")]
    sqlite: sqlite::Statements,
}

impl Statements {
    pub(crate) fn new(settings: &Settings) -> Self {
        #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        let _ = settings;
        Self {
            #[cfg(feature = "mysql")]
            mysql: mysql::Statements::new(settings),
            #[cfg(feature = "postgres")]
            postgres: postgres::Statements::new(settings),
            #[cfg(feature = "sqlite")]
            sqlite: sqlite::Statements::new(settings),
        }
    }
}

/// Reaches an outbox through a pool.
pub(crate) fn reach(outbox: &Outbox, pool: &dyn DatabasePool) -> Result<Arc<dyn Store>, Error> {
    pool.handle().reach(outbox)
}

/// Writes envelopes inside the transaction that is open on the connection; results in their order.
pub(crate) async fn insert(
    outbox: &Outbox,
    on: On<'_>,
    envelopes: &[Envelope],
) -> Result<Vec<Published>, Error> {
    match on {
        #[cfg(feature = "mysql")]
        On::Mysql(connection) => mysql::insert(outbox, connection, envelopes).await,
        #[cfg(feature = "postgres")]
        On::Postgres(connection) => postgres::insert(outbox, connection, envelopes).await,
        #[cfg(feature = "sqlite")]
        On::Sqlite(connection) => sqlite::insert(outbox, connection, envelopes).await,
        #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        On::Nothing(_, never) => {
            let _ = (outbox, envelopes);
            match never {}
        }
    }
}

/// Changes a message that waits, inside the transaction that is open on the connection.
pub(crate) async fn amend(
    outbox: &Outbox,
    on: On<'_>,
    target: &Target,
    amendment: Amendment,
) -> Result<Amended, Error> {
    match on {
        #[cfg(feature = "mysql")]
        On::Mysql(connection) => mysql::amend(outbox, connection, target, amendment).await,
        #[cfg(feature = "postgres")]
        On::Postgres(connection) => postgres::amend(outbox, connection, target, amendment).await,
        #[cfg(feature = "sqlite")]
        On::Sqlite(connection) => sqlite::amend(outbox, connection, target, amendment).await,
        #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        On::Nothing(_, never) => {
            let _ = (outbox, target, amendment);
            match never {}
        }
    }
}

/// What a role may not do.
#[derive(Debug)]
pub(crate) struct MissingRights {
    pub(crate) role: String,
    /// Such as `DELETE on "public"."outbox"`.
    pub(crate) missing: Vec<String>,
    /// The statements that grant all that a relay needs.
    pub(crate) grants: String,
}

/// A message that is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Id(Uuid),
    DedupKey { topic: String, key: String },
}

/// How a message that waits is to be changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amendment {
    Cancel,
    Reschedule(Due),
}

impl Amendment {
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Cancel => "cancelling a message",
            Self::Reschedule(_) => "rescheduling a message",
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amended {
    Done,
    /// It does not wait; `None` if there is no such message.
    Not(Option<MessageState>),
}
