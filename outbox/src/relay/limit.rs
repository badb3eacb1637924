//! How much of one handler may run: so many at once, so many in a time.
//!
//! A claim asks for no more rows than may soon start, so that the others stay free for other relays; the
//! limits themselves hold at the start of each handler.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::handler::Rate;

/// Starts that follow each other faster are not claimed one by one: a claim has to be worth its round
/// trip.
const LEAST_WAIT: Duration = Duration::from_millis(20);

/// The limits of one handler, and what of it is under way in this relay.
#[derive(Debug)]
pub(super) struct Limiter {
    /// How many run at once.
    most: Option<usize>,
    /// How many rows the window holds at most.
    most_held: usize,
    slots: Semaphore,
    tokens: Option<Mutex<Tokens>>,
    /// Its rows in the window.
    held: AtomicUsize,
    /// Those of them that have not started.
    waiting: AtomicUsize,
}

/// Rows held for each one that may run: the next is at hand when one ends.
const HELD_PER_SLOT: usize = 2;

impl Limiter {
    /// The limits that a handler's attribute sets, in a relay with a window of this size.
    pub(super) fn new(concurrency: Option<u32>, rate: Option<Rate>, window: usize) -> Self {
        let most = concurrency.map(|handlers| handlers as usize);
        // Half of the window is for the others, unless the handler itself may take more of it.
        let most_held = most.map_or(usize::MAX, |most| {
            most.saturating_mul(HELD_PER_SLOT).min(window / 2).max(most)
        });
        Self {
            most,
            most_held,
            slots: Semaphore::new(most.unwrap_or(0).min(Semaphore::MAX_PERMITS)),
            tokens: rate.map(|rate| Mutex::new(Tokens::new(rate, Instant::now()))),
            held: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// How many rows a claim may take now.
    pub(super) fn allowance(&self) -> usize {
        let by_concurrency = self
            .most_held
            .saturating_sub(self.held.load(Ordering::Relaxed));
        let by_rate = self.with_tokens(usize::MAX, |tokens| {
            tokens
                .available(Instant::now())
                .saturating_sub(self.waiting.load(Ordering::Relaxed))
        });
        by_concurrency.min(by_rate)
    }

    /// How long to wait until the rate lets one more start than those that wait; `None` if it does so
    /// already.
    pub(super) fn refilled(&self) -> Option<Duration> {
        let waiting = u32::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        self.with_tokens(None, |tokens| {
            let wait = tokens.until(waiting.saturating_add(1), Instant::now());
            wait.map(|wait| wait.max(LEAST_WAIT))
        })
    }

    fn with_tokens<T>(&self, none: T, ask: impl FnOnce(&mut Tokens) -> T) -> T {
        match &self.tokens {
            None => none,
            Some(tokens) => ask(&mut tokens.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Counts a row as held until this is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> Place {
        self.held.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(self))
    }

    /// Counts a row as waiting until this is dropped.
    pub(super) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(self))
    }

    /// Waits until a handler may start: for its turn among its like, and one of the relay's slots. None of
    /// those is taken while it waits for something else.
    pub(super) async fn start<'a>(
        &'a self,
        slots: &'a Semaphore,
    ) -> (Option<SemaphorePermit<'a>>, Option<SemaphorePermit<'a>>) {
        // Neither semaphore is ever closed.
        let turn = match self.most {
            Some(_) => self.slots.acquire().await.ok(),
            None => None,
        };
        loop {
            let slot = slots.acquire().await.ok();
            let refill = self.with_tokens(None, |tokens| tokens.take(Instant::now()));
            match refill {
                None => return (turn, slot),
                Some(wait) => {
                    drop(slot);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// A row's place in the window.
#[derive(Debug)]
pub(super) struct Place(Arc<Limiter>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A row that has not started.
pub(super) struct Waiting(Arc<Limiter>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A bucket of tokens that fills at an even rate. It holds what a tenth of a second brings, at least one,
/// so that never more start in any time than the rate allows for it and that tenth of a second.
#[derive(Debug)]
struct Tokens {
    /// One token comes in this time.
    interval: Duration,
    size: u32,
    /// When the bucket will be full.
    full_at: Instant,
}

const BURST: Duration = Duration::from_millis(100);

impl Tokens {
    fn new(rate: Rate, now: Instant) -> Self {
        let interval = (rate.per / rate.starts.max(1)).max(Duration::from_nanos(1));
        let size = u32::try_from(BURST.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX);
        Self {
            interval,
            size: size.max(1),
            full_at: now,
        }
    }

    /// How many tokens there are.
    fn available(&self, now: Instant) -> usize {
        let missing = self
            .full_at
            .saturating_duration_since(now)
            .as_nanos()
            .div_ceil(self.interval.as_nanos());
        (self.size as usize).saturating_sub(usize::try_from(missing).unwrap_or(usize::MAX))
    }

    /// How long until there have been so many from now on; `None` if there are.
    fn until(&self, tokens: u32, now: Instant) -> Option<Duration> {
        let missing = self.full_at.saturating_duration_since(now);
        let wait = missing
            .saturating_add(self.interval.saturating_mul(tokens))
            .saturating_sub(self.interval.saturating_mul(self.size));
        (!wait.is_zero()).then_some(wait)
    }

    /// Takes one, or says how long until there is one.
    fn take(&mut self, now: Instant) -> Option<Duration> {
        let wait = self.until(1, now);
        if wait.is_none() {
            self.full_at = self.full_at.max(now) + self.interval;
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(starts: u32, per: Duration) -> (Tokens, Instant) {
        let now = Instant::now();
        (Tokens::new(Rate { starts, per }, now), now)
    }

    #[test]
    fn a_bucket_holds_a_tenth_of_a_second_and_fills_evenly() {
        let (mut bucket, now) = tokens(100, Duration::from_secs(1));
        assert_eq!(bucket.available(now), 10);
        for left in (0..10).rev() {
            assert_eq!(bucket.take(now), None);
            assert_eq!(bucket.available(now), left);
        }
        assert_eq!(bucket.take(now), Some(Duration::from_millis(10)));
        let later = now + Duration::from_millis(25);
        assert_eq!(bucket.available(later), 2);
        assert_eq!((bucket.take(later), bucket.take(later)), (None, None));
        assert_eq!(bucket.take(later), Some(Duration::from_millis(5)));
        // However long nobody comes, it holds no more.
        assert_eq!(bucket.available(now + Duration::from_secs(3_600)), 10);
    }

    #[test]
    fn a_slow_rate_lets_one_through_at_a_time() {
        let (mut bucket, now) = tokens(10, Duration::from_secs(60));
        assert_eq!((bucket.available(now), bucket.take(now)), (1, None));
        assert_eq!(bucket.take(now), Some(Duration::from_secs(6)));
        assert_eq!(bucket.take(now + Duration::from_secs(6)), None);
    }

    #[test]
    fn no_time_brings_more_than_its_rate_and_one_burst() {
        for (starts, per) in [(7, 1), (100, 1), (3, 60), (1_000_000_000, 1), (u32::MAX, 1)] {
            let (mut bucket, now) = tokens(starts, Duration::from_secs(per));
            let burst = bucket.size as usize;
            let (mut at, mut started) = (now, 0_usize);
            while at < now + Duration::from_secs(2) && started < 10_000 {
                match bucket.take(at) {
                    None => started += 1,
                    Some(wait) => at += wait,
                }
            }
            let due = (at - now).as_nanos() / bucket.interval.as_nanos();
            assert!(
                started <= burst + usize::try_from(due).expect("few"),
                "{starts} in {per} s"
            );
        }
    }
}
