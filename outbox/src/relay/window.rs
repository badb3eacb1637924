//! The window: every row that this relay has claimed and not yet settled, with its lease.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::limit::Place;
use crate::store::LeaseId;

/// All leases of one relay. A row is in here from its claim until its settle is acknowledged, or
/// its lease is lost; whoever takes it out is the one to count it.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    leases: Mutex<HashMap<LeaseId, Held>>,
    /// Told whenever a row leaves.
    left: Notify,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// The outcome is on its way to the database.
    settling: bool,
    /// Counts for its handler's limit as long as the row is in here.
    _place: Place,
}

/// One lease. The deadline is a monotonic instant taken before the claim, or the renewal, was sent:
/// never later than the one in the row, whatever the clocks say.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) deadline: Arc<Mutex<Instant>>,
    /// Fires when a renewal finds the row in other hands.
    taken: CancellationToken,
}

impl Lease {
    pub(super) fn new(deadline: Instant) -> Self {
        Self {
            deadline: Arc::new(Mutex::new(deadline)),
            taken: CancellationToken::new(),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        *locked(&self.deadline)
    }

    /// Waits until the lease is over: past its deadline as the last renewal left it, or taken.
    pub(super) async fn over(&self) {
        loop {
            let deadline = self.deadline();
            tokio::select! {
                () = self.taken.cancelled() => return,
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
            if self.deadline() <= Instant::now() {
                return;
            }
        }
    }
}

impl Window {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            leases: Mutex::default(),
            left: Notify::new(),
        }
    }

    pub(super) fn add(&self, id: LeaseId, lease: Lease, place: Place) {
        locked(&self.leases).insert(
            id,
            Held {
                lease,
                settling: false,
                _place: place,
            },
        );
    }

    pub(super) fn settling(&self, id: LeaseId) {
        if let Some(held) = locked(&self.leases).get_mut(&id) {
            held.settling = true;
        }
    }

    /// Takes a row out. False if it was out already.
    pub(super) fn remove(&self, id: LeaseId) -> bool {
        let there = locked(&self.leases).remove(&id).is_some();
        if there {
            self.left.notify_waiters();
        }
        there
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.leases).is_empty()
    }

    /// Waits until no outcome is on its way any more.
    pub(super) async fn settled(&self) {
        let settling = || locked(&self.leases).values().any(|held| held.settling);
        while settling() {
            self.left(settling).await;
        }
    }

    /// How many more rows fit.
    pub(super) fn free(&self) -> usize {
        self.size.saturating_sub(locked(&self.leases).len())
    }

    /// Whether half of the window is free, so that a claim is worth its round trip.
    pub(super) fn half_free(&self) -> bool {
        self.free() * 2 >= self.size
    }

    /// Waits until a row leaves, if `wait` still says so once nobody can leave unnoticed.
    pub(super) async fn left(&self, wait: impl Fn() -> bool) {
        let left = self.left.notified();
        tokio::pin!(left);
        left.as_mut().enable();
        if wait() {
            left.await;
        }
    }

    /// The leases whose deadline comes before `until`.
    pub(super) fn ending_before(&self, until: Instant) -> Vec<LeaseId> {
        let leases = locked(&self.leases);
        leases
            .iter()
            .filter(|(_, held)| held.lease.deadline() < until)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Whether the row's lease is still good at `now`.
    pub(super) fn holds(&self, id: LeaseId, now: Instant) -> bool {
        locked(&self.leases)
            .get(&id)
            .is_some_and(|held| held.lease.deadline() > now)
    }

    /// Moves a deadline on. A lease that is over stays over: its handler has been told already.
    pub(super) fn extend(&self, id: LeaseId, deadline: Instant) {
        if let Some(held) = locked(&self.leases).get(&id) {
            let mut current = locked(&held.lease.deadline);
            if *current > Instant::now() {
                *current = deadline.max(*current);
            }
        }
    }

    /// A renewal found the row locked. While its own settle is under way that is what holds the lock,
    /// which keeps others off better than a lease: it counts as renewed. The token still decides.
    pub(super) fn extend_settling(&self, id: LeaseId, deadline: Instant) {
        let settling = locked(&self.leases)
            .get(&id)
            .is_some_and(|held| held.settling);
        if settling {
            self.extend(id, deadline);
        }
    }

    /// A renewal did not find the row under this token any more. While its own settle is under way,
    /// that is what took it.
    pub(super) fn taken(&self, id: LeaseId) {
        if let Some(held) = locked(&self.leases).get(&id).filter(|held| !held.settling) {
            held.lease.taken.cancel();
        }
    }
}

/// No code panics while holding one of these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
