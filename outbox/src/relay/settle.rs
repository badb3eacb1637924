//! Writing outcomes down, in batches.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Run,
    backoff::Backoff,
    connection::{Connection, call},
    counts::add,
};
use crate::store::{Fault, Settlement, Verdict, fault};

/// The knee of the batch size.
const BATCH: usize = 500;

/// How long a row that can't be settled now waits for its next try.
const AGAIN: Duration = Duration::from_millis(200);

/// Stands in the error column where the error's own text was refused by the database.
const UNSTORABLE: &str = "the attempt failed; the text of its error could not be stored";

/// Settles outcomes until `done`. Each row stays in the window, and so is renewed, until the
/// database has acknowledged its settle or its lease is over.
pub(super) async fn run<S: Send + Sync + 'static>(
    run: Arc<Run<S>>,
    outcomes: mpsc::UnboundedReceiver<Settlement>,
    done: CancellationToken,
) {
    let connection = Connection::new(Arc::clone(&run.setup.store), run.setup.config.store_timeout);
    let mut settler = Settler {
        run: &run,
        connection,
        outcomes,
        queue: VecDeque::new(),
        stuck: Vec::new(),
        backoff: Backoff::default(),
    };
    // Past the grace nobody waits for a settle any more, not even for one that is under way.
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
}

impl<S: Send + Sync + 'static> Settler<'_, S> {
    async fn settle(&mut self) {
        loop {
            self.gather().await;
            let now = Instant::now();
            let mut batch = Vec::with_capacity(self.queue.len().min(BATCH));
            while batch.len() < BATCH
                && let Some(settlement) = self.queue.pop_front()
            {
                // A settle that could not reach the database in time is over, like its lease.
                if self.run.window.holds(settlement.id, now) {
                    batch.push(settlement);
                } else {
                    self.run.lost(settlement.id);
                }
            }
            if !batch.is_empty() {
                self.settle_batch(batch).await;
            }
        }
    }

    /// Waits until there is something to settle.
    async fn gather(&mut self) {
        let now = Instant::now();
        let due = self
            .stuck
            .extract_if(.., |(at, _)| *at <= now)
            .map(|(_, settlement)| settlement);
        self.queue.extend(due);
        while let Ok(settlement) = self.outcomes.try_recv() {
            self.queue.push_back(settlement);
        }
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

    /// Settles a batch; one that is refused is halved until the row that is to blame stands alone.
    async fn settle_batch(&mut self, batch: Vec<Settlement>) {
        let mut batches = vec![batch];
        while let Some(mut batch) = batches.pop() {
            let keep = self.run.setup.config.keep_delivered;
            let error = match call!(self.connection, "settling messages", |session| session
                .settle(&batch, keep))
            {
                Ok(settled) => {
                    self.backoff.reset();
                    self.acknowledge(&batch, &settled.into_iter().collect());
                    continue;
                }
                Err(error) => error,
            };
            let fault = fault(&error);
            match (fault, batch.len()) {
                (Fault::Connection, _) => {
                    tracing::warn!("outcomes can't be recorded, trying again: {error}");
                    self.queue.extend(batch);
                    self.queue.extend(batches.into_iter().flatten());
                    return tokio::time::sleep(self.backoff.next()).await;
                }
                (_, 2..) => {
                    let half = batch.split_off(batch.len() / 2);
                    batches.extend([half, batch]);
                }
                _ => {
                    let Some(mut settlement) = batch.pop() else {
                        continue;
                    };
                    tracing::warn!(id = %settlement.id, "an outcome can't be recorded, trying again: {error}");
                    if fault == Fault::Refused && settlement.simplify() {
                        batches.push(vec![settlement]);
                    } else {
                        self.stuck.push((Instant::now() + AGAIN, settlement));
                    }
                }
            }
        }
    }

    fn acknowledge(&self, batch: &[Settlement], settled: &HashSet<uuid::Uuid>) {
        let tally = &self.run.tally;
        for Settlement { id, verdict, .. } in batch {
            if !settled.contains(id) {
                self.run.lost(*id);
            } else if self.run.window.remove(*id) {
                let counter = match verdict {
                    Verdict::Delivered => &tally.delivered,
                    Verdict::Retry { .. } => &tally.retried,
                    Verdict::Dead { .. } => &tally.dead,
                    Verdict::GiveBack { .. } => &tally.given_back,
                };
                add(counter, 1);
            }
        }
    }
}

impl Settlement {
    /// Replaces the error's text by a fixed one; false if there is none left to replace.
    fn simplify(&mut self) -> bool {
        match &mut self.verdict {
            Verdict::Retry { text, .. } | Verdict::Dead { text } if text != UNSTORABLE => {
                UNSTORABLE.clone_into(text);
                true
            }
            _ => false,
        }
    }
}

/// The longest error text that is kept, in bytes.
const LONGEST_TEXT: usize = 2_000;

/// An error's text as a database can store it: no U+0000, cut on a character's boundary.
pub(super) fn storable(text: &str) -> String {
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
