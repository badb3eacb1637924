//! Whose turn it is to write, among one relay's connections.
//!
//! SQLite has one writer. Left to its busy handler, a renewal could lose against claims and settles
//! again and again until its leases are gone; so the relay's own connections take turns, and
//! renewals go first.

use tokio::sync::{Mutex, MutexGuard, watch};

#[derive(Debug)]
pub(super) struct Turn {
    writer: Mutex<()>,
    /// How many renewals wait for their turn.
    renewals: watch::Sender<usize>,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            writer: Mutex::default(),
            renewals: watch::Sender::new(0),
        }
    }
}

impl Turn {
    /// For claims and settles: waits until no renewal wants to write.
    pub(super) async fn take(&self) -> MutexGuard<'_, ()> {
        let mut renewals = self.renewals.subscribe();
        loop {
            // The sender lives as long as `self`, so the wait can't fail.
            let _ = renewals.wait_for(|waiting| *waiting == 0).await;
            let guard = self.writer.lock().await;
            if *self.renewals.borrow() == 0 {
                return guard;
            }
        }
    }

    /// For renewals: waits for the statement under way, and for nobody else.
    pub(super) async fn take_first(&self) -> MutexGuard<'_, ()> {
        let _waiting = Waiting::new(&self.renewals);
        self.writer.lock().await
    }
}

/// Counts a renewal as waiting, until it has its turn or is given up.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(renewals: &'a watch::Sender<usize>) -> Self {
        renewals.send_modify(|waiting| *waiting += 1);
        Self(renewals)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}
