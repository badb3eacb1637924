//! Telling of messages that were given up.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use uuid::Uuid;

use super::Run;
use crate::meter;

/// A message that this relay has just given up; see
/// [`RelayBuilder::on_dead_letter`](crate::RelayBuilder::on_dead_letter).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Died {
    /// The message's id.
    pub id: Uuid,
    /// Its topic.
    pub topic: &'static str,
    /// Why: the last error.
    pub reason: String,
}

/// Whom to tell.
#[derive(Clone)]
pub(super) struct OnDeadLetter(Arc<dyn Fn(&Died) + Send + Sync>);

impl OnDeadLetter {
    pub(super) fn new(tell: impl Fn(&Died) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for OnDeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDeadLetter")
    }
}

impl<S> Run<S> {
    /// Tells of a dead letter once it stands in the table.
    pub(super) fn died(&self, id: Uuid, topic: &'static str, reason: &str) {
        meter::died(topic);
        tracing::warn!(%id, topic, "dead letter: {reason}");
        let Some(OnDeadLetter(tell)) = &self.setup.on_dead_letter else {
            return;
        };
        let died = Died {
            id,
            topic,
            reason: reason.to_owned(),
        };
        if catch_unwind(AssertUnwindSafe(|| tell(&died))).is_err() {
            tracing::error!(%id, topic, "the function given to `on_dead_letter` panicked");
        }
    }
}
