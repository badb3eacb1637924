//! One delivery: from a claimed row to its outcome.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use super::{Run, backoff::random, counts::add, limit::Waiting, window::Lease};
use crate::{
    handler::{Decision, Delivery, DeliveryParts, Failed, Outcome, Raw},
    lifecycle::TakeOver,
    meter,
    store::{Claimed, LeaseId, Settlement, Verdict},
    trace_context,
};

/// How a delivery ended.
enum End {
    Verdict(Verdict),
    /// The lease is over; whatever the handler did, this relay may not say so any more.
    LeaseLost,
    /// The relay's grace is over.
    Abandoned,
}

/// Takes rows into the window, and delivers each on a task of its own. `route` is their route's position;
/// `claimed_at` was taken before the claim was sent.
pub(super) fn spawn<S: Send + Sync + 'static>(
    run: &Arc<Run<S>>,
    route: usize,
    rows: Vec<Claimed>,
    token: Uuid,
    claimed_at: Instant,
) {
    let limiter = &run.setup.served[route].limiter;
    let deliveries: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let lease = Lease::new(claimed_at + run.setup.config.lease);
            let id = (row.id, token);
            run.window.add(id, lease.clone(), limiter.hold());
            let waiting = limiter.wait();
            deliver(Arc::clone(run), route, row, id, lease, waiting, claimed_at)
        })
        .collect();
    // The next claim need not wait until they all have their tasks.
    let tasks = run.deliveries.clone();
    run.deliveries.spawn(async move {
        for delivery in deliveries {
            tasks.spawn(delivery);
        }
    });
}

async fn deliver<S: Send + Sync + 'static>(
    run: Arc<Run<S>>,
    route: usize,
    row: Claimed,
    id: LeaseId,
    lease: Lease,
    waiting: Waiting,
    claimed_at: Instant,
) {
    // Should this task be torn down by a panic, the row must not be renewed for ever.
    let mut unsettled = Unsettled {
        run: &run,
        id,
        topic: run.setup.routes[route].topic,
        armed: true,
    };
    let end = attempt(&run, route, row, &lease, waiting, claimed_at).await;
    unsettled.armed = false;
    drop(unsettled);
    match end {
        End::Verdict(verdict) => {
            run.window.settling(id);
            // The settler outlives all deliveries; without it there is nobody to tell.
            let _ = run.outcomes.send(Settlement {
                lease: id,
                topic: run.setup.routes[route].topic,
                verdict,
                refusals: 0,
            });
        }
        End::LeaseLost => run.lost(id, run.setup.routes[route].topic),
        End::Abandoned => {
            run.window.remove(id);
        }
    }
}

/// Waits until the handler may start, then runs it.
async fn attempt<S: Send + Sync + 'static>(
    run: &Run<S>,
    route: usize,
    row: Claimed,
    lease: &Lease,
    waiting: Waiting,
    claimed_at: Instant,
) -> End {
    let give_back = Verdict::GiveBack {
        attempts: row.attempts.saturating_sub(1),
        unsettled: row.unsettled_before,
    };
    let served = &run.setup.served[route];
    let _slots = tokio::select! {
        biased;
        () = run.stop.cancelled() => return End::Verdict(give_back),
        () = lease.over() => return End::LeaseLost,
        slots = served.limiter.start(&run.slots) => slots,
    };
    drop(waiting);
    // The builder's limit may have been lowered since the row was last tried.
    if row.unsettled_before == 0
        && served.retry.take_over(row.attempts.saturating_sub(1), 0) == TakeOver::Dead
    {
        let text = format!(
            "gave up: all {} attempts are used up",
            served.retry.max_attempts
        );
        return End::Verdict(Verdict::Dead { text });
    }
    if row.unreadable {
        let text = "the row can't be read: its key, payload or headers are not UTF-8".to_owned();
        return End::Verdict(Verdict::Dead { text });
    }
    let headers = match row
        .headers
        .as_deref()
        .map(serde_json::from_str::<BTreeMap<String, String>>)
    {
        None => BTreeMap::new(),
        Some(Ok(headers)) => headers,
        // serde's text would quote a value.
        Some(Err(_)) => {
            return End::Verdict(Verdict::Dead {
                text: "headers are not a JSON object of strings".to_owned(),
            });
        }
    };
    let attempt = row.attempts;
    // What the handler says stands inside. Neither payload nor headers are told.
    let span = tracing::info_span!(
        "outbox.delivery",
        id = %row.id, topic = served.route.topic, handler = served.handler, attempt
    );
    trace_context::adopt(&span, &headers);
    let cancellation = CancellationToken::new();
    let delivery = Delivery::new(DeliveryParts {
        id: row.id,
        topic: served.route.topic,
        key: row.key,
        attempt,
        headers,
        created_at: row.created_at,
        deadline: Arc::clone(&lease.deadline),
        cancellation: cancellation.clone(),
    });

    let late = Duration::from_micros(u64::try_from(row.late).unwrap_or(0)) + claimed_at.elapsed();
    meter::started(served.route.topic, late);
    // Decoding runs the user's code, too: `Deserialize`, the rules, `FromRef`.
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let raw = Raw {
            version: served.version,
            payload: &row.payload,
        };
        span.in_scope(|| (served.start)(raw, delivery, &run.setup.state))
    }));
    let end = match started {
        Err(panic) => Ended::Panicked(panic),
        Ok(Err(undecodable)) => {
            return End::Verdict(Verdict::Dead {
                text: storable(&undecodable.to_string()),
            });
        }
        Ok(Ok(handler)) => {
            let _handling = meter::Handling::begin(served.route.topic);
            handle(run, handler, lease, served.timeout, &cancellation)
                .instrument(span)
                .await
        }
    };
    let outcome = match end {
        Ended::Finished(outcome) => outcome,
        Ended::Panicked(panic) => {
            add(&run.tally.panicked, 1);
            meter::panicked(served.route.topic);
            Outcome::panicked(&*panic)
        }
        Ended::TimedOut(after) => {
            let text = format!("timed out after {after:?}");
            Outcome(Err(Failed {
                decision: Decision::Retry,
                text,
            }))
        }
        Ended::LeaseLost => return End::LeaseLost,
        Ended::Killed => return End::Abandoned,
    };
    let Err(Failed { decision, text }) = outcome.0 else {
        let keep = run.setup.config.keeps_delivered();
        return End::Verdict(if keep {
            Verdict::Kept
        } else {
            Verdict::Delivered
        });
    };
    let (id, topic, handler) = (row.id, served.route.topic, served.handler);
    let text = storable(&text);
    End::Verdict(
        match served.retry.after_failure(attempt, decision, random()) {
            Some(delay) => {
                tracing::debug!(%id, topic, handler, attempt, ?delay, "attempt failed: {text}");
                Verdict::Retry { delay, text }
            }
            None => Verdict::Dead { text },
        },
    )
}

