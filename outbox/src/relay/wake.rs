//! What a listener tells the claimer: polling is the truth, and this a hint to poll now.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Wake {
    told: Notify,
    published: AtomicBool,
    look: AtomicBool,
}

/// Why a claimer was woken; it may be for both reasons.
#[derive(Debug, Clone, Copy)]
pub(super) struct Woken {
    /// Somebody has published, and told everybody who listens.
    pub(super) published: bool,
    /// Something may have been committed that nobody was told of.
    pub(super) look: bool,
}

impl Wake {
    pub(super) fn published(&self) {
        self.published.store(true, Ordering::Release);
        self.told.notify_one();
    }

    pub(super) fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Waits for either. Safe to cancel.
    pub(super) async fn woken(&self) -> Woken {
        self.told.notified().await;
        Woken {
            published: self.published.swap(false, Ordering::AcqRel),
            look: self.look.swap(false, Ordering::AcqRel),
        }
    }
}
