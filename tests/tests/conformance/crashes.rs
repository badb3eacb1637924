//! Processes that are killed, abort, or stand still: nothing is lost, and only the guilty die.

use std::time::Instant;

use outbox_tests::{
    Db, Lab, eventually,
    lab::{ALL, Errand, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
    worker::{HOLD, POISON, Settings, Workers},
};
use uuid::Uuid;

use crate::support::{all_delivered, delivered, in_state, insert_lapsed, row, until};

on_every_database![
    a_killed_handler_is_delivered_again,
    a_poison_is_started_twice_and_then_dead,
    a_poison_takes_no_neighbour_with_it,
    a_suspect_runs_alone,
    suspects_let_others_through,
    a_suspect_that_is_gone_stops_nobody,
    a_suspect_that_is_refused_stops_nobody,
    a_paused_relay_undoes_nothing,
    attempts_survive_a_restart,
];

fn workers(db: &Db) -> Workers {
    Workers::new(env!("CARGO_BIN_EXE_worker"), db)
}

/// Starts relays, one after the other died, until `done`; how many there were.
async fn supervise(workers: &Workers, settings: &Settings, done: impl AsyncFn() -> bool) -> usize {
    let start = Instant::now();
    let mut relays = 0;
    loop {
        let mut relay = workers.relay(settings);
        relays += 1;
        while relay.runs() {
            if done().await {
                return relays;
            }
            assert!(
                start.elapsed() < LONG * 2,
                "not done after {relays} relays: {:?}",
                workers.entries()
            );
            tokio::time::sleep(millis(20)).await;
        }
    }
}

async fn a_killed_handler_is_delivered_again(db: Db) {
    let workers = workers(&db);
    let lease = secs(2);
    let first = workers.relay(&Settings {
        lease,
        ..Settings::default()
    });
    let id = db.publish(&Task::named(HOLD)).await.id;
    eventually(
        LONG,
        || async { workers.starts().len() },
        |starts| *starts == 1,
    )
    .await;
    first.kill();
    let killed = Instant::now();
    let left = row(&db, id).await;
    assert_eq!(
        (left.state.as_str(), left.attempts, left.unsettled),
        ("processing", 1, 1),
        "the attempt counts at the claim"
    );

    // Every other process is new as well: nothing hangs on a name.
    let lab = Lab::content();
    let second = relay!(db, TASKS, lab; lease(lease)).spawn();
    delivered(&db, id).await;
    assert!(
        killed.elapsed() < secs(10),
        "redelivered {:?} after the crash, the lease was 2 s",
        killed.elapsed()
    );
    second.shutdown().await.expect("stops");
    assert_eq!(lab.calls()[0].delivery.attempt(), 2);
}

async fn a_poison_is_started_twice_and_then_dead(db: Db) {
    let workers = workers(&db);
    let settings = Settings {
        max_attempts: 2,
        ..Settings::default()
    };
    let id = db.publish(&Task::named(POISON)).await.id;
    let is_dead = async || row(&db, id).await.state == "dead";
    let relays = within(LONG * 2, supervise(&workers, &settings, is_dead)).await;

    let attempts: Vec<_> = workers.starts().iter().map(|start| start.attempt).collect();
    assert_eq!(attempts, [1, 2], "exactly two starts");
    assert_eq!(relays, 3, "two that died and one that buried it");
    let dead = row(&db, id).await;
    assert_eq!(
        (dead.attempts, dead.errors.is_empty()),
        (2, false),
        "{dead:?}"
    );
    assert!(
        dead.last_text().contains("died"),
        "the reason says so: {:?}",
        dead.texts()
    );
}

async fn a_poison_takes_no_neighbour_with_it(db: Db) {
    let workers = workers(&db);
    let settings = Settings {
        max_attempts: 3,
        lease: millis(1_000),
        ..Settings::default()
    };
    // The neighbours take long enough to be in flight when the poison strikes.
    let mut batch: Vec<_> = (0..63)
        .map(|_| Task {
            name: "good".to_owned(),
            number: 100,
        })
        .collect();
    batch.insert(20, Task::named(POISON));
    let ids = db.publish_all(&batch).await;
    let poison = ids[20];
    let done = async || db.count("state <> 'dead'").await == 0;
    within(LONG * 3, supervise(&workers, &settings, done)).await;

    let dead: Vec<_> = db
        .rows("1 = 1")
        .await
        .into_iter()
        .map(|row| row.id)
        .collect();
    assert_eq!(dead, [poison], "exactly the poison is dead");
    let finished: std::collections::HashSet<Uuid> = workers
        .entries()
        .into_iter()
        .filter(|entry| !entry.start)
        .map(|entry| entry.id)
        .collect();
    assert_eq!(finished.len(), 63, "every good one was handled");
}

async fn a_suspect_runs_alone(db: Db) {
    for n in 0..3 {
        insert_lapsed(&db, &format!("suspect {n}")).await;
    }
    for n in 0..20 {
        db.publish(&Task {
            name: "good".to_owned(),
            number: n,
        })
        .await;
    }
    let lab = Lab::new({
        let db = db.clone();
        move |call| {
            let db = db.clone();
            async move {
                // A lapsed lease lies before the row's creation here.
                let held = db
                    .count("state = 'processing' AND leased_until > created_at")
                    .await;
                if call.name.starts_with("suspect") {
                    assert_eq!(held, 1, "{} is claimed together with other rows", call.name);
                }
                tokio::time::sleep(millis(20)).await;
                Ok(())
            }
        }
    });
    let running = relay!(db, TASKS, lab; max_attempts(3)).spawn();
    all_delivered(&db).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counts.panicked), (23, 0), "{counts:?}");
}

