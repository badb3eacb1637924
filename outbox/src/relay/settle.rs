//! Writing outcomes down, in batches.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Run,
    backoff::Backoff,
    connection::{Connection, call},
    counts::add,
    health::Doing,
    hush::Hush,
};
use crate::{
    Error, meter,
    store::{Fault, Limits, Settlement, Verdict, fault},
};

/// The knee of the batch size.
const BATCH: usize = 500;

/// Settles that follow each other begin so far apart, since each costs the database a transaction; unless a
/// batch is full, or the claims wait for room.
const REST: Duration = Duration::from_millis(2);

/// The longest wait for the lock of a row: one that is locked must not hold up a batch.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// How long a row that can't be settled now (somebody has it locked, or a trigger refuses it) waits
/// for its next try. Each try may cost the others the wait for its lock, so it is not too often.
const AGAIN: Duration = Duration::from_secs(1);

/// How often the database may refuse a row's outcome, which takes about as many seconds, before the
/// row is left to its lease.
const REFUSALS: u32 = 10;

/// Stands in the error column where the error's own text was refused by the database.
const UNSTORABLE: &str = "the attempt failed; the text of its error could not be stored";

/// Settles outcomes until `done`. Each row stays in the window, and so is renewed, until the
/// database has acknowledged its settle or its lease is over.
pub(super) async fn run<S: Send + Sync + 'static>(
    run: Arc<Run<S>>,
    outcomes: mpsc::UnboundedReceiver<Settlement>,
    done: CancellationToken,
) {
    let timeout = run.setup.config.store_timeout;
    let limits = Limits {
        statement: timeout,
        lock: LOCK_TIMEOUT.min(timeout / 4),
    };
    let connection = Connection::new(Arc::clone(&run.setup.store), limits);
    let mut settler = Settler {
        run: &run,
        connection,
        outcomes,
        queue: VecDeque::new(),
        stuck: Vec::new(),
        backoff: Backoff::default(),
        refusals: Hush::default(),
        next_at: Instant::now(),
    };
    // When nobody waits for a settle any more, one that is under way is dropped with its connection.
    let _ = done.run_until_cancelled(settler.settle()).await;
    settler.connection.close().await;
}

struct Settler<'a, S: 'static> {
    run: &'a Run<S>,
    connection: Connection,
    outcomes: mpsc::UnboundedReceiver<Settlement>,
    queue: VecDeque<Settlement>,
    /// Rows that could not be settled, each with the time of its next try.
    stuck: Vec<(Instant, Settlement)>,
    backoff: Backoff,
    refusals: Hush,
    /// When the next batch may begin.
    next_at: Instant,
}

impl<S: Send + Sync + 'static> Settler<'_, S> {
    async fn settle(&mut self) {
        loop {
            self.wait().await;
            self.rest().await;
            let now = Instant::now();
            // A row that was stuck is tried alone: it must not spoil a batch again.
            for settlement in self.due(now) {
                self.settle_batch(self.still_held(vec![settlement], now))
                    .await;
            }
            self.gather();
            let batch = self.batch();
            let batch = self.still_held(batch, now);
            self.settle_batch(batch).await;
        }
    }

