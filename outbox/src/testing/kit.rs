//! Deliveries and time, in the hand of a test.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use uuid::Uuid;

use super::rigged::{Losses, Only, Rigged};
use crate::{
    Counts, Error, MessageState, Relay,
    lifecycle::LONGEST_DELAY,
    operator::dead_letters::failures,
    store::{Store, testing::Standing},
};

/// Delivers the messages of a test, when the test says so; made from the [`Relay`] that the application
/// would run, with its outbox, handlers, state and settings. See the [module](super) for an example.
///
/// Handlers run, and settle, as in production. No relay needs to run beside it; one that does takes
/// messages away from it.
pub struct Kit<S: 'static = ()> {
    relay: Relay<S>,
    losses: Arc<Losses>,
}

/// What became of one delivery; see [`Kit::deliver_one`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler succeeded, and that is recorded.
    Delivered,
    /// The attempt failed and will be repeated.
    Failed {
        /// What the handler, or the relay, said.
        error: String,
        /// How long until the next attempt is due, by the database's clock.
        due_in: Duration,
    },
    /// The message is a dead letter: by this attempt, or it was one already and no handler ran.
    Dead {
        /// The last error.
        reason: String,
    },
    /// The lease was lost, so that nothing is recorded: the message will be delivered again.
    LeaseLost,
    /// Nothing was done: the message is delayed or in backoff, a relay holds a lease on it, or (with a
    /// zero) a transaction has it locked.
    NotDue {
        /// How long until it is due or the lease is over, by the database's clock.
        due_in: Duration,
    },
    /// No message of this id waits: it was delivered or removed, or its transaction did not commit.
    Gone,
}

/// The longest lease of a run in which one is to be lost: half of it passes before a renewal finds out.
const SHORT_LEASE: Duration = Duration::from_secs(1);

