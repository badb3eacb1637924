//! The pauses between the relay's own attempts to reach its database.

use std::time::Duration;

use uuid::Uuid;

/// Doubles from 100 ms to 2 s, half of it random, so that relays do not come back in step. With one
/// log line per failure the cap also bounds the log's rate.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(2);

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let full = BASE.saturating_mul(1 << self.0.min(10)).min(CAP);
        self.0 = self.0.saturating_add(1);
        full.mul_f64(1.0 - 0.5 * random())
    }

    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// Uniform in 0..1, from the operating system's randomness.
pub(super) fn random() -> f64 {
    // A version 4 UUID's last 62 bits are random; 53 of them fill a double's mantissa.
    let bits = Uuid::new_v4().as_u64_pair().1 & ((1 << 53) - 1);
    bits as f64 / (1u64 << 53) as f64
}