enum Ended {
    Finished(Outcome),
    Panicked(Box<dyn std::any::Any + Send>),
    TimedOut(Duration),
    LeaseLost,
    Killed,
}

/// Runs the handler's future as long as it may run. The cancellation token fires before the future
/// is dropped, so that what the handler spawned hears of it.
async fn handle<S>(
    run: &Run<S>,
    handler: BoxFuture<'static, Outcome>,
    lease: &Lease,
    timeout: Option<Duration>,
    cancellation: &CancellationToken,
) -> Ended {
    let mut handler = AssertUnwindSafe(handler).catch_unwind();
    let out_of_time = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
        timeout.unwrap_or_default()
    };
    let ended = tokio::select! {
        biased;
        finished = &mut handler => match finished {
            Ok(outcome) => Ended::Finished(outcome),
            Err(panic) => Ended::Panicked(panic),
        },
        () = lease.over() => Ended::LeaseLost,
        after = out_of_time => Ended::TimedOut(after),
        () = run.kill.cancelled() => Ended::Killed,
    };
    if !matches!(ended, Ended::Finished(_)) {
        cancellation.cancel();
    }
    ended
}

impl<S> Run<S> {
    /// Takes a row out of the window whose lease is over; counts and names it once.
    pub(super) fn lost(&self, lease: LeaseId, topic: &'static str) {
        if self.window.remove(lease) {
            add(&self.tally.lease_lost, 1);
            meter::lease_lost(topic);
            if !self.losses.may_speak("lost leases") {
                return;
            }
            tracing::warn!(id = %lease.0, topic, "lease lost: the outcome of this delivery is not recorded, another relay may run it again");
        }
    }
}

/// Takes its row out of the window if the delivery's task ends without an outcome.
struct Unsettled<'a, S: 'static> {
    run: &'a Run<S>,
    id: LeaseId,
    topic: &'static str,
    armed: bool,
}

impl<S> Drop for Unsettled<'_, S> {
    fn drop(&mut self) {
        if self.armed {
            self.run.lost(self.id, self.topic);
        }
    }
}

/// The longest error text that is kept, in bytes.
const LONGEST_TEXT: usize = 2_000;

/// An error's text as a database can store it: no U+0000, cut on a character's boundary.
fn storable(text: &str) -> String {
    let cut = text.floor_char_boundary(LONGEST_TEXT);
    text[..cut].replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_keeps_no_nul() {
        let text = format!("a\0{}", "ü".repeat(2_000));
        let stored = storable(&text);
        assert!(stored.starts_with("a\u{fffd}ü"));
        assert!(stored.ends_with('ü') && stored.len() <= LONGEST_TEXT + 2);
    }
}
