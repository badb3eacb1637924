//! One row of the outbox, and all that can happen to it.

/// A row. What it carries makes no difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where it is in its life; one that was delivered is gone.
    pub state: State,
    /// Claims so far.
    pub attempts: u32,
    /// Claims in a row that ended without a settle; 1 while the first of them runs.
    pub unsettled: u32,
    /// The fencing token of the claim that holds it.
    pub token: Option<u64>,
    /// Its lease has run out.
    pub lapsed: bool,
    /// How often it was redriven.
    pub redrives: u32,
    /// Failures written down, the last ten.
    pub failures: u32,
}

/// What state a row is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum State {
    Pending,
    Processing,
    Dead,
}

/// What somebody asks of a row. Whoever names a token holds a claim, or believes so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A relay claims a due row.
    Claim {
        /// Of this claim alone.
        token: u64,
    },
    /// A relay takes over a row whose lease lapsed.
    TakeOver {
        /// Of this claim alone.
        token: u64,
        /// The relay holds nothing else.
        alone: bool,
    },
    /// The holder renews its lease.
    Renew {
        /// Its claim's.
        token: u64,
    },
    /// The holder tells how the handler ended.
    Settle {
        /// Its claim's.
        token: u64,
        /// How.
        end: End,
    },
    /// The holder stops, and has not started the handler.
    GiveBack {
        /// Its claim's.
        token: u64,
        /// `attempts` and `unsettled` as they were before the claim.
        before: (u32, u32),
    },
    /// The lease runs out.
    Lapse,
    /// An operator lets a dead letter try again.
    Redrive,
    /// An operator deletes a dead letter, which was dead when it was picked.
    Purge,
    /// Somebody cancels a message that waits.
    Cancel,
}

/// How a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum End {
    Delivered,
    Failed,
    Cancelled,
}

/// What an event made of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum After {
    /// It is still there.
    Row(Row),
    /// It is deleted.
    Gone,
}

/// The rules of the game, and how they may be broken.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// After so many claims a row is dead.
    pub max_attempts: u32,
    /// What is wrong with the protocol, if anything.
    pub fault: Option<Fault>,
}

/// Mistakes that real outboxes made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `attempts` is the fencing token, which a redrive sets back.
    AttemptsAsFence,
    /// A token is enough, whatever the row's state; and a row keeps its last one.
    NoStateCheck,
    /// A purge deletes what it picked, without another look.
    PurgeWithoutRecheck,
}

impl Row {
    /// A row whose publisher has just committed.
    #[must_use]
    pub fn published() -> Self {
        Self {
            state: State::Pending,
            attempts: 0,
            unsettled: 0,
            token: None,
            lapsed: false,
            redrives: 0,
            failures: 0,
        }
    }

    /// What the event makes of the row; `None` if it is refused, and changes nothing.
    #[must_use]
    pub fn after(self, event: Event, rules: &Rules) -> Option<After> {
        let free = self.state == State::Pending && self.unsettled == 0;
        let left = self.unsettled > 0 && self.lapsed && self.state != State::Dead;
        let row = match event {
            Event::Claim { token } if free => self.claimed(token, 1, rules),
            Event::TakeOver { token, alone } if left => self.taken_over(token, alone, rules)?,
            Event::Renew { token } if self.is_held(token, rules) => Self {
                lapsed: false,
                ..self
            },
            Event::Settle { token, end } if self.is_held(token, rules) => match end {
                End::Delivered => return Some(After::Gone),
                End::Failed if self.attempts < rules.max_attempts => {
                    self.failed().left(State::Pending, rules)
                }
                End::Failed | End::Cancelled => self.failed().left(State::Dead, rules),
            },
            Event::GiveBack {
                token,
                before: (attempts, unsettled),
            } if self.is_held(token, rules) => Self {
                attempts,
                unsettled,
                // One that was left behind before stays with those who take over.
                lapsed: unsettled > 0,
                ..self.left(State::Pending, rules)
            },
            Event::Lapse if self.state == State::Processing => Self {
                lapsed: true,
                ..self
            },
            Event::Redrive if self.state == State::Dead => Self {
                attempts: 0,
                redrives: self.redrives + 1,
                ..self.left(State::Pending, rules)
            },
            Event::Purge
                if self.state == State::Dead || rules.fault == Some(Fault::PurgeWithoutRecheck) =>
            {
                return Some(After::Gone);
            }
            Event::Cancel if self.state == State::Pending => return Some(After::Gone),
            _ => return None,
        };
        Some(After::Row(row))
    }

    /// The fence: whether the row is in the hands of this claim.
    fn is_held(&self, token: u64, rules: &Rules) -> bool {
        let processing = self.state == State::Processing;
        match rules.fault {
            Some(Fault::AttemptsAsFence) => processing && u64::from(self.attempts) == token,
            Some(Fault::NoStateCheck) => self.token == Some(token),
            _ => processing && self.token == Some(token),
        }
    }

    fn claimed(self, token: u64, unsettled: u32, rules: &Rules) -> Self {
        let attempts = self.attempts + 1;
        let token = match rules.fault {
            Some(Fault::AttemptsAsFence) => u64::from(attempts),
            _ => token,
        };
        Self {
            state: State::Processing,
            attempts,
            unsettled,
            token: Some(token),
            lapsed: false,
            ..self
        }
    }

    /// A row whose last claims ended without a word: run among others at first, then alone, so that what
    /// kills its process is found out, then dead.
    fn taken_over(self, token: u64, alone: bool, rules: &Rules) -> Option<Self> {
        let suspect_at = rules.max_attempts.saturating_sub(1).clamp(1, 2);
        let used_up = self.attempts >= rules.max_attempts;
        let ran_alone = self.unsettled > suspect_at || rules.max_attempts == 1;
        if used_up && ran_alone {
            Some(self.failed().left(State::Dead, rules))
        } else if !used_up && self.unsettled < suspect_at {
            Some(self.claimed(token, self.unsettled + 1, rules))
        } else if alone {
            Some(self.claimed(token, self.unsettled.max(suspect_at) + 1, rules))
        } else {
            None
        }
    }

    fn failed(self) -> Self {
        Self {
            failures: (self.failures + 1).min(10),
            ..self
        }
    }

    /// In nobody's hands.
    fn left(self, state: State, rules: &Rules) -> Self {
        let keeps_token = rules.fault == Some(Fault::NoStateCheck);
        Self {
            state,
            unsettled: 0,
            token: self.token.filter(|_| keeps_token),
            lapsed: false,
            ..self
        }
    }
}
