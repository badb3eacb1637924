//! What the benchmarks share: rounds, medians and spreads.

pub mod contest;
pub mod table;

use std::{fmt, time::Duration};

/// The durations of one side, one per round.
#[derive(Debug, Default, Clone)]
pub struct Timings(Vec<Duration>);

impl Timings {
    /// Adds a round.
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration);
        self.0.sort();
    }

    /// The middle one, in seconds; of an even number the later one.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.0
            .get(self.0.len() / 2)
            .map_or(f64::NAN, Duration::as_secs_f64)
    }

    /// The shortest and the longest, in seconds.
    #[must_use]
    pub fn spread(&self) -> (f64, f64) {
        let seconds =
            |duration: Option<&Duration>| duration.map_or(f64::NAN, Duration::as_secs_f64);
        (seconds(self.0.first()), seconds(self.0.last()))
    }
}

/// How long single operations took.
#[derive(Debug, Default)]
pub struct Latencies {
    sorted: Vec<Duration>,
    elapsed: Duration,
}

impl Latencies {
    /// Adds one.
    pub fn push(&mut self, latency: Duration) {
        self.sorted.push(latency);
    }

    /// All there are, of so long a time.
    #[must_use]
    pub fn over(mut self, elapsed: Duration) -> Self {
        self.sorted.sort();
        self.elapsed = elapsed;
        self
    }

    /// The latency that so many in a hundred did not exceed.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position among some thousands"
        )]
        let at = (self.sorted.len() as f64 * percent / 100.0) as usize;
        let last = self.sorted.len().saturating_sub(1);
        self.sorted.get(at.min(last)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = self.sorted.len() as f64 / self.elapsed.as_secs_f64();
        write!(
            f,
            "{:6.1} s, {rate:5.0}/s, p50 {:8.2?}, p99 {:8.2?}, longest {:8.2?}",
            self.elapsed.as_secs_f64(),
            self.percentile(50.0),
            self.percentile(99.0),
            self.percentile(100.0)
        )
    }
}