    /// Waits until there is something to settle.
    async fn wait(&mut self) {
        if !self.queue.is_empty() {
            return;
        }
        let next = self.stuck.iter().map(|(at, _)| *at).min();
        let again = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(settlement) = self.outcomes.recv() => self.queue.push_back(settlement),
            () = again => {}
        }
    }

    async fn rest(&mut self) {
        self.gather();
        if self.queue.len() < BATCH && self.run.window.half_free() {
            tokio::time::sleep_until(self.next_at.into()).await;
        }
        self.next_at = Instant::now() + REST;
    }

    fn gather(&mut self) {
        while let Ok(settlement) = self.outcomes.try_recv() {
            self.queue.push_back(settlement);
        }
    }

    fn due(&mut self, now: Instant) -> Vec<Settlement> {
        let due = self.stuck.extract_if(.., |(at, _)| *at <= now);
        due.map(|(_, settlement)| settlement).collect()
    }

    fn note(&self, result: Result<(), &Error>) {
        self.run.setup.vitals.note(Doing::Recording, result);
    }

    /// Takes a batch off the queue, in which no row stands twice.
    fn batch(&mut self) -> Vec<Settlement> {
        let (mut batch, mut ids) = (Vec::new(), HashSet::new());
        while batch.len() < BATCH
            && let Some(next) = self.queue.front()
            && ids.insert(next.lease.0)
        {
            batch.extend(self.queue.pop_front());
        }
        batch
    }

    /// A settle that could not reach the database in time is over, like its lease.
    fn still_held(&self, batch: Vec<Settlement>, now: Instant) -> Vec<Settlement> {
        let (held, over): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|settlement| self.run.window.holds(settlement.lease, now));
        for settlement in over {
            self.run.lost(settlement.lease, settlement.topic);
        }
        held
    }

    /// Settles a batch; one that is refused is halved until the row that is to blame stands alone.
    async fn settle_batch(&mut self, batch: Vec<Settlement>) {
        let mut batches = vec![batch];
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            let error = match call!(self.connection, "settling messages", |session| session
                .settle(&batch))
            {
                Ok(settled) => {
                    self.note(Ok(()));
                    self.backoff.reset();
                    self.acknowledge(&batch, &settled.into_iter().collect());
                    continue;
                }
                Err(error) => error,
            };
            let fault = fault(&error);
            match (fault, batch.len()) {
                (Fault::Connection | Fault::Busy, _) => {
                    self.note(Err(&error));
                    self.queue.extend(batch);
                    self.queue.extend(batches.into_iter().flatten());
                    return tokio::time::sleep(self.backoff.next()).await;
                }
                (Fault::Locked | Fault::Refused, 2..) => {
                    let half = batch.split_off(batch.len() / 2);
                    batches.extend([half, batch]);
                }
                (Fault::Locked | Fault::Refused, _) => {
                    let Some(mut settlement) = batch.pop() else {
                        continue;
                    };
                    let id = settlement.lease.0;
                    meter::failed(Doing::Recording.operation());
                    if self.refusals.may_speak("refused outcomes") {
                        tracing::warn!(%id, "an outcome can't be recorded: {error}");
                    }
                    if fault == Fault::Locked {
                        self.stuck.push((Instant::now() + AGAIN, settlement));
                    } else if settlement.refused() {
                        batches.push(vec![settlement]);
                    } else if settlement.refusals < REFUSALS {
                        self.stuck.push((Instant::now() + AGAIN, settlement));
                    } else {
                        // Held any longer, it would keep its place in the window for ever.
                        self.run.lost(settlement.lease, settlement.topic);
                    }
                }
            }
        }
    }

    fn acknowledge(&self, batch: &[Settlement], settled: &HashSet<Uuid>) {
        let tally = &self.run.tally;
        for settlement in batch {
            let Settlement {
                lease,
                topic,
                verdict,
                ..
            } = settlement;
            if !settled.contains(&lease.0) {
                self.run.lost(*lease, topic);
            } else if self.run.window.remove(*lease) {
                let counter = match verdict {
                    Verdict::Delivered | Verdict::Kept => {
                        meter::delivered(topic);
                        &tally.delivered
                    }
                    Verdict::Retry { delay, .. } => {
                        meter::retried(topic);
                        self.run.wake.retry_in(*delay);
                        &tally.retried
                    }
                    Verdict::Dead { text } => {
                        self.run.died(lease.0, topic, text);
                        &tally.dead
                    }
                    Verdict::GiveBack { .. } => &tally.given_back,
                };
                add(counter, 1);
            }
        }
    }
}

impl Settlement {
    /// Counts a refusal, and puts a plainer verdict in place of the refused one; false if there is
    /// none.
    fn refused(&mut self) -> bool {
        self.refusals += 1;
        match &mut self.verdict {
            Verdict::Retry { text, .. } | Verdict::Dead { text } if text != UNSTORABLE => {
                UNSTORABLE.clone_into(text);
                true
            }
            // A row that can't be deleted can perhaps be marked.
            Verdict::Delivered => {
                self.verdict = Verdict::Kept;
                true
            }
            _ => false,
        }
    }
}
