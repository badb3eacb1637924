//! Filling the window: which routes have something to claim, and whose turn it is.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    Mode, Run, Setup,
    backoff::Backoff,
    connection::{Connection, call, within},
    counts::add,
    dispatch,
    health::Doing,
    marks::Marks,
    round::{Found, Round},
    suspects::Suspects,
    wake::Woken,
};
use crate::{
    Error,
    store::{self, Claim, Claimed, Fault, TakenOver, fault},
};

/// The most rows of one claim: the knee of what was measured, more brings no more speed.
const BATCH: usize = 1_000;

/// While several routes are due they share the free room, but none gets less than this: a claim has
/// to be worth its round trip.
const SHARE: usize = 16;

/// Where claims follow each other faster than this, a relay that has claimed all there was looks again after a
/// rest: each claim costs the database a transaction, and one that takes a few rows more costs hardly more. Nor
/// has it to be woken meanwhile.
const BUSY: Duration = Duration::from_millis(15);
const REST: Duration = Duration::from_millis(4);

/// Claims until the relay is told to stop or, draining, until nothing is left to claim.
pub(super) async fn run<S: Send + Sync + 'static>(run: &Arc<Run<S>>) -> Result<(), Error> {
    let config = &run.setup.config;
    let mut claimer = Claimer {
        run,
        connection: Connection::new(Arc::clone(&run.setup.store), config.store_timeout),
        round: Round::default(),
        marks: Marks::new(run.setup.routes.len(), config.lease),
        probed_at: Instant::now(),
        most: BATCH,
        cutoff: None,
        suspects: Suspects::new(config.lease),
        backoff: Backoff::default(),
        woken_at: None,
        claimed_at: None,
        busy: false,
        rests_until: None,
        unprobed: false,
        paused: Vec::new(),
        held_back: Vec::new(),
    };
    let result = claimer.serve().await;
    claimer.connection.close().await;
    result
}

struct Claimer<'a, S: 'static> {
    run: &'a Arc<Run<S>>,
    connection: Connection,
    round: Round,
    /// Where looks and claims begin.
    marks: Marks,
    probed_at: Instant,
    /// The most rows of the next claim: less than a batch after one that took too long.
    most: usize,
    /// A drain takes what was due at this time of the database's, in microseconds.
    cutoff: Option<i64>,
    suspects: Suspects,
    backoff: Backoff,
    /// How many rows it had claimed when it was woken last.
    woken_at: Option<u64>,
    /// When it claimed last, and whether that was just after the claim before.
    claimed_at: Option<Instant>,
    busy: bool,
    rests_until: Option<Instant>,
    /// The round began without a probe: if it brings nothing, a probe has to tell when the next row is due.
    unprobed: bool,
    /// The routes of paused topics, as the last probe told.
    paused: Vec<usize>,
    /// Routes with rows that their handlers' limits have kept this relay from claiming.
    held_back: Vec<usize>,
}

