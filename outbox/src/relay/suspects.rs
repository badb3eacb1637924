//! Rows that have to run alone: when claims cease for them, and for how long.

use std::time::{Duration, Instant};

/// The longest that claims cease at a time.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What a relay knows of rows that may kill it.
///
/// One of them runs when the window is empty. While others keep the window filled it waits for as
/// long as a lease; then claims cease until the window has run empty, but no longer than it has
/// waited. If that was not enough, both times double: a handler that takes long can neither hold up
/// everything for ever nor keep a suspect from ever running. After each suspect that has run, the
/// others have one round first.
#[derive(Debug)]
pub(super) struct Suspects {
    /// The row in the window is one.
    running: bool,
    /// Since when one waits for the window to run empty.
    since: Option<Instant>,
    /// How long it waits, and how long claims then cease.
    patience: Duration,
    least_patience: Duration,
    seen_in_round: bool,
    /// None can be looked at before a handler's limit allows it: those that wait go on waiting, but no
    /// claims cease for them.
    sits_out: bool,
    /// One has just run: the others come first, once.
    others_first: bool,
    /// That round is under way; whoever is seen waiting in it need not wait again.
    next_at_once: bool,
}

impl Suspects {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            running: false,
            since: None,
            patience: lease,
            least_patience: lease,
            seen_in_round: false,
            sits_out: false,
            others_first: false,
            next_at_once: false,
        }
    }

    /// Whether one waits.
    pub(super) fn wait(&self) -> bool {
        self.since.is_some() && !self.sits_out
    }

    /// Whether one is in the window.
    pub(super) fn run(&self) -> bool {
        self.running
    }

    /// Whether nothing may be claimed before the window is empty.
    pub(super) fn hold(&self) -> bool {
        self.running
            || (!self.sits_out
                && self
                    .since
                    .is_some_and(|since| since.elapsed() >= self.patience))
    }

    /// Lets the others go on where claims have ceased for too long.
    pub(super) fn relent(&mut self) {
        let too_long = self
            .since
            .is_some_and(|since| since.elapsed() >= self.patience * 2);
        if too_long {
            self.patience = (self.patience * 2).min(LONGEST);
            self.since = Some(Instant::now());
        }
    }

    /// One was claimed.
    pub(super) fn started(&mut self) {
        self.running = true;
    }

    /// The window is empty. True if that means that one has run.
    pub(super) fn ended(&mut self) -> bool {
        if self.running {
            (self.running, self.since) = (false, None);
            self.patience = self.least_patience;
            self.others_first = true;
            return true;
        }
        false
    }

    /// Whether the round that begins belongs to the others first.
    pub(super) fn round_begins(&mut self) -> bool {
        (self.seen_in_round, self.sits_out) = (false, false);
        self.next_at_once = std::mem::take(&mut self.others_first);
        self.next_at_once
    }

    /// None can be taken over in this round, for want of what their handlers' limits allow.
    pub(super) fn sit_out(&mut self) {
        self.sits_out = true;
    }

    /// None can be taken over in this round.
    pub(super) fn forget(&mut self) {
        self.since = None;
    }

    /// One could not run, since the window is not empty.
    pub(super) fn seen(&mut self) {
        self.seen_in_round = true;
        let now = Instant::now();
        if std::mem::take(&mut self.next_at_once) {
            self.since = now.checked_sub(self.patience);
        }
        self.since.get_or_insert(now);
    }

    /// None was seen in a whole round: it is gone, or somebody else has it.
    pub(super) fn round_ends(&mut self) {
        if !self.seen_in_round && !self.sits_out {
            self.since = None;
        }
    }
}
