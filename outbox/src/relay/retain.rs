//! Removing what the retention lets go, while it is this relay's duty.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    Run,
    connection::{Connection, call},
    health::Doing,
};
use crate::{
    Error, Retention,
    operator::{
        bulk::{CHUNK, rest},
        purge::Purging,
    },
};

/// The name of the duty among the table's.
const DUTY: &str = "purge";

/// The longest time between two purges.
const LONGEST: Duration = Duration::from_secs(60);

/// Purges now and then, as long as no other relay of the table does.
pub(super) async fn run<S: Send + Sync + 'static>(run: Arc<Run<S>>, done: CancellationToken) {
    let config = &run.setup.config;
    let mut connection = Connection::new(Arc::clone(&run.setup.store), config.store_timeout);
    let mut tick = tokio::time::interval(interval(config.retention, config.poll_interval));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while done.run_until_cancelled(tick.tick()).await.is_some() {
        let purge = purge(&run, &mut connection, tick.period());
        let Some(purged) = done.run_until_cancelled(purge).await else {
            break;
        };
        let result = purged.map(|purged| match purged {
            0 => {}
            rows => tracing::debug!(rows, "purged what had settled long ago"),
        });
        run.setup.vitals.note(Doing::Purging, result);
        connection.close().await;
    }
}

/// Often enough that a row stays hardly longer than it should, and not more often than a poll.
fn interval(retention: Retention, poll_interval: Duration) -> Duration {
    let ages = [retention.delivered, retention.dead, retention.discarded];
    let shortest = ages.into_iter().flatten().min().unwrap_or(LONGEST);
    (shortest / 10).min(LONGEST).max(poll_interval)
}

/// One purge, if the duty is this relay's or free; how many rows it removed.
async fn purge<S>(
    run: &Run<S>,
    connection: &mut Connection,
    interval: Duration,
) -> Result<u64, Error> {
    // Whoever dies with the duty is replaced after a few turns.
    let (relay, hold) = (run.id, interval * 3);
    let ages = run.setup.config.retention;
    let mut purging: Option<Purging> = None;
    let mut purged = 0;
    loop {
        let mine = call!(*connection, "taking the purge's duty", |session| session
            .take_duty(DUTY, relay, hold))?;
        if !mine {
            return Ok(purged);
        }
        let began = Instant::now();
        let step = call!(*connection, "purging messages", |session| async {
            let purging = match &mut purging {
                Some(purging) => purging,
                None => purging.insert(Purging::begin(&mut *session, ages, None).await?),
            };
            purging.step(&mut *session, CHUNK).await
        })?;
        purged += step.changed;
        if step.over {
            return Ok(purged);
        }
        tokio::time::sleep(rest(began.elapsed())).await;
    }
}
