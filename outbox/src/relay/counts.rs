//! What a relay has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a relay has done since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Rows claimed, lapsed ones taken over included.
    pub claimed: u64,
    /// Messages handled and settled.
    pub delivered: u64,
    /// Failed attempts that will be repeated.
    pub retried: u64,
    /// Messages given up.
    pub dead: u64,
    /// Rows given back unstarted at shutdown.
    pub given_back: u64,
    /// Leases that ran out, or that another relay had taken: their outcome was not recorded.
    pub lease_lost: u64,
    /// Handlers that panicked; each is a failed attempt as well.
    pub panicked: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) claimed: AtomicU64,
    pub(super) delivered: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) lease_lost: AtomicU64,
    pub(super) panicked: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Tally {
    pub(super) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            claimed: read(&self.claimed),
            delivered: read(&self.delivered),
            retried: read(&self.retried),
            dead: read(&self.dead),
            given_back: read(&self.given_back),
            lease_lost: read(&self.lease_lost),
            panicked: read(&self.panicked),
        }
    }
}
