//! Saying the same kind of thing only so often: a fault that hits every row must not fill the log.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// So many lines in so long a time.
const LINES: u32 = 10;
const WHILE: Duration = Duration::from_secs(10);

/// Counts the lines of one kind.
#[derive(Debug, Default)]
pub(super) struct Hush(Mutex<Option<(Instant, u32)>>);

impl Hush {
    /// Whether there may be one more line. Says when there may be none for a while.
    pub(super) fn may_speak(&self, kind: &'static str) -> bool {
        let said = {
            let mut spoken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let (since, said) = spoken.get_or_insert((now, 0));
            if now.duration_since(*since) >= WHILE {
                (*since, *said) = (now, 0);
            }
            *said = said.saturating_add(1);
            *said
        };
        if said == LINES + 1 {
            tracing::warn!("more {kind} are counted, but not logged for up to {WHILE:?}");
        }
        said <= LINES
    }
}
