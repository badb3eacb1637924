//! What only the test kit asks of a database.

use std::time::Duration;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::{Claim, TakenOver};
use crate::{Error, MessageState, Outbox, lifecycle::Retry, publish::On};

/// An outbox under test, beside what [`Store`](super::Store) offers of it. Works on the pool's connections.
pub(crate) trait Testing: Send + Sync {
    /// How the row stands; none if there is none of this id.
    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Standing>, Error>>;

    /// Claims this row and no other: if it is pending and due, or by what [`Retry::take_over`] says of it if
    /// its lease has lapsed. `claim` says neither which one nor how many.
    fn take_one<'a>(
        &'a self,
        claim: &'a Claim,
        retry: &'a Retry,
        id: Uuid,
    ) -> BoxFuture<'a, Result<TakenOver, Error>>;

    /// Ends the lease on this row, if there is one, and draws another token: whoever holds it finds that it
    /// is lost. It lapses just after now, so that no drain which has begun takes the row over.
    fn lapse(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>>;

    /// Moves all times of the outbox's tables into the past, as far as 1970.
    fn advance(&self, by: Duration) -> BoxFuture<'_, Result<(), Error>>;
}

/// How a row stands.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) topic: String,
    pub(crate) version: i32,
    pub(crate) state: MessageState,
    pub(crate) unsettled: u32,
    /// How far away its due time is, in microseconds; zero or less is now.
    pub(crate) due_in: i64,
    /// The same of its lease's deadline.
    pub(crate) leased_for: Option<i64>,
    /// The column.
    pub(crate) errors: String,
}

/// A message that has been published and not been delivered yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) id: Uuid,
    pub(crate) key: Option<String>,
    pub(crate) payload: String,
    pub(crate) headers: Option<String>,
    pub(crate) dedup_key: Option<String>,
    /// For how long after its publish it is not due, in microseconds.
    pub(crate) delay: i64,
    /// A text of it is not UTF-8, which SQLite lets through.
    pub(crate) unreadable: bool,
}

/// The messages of this topic and version that the transaction sees as pending or processing, in the
/// order of their publishing.
pub(crate) async fn waiting(
    outbox: &Outbox,
    on: On<'_>,
    topic: &'static str,
    version: i64,
) -> Result<Vec<Waiting>, Error> {
    match on {
        #[cfg(feature = "mysql")]
        On::Mysql(connection) => super::mysql::waiting(outbox, connection, topic, version).await,
        #[cfg(feature = "postgres")]
        On::Postgres(connection) => {
            super::postgres::waiting(outbox, connection, topic, version).await
        }
        #[cfg(feature = "sqlite")]
        On::Sqlite(connection) => super::sqlite::waiting(outbox, connection, topic, version).await,
        #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        On::Nothing(_, never) => {
            let _ = (outbox, topic, version);
            match never {}
        }
    }
}
