//! What to do with rows whose lease lapsed.

use uuid::Uuid;

use crate::lifecycle::{Retry, TakeOver};

/// What is to be done with lapsed rows, decided by [`Retry::take_over`] for every database alike.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) run: Vec<Run>,
    pub(super) alone: bool,
    pub(super) waiting: bool,
    /// Each with its attempts.
    dead: Vec<(Uuid, u32)>,
}

/// A lapsed row that is run again.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: Uuid,
    before: u32,
    /// The row's `unsettled` after the claim.
    pub(super) unsettled: u32,
}

impl Plan {
    /// `lapsed`: id, attempts and unsettled of each row, in the order their leases lapsed.
    pub(super) fn of(lapsed: &[(Uuid, u32, u32)], retry: &Retry, alone: bool) -> Self {
        let mut plan = Self::default();
        for &(id, attempts, unsettled) in lapsed {
            match retry.take_over(attempts, unsettled) {
                TakeOver::Run => plan.run.push(Run {
                    id,
                    before: unsettled,
                    unsettled: unsettled + 1,
                }),
                TakeOver::Dead => plan.dead.push((id, attempts)),
                TakeOver::Alone if alone && !plan.alone => {
                    // Nobody else in this round; the others' leases have lapsed, so they can wait.
                    plan.alone = true;
                    plan.run = vec![Run {
                        id,
                        before: unsettled,
                        unsettled: retry.unsettled_alone(unsettled),
                    }];
                }
                TakeOver::Alone => plan.waiting = true,
            }
            if plan.alone {
                break;
            }
        }
        plan
    }

    pub(super) fn unsettled_before(&self, id: Uuid) -> u32 {
        self.run
            .iter()
            .find(|run| run.id == id)
            .map_or(0, |run| run.before)
    }

    /// The rows to give up, by the reason to write down.
    pub(super) fn dead_by_text(&self) -> impl Iterator<Item = (String, Vec<Uuid>)> {
        let mut by_text: Vec<(String, Vec<Uuid>)> = Vec::new();
        for &(id, attempts) in &self.dead {
            let text = format!(
                "gave up after {attempts} attempts: the last one ended without a word \
                 (its relay died, or lost the lease)"
            );
            match by_text.iter_mut().find(|(known, _)| *known == text) {
                Some((_, ids)) => ids.push(id),
                None => by_text.push((text, vec![id])),
            }
        }
        by_text.into_iter()
    }
}
