//! What is in the table: per topic, version and state; and who serves it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use uuid::Uuid;

use super::pause::Paused;
use crate::{
    Error, Outbox, meter,
    store::{self, DatabasePool, RouteCount, Store},
};

/// How many messages wait, run, are kept and are dead; which relays live, and which topics are paused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// One entry per topic and version that has rows, in that order.
    pub routes: Vec<RouteStats>,
    /// The relays that were seen within the last 30 s, in the order of their start.
    pub relays: Vec<LiveRelay>,
    /// The paused topics, by name.
    pub paused: Vec<Paused>,
    /// No more rows than this were counted of each route and state: a count that is as high means "so many
    /// or more". `None`: all were counted.
    pub limit: Option<u64>,
}

/// The messages of one topic and version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteStats {
    /// The topic.
    pub topic: String,
    /// The version of the payload.
    pub version: u32,
    /// Waiting for a relay, their time has come.
    pub due: u64,
    /// Delayed or in backoff.
    pub scheduled: u64,
    /// Leased by a relay.
    pub processing: u64,
    /// Delivered and kept.
    pub delivered: u64,
    /// Given up.
    pub dead: u64,
    /// How long the oldest due message has been due.
    pub oldest_due: Option<Duration>,
    /// Messages wait (pending, or left behind by a relay whose lease lapsed), and no live relay serves
    /// this topic and version.
    pub unrouted: bool,
    /// The topic is paused.
    pub paused: bool,
}

/// A relay that was seen lately.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveRelay {
    /// Which run of a relay it is: a new one at each start.
    pub id: Uuid,
    /// The topics and versions that it serves.
    pub routes: Vec<(String, u32)>,
    /// When it started, by the database's clock.
    pub started_at: SystemTime,
    /// How long ago it was seen: relays tell every 10 s that they live.
    pub seen: Duration,
}

/// A relay that has not been seen for this long is not counted as alive: three heartbeats.
pub(crate) const ALIVE: Duration = Duration::from_secs(30);

/// How many rows of a route and state are counted, unless all have to be.
const LIMIT: u64 = 10_000;

/// Reads the `routes` of a relay; what is not in our form was written by somebody else.
pub(crate) fn served(json: &str) -> Vec<(String, u32)> {
    serde_json::from_str(json).unwrap_or_default()
}

/// A question for statistics; made by [`Outbox::stats`].
#[must_use = "it is asked when it is awaited"]
pub struct StatsQuery {
    store: Result<Arc<dyn Store>, Error>,
    limit: Option<u64>,
}

impl Outbox {
    /// Counts the rows of the table, when it is awaited: `outbox.stats(&pool).await?`. Up to 10,000 rows
    /// per route and state are counted, all by index, so that it costs little however large the table is;
    /// `outbox.stats(&pool).exact().await?` counts them all.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`]; [`Error::is_schema_mismatch`] without the table.
    pub fn stats(&self, pool: &impl DatabasePool) -> StatsQuery {
        StatsQuery {
            store: store::reach(self, pool),
            limit: Some(LIMIT),
        }
    }
}

impl StatsQuery {
    /// Counts all rows, however many they are.
    pub fn exact(mut self) -> Self {
        self.limit = None;
        self
    }

    async fn ask(self) -> Result<Stats, Error> {
        let store = self.store?;
        let store = store.operator();
        let (counts, relays) = (store.stats(self.limit).await?, store.relays(ALIVE).await?);
        let mut paused = store.paused().await?;
        paused.sort_by(|a, b| a.topic.cmp(&b.topic));
        let mut routes: Vec<_> = counts
            .into_iter()
            .map(|count| RouteStats::new(count, &relays, &paused))
            .collect();
        routes.sort_by(|a, b| (&a.topic, a.version).cmp(&(&b.topic, b.version)));
        let stats = Stats {
            routes,
            relays,
            paused,
            limit: self.limit,
        };
        meter::backlog(&stats);
        Ok(stats)
    }
}

impl RouteStats {
    fn new(count: RouteCount, relays: &[LiveRelay], paused: &[Paused]) -> Self {
        let version = u32::try_from(count.version).unwrap_or(0);
        let is_served = relays
            .iter()
            .flat_map(|relay| &relay.routes)
            .any(|(topic, served)| *topic == count.topic && *served == version);
        let waits = count.due + count.scheduled + count.lapsed > 0;
        Self {
            version,
            due: count.due,
            scheduled: count.scheduled,
            processing: count.processing,
            delivered: count.delivered,
            dead: count.dead,
            oldest_due: count.oldest_due,
            unrouted: waits && !is_served,
            paused: paused.iter().any(|paused| paused.topic == count.topic),
            topic: count.topic,
        }
    }

    /// All that waits: due, delayed or in backoff.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.due + self.scheduled
    }
}

impl IntoFuture for StatsQuery {
    type Output = Result<Stats, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Stats, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}

impl fmt::Debug for StatsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsQuery")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
