//! Filling the window: which routes have something to claim, and whose turn it is.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    Mode, Run,
    backoff::Backoff,
    connection::{Connection, call},
    counts::add,
    dispatch,
};
use crate::{
    Error,
    store::{Claim, Claimed, TakenOver},
};

/// The knee of the batch size.
const BATCH: usize = 500;

/// While several routes are due they share the free room, but none gets less than this: a claim has
/// to be worth its round trip.
const SHARE: usize = 16;

/// Claims until the relay is told to stop or, draining, until nothing is left to claim.
pub(super) async fn run<S: Send + Sync + 'static>(run: &Arc<Run<S>>) -> Result<(), Error> {
    let connection = Connection::new(Arc::clone(&run.setup.store), run.setup.config.store_timeout);
    let mut claimer = Claimer {
        run,
        connection,
        round: VecDeque::new(),
        claimed_in_round: 0,
        next_route: 0,
        cutoff: None,
        alone: false,
        suspect_since: None,
        suspect_in_round: false,
        backoff: Backoff::default(),
    };
    let result = claimer.serve().await;
    claimer.connection.close().await;
    result
}

struct Claimer<'a, S: 'static> {
    run: &'a Arc<Run<S>>,
    connection: Connection,
    /// What the last probe found and nobody has claimed from yet.
    round: VecDeque<Found>,
    claimed_in_round: usize,
    /// Where the next round begins: after the route that was served last.
    next_route: usize,
    /// A drain takes what was due at this time of the database's, in microseconds.
    cutoff: Option<i64>,
    /// The row in the window has to run alone.
    alone: bool,
    /// Since when a row waits that has to run alone, and whether this round has seen one.
    suspect_since: Option<Instant>,
    suspect_in_round: bool,
    backoff: Backoff,
}

/// A route, by its position, with rows to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Due(usize),
    Lapsed(usize),
}

/// What one step came to.
enum Step {
    /// Something may be left to claim at once.
    Again,
    /// Nothing to claim now; the next row is due after this time.
    Idle(Option<Duration>),
}

impl<S: Send + Sync + 'static> Claimer<'_, S> {
    async fn serve(&mut self) -> Result<(), Error> {
        while !self.run.stop.is_cancelled() {
            if !self.has_room() {
                let run = self.run;
                tokio::select! {
                    () = run.stop.cancelled() => {}
                    () = run.window.left(|| !self.has_room()) => {}
                }
                continue;
            }
            let step = match self.step().await {
                Ok(Some(step)) => step,
                Ok(None) => return Ok(()),
                Err(error) if self.run.mode == Mode::Drain => return Err(error),
                Err(error) => {
                    tracing::warn!("messages can't be claimed, trying again: {error}");
                    self.round.clear();
                    let pause = self.backoff.next();
                    let _ = self
                        .run
                        .stop
                        .run_until_cancelled(tokio::time::sleep(pause))
                        .await;
                    continue;
                }
            };
            self.backoff.reset();
            if let Step::Idle(next) = step {
                match self.run.mode {
                    Mode::Drain if self.run.window.is_empty() && self.suspect_since.is_none() => {
                        return Ok(());
                    }
                    Mode::Drain => self.run.window.left(|| !self.run.window.is_empty()).await,
                    Mode::Serve => self.idle(next).await,
                }
            }
        }
        Ok(())
    }

    /// Claims when half of the window is free or nothing runs, so that batches stay large. While a row
    /// runs alone nothing else is claimed; and once one has waited for its turn for as long as a
    /// lease, claims cease until the window is empty.
    fn has_room(&self) -> bool {
        let run = self.run;
        let waited = self
            .suspect_since
            .is_some_and(|since| since.elapsed() >= run.setup.config.lease);
        if self.alone || waited {
            return run.window.is_empty();
        }
        let nothing_runs = run.slots.available_permits() == run.setup.config.concurrency;
        run.window.half_free() || (nothing_runs && run.window.free() > 0)
    }

    /// One probe or one claim. `None` if the relay was stopped while it connected; a claim that was
    /// sent is never cancelled.
    async fn step(&mut self) -> Result<Option<Step>, Error> {
        match self
            .run
            .stop
            .run_until_cancelled(self.connection.connect())
            .await
        {
            Some(connected) => connected?,
            None => return Ok(None),
        }
        if self.run.mode == Mode::Drain && self.cutoff.is_none() {
            self.cutoff = Some(call!(self.connection, "asking for the time", |session| {
                session.now()
            })?);
        }
        if self.alone {
            // It has left the window.
            (self.alone, self.suspect_since) = (false, None);
            self.round.clear();
        }
        if self.suspect_since.is_some()
            && self.run.window.is_empty()
            && !matches!(self.round.front(), Some(Found::Lapsed(_)))
        {
            // The window has run empty for the row that has to run alone: it comes first.
            self.round.clear();
        }
        let Some(found) = self.round.pop_front() else {
            return self.probe().await.map(Some);
        };
        let claimed = match found {
            Found::Due(route) => self.claim(route).await?,
            Found::Lapsed(route) => self.take_over(route).await?,
        };
        self.claimed_in_round += claimed;
        // A probe that finds rows which no claim gets (somebody has them locked) must not become a
        // busy loop.
        let fruitless = self.round.is_empty() && self.claimed_in_round == 0;
        if self.round.is_empty() && !self.suspect_in_round {
            self.suspect_since = None;
        }
        Ok(Some(if fruitless {
            Step::Idle(None)
        } else {
            Step::Again
        }))
    }