impl<S: Send + Sync + 'static> Kit<S> {
    /// Takes over a relay that does not run. Where the test has no use for a random part of backoffs,
    /// build it with `.jitter(0.0)`.
    pub fn new(relay: Relay<S>) -> Self {
        Self {
            relay,
            losses: Arc::default(),
        }
    }

    /// Delivers everything that is due, and waits for it; see [`Relay::drain`].
    ///
    /// # Errors
    ///
    /// See [`Relay::drain`].
    pub async fn drain(&self) -> Result<Counts, Error> {
        self.rigged(None).drain().await
    }

    /// Delivers this message and no other, whatever else is due, and waits for it; a pause of its topic
    /// does not stop it.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] if the relay has no handler for the message's topic and version;
    /// [`Error::is_connection`], [`Error::is_timeout`] and, on SQLite while another transaction writes,
    /// [`Error::is_retryable`]; [`Error::is_schema_mismatch`] without the table.
    pub async fn deliver_one(&self, id: Uuid) -> Result<Outcome, Error> {
        let store = self.relay.store().testing();
        let Some(before) = store.look(id).await? else {
            return Ok(Outcome::Gone);
        };
        if let Some(nothing) = before.nothing_to_do() {
            return Ok(nothing);
        }
        let routes = self.relay.routes();
        let serves = routes
            .iter()
            .position(|route| route.topic == before.topic && route.version == before.version);
        let Some(route) = serves else {
            return Err(Error::config(format!(
                "the relay has no handler for version {} of topic `{}`; build the kit from one that serves it",
                before.version, before.topic
            )));
        };
        let only = Only {
            id,
            route,
            told: AtomicBool::new(false),
        };
        let counts = self.rigged(Some(only)).drain().await?;
        if counts.delivered > 0 {
            return Ok(Outcome::Delivered);
        }
        if counts.lease_lost > 0 {
            return Ok(Outcome::LeaseLost);
        }
        let Some(after) = store.look(id).await? else {
            return Ok(Outcome::Gone);
        };
        Ok(if counts.retried > 0 {
            Outcome::Failed {
                error: after.last_error(),
                due_in: after.due_in(),
            }
        } else {
            // Somebody else was faster, unless it died.
            after.nothing_to_do().unwrap_or(Outcome::NotDue {
                due_in: Duration::ZERO,
            })
        })
    }

    /// Delivers this message twice, as if the lease of the first delivery had been lost right after its
    /// handler ended: what a handler has to bear at any time, since delivery is at least once. Returns what
    /// became of the second delivery, or of the first where there was none to lose.
    ///
    /// The second is another attempt: after `max_attempts` of 1 the message is dead instead.
    ///
    /// # Errors
    ///
    /// See [`deliver_one`](Self::deliver_one).
    pub async fn deliver_twice(&self, id: Uuid) -> Result<Outcome, Error> {
        self.lose_next_lease(id);
        let first = self.deliver_one(id).await;
        self.losses.forget(id);
        match first? {
            Outcome::LeaseLost => self.deliver_one(id).await,
            other => Ok(other),
        }
    }

    /// Loses the lease of the next delivery of this message by this kit, as if its relay had been paused:
    /// the outcome is not recorded, and the message is delivered again by the delivery after it. That is
    /// told by [`Counts::lease_lost`] and [`Outcome::LeaseLost`].
    ///
    /// A handler that ends soon runs to its end, and the loss is found when its outcome is to be recorded.
    /// One that still runs when half of its lease is over hears of the loss by
    /// [`Delivery::cancellation`](crate::Delivery::cancellation), and its future is dropped. So that a test
    /// need not wait long, leases last 1 s at most while one is to be lost, whatever the relay's builder said.
    pub fn lose_next_lease(&self, id: Uuid) {
        self.losses.add(id);
    }

    /// Moves the clock forward, for this outbox: all times in its tables (due times, backoffs, leases, when
    /// messages were published and settled, when relays were last seen) become earlier by this much, in one
    /// transaction. What is left of a delay, and the age of everything, is then as it will be after that
    /// time. Rounded up to milliseconds on SQLite.
    ///
    /// The database's clock and the process's are as they were: what is published afterwards is published
    /// now, and timeouts of running handlers don't pass. No time becomes earlier than 1970. Messages of a
    /// transaction that is still open are not moved. A relay that runs meanwhile finds that its leases have
    /// lapsed, and notices what has become due at its next poll.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for more than 100 years; [`Error::is_connection`]; [`Error::is_schema_mismatch`]
    /// without the tables; [`Error::is_retryable`] on SQLite while another transaction writes.
    pub async fn advance(&self, by: Duration) -> Result<(), Error> {
        if by > LONGEST_DELAY {
            return Err(Error::config(format!(
                "the clock can't be moved by {by:?}; give at most 100 years"
            )));
        }
        self.relay.store().testing().advance(by).await
    }

    /// The relay for one run.
    fn rigged(&self, only: Option<Only>) -> Relay<S> {
        let store: Arc<dyn Store> = Arc::new(Arc::new(Rigged {
            store: Arc::clone(self.relay.store()),
            losses: Arc::clone(&self.losses),
            only,
        }));
        let longest_lease = if self.losses.any() {
            SHORT_LEASE
        } else {
            Duration::MAX
        };
        self.relay.on(store, longest_lease)
    }
}

impl Standing {
    /// What to say of a row of which nothing can be delivered now.
    fn nothing_to_do(&self) -> Option<Outcome> {
        match self.state {
            MessageState::Dead => Some(Outcome::Dead {
                reason: self.last_error(),
            }),
            MessageState::Delivered => Some(Outcome::Gone),
            MessageState::Pending | MessageState::Processing => {
                let due_in = self.due_in();
                (!due_in.is_zero()).then_some(Outcome::NotDue { due_in })
            }
        }
    }

    /// Until it can be claimed, or taken over.
    fn due_in(&self) -> Duration {
        let due_in = if self.state == MessageState::Pending && self.unsettled == 0 {
            self.due_in
        } else {
            self.leased_for.unwrap_or(0)
        };
        Duration::from_micros(u64::try_from(due_in).unwrap_or(0))
    }

    fn last_error(&self) -> String {
        let last = failures(&self.errors).pop();
        last.map_or_else(String::new, |failure| failure.text)
    }
}

impl<S> fmt::Debug for Kit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit")
            .field("relay", &self.relay)
            .finish_non_exhaustive()
    }
}
