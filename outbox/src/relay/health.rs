//! How a relay is doing: told to those who ask, and logged when it changes.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use crate::meter;

/// How a relay is doing; see [`Relay::health`](crate::Relay::health).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It runs, and what it asked of the database last was done.
    Live,
    /// It runs, but not all of it works; it goes on trying. Ordered by what fails.
    Degraded(Vec<Trouble>),
    /// It does not run: not yet, or no more.
    Stopped,
}

/// What does not work, since when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// What the relay was doing, such as `claiming messages`.
    pub doing: String,
    /// The last error.
    pub why: String,
    /// When it began to fail, by this process's clock.
    pub since: SystemTime,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fails: {}", self.doing, self.why)
    }
}

/// What a relay asks of its database, and may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    Claiming,
    ClaimingTopic(&'static str),
    Listening,
    Purging,
    Recording,
    Registering,
    Renewing,
}

impl Doing {
    /// Its name among the metrics.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::Claiming | Self::ClaimingTopic(_) => "claim",
            Self::Listening => "listen",
            Self::Purging => "purge",
            Self::Recording => "settle",
            Self::Registering => "register",
            Self::Renewing => "renew",
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claiming => "claiming messages",
            Self::ClaimingTopic(topic) => {
                return write!(f, "claiming messages of topic `{topic}`");
            }
            Self::Listening => "listening for commits",
            Self::Purging => "purging what has settled",
            Self::Recording => "recording outcomes",
            Self::Registering => "registering the relay",
            Self::Renewing => "renewing leases",
        })
    }
}

/// What the tasks of a relay report.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    /// How many runs there are.
    runs: AtomicUsize,
    troubles: Mutex<BTreeMap<Doing, Trouble>>,
    /// How many troubles there are: what works is reported often, and seldom ends one.
    open: AtomicUsize,
}

impl Vitals {
    /// Notes that something works, or does not. Logs the first failure and the first success after
    /// it, however often it fails in between.
    pub(super) fn note<E: fmt::Display>(&self, doing: Doing, result: Result<(), E>) {
        if result.is_err() {
            meter::failed(doing.operation());
        } else if self.is_well() {
            return;
        }
        let mut troubles = self.troubles();
        match result {
            Ok(()) => {
                if troubles.remove(&doing).is_some() {
                    tracing::info!("{doing} works again");
                }
            }
            Err(error) => {
                let why = error.to_string();
                match troubles.get_mut(&doing) {
                    Some(trouble) => trouble.why = why,
                    None => {
                        tracing::warn!("{doing} fails, trying again: {why}");
                        let trouble = Trouble {
                            doing: doing.to_string(),
                            why,
                            since: SystemTime::now(),
                        };
                        troubles.insert(doing, trouble);
                    }
                }
            }
        }
        self.open.store(troubles.len(), Ordering::Relaxed);
    }

    pub(super) fn is_well(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    pub(super) fn health(&self) -> Health {
        if self.runs.load(Ordering::SeqCst) == 0 {
            return Health::Stopped;
        }
        let troubles: Vec<_> = self.troubles().values().cloned().collect();
        if troubles.is_empty() {
            Health::Live
        } else {
            Health::Degraded(troubles)
        }
    }

    /// A run has begun; it ends when what this returns is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Running(Arc::clone(self))
    }

    fn troubles(&self) -> std::sync::MutexGuard<'_, BTreeMap<Doing, Trouble>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run, for as long as it lasts.
#[derive(Debug)]
pub(super) struct Running(Arc<Vitals>);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.runs.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.troubles().clear();
            self.0.open.store(0, Ordering::Relaxed);
        }
    }
}
