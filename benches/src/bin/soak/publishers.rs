//! Who publishes: a few tasks, at a rate that two cores can keep up with beside the faults.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use outbox::Outbox;
use outbox_tests::{Db, Dice, lab::Task, log::now, wait::millis};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use uuid::Uuid;

/// Together they begin 100 transactions a second, of 1 to 6 messages: about 300 committed messages.
const PUBLISHERS: usize = 4;

/// The longest that a handler takes, in milliseconds: so long that about 30 of them run at any time,
/// and a fault hits some.
const LONGEST_TASK: u64 = 200;

/// What became of the messages.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// With the time before their commit.
    pub(crate) committed: HashMap<Uuid, u64>,
    pub(crate) rolled_back: HashSet<Uuid>,
}

impl Published {
    pub(crate) fn add(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
    }
}

/// Publishes until it is enough. The publishers' connections know no faults: what a publisher can't
/// know about its own commits is no matter of the relays.
pub(crate) fn start(
    db: &Db,
    dice: &mut Dice,
    enough: &Arc<AtomicBool>,
) -> Vec<JoinHandle<Published>> {
    (0..PUBLISHERS)
        .map(|_| tokio::spawn(publish(db.clone(), dice.split(), Arc::clone(enough))))
        .collect()
}

async fn publish(db: Db, mut dice: Dice, enough: Arc<AtomicBool>) -> Published {
    let mut published = Published::default();
    let mut turns = interval(millis(40));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !enough.load(Ordering::Relaxed) {
        turns.tick().await;
        let tasks: Vec<_> = (0..dice.between(1, 6))
            .map(|_| Task {
                name: "task".to_owned(),
                number: i64::try_from(dice.between(0, LONGEST_TASK)).expect("a small number"),
            })
            .collect();
        let mut tx = db.begin().await;
        let sent = Outbox::default()
            .publish_all(&tasks, &mut tx)
            .await
            .expect("all are published");
        let ids = sent.into_iter().map(|one| one.id);
        if dice.one_in(8) {
            tx.rollback().await;
            published.rolled_back.extend(ids);
        } else {
            let at = now();
            tx.commit().await;
            published.committed.extend(ids.map(|id| (id, at)));
        }
    }
    published
}
