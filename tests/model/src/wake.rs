//! Who is woken when a message is committed: relays arm when they are idle, and publishers notify while
//! somebody is armed. A window has room for one message here.

use stateright::{Model, Property};

/// How many there are of each, and what may go wrong.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Wake {
    pub relays: usize,
    pub messages: usize,
    pub crashes: u32,
    pub lost_notes: u32,
    pub fault: Option<WakeFault>,
}

/// Mistakes in arming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeFault {
    /// What was committed between the empty look and the arming is not looked for.
    NoLookAfterArming,
    /// The publisher asks whether somebody is armed, and does not hold them off until its commit.
    AskWithoutHolding,
    /// A relay whose window fills up disarms without a word.
    DisarmInSilence,
}

/// All that is the case at one time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    messages: Vec<Stage>,
    relays: Vec<Relay>,
    crashes: u32,
    lost_notes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Unborn,
    /// Inserted by an open transaction, which will notify at its commit or not.
    Open {
        notifies: bool,
    },
    Committed,
    Held,
    /// Handled; or left by a crash to its lease, which is the clock's matter.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Relay {
    mode: Mode,
    armed: bool,
    holds: Option<usize>,
    /// A notification is on its way to it.
    note: bool,
    /// It did not arm since another one was.
    stood_aside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    /// Looks for messages.
    Looking,
    /// Has found none, and tries to arm.
    Arming,
    /// Waits for a notification, or its next poll.
    Asleep,
}

/// What can happen next. Relays and messages by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum Action {
    Insert(usize),
    Commit(usize),
    Look(usize),
    Arm(usize),
    FailToArm(usize),
    Hear(usize),
    LoseNote(usize),
    Poll(usize),
    Finish(usize),
    Crash(usize),
}

impl World {
    fn armed(&self) -> bool {
        self.relays.iter().any(|relay| relay.armed)
    }

    fn notify(&mut self, except: Option<usize>) {
        for (n, relay) in self.relays.iter_mut().enumerate() {
            relay.note |= except != Some(n);
        }
    }

    fn due(&self) -> Option<usize> {
        self.messages
            .iter()
            .position(|stage| *stage == Stage::Committed)
    }

    /// A relay with room looks: it takes a message, or goes on to arm.
    fn look(&mut self, n: usize, fault: Option<WakeFault>) {
        match self.due() {
            Some(message) => {
                self.messages[message] = Stage::Held;
                self.relays[n].holds = Some(message);
                // Its window is full: others should arm in its place.
                if std::mem::take(&mut self.relays[n].armed)
                    && fault != Some(WakeFault::DisarmInSilence)
                {
                    self.notify(Some(n));
                }
            }
            None => {
                self.relays[n].mode = if self.relays[n].armed {
                    Mode::Asleep
                } else {
                    Mode::Arming
                };
            }
        }
    }
}

impl Wake {
    /// Who has inserted without being refused the shared lock holds it until the commit.
    fn held_off(&self, world: &World) -> bool {
        world.messages.contains(&Stage::Open { notifies: false })
            && self.fault != Some(WakeFault::AskWithoutHolding)
    }
}

