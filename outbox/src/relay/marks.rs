//! Low-water marks: where the rows of a route begin that are worth a look.
//!
//! Until a vacuum, and for as long as a snapshot is held anywhere, Postgres keeps the index entries of rows that
//! were claimed or deleted, and they stand in front of those that are due. A look from the very beginning walks
//! over all of them; one that begins at a mark does not. What comes to lie behind a mark (a row whose
//! transaction was open for long, that another relay gave back, or that it leased for less time than this one
//! does) is found by the next look at the whole.

use std::time::{Duration, Instant};

use crate::{
    publish::to_micros,
    store::{Claimed, Mark, Probe},
};

/// How far a mark stays behind the clock while there is no backlog: for so long a transaction may be open after
/// it has published, and its message is not late.
const MARGIN: Duration = Duration::from_secs(1);

/// A look at the whole that takes long, since it walks over so much, may take this part of the time.
const SHARE: u32 = 10;

/// One mark per route.
#[derive(Debug)]
pub(super) struct Marks {
    of: Vec<Mark>,
    /// How long this relay's leases last. A lease that another one begins from now on hardly ends before those.
    lease: Duration,
    whole_at: Instant,
    whole_took: Duration,
    /// There was reason to look at the whole since then.
    owing: bool,
}

impl Marks {
    pub(super) fn new(routes: usize, lease: Duration) -> Self {
        Self {
            of: vec![Mark::default(); routes],
            lease,
            whole_at: Instant::now(),
            whole_took: Duration::ZERO,
            owing: false,
        }
    }

    pub(super) fn all(&self) -> &[Mark] {
        &self.of
    }

    pub(super) fn of(&self, route: usize) -> Mark {
        self.of[route]
    }

    /// The next look has to be at the whole.
    pub(super) fn forget(&mut self) {
        self.of.fill(Mark::default());
        self.owing = false;
    }

    /// The same, but if looks at the whole have just taken their part of the time, not yet.
    pub(super) fn forget_soon(&mut self) {
        self.owing = true;
        if self.whole_due_in(Duration::ZERO).is_zero() {
            self.forget();
        }
    }

    /// How long until a look at the whole is due again, if there has to be one each interval.
    pub(super) fn whole_due_in(&self, interval: Duration) -> Duration {
        let interval = match self.owing {
            true => interval.min(MARGIN),
            false => interval,
        };
        let interval = interval.max(self.whole_took * SHARE);
        interval.saturating_sub(self.whole_at.elapsed())
    }

    /// What a probe that began at the marks has found; where there is a cutoff, it was asked no further.
    pub(super) fn probed(&mut self, probe: &Probe, took: Duration, cutoff: bool) {
        if self.of.iter().all(|mark| *mark == Mark::default()) {
            (self.whole_at, self.whole_took) = (Instant::now(), took);
        }
        let behind_now = Some(behind(probe.now));
        let all_ended = Some(behind(probe.now.saturating_add(to_micros(self.lease))));
        let is_due = |route: &usize| probe.due.iter().any(|(due, _)| due == route);
        for (route, mark) in self.of.iter_mut().enumerate() {
            mark.due = behind_now;
            // Where a row is due, it was asked for ended leases alone, too.
            let asked = if cutoff || is_due(&route) {
                behind_now
            } else {
                all_ended
            };
            mark.lease = mark.lease.max(asked);
        }
        for (route, due_at) in &probe.due {
            self.of[*route].due = Some(*due_at);
        }
        for (route, ends_at) in &probe.leased {
            let mark = &mut self.of[*route];
            mark.lease = mark.lease.min(Some(*ends_at));
        }
        for route in &probe.paused {
            self.of[*route] = Mark::default();
        }
    }

    /// What a claim that began at the mark has brought, in the order of due times. If there is more, it goes on
    /// where that ends.
    pub(super) fn claimed(&mut self, route: usize, rows: &[Claimed], more: bool) {
        if let Some(last) = rows.last() {
            self.of[route].due = Some(match more {
                true => last.due_at,
                false => last.due_at.min(behind(last.due_at + last.late)),
            });
        }
    }
}

fn behind(now: i64) -> i64 {
    now.saturating_sub(to_micros(MARGIN))
}