async fn a_paused_relay_undoes_nothing(db: Db) {
    let workers = workers(&db);
    let paused = workers.relay(&Settings {
        lease: secs(2),
        ..Settings::default()
    });
    // It takes half a second, so the paused relay has something to settle when it wakes up.
    let id = db
        .publish(&Task {
            name: "contested".to_owned(),
            number: 500,
        })
        .await
        .id;
    eventually(
        LONG,
        || async { workers.starts().len() },
        |starts| *starts == 1,
    )
    .await;
    // Not in the middle of writing to the file, which nobody else could then do: its claim and its
    // registration are written, and the first renewal is a second away.
    eventually(
        LONG,
        || db.scalar("SELECT count(*) FROM outbox_relays"),
        |relays| *relays == 1,
    )
    .await;
    paused.pause();

    let gate = outbox_tests::Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(())
            }
        }
    });
    let newer = relay!(db, TASKS, lab; lease(secs(60)), concurrency(1), window(1)).spawn();
    lab.started(1).await;
    let held = row(&db, id).await;
    assert_eq!((held.state.as_str(), held.attempts), ("processing", 2));
    paused.resume();
    // Only the paused relay has room for another message. Once that is settled, so is, or would be,
    // the one that it held before.
    let next = db.publish(&Task::named("next")).await.id;
    delivered(&db, next).await;
    assert_eq!(workers.starts().len(), 2, "the paused relay took it");
    assert_eq!(row(&db, id).await, held, "the newer claim is untouched");
    gate.open();
    delivered(&db, id).await;
    let counts = newer.shutdown().await.expect("stops");
    assert_eq!(counts.lease_lost, 0, "{counts:?}");
}

async fn attempts_survive_a_restart(db: Db) {
    let always = || Lab::new(|_| async { Err(outbox::HandlerError::retry("always fails")) });
    let id = db.publish(&Task::named("hopeless")).await.id;
    let first = always();
    let running =
        relay!(db, TASKS, first; max_attempts(5), backoff(millis(300), millis(300)), jitter(0.0))
            .spawn();
    until(&db, id, |row| row.attempts == 2 && row.state == "pending").await;
    running.shutdown().await.expect("stops");

    let second = always();
    let running = relay!(db, TASKS, second; max_attempts(5)).spawn();
    let dead = in_state(&db, id, "dead").await;
    running.shutdown().await.expect("stops");
    let attempts = |lab: &Lab| {
        lab.calls()
            .iter()
            .map(|call| call.delivery.attempt())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        [attempts(&first), attempts(&second)].concat(),
        [1, 2, 3, 4, 5],
        "exactly five starts"
    );
    assert_eq!((dead.attempts, dead.errors.len()), (5, 5));
}

/// Rows whose relays died twice: they have to run alone.
async fn insert_suspects(db: &Db, n: usize) {
    for _ in 0..n {
        insert_lapsed(db, "suspect").await;
    }
}

async fn suspects_let_others_through(db: Db) {
    insert_suspects(&db, 12).await;
    let lab = Lab::new(|call| async move {
        if call.name == "suspect" {
            tokio::time::sleep(millis(150)).await;
        }
        Ok(())
    });
    let running = relay!(db, ALL, lab; lease(secs(60))).spawn();
    lab.started(1).await;
    let errand = Errand {
        name: "fresh".to_owned(),
        number: 1,
    };
    let fresh = db.publish(&errand).await.id;
    delivered(&db, fresh).await;
    let left = db.count("topic = 'lab.task'").await;
    all_delivered(&db).await;
    running.shutdown().await.expect("stops");
    assert!(
        left > 6,
        "it came after at most a few of the twelve; {left} were left"
    );
}

async fn a_suspect_that_is_gone_stops_nobody(db: Db) {
    let gate = outbox_tests::Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |call| {
            let gate = gate.clone();
            async move {
                if call.name == "long" {
                    gate.pass().await;
                }
                Ok(())
            }
        }
    });
    let long = db.publish(&Task::named("long")).await.id;
    let running = relay!(db, ALL, lab; lease(millis(500))).spawn();
    lab.started(1).await;
    insert_suspects(&db, 1).await;
    // Claims cease for it after a lease; then somebody else takes care of it.
    tokio::time::sleep(millis(900)).await;
    db.execute("DELETE FROM outbox WHERE unsettled = 2").await;
    let errand = Errand {
        name: "fresh".to_owned(),
        number: 1,
    };
    let fresh = db.publish(&errand).await.id;
    delivered(&db, fresh).await;
    assert!(db.row(long).await.is_some(), "the long one still runs");
    gate.open();
    all_delivered(&db).await;
    running.shutdown().await.expect("stops");
}

async fn a_suspect_that_is_refused_stops_nobody(db: Db) {
    let gate = outbox_tests::Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(())
            }
        }
    });
    let errand = |name: &str| Errand {
        name: name.to_owned(),
        number: 1,
    };
    db.publish(&errand("long")).await;
    let running = relay!(db, ALL, lab; lease(millis(500))).spawn();
    lab.started(1).await;
    insert_suspects(&db, 1).await;
    // It has been seen waiting when the database begins to refuse it.
    tokio::time::sleep(millis(300)).await;
    db.refuse_updates("NEW.topic = 'lab.task'").await;
    gate.open();
    for name in ["one", "two", "three"] {
        let fresh = db.publish(&errand(name)).await.id;
        delivered(&db, fresh).await;
    }
    let counts = running.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, db.count("unsettled = 2").await), (4, 1));
}
