//! What an operator asks of a store: to look, to redrive, to discard, to purge, to pause.

use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::RouteCount;
use crate::{DeadLetter, Discarded, Error, Inspected, LiveRelay, Paused};

/// The operator's side of an outbox, reached through the application's pool.
///
/// Whatever changes many rows does so in chunks, each in a transaction of its own. A chunk skips rows
/// that somebody has locked, and repeats in its outer WHERE what it relies on.
pub(crate) trait Operate: Send + Sync {
    /// The database's clock, in microseconds since 1970.
    fn now(&self) -> BoxFuture<'_, Result<i64, Error>>;

    /// Rows per route and state, in no order. No more than `limit` of each are counted.
    fn stats(&self, limit: Option<u64>) -> BoxFuture<'_, Result<Vec<RouteCount>, Error>>;

    /// Relays that were seen within `alive`, the latest started last.
    fn relays(&self, alive: Duration) -> BoxFuture<'_, Result<Vec<LiveRelay>, Error>>;

    /// Dead letters, the latest first.
    fn dead_letters<'a>(&'a self, page: &'a Page) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>>;

    /// A dead letter with its contents.
    fn inspect(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Inspected>, Error>>;

    /// How many dead letters the filter lets through; no more than `limit` are counted.
    fn count_dead<'a>(
        &'a self,
        filter: &'a Filter,
        limit: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, Error>>;

    /// Makes a dead row pending again, with another payload if one is given; false if there is none of
    /// this id (and, for another payload, of its topic and version).
    fn redrive<'a>(
        &'a self,
        id: Uuid,
        corrected: Option<&'a Corrected>,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// Deletes a dead row and writes down why; false if there is none of this id.
    fn discard<'a>(&'a self, id: Uuid, reason: &'a str) -> BoxFuture<'a, Result<bool, Error>>;

    /// One chunk of dead letters, the oldest first.
    fn sweep<'a>(
        &'a self,
        filter: &'a Filter,
        action: &'a Action,
        chunk: Chunk,
    ) -> BoxFuture<'a, Result<Swept, Error>>;

    /// What was discarded, the latest first.
    fn discarded<'a>(&'a self, page: &'a Page) -> BoxFuture<'a, Result<Vec<Discarded>, Error>>;

    /// Has no relay claim from this topic; false if it was paused already.
    fn pause<'a>(
        &'a self,
        topic: &'a str,
        reason: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// Ends a pause; false if there was none.
    fn resume<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<bool, Error>>;

    /// The paused topics, in no order.
    fn paused(&self) -> BoxFuture<'_, Result<Vec<Paused>, Error>>;
}

/// Implements [`Operate`] for a store by the functions of the database's modules `dead_letters`, `register`
/// and `stats`.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
macro_rules! operate {
    ($store:ty) => {
        impl Operate for $store {
            fn now(&self) -> BoxFuture<'_, Result<i64, Error>> {
                Box::pin(stats::now(self))
            }

            fn stats(&self, limit: Option<u64>) -> BoxFuture<'_, Result<Vec<RouteCount>, Error>> {
                Box::pin(stats::stats(self, limit))
            }

            fn relays(&self, alive: Duration) -> BoxFuture<'_, Result<Vec<LiveRelay>, Error>> {
                Box::pin(stats::relays(self, alive))
            }

            fn dead_letters<'a>(
                &'a self,
                page: &'a Page,
            ) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
                Box::pin(dead_letters::list(self, page))
            }

            fn inspect(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Inspected>, Error>> {
                Box::pin(dead_letters::inspect(self, id))
            }

            fn count_dead<'a>(
                &'a self,
                filter: &'a Filter,
                limit: Option<u64>,
            ) -> BoxFuture<'a, Result<u64, Error>> {
                Box::pin(dead_letters::count_dead(self, filter, limit))
            }

            fn redrive<'a>(
                &'a self,
                id: Uuid,
                corrected: Option<&'a Corrected>,
            ) -> BoxFuture<'a, Result<bool, Error>> {
                Box::pin(dead_letters::redrive(self, id, corrected))
            }

            fn discard<'a>(
                &'a self,
                id: Uuid,
                reason: &'a str,
            ) -> BoxFuture<'a, Result<bool, Error>> {
                Box::pin(dead_letters::discard(self, id, reason))
            }

            fn sweep<'a>(
                &'a self,
                filter: &'a Filter,
                action: &'a Action,
                chunk: Chunk,
            ) -> BoxFuture<'a, Result<Swept, Error>> {
                Box::pin(dead_letters::sweep(self, filter, action, chunk))
            }

            fn discarded<'a>(
                &'a self,
                page: &'a Page,
            ) -> BoxFuture<'a, Result<Vec<Discarded>, Error>> {
                Box::pin(dead_letters::discarded(self, page))
            }

            fn pause<'a>(
                &'a self,
                topic: &'a str,
                reason: Option<&'a str>,
            ) -> BoxFuture<'a, Result<bool, Error>> {
                Box::pin(register::pause(self, topic, reason))
            }

            fn resume<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
                Box::pin(register::resume(self, topic))
            }

            fn paused(&self) -> BoxFuture<'_, Result<Vec<Paused>, Error>> {
                Box::pin(register::paused(self))
            }
        }
    };
}
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(super) use operate;

/// Which dead letters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) topic: Option<String>,
    pub(crate) key: Option<String>,
    /// Part of the last error's text.
    pub(crate) error: Option<String>,
    /// They died at this time or before it; in microseconds since 1970.
    pub(crate) until: Option<i64>,
    /// They died at this time or after it.
    pub(crate) since: Option<i64>,
}

/// Where a page begins, or a sweep goes on: a time in microseconds since 1970, and an id.
pub(crate) type Cursor = (i64, Uuid);

/// A page of a list whose latest entries come first.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) filter: Filter,
    /// The last entry of the page before.
    pub(crate) after: Option<Cursor>,
    pub(crate) limit: u32,
}

/// What is done with dead letters.
#[derive(Debug)]
pub(crate) enum Action {
    Redrive,
    Discard(String),
}

/// The next so many rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) after: Option<Cursor>,
    pub(crate) limit: u64,
}

/// What became of a chunk.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) changed: u64,
    /// Where the next chunk begins; `None` after the last row.
    pub(crate) next: Option<Cursor>,
}

/// What takes the place of a payload.
#[derive(Debug)]
pub(crate) struct Corrected {
    pub(crate) payload: String,
    /// What the payload was made as, where that is known.
    pub(crate) made: Option<Made>,
}

/// The message that a payload is; it takes the place of one of its own version or an earlier one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) topic: &'static str,
    pub(crate) version: i32,
    pub(crate) oldest: i32,
}

/// States that only a purge, or a person, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    Delivered,
    Dead,
}

/// What a purge removes: what settled at a time or before it, in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Old {
    pub(crate) what: What,
    pub(crate) until: i64,
}

#[derive(Debug)]
pub(crate) enum What {
    Rows {
        settled: Settled,
        topic: String,
        version: i32,
    },
    /// The notes on what was discarded.
    Notes,
}

/// The time that lies so far back. No row is older than 1970, and what lies far beyond is no time to a database.
pub(crate) fn ago(now: i64, age: Duration) -> i64 {
    now.saturating_sub(crate::publish::to_micros(age)).max(-1)
}

/// Of a time on a page, to go on from there.
pub(crate) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    crate::publish::to_micros(since.unwrap_or_default())
}
