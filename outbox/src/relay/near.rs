//! Hearing of publishers in the same process, where the database tells nobody of a commit.
//!
//! A publish is seen, and its commit is not: that is the caller's. So the relay looks a few times, first soon and then
//! later, and not again until something is published. What takes longer to commit waits for the next poll.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Run;

/// When to look after a publish, each counted from the look before. Together they are about a second, which is
/// the default poll interval.
const LOOKS: [Duration; 8] = [
    Duration::from_millis(4),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
    Duration::from_millis(64),
    Duration::from_millis(128),
    Duration::from_millis(256),
    Duration::from_millis(512),
];

/// Looks after each publish, until `done`. However much is published, looks are at least the first of those intervals
/// apart.
pub(super) async fn run<S: Send + Sync + 'static>(
    run: Arc<Run<S>>,
    mut published: watch::Receiver<()>,
    done: CancellationToken,
) {
    let looking = async {
        while published.changed().await.is_ok() {
            let mut looks = LOOKS.iter();
            while let Some(interval) = looks.next() {
                tokio::time::sleep(*interval).await;
                run.wake.look();
                if published.has_changed().unwrap_or(false) {
                    published.mark_unchanged();
                    looks = LOOKS.iter();
                }
            }
        }
    };
    let _ = done.run_until_cancelled(looking).await;
}
