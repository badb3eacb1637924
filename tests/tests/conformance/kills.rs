//! Relays that are killed at random moments under load: nothing is lost, and nothing runs again
//! without a reason.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outbox_tests::{
    Db, Dice, eventually,
    lab::Task,
    log::{Entry, now},
    on_every_database,
    wait::{LONG, millis, secs},
    worker::{Settings, Worker, Workers},
};
use uuid::Uuid;

on_every_database![twenty_kills_lose_nothing];

const KILLS: usize = 20;

/// From one kill to the next, in milliseconds: some relays die before they have claimed anything,
/// others in the midst of it.
const BETWEEN_KILLS: (u64, u64) = (10, 250);

/// The longest that a handler takes, in milliseconds.
const LONGEST_TASK: u64 = 30;

/// Long enough that no relay on a loaded machine loses a lease as long as it lives, since that would
/// be a duplicate without a kill.
const LEASE: Duration = secs(3);

async fn twenty_kills_lose_nothing(db: Db) {
    let mut dice = Dice::cast();
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), &db);
    let enough = Arc::new(AtomicBool::new(false));
    let publishers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(publish(db.clone(), dice.split(), Arc::clone(&enough))))
        .collect();

    let (survivors, killed) = kill_relays(&workers, &mut dice).await;
    enough.store(true, Ordering::Relaxed);
    let mut published = Published::default();
    for publisher in publishers {
        published.add(publisher.await.expect("the publisher ends"));
    }
    eventually(
        LONG * 2,
        || db.count("state <> 'dead'"),
        |waiting| *waiting == 0,
    )
    .await;
    drop(survivors);

    assert_eq!(db.rows("1 = 1").await, [], "no kill makes a dead letter");
    let entries = workers.entries();
    let ids = |start| -> HashSet<Uuid> {
        let of_kind = entries.iter().filter(|entry| entry.start == start);
        of_kind.map(|entry| entry.id).collect()
    };
    let (started, finished) = (ids(true), ids(false));
    let lost: Vec<_> = published.committed.difference(&finished).collect();
    assert!(lost.is_empty(), "committed and never handled: {lost:?}");
    let ghosts: Vec<_> = published.rolled_back.intersection(&started).collect();
    assert!(ghosts.is_empty(), "rolled back and yet started: {ghosts:?}");
    let again = repetitions(&entries);
    assert!(!again.is_empty(), "not one handler was hit by a kill");
    let unexplained: Vec<_> = again
        .iter()
        .filter(|(earlier, later)| !explained(earlier, later, &killed))
        .collect();
    assert!(
        unexplained.is_empty(),
        "started again, though nobody had killed the process before: {unexplained:#?}"
    );
}

/// What became of the messages that were published.
#[derive(Default)]
struct Published {
    committed: HashSet<Uuid>,
    rolled_back: HashSet<Uuid>,
}

impl Published {
    fn add(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
    }
}

/// Publishes a few messages per transaction, of which every fourth rolls back.
async fn publish(db: Db, mut dice: Dice, enough: Arc<AtomicBool>) -> Published {
    let mut published = Published::default();
    while !enough.load(Ordering::Relaxed) {
        let tasks: Vec<_> = (0..dice.between(1, 5))
            .map(|_| Task {
                name: "task".to_owned(),
                number: i64::try_from(dice.between(0, LONGEST_TASK)).expect("a small number"),
            })
            .collect();
        let mut tx = db.begin().await;
        let sent = db
            .outbox()
            .publish_all(&tasks, &mut tx)
            .await
            .expect("all are published");
        let ids = sent.into_iter().map(|one| one.id);
        if dice.one_in(4) {
            tx.rollback().await;
            published.rolled_back.extend(ids);
        } else {
            tx.commit().await;
            published.committed.extend(ids);
        }
        tokio::time::sleep(millis(10)).await;
    }
    published
}

/// Keeps two relays running, and kills one of them again and again. Those that are left, and when
/// which process was killed.
async fn kill_relays(workers: &Workers, dice: &mut Dice) -> (Vec<Worker>, HashMap<u32, u64>) {
    let settings = Settings {
        lease: LEASE,
        // Kills take attempts from the innocent.
        max_attempts: 100,
        concurrency: 16,
        // What a killed relay held waits for a lease, and runs alone if it is hit twice: not too much.
        window: 32,
        ..Settings::default()
    };
    let mut relays = vec![workers.relay(&settings), workers.relay(&settings)];
    let mut killed = HashMap::new();
    for _ in 0..KILLS {
        tokio::time::sleep(millis(dice.between(BETWEEN_KILLS.0, BETWEEN_KILLS.1))).await;
        let victim = relays.swap_remove(dice.index(relays.len()));
        let before = killed.insert(victim.process(), now());
        assert_eq!(before, None, "no two relays have the same process id");
        victim.kill();
        relays.push(workers.relay(&settings));
    }
    (relays, killed)
}

/// Each start of a message that had been started before, beside the start before it.
fn repetitions(entries: &[Entry]) -> Vec<(&Entry, &Entry)> {
    let mut last = HashMap::new();
    entries
        .iter()
        .filter(|entry| entry.start)
        .filter_map(|start| Some((last.insert(start.id, start)?, start)))
        .collect()
}

/// A message may start again once the process that ran it was killed. Its row was there all the
/// time, or the attempts would not go on.
fn explained(earlier: &Entry, later: &Entry, killed: &HashMap<u32, u64>) -> bool {
    let dead = killed
        .get(&earlier.process)
        .is_some_and(|at| *at <= later.at);
    dead && earlier.attempt < later.attempt
}
