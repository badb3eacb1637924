//! Removing what has settled: by a relay as its retention says, or by hand.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::bulk::{Bulk, Step, Work};
use crate::{
    Error, Outbox,
    store::{
        self, DatabasePool, Session, Store,
        operate::{Old, Settled, What, ago},
    },
};

/// How long settled messages stay in the table. A row ages from the moment it settled.
///
/// By default delivered rows are deleted at once, and dead letters and the notes on discarded ones stay
/// for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Retention {
    pub(crate) delivered: Option<Duration>,
    pub(crate) dead: Option<Duration>,
    pub(crate) discarded: Option<Duration>,
}

impl Retention {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps delivered rows for this long. Default: they are deleted at once.
    pub fn delivered(mut self, age: Duration) -> Self {
        self.delivered = Some(age);
        self
    }

    /// Deletes dead letters after this long, whether or not somebody has looked at them. Default: they
    /// stay.
    pub fn dead(mut self, age: Duration) -> Self {
        self.dead = Some(age);
        self
    }

    /// Deletes the notes on discarded messages after this long. Default: they stay.
    pub fn discarded(mut self, age: Duration) -> Self {
        self.discarded = Some(age);
        self
    }

    pub(crate) fn purges(&self) -> bool {
        self.delivered.is_some() || self.dead.is_some() || self.discarded.is_some()
    }
}

/// What to purge; made by [`Outbox::purge`]. Nothing is chosen at first.
#[must_use = "choose what to purge, then `.run().await`"]
pub struct Purge {
    store: Result<Arc<dyn Store>, Error>,
    ages: Retention,
    topic: Option<String>,
}

/// How long a purge by hand waits for one answer of the database.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Outbox {
    /// Deletes settled rows by hand, whatever the relays' retention:
    /// `outbox.purge(&pool).delivered(Duration::from_secs(7 * 86_400)).run().await?` deletes what was
    /// delivered a week ago or earlier. Rows that wait or run are never touched. It opens a connection of its
    /// own, with the pool's connect options.
    pub fn purge(&self, pool: &impl DatabasePool) -> Purge {
        Purge {
            store: store::reach(self, pool),
            ages: Retention::new(),
            topic: None,
        }
    }
}

impl Purge {
    /// Delivered rows that settled this long ago or longer.
    pub fn delivered(mut self, age: Duration) -> Self {
        self.ages = self.ages.delivered(age);
        self
    }

    /// Dead letters that died this long ago or longer.
    pub fn dead(mut self, age: Duration) -> Self {
        self.ages = self.ages.dead(age);
        self
    }

    /// Notes on messages that were discarded this long ago or longer, whatever their topic.
    pub fn discarded(mut self, age: Duration) -> Self {
        self.ages = self.ages.discarded(age);
        self
    }

    /// Only rows of this topic. Default: all topics.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// The purge, which begins when it is awaited; see [`Bulk`].
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] if nothing is chosen.
    pub fn run(self) -> Bulk {
        let (ages, topic) = (self.ages, self.topic);
        let work = self.store.and_then(|store| {
            if !ages.purges() {
                return Err(Error::config(
                    "nothing is chosen to be purged; say what and how old: `.delivered(age)`, `.dead(age)` or \
                     `.discarded(age)`",
                ));
            }
            let by_hand = ByHand {
                store,
                ages,
                topic,
                under_way: None,
            };
            Ok(Box::new(by_hand) as Box<dyn Work>)
        });
        Bulk::new(work, None)
    }
}

/// What is left to purge, kind by kind and route by route.
pub(crate) struct Purging {
    left: Vec<Old>,
}

impl Purging {
    /// Finds out what there may be to purge.
    pub(crate) async fn begin(
        session: &mut dyn Session,
        ages: Retention,
        topic: Option<&str>,
    ) -> Result<Self, Error> {
        let now = session.now().await?;
        let until = |age| ago(now, age);
        let mut left = Vec::new();
        for (settled, age) in [
            (Settled::Delivered, ages.delivered),
            (Settled::Dead, ages.dead),
        ] {
            let Some(age) = age else { continue };
            for (found, version) in session.settled_routes(settled).await? {
                if topic.is_none_or(|topic| topic == found) {
                    let what = What::Rows {
                        settled,
                        topic: found,
                        version,
                    };
                    left.push(Old {
                        what,
                        until: until(age),
                    });
                }
            }
        }
        if let Some(age) = ages.discarded {
            left.push(Old {
                what: What::Notes,
                until: until(age),
            });
        }
        Ok(Self { left })
    }

    pub(crate) async fn count(
        &self,
        session: &mut dyn Session,
        limit: Option<u64>,
    ) -> Result<u64, Error> {
        let mut counted = 0;
        for old in &self.left {
            let limit = limit.map(|limit| limit.saturating_sub(counted));
            counted += session.count_old(old, limit).await?;
        }
        Ok(counted)
    }

    /// Purges at most `limit` rows of one kind and route.
    pub(crate) async fn step(
        &mut self,
        session: &mut dyn Session,
        limit: u64,
    ) -> Result<Step, Error> {
        let mut changed = 0;
        if let Some(old) = self.left.last() {
            changed = session.purge(old, limit).await?;
            // What is locked is left for the next time.
            if changed < limit {
                self.left.pop();
            }
        }
        Ok(Step {
            changed,
            over: self.left.is_empty(),
        })
    }
}

struct ByHand {
    store: Arc<dyn Store>,
    ages: Retention,
    topic: Option<String>,
    under_way: Option<(Box<dyn Session>, Purging)>,
}

impl ByHand {
    async fn begun(&mut self) -> Result<(&mut dyn Session, &mut Purging), Error> {
        let under_way = match self.under_way.take() {
            Some(under_way) => under_way,
            None => {
                let mut session = self.store.open(TIMEOUT.into()).await?;
                let topic = self.topic.as_deref();
                let purging = Purging::begin(&mut *session, self.ages, topic).await?;
                (session, purging)
            }
        };
        let (session, purging) = self.under_way.insert(under_way);
        Ok((&mut **session, purging))
    }
}

impl Work for ByHand {
    fn count(&mut self, limit: Option<u64>) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let (session, purging) = self.begun().await?;
            purging.count(session, limit).await
        })
    }

    fn step(&mut self, limit: u64) -> BoxFuture<'_, Result<Step, Error>> {
        Box::pin(async move {
            let (session, purging) = self.begun().await?;
            purging.step(session, limit).await
        })
    }

    fn end(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some((session, _)) = self.under_way.take() {
                session.close().await;
            }
        })
    }
}

impl fmt::Debug for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purge")
            .field("ages", &self.ages)
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}
