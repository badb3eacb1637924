//! A change of many messages: in chunks, paced, with a limit and a dry run.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

use crate::Error;

/// A change of many messages, which begins when it is awaited; returns how many it were.
///
/// It goes in chunks of at most 200, each in a transaction of its own, and rests three times as long as each
/// chunk took, so that those who publish and relay meanwhile hardly notice. Messages that somebody has locked
/// are left out. If it fails, or is dropped, the chunks before are done and nothing is half done: the
/// same call again does the rest.
///
/// # Errors
///
/// [`Error::is_connection`], [`Error::is_timeout`]; [`Error::is_schema_mismatch`] without the tables;
/// [`Error::is_retryable`] if other transactions stood in its way time and again.
#[must_use = "it begins when it is awaited"]
pub struct Bulk {
    work: Result<Box<dyn Work>, Error>,
    limit: Option<u64>,
    per_second: Option<u32>,
    dry_run: bool,
    progress: Option<Progress>,
}

type Progress = Box<dyn FnMut(u64) + Send>;

/// What a [`Bulk`] does.
pub(crate) trait Work: Send {
    /// How many messages it would change; no more than `limit` are counted.
    fn count(&mut self, limit: Option<u64>) -> BoxFuture<'_, Result<u64, Error>>;

    /// Changes at most `limit` more.
    fn step(&mut self, limit: u64) -> BoxFuture<'_, Result<Step, Error>>;

    /// Gives up what it holds.
    fn end(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// What one chunk came to.
pub(crate) struct Step {
    pub(crate) changed: u64,
    /// Nothing is left.
    pub(crate) over: bool,
}

/// The most rows of one statement.
pub(crate) const CHUNK: u64 = 200;

/// How long to leave the database to others after a chunk that took so long.
pub(crate) fn rest(took: Duration) -> Duration {
    took * 3
}

/// How often one chunk is tried while others stand in its way.
const TRIES: u32 = 5;

impl Bulk {
    pub(crate) fn new(work: Result<Box<dyn Work>, Error>, limit: Option<u64>) -> Self {
        Self {
            work,
            limit,
            per_second: None,
            dry_run: false,
            progress: None,
        }
    }

    /// Changes at most this many. Default: all.
    pub fn limit(mut self, messages: u64) -> Self {
        self.limit = Some(messages);
        self
    }

    /// Changes at most this many per second; 0 is taken for 1. Default: 2,000 where messages are redriven,
    /// since relays and all that their handlers call have to keep up; else as many as it can in a quarter
    /// of the time. Any number above that changes nothing.
    pub fn per_second(mut self, messages: u32) -> Self {
        self.per_second = Some(messages.max(1));
        self
    }

    /// Only counts what would be changed now. Default: false.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Calls this after each chunk with how many messages were changed so far.
    pub fn on_progress(mut self, tell: impl FnMut(u64) + Send + 'static) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    async fn run(self) -> Result<u64, Error> {
        let mut work = self.work?;
        if self.dry_run {
            let counted = work.count(self.limit).await;
            work.end().await;
            return counted;
        }
        let pace = Pace {
            began: Instant::now(),
            per_second: self.per_second,
        };
        let changed = change(&mut *work, self.limit, &pace, self.progress).await;
        work.end().await;
        changed
    }
}

async fn change(
    work: &mut dyn Work,
    limit: Option<u64>,
    pace: &Pace,
    mut progress: Option<Progress>,
) -> Result<u64, Error> {
    let mut changed = 0;
    loop {
        let left = limit.map_or(u64::MAX, |limit| limit - changed);
        if left == 0 {
            return Ok(changed);
        }
        let began = Instant::now();
        let step = tried(work, pace.chunk().min(left)).await?;
        changed += step.changed;
        if let Some(tell) = &mut progress {
            tell(changed);
        }
        if step.over {
            return Ok(changed);
        }
        tokio::time::sleep(pace.rest(changed, began.elapsed())).await;
    }
}

async fn tried(work: &mut dyn Work, limit: u64) -> Result<Step, Error> {
    let mut tries = 1;
    loop {
        match work.step(limit).await {
            Err(error) if error.is_retryable() && tries < TRIES => {
                tokio::time::sleep(Duration::from_millis(50) * tries).await;
                tries += 1;
            }
            result => return result,
        }
    }
}

struct Pace {
    began: Instant,
    per_second: Option<u32>,
}

impl Pace {
    /// A slow pace goes in small steps, four a second.
    fn chunk(&self) -> u64 {
        self.per_second
            .map_or(CHUNK, |rate| u64::from(rate / 4).clamp(1, CHUNK))
    }

    /// How long to wait after a chunk that took so long.
    fn rest(&self, changed: u64, took: Duration) -> Duration {
        let Some(rate) = self.per_second else {
            return rest(took);
        };
        #[expect(clippy::cast_precision_loss, reason = "a pace need not be exact")]
        let due = Duration::from_secs_f64(changed as f64 / f64::from(rate));
        due.saturating_sub(self.began.elapsed()).max(rest(took))
    }
}

impl IntoFuture for Bulk {
    type Output = Result<u64, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk")
            .field("limit", &self.limit)
            .field("per_second", &self.per_second)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
