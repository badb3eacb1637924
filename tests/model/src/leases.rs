//! Several relays on a few messages: claims, leases, settles that come late, twice or never, crashes, and an
//! operator who redrives and purges.

use stateright::{Model, Property};

use crate::row::{After, End, Event, Row, Rules, State};

/// How many there are of each, and how much may happen: the search ends where these do.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Leases {
    pub rules: Rules,
    pub relays: usize,
    pub messages: usize,
    pub claims: u64,
    pub crashes: u32,
    pub redrives: u32,
}

/// All that is the case at one time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    messages: Vec<Message>,
    /// What each relay holds, or believes to hold.
    relays: Vec<Vec<Lease>>,
    /// Claims made so far: the next one's token.
    claims: u64,
    crashes: u32,
    redrives: u32,
    /// A purge has picked these messages, and waits for their locks.
    purge: Vec<usize>,
    seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Message {
    fate: Fate,
    /// The claim that truly holds it. No protocol sees this: it is what the fence is judged by.
    holder: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Fate {
    Unpublished,
    RolledBack,
    InTable(Row),
    Delivered,
    /// An operator deleted it when it was dead.
    Purged,
    /// Nobody wanted this.
    Lost,
}

/// A claim, as its relay sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lease {
    message: usize,
    token: u64,
    claim: u64,
    before: (u32, u32),
    /// A settle was sent, and no answer came back: it will be sent again.
    sent: Option<End>,
}

/// What has happened on the way; without some of it a search has not shown much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Seen {
    stale_accepted: bool,
    stale_refused: bool,
    purge_met_a_redriven_row: bool,
}

/// What can happen next. Relays and messages by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum Action {
    Commit(usize),
    RollBack(usize),
    Claim {
        relay: usize,
        message: usize,
    },
    TakeOver {
        relay: usize,
        message: usize,
    },
    Renew {
        relay: usize,
        lease: usize,
    },
    /// The answer may be lost.
    Settle {
        relay: usize,
        lease: usize,
        end: End,
        heard: bool,
    },
    GiveBack {
        relay: usize,
        lease: usize,
    },
    Lapse(usize),
    /// A relay sees that its lease is over. One that stands still does not.
    Notice {
        relay: usize,
        lease: usize,
    },
    Crash(usize),
    Redrive(usize),
    PickForPurge,
    Purge,
}

impl World {
    fn row(&self, message: usize) -> Option<Row> {
        match self.messages[message].fate {
            Fate::InTable(row) => Some(row),
            _ => None,
        }
    }

    /// Lets the row's function decide; whether it was done.
    fn apply(&mut self, message: usize, event: Event, rules: &Rules) -> bool {
        let Some(row) = self.row(message) else {
            return false;
        };
        let Some(after) = row.after(event, rules) else {
            return false;
        };
        self.messages[message].fate = match (after, event) {
            (After::Row(row), _) => Fate::InTable(row),
            (After::Gone, Event::Settle { .. }) => Fate::Delivered,
            (After::Gone, _) if row.state == State::Dead => Fate::Purged,
            (After::Gone, _) => Fate::Lost,
        };
        if self
            .row(message)
            .is_none_or(|row| row.state != State::Processing)
        {
            self.messages[message].holder = None;
        }
        true
    }

    /// What the holder of a claim asks: judged by who truly holds the row.
    fn ask(&mut self, lease: Lease, event: Event, rules: &Rules) -> bool {
        let truly_held = self.messages[lease.message].holder == Some(lease.claim);
        let accepted = self.apply(lease.message, event, rules);
        self.seen.stale_accepted |= accepted && !truly_held;
        self.seen.stale_refused |= !accepted && !truly_held;
        accepted
    }

