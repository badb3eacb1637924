//! Where InnoDB lets transactions lock each other out: no publisher notices, and what a relay loses it runs again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use outbox::Fate;
use outbox_tests::{
    Db, Lab, Server, each, eventually,
    lab::{TASKS, Task},
    on_every_database, relay, scaled,
    wait::{LONG, millis, secs, within},
};

use crate::recorder::{Told, recorded};

on_every_database! {
    mariadb: [
        no_deadlock_reaches_a_publisher_at_repeatable_read,
        no_deadlock_reaches_a_publisher_at_read_committed,
        a_relay_that_loses_a_deadlock_runs_its_settle_again,
    ]
}

const RELAYS: usize = 16;
const PUBLISHERS: usize = 32;

/// Publishers, relays, a purge and an operator's sweep, all at once; what the relays' metrics tell.
async fn crowd(isolation: &'static str) {
    let server = Server::mariadb(&[]);
    let db = Db::on(&server).await;
    db.execute(&format!(
        "SET GLOBAL TRANSACTION ISOLATION LEVEL {isolation}"
    ))
    .await;
    let length = secs(scaled(6, 60) as u64);
    let published = Arc::new(AtomicU64::new(0));
    let surfaced = Arc::new(AtomicU64::new(0));
    let told = recorded({
        let (published, surfaced) = (Arc::clone(&published), Arc::clone(&surfaced));
        let db = db.clone();
        move || run(db, length, published, surfaced)
    })
    .await;
    let status = |name: &str| {
        let sql = format!(
            "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = '{name}'"
        );
        let db = db.clone();
        async move { db.scalar(&sql).await }
    };
    let deadlocks = status("INNODB_DEADLOCKS").await;
    let sum = |name: &str| -> f64 {
        let of_name = told.iter().filter(|(key, _)| key.starts_with(name));
        of_name.map(|(_, value)| value).sum()
    };
    let repeated = sum("outbox_store_repeats_total").abs();
    eprintln!(
        "{isolation}: {} published by {PUBLISHERS} publishers, {RELAYS} relays, {deadlocks} deadlocks, \
         {repeated} operations run again, {} surfaced",
        published.load(Ordering::Relaxed),
        surfaced.load(Ordering::Relaxed),
    );
    assert_eq!(surfaced.load(Ordering::Relaxed), 0);
    for name in [
        "outbox_store_errors_total",
        "outbox_retried_total",
        "outbox_dead_total",
        "outbox_lease_lost_total",
    ] {
        assert!(sum(name) == 0.0, "{name}: {told:?}");
    }
    assert!(published.load(Ordering::Relaxed) > 100, "it was a crowd");
}

async fn run(db: Db, length: Duration, published: Arc<AtomicU64>, surfaced: Arc<AtomicU64>) {
    let db = db.reopened().await;
    db.execute("CREATE TABLE orders (id integer AUTO_INCREMENT PRIMARY KEY, note text)")
        .await;
    let business = db
        .another_pool(u32::try_from(PUBLISHERS).expect("a few"))
        .await;
    let lab = Lab::content();
    let relays: Vec<_> = {
        let mut relays = Vec::new();
        for _ in 0..RELAYS {
            // Rows that are kept give the purge something to do.
            relays.push(
                relay!(db, TASKS, lab; keep_delivered(true), lease(secs(30)), window(64)).spawn(),
            );
        }
        relays
    };
    let stop = Arc::new(AtomicBool::new(false));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|n| {
            let (business, stop) = (business.clone(), Arc::clone(&stop));
            let (published, surfaced) = (Arc::clone(&published), Arc::clone(&surfaced));
            tokio::spawn(async move {
                let outbox = business.outbox();
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let mut tx = business.begin().await;
                    tx.execute("INSERT INTO orders (note) VALUES ('one')").await;
                    let task = Task::named("order");
                    // Every other one with a key of its own.
                    let publication = task.publication();
                    let publication = match number % 2 {
                        0 => publication.dedup_key(format!("{n}-{number}")),
                        _ => publication,
                    };
                    match outbox.publish(&publication, &mut tx).await {
                        Ok(one) => {
                            tx.commit().await;
                            let new = u64::from(one.fate == Fate::New);
                            published.fetch_add(new, Ordering::Relaxed);
                        }
                        Err(error) => {
                            eprintln!("a publisher was told: {error}");
                            surfaced.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    let began = Instant::now();
    while began.elapsed() < length {
        each!(db, pool => db.outbox().purge(pool).delivered(Duration::from_millis(200)).run().await)
            .expect("purges");
        tokio::time::sleep(millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for publisher in publishers {
        publisher.await.expect("no publisher panicked");
    }
    eventually(
        LONG * 4,
        || db.count("state IN ('pending', 'processing')"),
        |left| *left == 0,
    )
    .await;
    for relay in relays {
        relay.shutdown().await.expect("stops");
    }
    let delivered = u64::try_from(lab.calls().len()).expect("a count");
    assert_eq!(delivered, published.load(Ordering::Relaxed), "each once");
}

async fn no_deadlock_reaches_a_publisher_at_repeatable_read(_: Db) {
    crowd("REPEATABLE READ").await;
}

async fn no_deadlock_reaches_a_publisher_at_read_committed(_: Db) {
    crowd("READ COMMITTED").await;
}

/// Whoever has changed more is not chosen to lose: that is the relay, whose settle changes two rows.
async fn a_relay_that_loses_a_deadlock_runs_its_settle_again(db: Db) {
    let told: Told = recorded(move || async move {
        let db = db.reopened().await;
        db.execute(
            "CREATE TABLE gate (number integer PRIMARY KEY); CREATE TABLE ballast (number integer); \
             INSERT INTO gate VALUES (1)",
        )
        .await;
        // Each DELETE waits for the gate after it has locked its row.
        db.execute("CREATE TRIGGER wait BEFORE DELETE ON outbox FOR EACH ROW UPDATE gate SET number = 1")
            .await;
        let mut blocker = db.begin().await;
        blocker
            .execute(&format!(
                "INSERT INTO ballast SELECT number FROM {}; SELECT number FROM gate FOR UPDATE",
                db.numbers(1_000)
            ))
            .await;
        let lab = Lab::content();
        let id = db.publish(&Task::named("crossed")).await.id;
        let relay = relay!(db, TASKS, lab; lease(secs(30))).spawn();
        lab.started(1).await;
        eventually(LONG, || db.scalar(db.lock_waits()), |waiting| *waiting > 0).await;
        // The relay waits for the gate, and now this one for the relay's row: a deadlock.
        let row = format!("SELECT 1 FROM outbox WHERE id = {} FOR UPDATE", db.uuid(id));
        within(LONG, blocker.execute(&row)).await;
        blocker.commit().await;
        eventually(LONG, || db.row(id), Option::is_none).await;
        let counts = relay.shutdown().await.expect("stops");
        assert_eq!(
            (counts.delivered, counts.retried, counts.lease_lost, lab.calls().len()),
            (1, 0, 0, 1),
            "{counts:?}"
        );
    })
    .await;
    let repeated = told.get("outbox_store_repeats_total operation=settle");
    assert!(
        repeated.is_some_and(|repeated| *repeated >= 1.0),
        "{told:?}"
    );
    assert!(
        !told.contains_key("outbox_retried_total topic=lab.task"),
        "{told:?}"
    );
}
