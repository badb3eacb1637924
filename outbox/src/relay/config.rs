//! What a relay is told: its settings, their defaults and ranges.

use std::time::Duration;

use crate::{Error, Retention, lifecycle::Retry};

/// The settings of a relay; its builder's methods say what each means.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) concurrency: usize,
    pub(super) poll_interval: Duration,
    pub(super) lease: Duration,
    pub(super) handler_timeout: Duration,
    pub(super) retry: Retry,
    pub(super) grace: Duration,
    pub(super) window: Option<usize>,
    pub(super) keep_delivered: bool,
    pub(super) retention: Retention,
    pub(super) store_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 64,
            poll_interval: Duration::from_secs(1),
            lease: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(300),
            retry: Retry {
                max_attempts: 10,
                base: Duration::from_secs(1),
                cap: Duration::from_secs(300),
                jitter: 1.0,
            },
            grace: Duration::from_secs(30),
            window: None,
            keep_delivered: false,
            retention: Retention::new(),
            store_timeout: Duration::from_secs(10),
        }
    }
}

/// Longer than this is a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// More than this is meant as "unlimited", which a process can't afford.
const MOST_HANDLERS: usize = 100_000;
const MOST_ATTEMPTS: usize = 1_000_000;

impl Config {
    pub(super) fn window(&self) -> usize {
        self.window
            .unwrap_or_else(|| (4 * self.concurrency).max(256))
    }

    /// Whether a delivered row stays in the table.
    pub(super) fn keeps_delivered(&self) -> bool {
        self.keep_delivered || self.retention.delivered.is_some()
    }

    /// How long a listener may hear nothing before it is asked whether it still lives.
    pub(super) fn heartbeat(&self) -> Duration {
        (self.lease / 3).clamp(Duration::from_millis(100), Duration::from_secs(10))
    }

    /// Refuses what is out of its range, by name.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Retry {
            max_attempts,
            base,
            cap,
            jitter,
        } = self.retry;
        let durations = [
            (
                "poll_interval",
                self.poll_interval,
                Duration::from_millis(1),
            ),
            ("lease", self.lease, Duration::from_millis(100)),
            (
                "handler_timeout",
                self.handler_timeout,
                Duration::from_millis(1),
            ),
            ("backoff's base", base, Duration::from_millis(1)),
            ("backoff's cap", cap, Duration::from_millis(1)),
            ("grace", self.grace, Duration::ZERO),
            (
                "store_timeout",
                self.store_timeout,
                Duration::from_millis(10),
            ),
        ];
        for (name, duration, least) in durations {
            if duration < least || duration > LONGEST {
                return Err(Error::config(format!(
                    "the relay's {name} is {duration:?}; give between {least:?} and 30 days"
                )));
            }
        }
        if base > cap {
            return Err(Error::config(format!(
                "the backoff's base {base:?} is longer than its cap {cap:?}; swap them"
            )));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(Error::config(format!(
                "the jitter is {jitter}; give between 0.0 (none) and 1.0 (all of the delay)"
            )));
        }
        let numbers = [
            ("concurrency", self.concurrency, MOST_HANDLERS),
            ("window", self.window(), 4 * MOST_HANDLERS),
            ("max_attempts", max_attempts as usize, MOST_ATTEMPTS),
        ];
        for (name, number, most) in numbers {
            if number == 0 || number > most {
                return Err(Error::config(format!(
                    "the relay's {name} is {number}; give between 1 and {most}"
                )));
            }
        }
        if self.window() < self.concurrency {
            return Err(Error::config(format!(
                "the relay's window is {}, less than its concurrency of {}: that many handlers could never run; \
                 give at least as much",
                self.window(),
                self.concurrency
            )));
        }
        Ok(())
    }
}
