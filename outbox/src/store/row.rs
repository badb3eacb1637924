//! What goes into the table and comes out of it, in no database's own types.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

/// A topic and a version that a relay serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) topic: &'static str,
    pub(crate) version: i32,
}

/// What an idle relay learns from one statement; routes by their position in the question.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// The time up to which rows counted as due, in microseconds since 1970.
    pub(crate) now: i64,
    /// Routes with pending rows that are due, and since when the first of them is.
    pub(crate) due: Vec<(usize, i64)>,
    /// Routes with leased rows, and when the first of these leases ends.
    pub(crate) leased: Vec<(usize, i64)>,
    /// Routes of paused topics; nothing is said about their rows.
    pub(crate) paused: Vec<usize>,
    /// How long until the next row is due or the next lease lapses.
    pub(crate) next: Option<Duration>,
}

impl Probe {
    /// Adds what the database says of one route: when its first pending row is due and its first lease over.
    pub(super) fn add(
        &mut self,
        route: usize,
        pending: Option<i64>,
        lease: Option<i64>,
        paused: bool,
    ) {
        if paused {
            self.paused.push(route);
            return;
        }
        match pending {
            Some(due_at) if due_at <= self.now => self.due.push((route, due_at)),
            at => self.expect(at),
        }
        if let Some(ends_at) = lease {
            self.leased.push((route, ends_at));
            if ends_at > self.now {
                self.expect(lease);
            }
        }
    }

    /// Routes with lapsed leases.
    pub(crate) fn lapsed(&self) -> impl Iterator<Item = usize> {
        let lapsed = self
            .leased
            .iter()
            .filter(|(_, ends_at)| *ends_at <= self.now);
        lapsed.map(|(route, _)| *route)
    }

    fn expect(&mut self, at: Option<i64>) {
        let away = at.and_then(|at| u64::try_from(at.saturating_sub(self.now)).ok());
        let away = away.map(Duration::from_micros);
        self.next = [self.next, away].into_iter().flatten().min();
    }
}

/// Where the rows of a route begin that are worth a look, as times of the database's clock in microseconds
/// since 1970; `None` is the very beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Of those that wait, by the time from which they are due.
    pub(crate) due: Option<i64>,
    /// Of those that are leased, by the end of the lease.
    pub(crate) lease: Option<i64>,
}

/// A row that a claim has made this relay's own.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) id: Uuid,
    pub(crate) key: Option<String>,
    pub(crate) payload: String,
    pub(crate) headers: Option<String>,
    /// This claim included.
    pub(crate) attempts: u32,
    /// As the row had it before this claim: a give-back restores it.
    pub(crate) unsettled_before: u32,
    pub(crate) created_at: SystemTime,
    /// A text of it is not UTF-8, which SQLite lets through; then key, payload and headers are empty.
    pub(crate) unreadable: bool,
    /// Since when it is due, in microseconds since 1970. The claim order goes by it.
    pub(crate) due_at: i64,
    /// For how many microseconds that is, by the database's clock.
    pub(crate) late: i64,
}

/// What a take-over did with lapsed rows.
#[derive(Debug, Default)]
pub(crate) struct TakenOver {
    pub(crate) rows: Vec<Claimed>,
    /// The one row in `rows` has to run alone.
    pub(crate) alone: bool,
    /// Rows that were given up.
    pub(crate) dead: Vec<Uuid>,
    /// A row has to run alone and could not, since this relay holds others.
    pub(crate) waiting: bool,
}

/// A row's id and the token of one claim on it. A relay may take over a row that it still holds under
/// an older token; those are two leases, and the older one is over.
pub(crate) type LeaseId = (Uuid, Uuid);

/// The end of one claim.
#[derive(Debug, Clone)]
pub(crate) struct Settlement {
    pub(crate) lease: LeaseId,
    pub(crate) topic: &'static str,
    pub(crate) verdict: Verdict,
    /// How often the database has refused it.
    pub(crate) refusals: u32,
}

/// What a settle does with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Handled: the row is deleted.
    Delivered,
    /// Handled: the row is kept as delivered.
    Kept,
    /// Failed: pending again after a delay.
    Retry { delay: Duration, text: String },
    /// Failed for good.
    Dead { text: String },
    /// Never started: as if it had not been claimed.
    GiveBack { attempts: u32, unsettled: u32 },
}

/// What there is of one route.
#[derive(Debug)]
pub(crate) struct RouteCount {
    pub(crate) topic: String,
    pub(crate) version: i32,
    /// Pending, and not before its time.
    pub(crate) due: u64,
    pub(crate) scheduled: u64,
    pub(crate) processing: u64,
    /// Of those processing, the ones whose lease has lapsed.
    pub(crate) lapsed: u64,
    pub(crate) delivered: u64,
    pub(crate) dead: u64,
    /// How long the oldest due row has been due.
    pub(crate) oldest_due: Option<Duration>,
}

pub(super) fn count(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(if value < 0 { 0 } else { u32::MAX })
}

/// A number of rows as a database takes it.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn wide(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The routes as the register of relays stores them: `[["topic", version], ...]`.
pub(super) fn routes_json(routes: &[Route]) -> String {
    let routes: Vec<_> = routes
        .iter()
        .map(|route| (route.topic, route.version))
        .collect();
    // Strings and numbers always serialize.
    serde_json::to_string(&routes).unwrap_or_default()
}
