//! What became of every message, and why some were handled more than once.

use std::collections::{BTreeMap, HashMap, HashSet};

use outbox_tests::log::Entry;
use uuid::Uuid;

use crate::{
    faults::{Fault, Kind},
    publishers::Published,
    relays::LEASE,
};

/// A process that was paused may be about to write its start down when it wakes up.
const WAKING: u64 = 200;

/// What the log says, beside what was published and what went wrong.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) committed: usize,
    pub(crate) rolled_back: usize,
    pub(crate) delivered: usize,
    /// Committed, and never handled to the end.
    pub(crate) lost: Vec<Uuid>,
    /// Rolled back, and yet handled.
    pub(crate) ghosts: Vec<Uuid>,
    /// How many second starts which kind of fault explains.
    pub(crate) duplicates: BTreeMap<Kind, usize>,
    /// Each second start that nothing explains, beside the one before it.
    pub(crate) unexplained: Vec<(Entry, Entry)>,
    /// By kind, how long it took each time until a message that was committed after the fault began
    /// was handled, in milliseconds, in order.
    pub(crate) recoveries: BTreeMap<Kind, Vec<u64>>,
}

impl Account {
    pub(crate) fn of(published: &Published, entries: &[Entry], faults: &[Fault]) -> Self {
        let ids = |start| -> HashSet<Uuid> {
            let of_kind = entries.iter().filter(|entry| entry.start == start);
            of_kind.map(|entry| entry.id).collect()
        };
        let (started, finished) = (ids(true), ids(false));
        let (delivered, lost): (Vec<_>, Vec<_>) = published
            .committed
            .keys()
            .copied()
            .partition(|id| finished.contains(id));
        let ghosts = published.rolled_back.intersection(&started);
        let mut account = Self {
            committed: published.committed.len(),
            rolled_back: published.rolled_back.len(),
            delivered: delivered.len(),
            lost,
            ghosts: ghosts.copied().collect(),
            duplicates: BTreeMap::new(),
            unexplained: Vec::new(),
            recoveries: recoveries(published, entries, faults),
        };
        for (earlier, later) in repetitions(entries) {
            let reasons = faults.iter().filter(|fault| fault.explains(earlier, later));
            // What hit the one process explains more than what may have hit all.
            match reasons.map(|fault| fault.kind).min() {
                Some(kind) => *account.duplicates.entry(kind).or_default() += 1,
                None => account.unexplained.push((earlier.clone(), later.clone())),
            }
        }
        account
    }

    pub(crate) fn is_good(&self) -> bool {
        self.lost.is_empty() && self.ghosts.is_empty() && self.unexplained.is_empty()
    }
}

/// Each start of a message that had been started before, beside the start before it.
fn repetitions(entries: &[Entry]) -> Vec<(&Entry, &Entry)> {
    let mut starts: Vec<_> = entries.iter().filter(|entry| entry.start).collect();
    // A process can be paused between reading the clock and writing the line.
    starts.sort_by_key(|start| start.at);
    let mut last = HashMap::new();
    starts
        .into_iter()
        .filter_map(|start| Some((last.insert(start.id, start)?, start)))
        .collect()
}

impl Fault {
    /// Whether it can be the reason that a message was started again.
    fn explains(&self, earlier: &Entry, later: &Entry) -> bool {
        let hit = |entry: &Entry| self.process == Some(entry.process);
        let lease = u64::try_from(LEASE.as_millis()).expect("a short time");
        // Renewed at half of its life, a lease has more than a quarter left when the fault begins.
        let lapsed = self.from + lease / 4 <= later.at;
        match self.kind {
            Kind::Kill => hit(earlier) && earlier.at <= self.from && lapsed,
            Kind::Pause => {
                let woke = self.until <= later.at && later.at <= self.until + WAKING;
                hit(earlier) && earlier.at <= self.from && lapsed || hit(later) && woke
            }
            // The lease may have run out while nobody could renew it, or nobody could settle.
            Kind::Terminate | Kind::Cut | Kind::Swallow | Kind::Refuse => {
                earlier.at <= self.until + lease && lapsed
            }
        }
    }
}

fn recoveries(
    published: &Published,
    entries: &[Entry],
    faults: &[Fault],
) -> BTreeMap<Kind, Vec<u64>> {
    // When a message was handled, and when it was committed.
    let mut handled: Vec<_> = entries
        .iter()
        .filter(|entry| !entry.start)
        .filter_map(|finish| Some((finish.at, *published.committed.get(&finish.id)?)))
        .collect();
    handled.sort_unstable();
    let mut recoveries = BTreeMap::<_, Vec<u64>>::new();
    for fault in faults {
        let later = handled.partition_point(|(at, _)| *at < fault.from);
        let first = handled[later..]
            .iter()
            .find(|(_, committed)| *committed >= fault.from);
        if let Some((at, _)) = first {
            let recovery = recoveries.entry(fault.kind).or_default();
            recovery.push(at - fault.from);
        }
    }
    recoveries
        .values_mut()
        .for_each(|times| times.sort_unstable());
    recoveries
}
