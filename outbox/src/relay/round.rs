//! One round: the routes in which a probe found something, in the order of their turns.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use super::backoff::Backoff;
use crate::store::Probe;

/// A route, by its position, with rows to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Due(usize),
    Lapsed(usize),
}

impl Found {
    pub(super) fn route(self) -> usize {
        match self {
            Self::Due(route) | Self::Lapsed(route) => route,
        }
    }
}

/// What the last probe found and nobody has claimed from yet.
#[derive(Debug, Default)]
pub(super) struct Round {
    found: VecDeque<Found>,
    /// Where the next round begins: after the route that was served last.
    next_route: usize,
    /// Rows that this round has brought.
    claimed: usize,
    /// Routes whose claims the database refuses, each with the time of its next try. The others must
    /// not suffer for them.
    benched: HashMap<usize, (Instant, Backoff)>,
}

impl Round {
    /// Begins a round. Lapsed leases come first, since they have waited longest; unless it is the
    /// others' turn. The rest goes in rotation.
    pub(super) fn begin(&mut self, probe: &Probe, others_first: bool) {
        let now = Instant::now();
        let plays = |route: &usize| {
            self.benched
                .get(route)
                .is_none_or(|(until, _)| *until <= now)
        };
        let lapsed: Vec<_> = probe.lapsed().filter(plays).map(Found::Lapsed).collect();
        let (before, after): (Vec<_>, Vec<_>) = probe
            .due
            .iter()
            .map(|(route, _)| *route)
            .filter(plays)
            .partition(|&route| route < self.next_route);
        let due = after.into_iter().chain(before).map(Found::Due);
        self.found = if others_first {
            due.chain(lapsed).collect()
        } else {
            lapsed.into_iter().chain(due).collect()
        };
        self.claimed = 0;
    }

    /// Begins a round of one route, without a probe; false if that route sits out.
    pub(super) fn begin_with(&mut self, route: usize) -> bool {
        let plays = !self.benched.contains_key(&route);
        if plays {
            self.found = VecDeque::from([Found::Due(route)]);
            self.claimed = 0;
        }
        plays
    }

    pub(super) fn next(&mut self) -> Option<Found> {
        self.found.pop_front()
    }

    pub(super) fn first_is_lapsed(&self) -> bool {
        matches!(self.found.front(), Some(Found::Lapsed(_)))
    }

    pub(super) fn has_lapsed(&self) -> bool {
        self.lapsed().next().is_some()
    }

    /// The routes with lapsed rows that still have their turn.
    pub(super) fn lapsed(&self) -> impl Iterator<Item = usize> {
        self.found.iter().filter_map(|found| match found {
            Found::Lapsed(route) => Some(*route),
            Found::Due(_) => None,
        })
    }

    /// Ends the round early.
    pub(super) fn clear(&mut self) {
        self.found.clear();
    }

    pub(super) fn is_over(&self) -> bool {
        self.found.is_empty()
    }

    /// How many routes still have their turn.
    pub(super) fn left(&self) -> usize {
        self.found.len()
    }

    /// Whether the whole round has brought nothing.
    pub(super) fn is_fruitless(&self) -> bool {
        self.is_over() && self.claimed == 0
    }

    /// A claim from this route was answered with so many rows.
    pub(super) fn served(&mut self, found: Found, claimed: usize, routes: usize) {
        self.benched.remove(&found.route());
        self.claimed += claimed;
        if let Found::Due(route) = found {
            self.next_route = (route + 1) % routes;
        }
    }

    /// Gives the route another turn in this round.
    pub(super) fn again(&mut self, found: Found) {
        self.found.push_back(found);
    }

    /// The database refused a claim from this route: it sits out for a while.
    pub(super) fn bench(&mut self, found: Found) {
        let (until, backoff) = self
            .benched
            .entry(found.route())
            .or_insert_with(|| (Instant::now(), Backoff::default()));
        *until = Instant::now() + backoff.next();
    }

    /// How long until a route may play again.
    pub(super) fn bench_ends(&self) -> Option<Duration> {
        let now = Instant::now();
        self.benched
            .values()
            .map(|(until, _)| until.saturating_duration_since(now))
            .min()
    }
}
