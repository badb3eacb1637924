//! Holding leases until their rows are settled, and telling others that this relay lives.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    Mode, Run,
    connection::{Connection, call},
    health::Doing,
};
use crate::{
    Error,
    operator::stats::ALIVE,
    store::{Fault, LeaseId, fault},
};

/// Leases renewed by one statement.
const BATCH: usize = 500;

/// Three of them fit into the time after which a relay no longer counts as alive.
const HEARTBEAT: Duration = Duration::from_secs(ALIVE.as_secs() / 3);

/// A relay that was not seen for this long is struck off the register.
const FORGET: Duration = Duration::from_secs(24 * 60 * 60);

/// Renews leases at half of their life, on a connection that no claim and no settle can block.
pub(super) async fn run<S: Send + Sync + 'static>(run: Arc<Run<S>>, done: CancellationToken) {
    let lease = run.setup.config.lease;
    // Leaves time for a second try before the deadline.
    let timeout = run.setup.config.store_timeout.min(lease / 4);
    let mut connection = Connection::new(Arc::clone(&run.setup.store), timeout);
    let mut heartbeat = Instant::now();
    // Checked every eighth of a lease, so a lease is renewed with at least three eighths left.
    let mut tick = tokio::time::interval(lease / 8);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let vitals = &run.setup.vitals;
    while done.run_until_cancelled(tick.tick()).await.is_some() {
        let result = match done
            .run_until_cancelled(renew(&run, &mut connection, lease))
            .await
        {
            Some(result) => result,
            None => break,
        };
        vitals.note(Doing::Renewing, result);
        if run.mode == Mode::Serve && heartbeat <= Instant::now() {
            heartbeat = Instant::now() + HEARTBEAT;
            let (id, routes) = (run.id, &run.setup.routes);
            let beat = async {
                call!(connection, "registering the relay", |session| session
                    .heartbeat(id, routes, FORGET))
            };
            match done.run_until_cancelled(beat).await {
                Some(result) => vitals.note(Doing::Registering, result),
                None => break,
            }
        }
    }
    if run.mode == Mode::Serve {
        let id = run.id;
        // If this fails, the register forgets the relay by itself.
        let _ = call!(connection, "unregistering the relay", |session| session
            .farewell(id));
    }
    connection.close().await;
}

/// Renews what has less than half of its lease left.
async fn renew<S>(run: &Run<S>, connection: &mut Connection, lease: Duration) -> Result<(), Error> {
    let leases = run.window.ending_before(Instant::now() + lease / 2);
    let mut batches: Vec<&[LeaseId]> = leases.chunks(BATCH).collect();
    let mut result = Ok(());
    while let Some(batch) = batches.pop() {
        // Taken before the renewal is sent: never later than the deadline in the row.
        let deadline = Instant::now() + lease;
        let renewed = match call!(*connection, "renewing leases", |session| session
            .renew(batch, lease))
        {
            Ok(renewed) => renewed,
            Err(error) if matches!(fault(&error), Fault::Connection | Fault::Busy) => {
                return Err(error);
            }
            Err(error) => {
                // One row that is refused must not take the others' leases along.
                if batch.len() > 1 {
                    batches.extend(<[_; 2]>::from(batch.split_at(batch.len() / 2)));
                }
                result = Err(error);
                continue;
            }
        };
        for lease in batch {
            if renewed.moved.contains(lease) {
                run.window.extend(*lease, deadline);
            } else if renewed.locked.contains(lease) {
                run.window.extend_settling(*lease, deadline);
            } else {
                run.window.taken(*lease);
            }
        }
    }
    result
}