fn claiming_topic<S>(run: &Run<S>, route: usize) -> Doing {
    Doing::ClaimingTopic(run.setup.routes[route].topic)
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
            if self.round.is_over()
                && let Some(until) = self.rests_until.take()
            {
                let rest = tokio::time::sleep_until(until.into());
                let _ = self.run.stop.run_until_cancelled(rest).await;
            }
            let step = if self.has_room() {
                self.step().await
            } else {
                self.wait_for_room().await
            };
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Idle(next)) => {
                    self.note(Doing::Claiming, Ok(()));
                    self.backoff.reset();
                    match self.run.mode {
                        _ if !self.held_back.is_empty() => self.idle(next).await,
                        Mode::Drain if self.run.window.is_empty() && !self.suspects.wait() => {
                            return Ok(());
                        }
                        Mode::Drain => {
                            let left = self.run.window.left(|| !self.run.window.is_empty());
                            let _ = self.run.stop.run_until_cancelled(left).await;
                        }
                        Mode::Serve => self.idle(next).await,
                    }
                }
                Err(error) if self.run.mode == Mode::Drain => return Err(error),
                Err(error) => {
                    self.note(Doing::Claiming, Err(&error));
                    self.round.clear();
                    self.marks.forget();
                    if error.is_timeout() {
                        // It may have been too much at once; rows that were claimed all the same come
                        // back by their lease.
                        self.most = (self.most / 2).max(1);
                    }
                    let pause = self.backoff.next();
                    let _ = self
                        .run
                        .stop
                        .run_until_cancelled(tokio::time::sleep(pause))
                        .await;
                }
            }
        }
        Ok(())
    }

    fn note(&self, doing: Doing, result: Result<(), &Error>) {
        self.run.setup.vitals.note(doing, result);
    }

    /// Claims when half of the window is free or nothing runs, so that batches stay large.
    fn has_room(&self) -> bool {
        let run = self.run;
        if self.suspects.hold() {
            return run.window.is_empty();
        }
        let nothing_runs = run.slots.available_permits() == run.setup.config.concurrency;
        run.window.half_free() || (nothing_runs && run.window.free() > 0)
    }

    /// Waits until rows leave the window. Where claims have ceased for a row that has to run alone, it
    /// looks at each poll whether that row is still there.
    async fn wait_for_room(&mut self) -> Result<Step, Error> {
        let run = self.run;
        let ceased = self.suspects.hold() && !self.suspects.run();
        let poll = async {
            match ceased {
                true => tokio::time::sleep(run.setup.config.poll_interval).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = run.stop.cancelled() => {}
            () = run.window.left(|| !self.has_room()) => {}
            () = poll => {
                self.suspects.relent();
                return self.probe().await.map(|_| Step::Again);
            }
        }
        Ok(Step::Again)
    }

    /// One probe or one claim. A claim that was sent is never cancelled.
    async fn step(&mut self) -> Result<Step, Error> {
        match self
            .run
            .stop
            .run_until_cancelled(self.connection.connect())
            .await
        {
            Some(connected) => connected?,
            None => return Ok(Step::Again),
        }
        self.check_tables().await?;
        if self.run.mode == Mode::Drain && self.cutoff.is_none() {
            self.cutoff = Some(call!(self.connection, "asking for the time", |session| {
                session.now()
            })?);
        }
        let empty = self.run.window.is_empty();
        if empty
            && (self.suspects.ended() || (self.suspects.wait() && !self.round.first_is_lapsed()))
        {
            // What was found before a row ran alone is out of date; and once the window has run empty
            // for one that waits, that one comes first.
            self.round.clear();
        }
        let Some(found) = self.round.next() else {
            self.unprobed = false;
            return self.probe().await;
        };
        let allowance = self.allowance(found.route());
        if allowance == 0 {
            self.held_back.push(found.route());
            return Ok(self.turn_ends());
        }
        let claimed = match found {
            Found::Due(route) => self.claim(route, allowance).await,
            Found::Lapsed(route) => self.take_over(route, allowance).await,
        };
        match claimed {
            Ok(claimed) => {
                self.note(Doing::Claiming, Ok(()));
                if !self.run.setup.vitals.is_well() {
                    self.note(claiming_topic(self.run, found.route()), Ok(()));
                }
                self.backoff.reset();
                self.most = (self.most * 2).min(BATCH);
                self.round
                    .served(found, claimed, self.run.setup.routes.len());
            }
            Err(error)
                if matches!(fault(&error), Fault::Refused | Fault::Locked)
                    && self.run.mode == Mode::Serve =>
            {
                // The others go on.
                self.round.bench(found);
                self.marks.forget();
                self.note(claiming_topic(self.run, found.route()), Err(&error));
            }
            Err(error) => return Err(error),
        }
        Ok(self.turn_ends())
    }

    /// What follows a route's turn in a round.
    fn turn_ends(&mut self) -> Step {
        if self.round.is_over() {
            self.suspects.round_ends();
        }
        // A probe that finds rows which no claim gets (somebody has them locked) must not become a
        // busy loop.
        if self.round.is_fruitless() && !std::mem::take(&mut self.unprobed) {
            Step::Idle(self.round.bench_ends())
        } else {
            Step::Again
        }
    }

    /// Does what `build` could not do while the database was not there.
    async fn check_tables(&self) -> Result<(), Error> {
        let Setup { store, checked, .. } = &*self.run.setup;
        if !checked.load(Ordering::Relaxed) {
            let timeout = self.run.setup.config.store_timeout;
            let versions = within(timeout, "checking the tables", store.versions()).await?;
            store::compatible(&versions)?;
            checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn probe(&mut self) -> Result<Step, Error> {
        let (routes, cutoff) = (&self.run.setup.routes, self.cutoff);
        if self.whole_due_in().is_zero() {
            self.marks.forget();
        }
        let began = Instant::now();
        let probe = call!(self.connection, "looking for due messages", |session| {
            session.probe(routes, self.marks.all(), cutoff)
        })?;
        self.probed_at = Instant::now();
        self.marks
            .probed(&probe, self.probed_at - began, cutoff.is_some());
        self.held_back.clear();
        self.pauses(&probe.paused);
        let others_first = self.suspects.round_begins();
        self.round.begin(&probe, others_first);
        if !self.round.has_lapsed() {
            self.suspects.forget();
        } else if self.round.lapsed().all(|route| self.allowance(route) == 0) {
            self.suspects.sit_out();
        }
        let next = [probe.next, self.round.bench_ends()]
            .into_iter()
            .flatten()
            .min();
        Ok(if self.round.is_over() {
            Step::Idle(next)
        } else {
            Step::Again
        })
    }

    fn whole_due_in(&self) -> Duration {
        self.marks.whole_due_in(self.run.setup.config.poll_interval)
    }

    /// Says which topics an operator has paused or resumed since the last probe.
    fn pauses(&mut self, paused: &[usize]) {
        if self.paused == paused {
            return;
        }
        let topic = |route: &usize| self.run.setup.routes[*route].topic;
        for route in paused.iter().filter(|route| !self.paused.contains(route)) {
            tracing::info!(
                topic = topic(route),
                "the topic is paused: nothing is claimed from it"
            );
        }
        for route in self.paused.iter().filter(|route| !paused.contains(route)) {
            tracing::info!(topic = topic(route), "the topic is resumed");
        }
        self.paused = paused.to_vec();
    }

    /// Claims at most `allowance` rows.
    async fn claim(&mut self, route: usize, allowance: usize) -> Result<usize, Error> {
        let free = self.run.window.free();
        let share = (free / (self.round.left() + 1))
            .max(SHARE)
            .min(free)
            .min(self.most)
            .min(allowance);
        let claim = self.ask(route, share);
        let sent = Instant::now();
        let rows = call!(self.connection, "claiming messages", |session| session
            .claim(&claim))?;
        let full = rows.len() >= claim.limit as usize;
        self.marks.claimed(route, &rows, full);
        let probe_is_fresh = self.probed_at.elapsed() < self.run.setup.config.poll_interval
            && !self.whole_due_in().is_zero();
        if full && self.run.setup.routes.len() == 1 && probe_is_fresh {
            // With a single route there is nobody to be fair to: go on without another probe, which
            // only lapsed leases need.
            self.round.again(Found::Due(route));
        }
        let claimed = self.start(route, rows, &claim, sent);
        if self.busy && !full && self.run.mode == Mode::Serve {
            self.rests_until = Some(Instant::now() + REST);
        }
        Ok(claimed)
    }

    async fn take_over(&mut self, route: usize, allowance: usize) -> Result<usize, Error> {
        let most = self.run.window.free().min(self.most).min(allowance);
        let claim = self.ask(route, most);
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
            let reason = "its last attempts ended without a word";
            self.run.died(*id, claim.route.topic, reason);
        }
        add(&self.run.tally.dead, dead.len());
        if waiting && !alone {
            self.suspects.seen();
        }
        if alone {
            // Nothing else is claimed before this row has left the window.
            self.suspects.started();
            self.round.clear();
        }
        Ok(self.start(route, rows, &claim, sent) + dead.len())
    }

    /// How many rows of this route its handler's limits allow to claim.
    fn allowance(&self, route: usize) -> usize {
        self.run.setup.served[route].limiter.allowance()
    }

    fn ask(&self, route: usize, limit: usize) -> Claim {
        Claim {
            route: self.run.setup.routes[route],
            limit: u32::try_from(limit).unwrap_or(u32::MAX).max(1),
            token: Uuid::new_v4(),
            lease: self.run.setup.config.lease,
            mark: self.marks.of(route),
            cutoff: self.cutoff,
        }
    }

    fn just_claimed(&self) -> bool {
        self.claimed_at.is_some_and(|at| at.elapsed() < BUSY)
    }

    fn start(&mut self, route: usize, rows: Vec<Claimed>, claim: &Claim, sent: Instant) -> usize {
        let claimed = rows.len();
        add(&self.run.tally.claimed, claimed);
        if claimed > 0 {
            self.busy = self.just_claimed();
            self.claimed_at = Some(Instant::now());
        }
        if claimed > 0 {
            dispatch::spawn(self.run, route, rows, claim.token, sent);
        }
        claimed
    }

    /// All relays hear of a message, and one gets it. Those that came too late the last time probe before they
    /// claim: whoever is quick stays quick, and the rest does not crowd the table.
    fn woken(&mut self) {
        let claimed = self.run.tally.read().claimed;
        let in_vain = self.woken_at.replace(claimed) == Some(claimed);
        // With a single route it needs no probe to know where.
        if !in_vain
            && self.run.setup.routes.len() == 1
            && self.paused.is_empty()
            && !self.suspects.hold()
        {
            self.unprobed = self.round.begin_with(0);
        }
    }

    /// Waits until the next row is due, or the poll interval is over, or the store has noticed a
    /// commit, or a handler's limit lets another row start, or a retry of this relay's own is due. Polling is the truth; a notice only cuts the
    /// latency.
    async fn idle(&mut self, next: Option<Duration>) {
        let run = self.run;
        let poll_interval = self.whole_due_in().min(run.setup.config.poll_interval);
        let limiters = self.held_back.iter();
        let limiters: Vec<_> = limiters
            .map(|&route| &*run.setup.served[route].limiter)
            .collect();
        let until = Instant::now() + next.map_or(poll_interval, |next| next.min(poll_interval));
        let held_back = || limiters.iter().all(|limiter| limiter.allowance() == 0);
        let freed = async {
            while held_back() {
                let refilled = limiters.iter().filter_map(|limiter| limiter.refilled());
                let refilled = async {
                    match refilled.min() {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = refilled => {}
                    () = run.window.left(held_back) => {}
                }
            }
        };
        tokio::select! {
            () = run.stop.cancelled() => {}
            () = freed => {}
            () = run.wake.retry() => {}
            () = self.noticed(until) => {}
        }
    }

    /// Waits until this time, or until the store has noticed a commit.
    async fn noticed(&mut self, until: Instant) {
        let Some(interval) = self.run.setup.store.watch_interval() else {
            let until = match self.run.setup.ears {
                Some(_) if self.busy && self.just_claimed() => until.min(Instant::now() + REST),
                _ => until,
            };
            let woken = tokio::time::timeout_at(until.into(), self.run.wake.woken());
            if let Ok(woken) = woken.await {
                self.marks.forget_soon();
                if woken == Woken::Published {
                    self.woken();
                }
            }
            return;
        };
        while Instant::now() < until {
            match call!(self.connection, "watching for messages", |session| session
                .changed())
            {
                Ok(false) => {}
                // The next probe will say what is wrong.
                Ok(true) | Err(_) => return,
            }
            let wait = (Instant::now() + interval).min(until);
            tokio::time::sleep_until(wait.into()).await;
        }
    }
}
