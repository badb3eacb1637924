//! What is in the table: per topic, version and state.

use std::time::Duration;

use crate::{
    Error, MessageState, Outbox, meter,
    store::{self, DatabasePool, RouteCount},
};

/// How many messages wait, run, are kept and are dead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// One entry per topic and version that has rows, in that order.
    pub routes: Vec<RouteStats>,
}

/// The messages of one topic and version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteStats {
    /// The topic.
    pub topic: String,
    /// The version of the payload.
    pub version: u32,
    /// Waiting: due, delayed or in backoff.
    pub pending: u64,
    /// Leased by a relay.
    pub processing: u64,
    /// Delivered and kept.
    pub delivered: u64,
    /// Given up.
    pub dead: u64,
    /// How long the oldest due message has been waiting.
    pub oldest_due: Option<Duration>,
    /// Messages wait (pending, or left behind by a relay whose lease lapsed), and no live relay serves
    /// this topic and version.
    pub unrouted: bool,
}

/// A relay that has not been seen for this long is not counted as alive: three heartbeats.
pub(crate) const ALIVE: Duration = Duration::from_secs(30);

impl Outbox {
    /// Counts the rows of the table. Reads all of it, so its cost grows with what is kept.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`]; [`Error::is_schema_mismatch`] without the table.
    pub async fn stats(&self, pool: &impl DatabasePool) -> Result<Stats, Error> {
        let mut counts = store::reach(self, pool)?.stats(ALIVE).await?;
        counts.sort_by(|a, b| (&a.topic, a.version).cmp(&(&b.topic, b.version)));
        let mut routes: Vec<RouteStats> = Vec::new();
        for count in counts {
            let version = u32::try_from(count.version).unwrap_or(0);
            match routes.last_mut() {
                Some(route) if route.topic == count.topic && route.version == version => {
                    route.add(&count)
                }
                _ => {
                    let mut route = RouteStats {
                        topic: count.topic.clone(),
                        version,
                        pending: 0,
                        processing: 0,
                        delivered: 0,
                        dead: 0,
                        oldest_due: None,
                        unrouted: false,
                    };
                    route.add(&count);
                    routes.push(route);
                }
            }
        }
        let stats = Stats { routes };
        meter::backlog(&stats);
        Ok(stats)
    }
}

impl RouteStats {
    fn add(&mut self, count: &RouteCount) {
        self.unrouted |= count.waiting && !count.served;
        match count.state {
            MessageState::Pending => {
                self.pending += count.rows;
                self.oldest_due = count.oldest_due;
            }
            MessageState::Processing => self.processing += count.rows,
            MessageState::Delivered => self.delivered += count.rows,
            MessageState::Dead => self.dead += count.rows,
        }
    }
}
