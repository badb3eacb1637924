//! What a listener tells the claimer: polling is the truth, and this a hint to poll now.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Wake {
    told: Notify,
    published: AtomicBool,
}

/// Why a claimer was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Somebody has published, and has told everybody who listens.
    Published,
    /// Something may have been published in silence.
    Look,
}

impl Wake {
    pub(super) fn published(&self) {
        self.published.store(true, Ordering::Release);
        self.told.notify_one();
    }

    pub(super) fn look(&self) {
        self.told.notify_one();
    }

    /// Waits for either. Safe to cancel.
    pub(super) async fn woken(&self) -> Woken {
        self.told.notified().await;
        match self.published.swap(false, Ordering::AcqRel) {
            true => Woken::Published,
            false => Woken::Look,
        }
    }
}