    fn claim(&mut self, relay: usize, message: usize, event: Event, rules: &Rules) -> bool {
        let Some(before) = self.row(message) else {
            return false;
        };
        if !self.apply(message, event, rules) {
            return false;
        }
        if let Some(row) = self.row(message)
            && row.state == State::Processing
        {
            let claim = self.claims;
            self.messages[message].holder = Some(claim);
            self.relays[relay].push(Lease {
                message,
                token: row.token.unwrap_or_default(),
                claim,
                before: (before.attempts, before.unsettled),
                sent: None,
            });
        }
        self.claims += 1;
        true
    }

    /// One relay that nothing happens to, from here on: whether everything is settled in the end. A
    /// schedule is fair if it lets some relay do so.
    fn settles(&self, rules: &Rules) -> bool {
        let mut world = self.clone();
        for relay in &mut world.relays {
            relay.clear();
        }
        for message in 0..world.messages.len() {
            // Each round spends an attempt.
            for _ in 0..3 * rules.max_attempts + 3 {
                world.apply(message, Event::Lapse, rules);
                let token = world.claims;
                let claimed = world.claim(0, message, Event::Claim { token }, rules)
                    || world.claim(0, message, Event::TakeOver { token, alone: true }, rules);
                if claimed && let Some(lease) = world.relays[0].pop() {
                    let event = Event::Settle {
                        token: lease.token,
                        end: End::Failed,
                    };
                    world.ask(lease, event, rules);
                }
            }
        }
        world.messages.iter().all(|message| match message.fate {
            Fate::InTable(row) => row.state == State::Dead,
            Fate::Lost => false,
            _ => true,
        })
    }
}

