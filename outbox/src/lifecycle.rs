//! The life of a message as pure functions: what may follow what, and why.
//!
//! ```text
//! publish → pending ──claim──→ processing ──settle──→ (deleted | delivered | pending | dead)
//!              ↑                 │     ↑ │
//!              ├────give back────┘     │ └─claim after the lease lapsed: processing, or dead
//!              └──redrive── dead       └──
//! ```

use std::{fmt, time::Duration};

use crate::handler::Decision;

/// What state a message is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MessageState {
    /// Waits to be delivered: now, at its due time, or after a backoff.
    Pending,
    /// Claimed by a relay that holds a lease on it.
    Processing,
    /// Handled; kept only if the relay was told to keep such rows.
    Delivered,
    /// Given up; a person decides what becomes of it.
    Dead,
}

impl MessageState {
    /// The text in the table's `state` column.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Processing, Self::Delivered, Self::Dead]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

impl fmt::Display for MessageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The longest delay, whoever asks for it: a century. Past that, a database's time type overflows.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How often a message is tried, and how far apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    pub(crate) max_attempts: u32,
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
    /// Which part of the delay is random: 0 none, 1 all of it.
    pub(crate) jitter: f64,
}

/// What a relay does with a message whose earlier claims ended without a settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeOver {
    /// Run it among others.
    Run,
    /// Run it with no other row claimed by this process: it may be what killed the last one.
    Alone,
    /// Its attempts are used up.
    Dead,
}

impl Retry {
    /// How many claims in a row may end without a settle before a message is run alone.
    fn suspicion(&self) -> u32 {
        self.max_attempts.saturating_sub(1).clamp(1, 2)
    }

    /// Decides about a message at a claim, by what the row says *before* that claim.
    ///
    /// A process that dies takes an attempt from everything it had in flight. So before such a
    /// message may be given up it gets a run of its own, where nobody else can be to blame: past
    /// `max_attempts` too, if its last attempt was shared. Only `max_attempts = 1` leaves no room.
    pub(crate) fn take_over(&self, attempts: u32, unsettled: u32) -> TakeOver {
        let used_up = attempts >= self.max_attempts;
        let ran_alone = unsettled > self.suspicion() || self.max_attempts == 1;
        match (used_up, unsettled) {
            (true, 0) => TakeOver::Dead,
            (true, _) if ran_alone => TakeOver::Dead,
            (true, _) => TakeOver::Alone,
            (false, _) if unsettled >= self.suspicion() => TakeOver::Alone,
            (false, _) => TakeOver::Run,
        }
    }

    /// The row's `unsettled` after a claim that runs it alone: above the threshold, so that the next
    /// claim knows.
    pub(crate) fn unsettled_alone(&self, unsettled: u32) -> u32 {
        unsettled.max(self.suspicion()).saturating_add(1)
    }

    /// What follows a failed attempt: the delay before the next one, or `None` to give up.
    /// `random` is uniform in 0..1.
    pub(crate) fn after_failure(
        &self,
        attempt: u32,
        decision: Decision,
        random: f64,
    ) -> Option<Duration> {
        let delay = match decision {
            Decision::Cancel => return None,
            _ if attempt >= self.max_attempts => return None,
            Decision::Retry => self.delay(attempt, random),
            Decision::RetryAfter(delay) => delay,
        };
        Some(delay.min(LONGEST_DELAY))
    }

    /// Uniform between (1 − jitter) × d and d, where d = min(cap, base × 2^(attempt − 1)).
    fn delay(&self, attempt: u32, random: f64) -> Duration {
        let factor = 1u32
            .checked_shl(attempt.saturating_sub(1))
            .unwrap_or(u32::MAX);
        let full = self.base.saturating_mul(factor).min(self.cap);
        full.mul_f64(1.0 - self.jitter * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        max_attempts: 10,
        base: Duration::from_secs(1),
        cap: Duration::from_secs(300),
        jitter: 1.0,
    };

    #[test]
    fn the_delay_doubles_and_saturates_at_the_cap() {
        let full = |attempt| RETRY.delay(attempt, 0.0).as_secs();
        assert_eq!(
            [
                full(1),
                full(2),
                full(3),
                full(9),
                full(33),
                full(1_000),
                full(u32::MAX)
            ],
            [1, 2, 4, 256, 300, 300, 300]
        );
    }

    #[test]
    fn jitter_takes_its_part_of_the_delay() {
        let retry = Retry {
            jitter: 0.5,
            ..RETRY
        };
        assert_eq!(
            retry.delay(3, 0.999_999_999),
            Duration::from_secs_f64(4.0 * (1.0 - 0.5 * 0.999_999_999))
        );
        assert_eq!(RETRY.delay(3, 1.0), Duration::ZERO);
    }

    #[test]
    fn a_crash_is_shared_until_a_message_has_run_alone() {
        let retry = |max_attempts| Retry {
            max_attempts,
            ..RETRY
        };
        assert_eq!(retry(10).take_over(1, 1), TakeOver::Run);
        assert_eq!(retry(10).take_over(2, 2), TakeOver::Alone);
        assert_eq!(retry(3).take_over(2, 2), TakeOver::Alone);
        assert_eq!(
            retry(3).take_over(3, retry(3).unsettled_alone(2)),
            TakeOver::Dead
        );
        assert_eq!(retry(2).take_over(1, 1), TakeOver::Alone);
        assert_eq!(
            retry(2).take_over(2, retry(2).unsettled_alone(1)),
            TakeOver::Dead
        );
        assert_eq!(retry(1).take_over(1, 1), TakeOver::Dead);
        // Nine failures of its own, then a neighbour's crash: one more run, alone.
        assert_eq!(retry(10).take_over(10, 1), TakeOver::Alone);
        assert_eq!(
            retry(10).take_over(11, retry(10).unsettled_alone(1)),
            TakeOver::Dead
        );
    }
}