    async fn probe(&mut self) -> Result<Step, Error> {
        let (routes, cutoff) = (&self.run.setup.routes, self.cutoff);
        let probe = call!(self.connection, "looking for due messages", |session| {
            session.probe(routes, cutoff)
        })?;
        (self.claimed_in_round, self.suspect_in_round) = (0, false);
        if probe.lapsed.is_empty() {
            self.suspect_since = None;
        }
        // Lapsed leases first: they have waited longest, and one may have to run alone.
        self.round
            .extend(probe.lapsed.iter().map(|&route| Found::Lapsed(route)));
        let (before, after): (Vec<_>, Vec<_>) = probe
            .due
            .iter()
            .partition(|&&route| route < self.next_route);
        self.round.extend(
            after
                .into_iter()
                .chain(before)
                .map(|&route| Found::Due(route)),
        );
        Ok(if self.round.is_empty() {
            Step::Idle(probe.next)
        } else {
            Step::Again
        })
    }

    async fn claim(&mut self, route: usize) -> Result<usize, Error> {
        let free = self.run.window.free();
        let share = (free / (self.round.len() + 1))
            .max(SHARE)
            .min(free)
            .min(BATCH);
        let claim = self.ask(route, share);
        let sent = Instant::now();
        let rows = call!(self.connection, "claiming messages", |session| session
            .claim(&claim))?;
        let full = rows.len() >= claim.limit as usize;
        self.next_route = (route + 1) % self.run.setup.routes.len();
        if full && self.run.setup.routes.len() == 1 {
            // With a single route there is nobody to be fair to: go on without another probe.
            self.round.push_back(Found::Due(route));
        }
        Ok(self.start(route, rows, &claim, sent))
    }

    async fn take_over(&mut self, route: usize) -> Result<usize, Error> {
        let claim = self.ask(route, self.run.window.free().min(BATCH));
        let (retry, alone) = (
            self.run.setup.served[route].retry,
            self.run.window.is_empty(),
        );
        let sent = Instant::now();
        let TakenOver {
            rows,
            alone,
            dead,
            waiting,
        } = call!(self.connection, "taking over lapsed messages", |session| {
            session.take_over(&claim, &retry, alone)
        })?;
        for id in &dead {
            tracing::warn!(%id, topic = claim.route.topic, "dead letter: its last attempts ended without a word");
        }
        add(&self.run.tally.dead, dead.len());
        if waiting && !alone {
            self.suspect_in_round = true;
            self.suspect_since.get_or_insert_with(Instant::now);
        }
        if alone {
            // Nothing else is claimed before this row has left the window.
            self.alone = true;
            self.round.clear();
        }
        Ok(self.start(route, rows, &claim, sent) + dead.len())
    }

    fn ask(&self, route: usize, limit: usize) -> Claim {
        Claim {
            route: self.run.setup.routes[route],
            limit: u32::try_from(limit).unwrap_or(u32::MAX).max(1),
            token: Uuid::new_v4(),
            lease: self.run.setup.config.lease,
            cutoff: self.cutoff,
        }
    }

    fn start(&self, route: usize, rows: Vec<Claimed>, claim: &Claim, sent: Instant) -> usize {
        let claimed = rows.len();
        add(&self.run.tally.claimed, claimed);
        for row in rows {
            dispatch::spawn(self.run, route, row, claim.token, sent + claim.lease);
        }
        claimed
    }

    /// Waits until the next row is due, or the poll interval is over, or the store has noticed a
    /// commit. Polling is the truth; a notice only cuts the latency.
    async fn idle(&mut self, next: Option<Duration>) {
        let poll_interval = self.run.setup.config.poll_interval;
        let until = Instant::now() + next.map_or(poll_interval, |next| next.min(poll_interval));
        let stop = self.run.stop.clone();
        let Some(interval) = self.run.setup.store.watch_interval() else {
            let _ = stop
                .run_until_cancelled(tokio::time::sleep_until(until.into()))
                .await;
            return;
        };
        while Instant::now() < until && !stop.is_cancelled() {
            match call!(self.connection, "watching for messages", |session| session
                .changed())
            {
                Ok(false) => {}
                // The next probe will say what is wrong.
                Ok(true) | Err(_) => return,
            }
            let wait = (Instant::now() + interval).min(until);
            let _ = stop
                .run_until_cancelled(tokio::time::sleep_until(wait.into()))
                .await;
        }
    }
}
