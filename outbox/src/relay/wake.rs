//! What others tell the claimer: polling is the truth, and this a hint to poll now.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};

#[derive(Debug, Default)]
pub(super) struct Wake {
    told: Notify,
    published: AtomicBool,
    /// When the first of this relay's own retries is due.
    retry: watch::Sender<Option<Instant>>,
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

    /// A retry that this relay has just written is due after so long.
    pub(super) fn retry_in(&self, delay: Duration) {
        let Some(at) = Instant::now().checked_add(delay) else {
            return;
        };
        self.retry.send_if_modified(|first| {
            let sooner = first.is_none_or(|first| at < first);
            if sooner {
                *first = Some(at);
            }
            sooner
        });
    }

    /// Waits until such a retry is due. Safe to cancel.
    pub(super) async fn retry(&self) {
        let mut first = self.retry.subscribe();
        loop {
            let at = *first.borrow_and_update();
            let due = async {
                match at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => break,
                _ = first.changed() => {}
            }
        }
        // The look that follows tells when the next one is due.
        self.retry.send_replace(None);
    }
}
