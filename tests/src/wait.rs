//! Bounded waits: nothing here sleeps and hopes.

use std::{
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// So many milliseconds.
#[must_use]
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So many seconds.
#[must_use]
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Longer than anything takes that works, even on a loaded machine.
pub const LONG: Duration = secs(30);

/// Waits until `probe` finds what `condition` asks for, and returns it.
///
/// # Panics
///
/// With what was found last, if that takes longer than `timeout`.
#[track_caller]
pub fn eventually<T, P, F>(
    timeout: Duration,
    mut probe: P,
    condition: impl Fn(&T) -> bool,
) -> impl Future<Output = T>
where
    T: Debug,
    P: FnMut() -> F,
    F: Future<Output = T>,
{
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        loop {
            let found = probe().await;
            if condition(&found) {
                return found;
            }
            assert!(
                start.elapsed() < timeout,
                "still {found:?} after {timeout:?}, waited for at {caller}"
            );
            tokio::time::sleep(millis(10)).await;
        }
    }
}

/// Fails the test if `future` takes longer than `timeout`.
///
/// # Panics
///
/// If it does.
#[track_caller]
pub fn within<T>(timeout: Duration, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(timeout, future).await {
            Ok(done) => done,
            Err(_) => panic!("no end after {timeout:?}, waited for at {caller}"),
        }
    }
}

/// A gate that holds handlers until the test opens it, for good.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open.
    pub async fn pass(&self) {
        let mut opened = self.0.subscribe();
        // The sender lives as long as `self`, so this can't fail.
        let _ = opened.wait_for(|open| *open).await;
    }
}