impl Model for Leases {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            messages: vec![
                Message {
                    fate: Fate::Unpublished,
                    holder: None
                };
                self.messages
            ],
            relays: vec![Vec::new(); self.relays],
            claims: 0,
            crashes: 0,
            redrives: 0,
            purge: Vec::new(),
            seen: Seen::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (message, Message { fate, .. }) in world.messages.iter().enumerate() {
            match fate {
                Fate::Unpublished => {
                    actions.extend([Action::Commit(message), Action::RollBack(message)]);
                }
                Fate::InTable(row) => {
                    actions.push(Action::Lapse(message));
                    if world.redrives < self.redrives {
                        actions.push(Action::Redrive(message));
                    }
                    for relay in 0..self.relays {
                        if world.claims < self.claims && row.state != State::Dead {
                            actions.push(Action::Claim { relay, message });
                            actions.push(Action::TakeOver { relay, message });
                        }
                    }
                }
                _ => {}
            }
        }
        for (relay, leases) in world.relays.iter().enumerate() {
            for lease in 0..leases.len() {
                actions.push(Action::Renew { relay, lease });
                actions.push(Action::Notice { relay, lease });
                actions.push(Action::GiveBack { relay, lease });
                for end in [End::Delivered, End::Failed, End::Cancelled] {
                    for heard in [true, false] {
                        actions.push(Action::Settle {
                            relay,
                            lease,
                            end,
                            heard,
                        });
                    }
                }
            }
            if world.crashes < self.crashes && !leases.is_empty() {
                actions.push(Action::Crash(relay));
            }
        }
        actions.push(if world.purge.is_empty() {
            Action::PickForPurge
        } else {
            Action::Purge
        });
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let rules = &self.rules;
        let mut next = world.clone();
        match action {
            Action::Commit(message) => {
                next.messages[message].fate = Fate::InTable(Row::published());
            }
            Action::RollBack(message) => next.messages[message].fate = Fate::RolledBack,
            Action::Claim { relay, message } => {
                let token = next.claims;
                next.claim(relay, message, Event::Claim { token }, rules);
            }
            Action::TakeOver { relay, message } => {
                let (token, alone) = (next.claims, next.relays[relay].is_empty());
                next.claim(relay, message, Event::TakeOver { token, alone }, rules);
            }
            Action::Renew { relay, lease } => {
                let lease = next.relays[relay][lease];
                let token = lease.token;
                next.ask(lease, Event::Renew { token }, rules);
            }
            Action::Settle {
                relay,
                lease: at,
                end,
                heard,
            } => {
                let lease = next.relays[relay][at];
                // A settle is sent again as it was.
                if lease.sent.is_some_and(|sent| sent != end) {
                    return None;
                }
                let token = lease.token;
                next.ask(lease, Event::Settle { token, end }, rules);
                if heard {
                    next.relays[relay].remove(at);
                } else {
                    next.relays[relay][at].sent = Some(end);
                }
            }
            Action::GiveBack { relay, lease: at } => {
                let lease = next.relays[relay][at];
                if lease.sent.is_some() {
                    return None;
                }
                let (token, before) = (lease.token, lease.before);
                next.ask(lease, Event::GiveBack { token, before }, rules);
                next.relays[relay].remove(at);
            }
            Action::Lapse(message) => {
                next.apply(message, Event::Lapse, rules);
            }
            Action::Notice { relay, lease: at } => {
                let lease = next.relays[relay][at];
                let held = next.messages[lease.message].holder == Some(lease.claim);
                let live = next.row(lease.message).is_some_and(|row| !row.lapsed);
                if held && live {
                    return None;
                }
                next.relays[relay].remove(at);
            }
            Action::Crash(relay) => {
                next.crashes += 1;
                next.relays[relay].clear();
            }
            Action::Redrive(message) => {
                if next.apply(message, Event::Redrive, rules) {
                    next.redrives += 1;
                }
            }
            Action::PickForPurge => {
                let dead = |message: &usize| {
                    let row = world.row(*message);
                    row.is_some_and(|row| row.state == State::Dead)
                };
                next.purge = (0..self.messages).filter(dead).collect();
            }
            Action::Purge => {
                for message in std::mem::take(&mut next.purge) {
                    let row = next.row(message);
                    next.seen.purge_met_a_redriven_row |=
                        row.is_some_and(|row| row.state != State::Dead);
                    next.apply(message, Event::Purge, rules);
                }
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is lost", |_, world: &World| {
                world
                    .messages
                    .iter()
                    .all(|message| message.fate != Fate::Lost)
            }),
            Property::always("no stale claim changes a row", |_, world: &World| {
                !world.seen.stale_accepted
            }),
            Property::always("nothing is both dead and held", |_, world: &World| {
                (0..world.messages.len()).all(|message| {
                    let row = world.row(message);
                    let dead = row.is_some_and(|row| row.state == State::Dead);
                    !dead || world.messages[message].holder.is_none()
                })
            }),
            Property::always("nothing runs that was rolled back", |_, world: &World| {
                world
                    .relays
                    .iter()
                    .flatten()
                    .all(|lease| world.messages[lease.message].fate != Fate::RolledBack)
            }),
            Property::always("one claim at a time holds a row", |_, world: &World| {
                world.messages.iter().enumerate().all(|(n, message)| {
                    let row = world.row(n);
                    let processing = row.is_some_and(|row| row.state == State::Processing);
                    processing == message.holder.is_some()
                })
            }),
            Property::always(
                "a fair schedule settles everything",
                |model, world: &World| world.settles(&model.rules),
            ),
            Property::sometimes("a stale claim is refused", |_, world: &World| {
                world.seen.stale_refused
            }),
            Property::sometimes("a purge meets a redriven row", |_, world: &World| {
                world.seen.purge_met_a_redriven_row
            }),
            Property::sometimes(
                "a message is delivered after a redrive",
                |_, world: &World| {
                    world.redrives > 0
                        && world
                            .messages
                            .iter()
                            .any(|message| message.fate == Fate::Delivered)
                },
            ),
            Property::sometimes("a row is suspected", |_, world: &World| {
                (0..world.messages.len())
                    .any(|message| world.row(message).is_some_and(|row| row.unsettled > 1))
            }),
        ]
    }
}
