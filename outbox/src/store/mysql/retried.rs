//! Running an operation again that has lost a race for a lock. Each is a transaction of its own, so that one which was
//! lost has changed nothing.

use std::time::{Duration, Instant};

use super::super::fault::LostRace;
use crate::{Error, error::Kind, meter};

/// The tries of one operation.
pub(super) struct Tries {
    began: Instant,
    patience: Duration,
    deadlocks: u32,
}

/// How many deadlocks in a row are bad luck.
const DEADLOCKS: u32 = 10;

const PAUSE: Duration = Duration::from_millis(5);

impl Tries {
    /// `patience` is for rows that somebody has locked.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            began: Instant::now(),
            patience,
            deadlocks: 0,
        }
    }

    /// Whether to run an operation again that has ended like this.
    pub(super) async fn again(&mut self, operation: &'static str, error: &Error) -> bool {
        let Kind::Database { source, .. } = error.kind() else {
            return false;
        };
        let again = match LostRace::of(source) {
            None => false,
            Some(LostRace::Deadlock) => {
                self.deadlocks += 1;
                self.deadlocks < DEADLOCKS
            }
            Some(LostRace::Lock) => self.began.elapsed() < self.patience,
        };
        if again {
            meter::repeated(operation);
            tokio::time::sleep(PAUSE).await;
        }
        again
    }
}

/// Runs an operation until it ends otherwise than by a lost race, or there is no point in it:
/// `retried!(patience, "settle", settle(session, batch))`.
macro_rules! retried {
    ($patience:expr, $name:literal, $operation:expr) => {{
        let mut tries = crate::store::mysql::retried::Tries::new($patience);
        loop {
            match $operation.await {
                Err(error) if tries.again($name, &error).await => {}
                done => break done,
            }
        }
    }};
}
pub(super) use retried;