impl Model for Wake {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let relay = Relay {
            mode: Mode::Looking,
            armed: false,
            holds: None,
            note: false,
            stood_aside: false,
        };
        vec![World {
            messages: vec![Stage::Unborn; self.messages],
            relays: vec![relay; self.relays],
            crashes: 0,
            lost_notes: 0,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (message, stage) in world.messages.iter().enumerate() {
            match stage {
                Stage::Unborn => actions.push(Action::Insert(message)),
                Stage::Open { .. } => actions.push(Action::Commit(message)),
                _ => {}
            }
        }
        for (n, relay) in world.relays.iter().enumerate() {
            match (relay.holds, relay.mode) {
                (Some(_), _) => actions.push(Action::Finish(n)),
                (None, Mode::Looking) => actions.push(Action::Look(n)),
                (None, Mode::Arming) => actions.extend([Action::Arm(n), Action::FailToArm(n)]),
                (None, Mode::Asleep) => actions.push(Action::Poll(n)),
            }
            if relay.note {
                actions.push(Action::Hear(n));
                if world.lost_notes < self.lost_notes {
                    actions.push(Action::LoseNote(n));
                }
            }
            if world.crashes < self.crashes {
                actions.push(Action::Crash(n));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Insert(message) => {
                next.messages[message] = Stage::Open {
                    notifies: world.armed(),
                };
            }
            Action::Commit(message) => {
                if world.messages[message] == (Stage::Open { notifies: true }) {
                    next.notify(None);
                }
                next.messages[message] = Stage::Committed;
            }
            Action::Look(n) => next.look(n, self.fault),
            Action::Arm(n) => {
                if self.held_off(world) || world.armed() {
                    return None;
                }
                next.relays[n].armed = true;
                next.relays[n].mode = match self.fault {
                    Some(WakeFault::NoLookAfterArming) => Mode::Asleep,
                    _ => Mode::Looking,
                };
            }
            Action::FailToArm(n) => {
                if !self.held_off(world) && !world.armed() {
                    return None;
                }
                next.relays[n].mode = Mode::Asleep;
                next.relays[n].stood_aside = world.armed();
            }
            Action::Hear(n) => {
                next.relays[n].note = false;
                if next.relays[n].holds.is_none() {
                    next.relays[n].mode = Mode::Looking;
                }
            }
            Action::LoseNote(n) => {
                next.relays[n].note = false;
                next.lost_notes += 1;
            }
            Action::Poll(n) => next.relays[n].mode = Mode::Looking,
            Action::Finish(n) => {
                if let Some(message) = next.relays[n].holds.take() {
                    next.messages[message] = Stage::Over;
                }
                next.relays[n].mode = Mode::Looking;
            }
            Action::Crash(n) => {
                if let Some(message) = world.relays[n].holds {
                    next.messages[message] = Stage::Over;
                }
                // The server drops its lock with its session; it starts again.
                next.relays[n] = Relay {
                    mode: Mode::Looking,
                    armed: false,
                    holds: None,
                    note: false,
                    stood_aside: false,
                };
                next.crashes += 1;
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // As long as no notification was lost.
            Property::always(
                "an armed relay does not sleep over a message",
                |_, world: &World| {
                    let asleep =
                        |relay: &Relay| relay.mode == Mode::Asleep && relay.holds.is_none();
                    let sleeps_armed = world
                        .relays
                        .iter()
                        .any(|relay| relay.armed && asleep(relay));
                    let somebody_comes = world.relays.iter().any(|relay| {
                        relay.holds.is_none() && (relay.note || relay.mode != Mode::Asleep)
                    });
                    world.lost_notes > 0 || world.due().is_none() || !sleeps_armed || somebody_comes
                },
            ),
            Property::always(
                "who stood aside is told when nobody is armed",
                |_, world: &World| {
                    let left_alone = |relay: &Relay| {
                        relay.stood_aside
                            && relay.mode == Mode::Asleep
                            && !relay.armed
                            && !relay.note
                    };
                    world.lost_notes + world.crashes > 0
                        || world.armed()
                        || !world.relays.iter().any(left_alone)
                },
            ),
            Property::always("a poll finds what is due", |model, world: &World| {
                world.relays.iter().enumerate().all(|(n, relay)| {
                    if world.due().is_none() || relay.holds.is_some() {
                        return true;
                    }
                    let mut polled = world.clone();
                    polled.look(n, model.fault);
                    polled.relays[n].holds.is_some()
                })
            }),
            Property::sometimes("a relay sleeps armed", |_, world: &World| {
                world
                    .relays
                    .iter()
                    .any(|relay| relay.armed && relay.mode == Mode::Asleep)
            }),
            Property::sometimes("a publisher need not notify", |_, world: &World| {
                world.messages.contains(&Stage::Open { notifies: false })
            }),
            Property::sometimes("a publisher notifies", |_, world: &World| {
                world.messages.contains(&Stage::Open { notifies: true })
            }),
        ]
    }
}
