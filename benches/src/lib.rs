//! What the benchmarks share: rounds, medians and spreads.

use std::time::Duration;

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
