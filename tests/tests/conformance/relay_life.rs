//! What a relay does over time: drains, waits, polls, and reads no more than it needs.

use std::time::Instant;

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Gate, Lab, eventually,
    lab::{ALL, ERRAND, TASK, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered, insert, row};

on_every_database! {
    all: [
        a_drain_delivers_what_is_due_and_returns,
        a_drain_waits_for_what_it_started,
        a_drain_takes_no_second_look_at_failures,
        a_drain_leaves_what_is_published_meanwhile,
        a_delayed_message_is_delivered_when_it_is_due,
        a_commit_is_noticed_within_the_poll_interval,
        settles_are_not_starved_by_a_slow_handler,
    ],
    postgres: [an_idle_relay_asks_once_per_poll, rows_that_nobody_here_serves_cost_nothing]
}

async fn a_drain_delivers_what_is_due_and_returns(db: Db) {
    db.insert_tasks(TASK, 700).await;
    db.insert_tasks(ERRAND, 30).await;
    db.execute("INSERT INTO outbox (topic, payload) VALUES ('nobodys', '{}')")
        .await;
    let future = insert(&db, "future", &[("available_at", &db.ahead(secs(3600)))]).await;
    let lab = Lab::content();
    let counts = within(
        LONG,
        relay!(db, ALL, lab; concurrency(8), window(64)).drain(),
    )
    .await
    .expect("drains");
    assert_eq!(
        (counts.claimed, counts.delivered, lab.calls().len()),
        (730, 730, 730),
        "more than one window full"
    );
    assert_eq!(
        db.count("1 = 1").await,
        2,
        "what is not due or not served stays"
    );
    assert_eq!(row(&db, future).await.attempts, 0);
    let counts = within(LONG, relay!(db, ALL, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        counts,
        outbox::Counts::default(),
        "there is nothing left to do"
    );
}

async fn a_drain_waits_for_what_it_started(db: Db) {
    let gate = Gate::closed();
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
    let id = db.publish(&Task::named("slow")).await.id;
    let relay = relay!(db, TASKS, lab; lease(secs(1)));
    let draining = tokio::spawn(async move { relay.drain().await });
    lab.started(1).await;
    // Two leases: it holds on to what it started, and does not return.
    tokio::time::sleep(secs(2)).await;
    assert!(!draining.is_finished());
    gate.open();
    let counts = within(LONG, draining)
        .await
        .expect("the task ends")
        .expect("drains");
    assert_eq!(
        (counts.claimed, counts.delivered, lab.starts(id)),
        (1, 1, 1)
    );
    assert!(db.row(id).await.is_none(), "settled before it returned");
}

async fn a_drain_takes_no_second_look_at_failures(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.number % 2 == 0 {
            Err(HandlerError::retry("not now"))
        } else {
            Ok(())
        }
    });
    db.publish_all(&Task::numbered(10)).await;
    let relay = relay!(db, TASKS, lab; backoff(secs(60), secs(60)), jitter(0.0));
    let counts = within(LONG, relay.drain()).await.expect("drains");
    assert_eq!(
        (counts.delivered, counts.retried, lab.calls().len()),
        (5, 5, 10)
    );
    assert_eq!(
        db.count("state = 'pending' AND attempts = 1 AND unsettled = 0")
            .await,
        5,
        "in backoff"
    );
}

async fn a_drain_leaves_what_is_published_meanwhile(db: Db) {
    // A handler that publishes its successor would keep a drain busy for ever.
    let lab = Lab::new({
        let db = db.clone();
        move |call: Call| {
            let db = db.clone();
            async move {
                tokio::time::sleep(millis(20)).await;
                db.publish(&Task {
                    name: "successor".to_owned(),
                    number: call.number + 1,
                })
                .await;
                Ok(())
            }
        }
    });
    db.publish(&Task::named("first")).await;
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.delivered, db.count("state = 'pending'").await),
        (1, 1)
    );
}

async fn a_delayed_message_is_delivered_when_it_is_due(db: Db) {
    let lab = Lab::content();
    // The next poll by itself would come much later than the message is due.
    let running = relay!(db, TASKS, lab; poll_interval(secs(3))).spawn();
    let task = Task::named("delayed");
    let mut tx = db.begin().await;
    let published = task
        .publication()
        .delay(millis(500))
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    delivered(&db, published.id).await;
    let (due, call) = (published.id, lab.calls().pop().expect("a call"));
    assert_eq!(call.delivery.id(), due);
    let late = std::time::SystemTime::now()
        .duration_since(call.delivery.created_at())
        .unwrap_or_default();
    assert!(late < secs(8), "delivered {late:?} after its publish");
    running.shutdown().await.expect("stops");
}

async fn a_commit_is_noticed_within_the_poll_interval(db: Db) {
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab; poll_interval(millis(100))).spawn();
    let mut worst = secs(0);
    for n in 0..10 {
        let id = db
            .publish(&Task {
                name: "tick".to_owned(),
                number: n,
            })
            .await
            .id;
        let committed = Instant::now();
        delivered(&db, id).await;
        worst = worst.max(committed.elapsed());
    }
    running.shutdown().await.expect("stops");
    assert!(
        worst < secs(3),
        "polled every 100 ms, delivered after {worst:?}"
    );
    assert_eq!(lab.calls().len(), 10);
}

async fn settles_are_not_starved_by_a_slow_handler(db: Db) {
    let gate = Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |call: Call| {
            let gate = gate.clone();
            async move {
                if call.name == "slow" {
                    gate.pass().await;
                }
                Ok(())
            }
        }
    });
    let slow = db.publish(&Task::named("slow")).await.id;
    let fast = db.publish_all(&Task::numbered(10)).await;
    let running = relay!(db, TASKS, lab; lease(secs(600))).spawn();
    for id in fast {
        delivered(&db, id).await;
    }
    assert_eq!(
        row(&db, slow).await.state,
        "processing",
        "the others of its batch were settled without it"
    );
    gate.open();
    all_delivered(&db).await;
    running.shutdown().await.expect("stops");
}

async fn an_idle_relay_asks_once_per_poll(db: Db) {
    // `scripts/test` loads the module into its server; one of your own needs `shared_preload_libraries`.
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let statements = "SELECT CAST(coalesce(sum(calls), 0) AS bigint) FROM pg_stat_statements \
                      WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                      AND query LIKE '%outbox%'";
    let running = relay!(db, TASKS, Lab::content(); poll_interval(millis(100))).spawn();
    // A first delivery, so that what happens once at the start is over.
    let id = db.publish(&Task::named("first")).await.id;
    delivered(&db, id).await;
    let before = db.scalar(statements).await;
    let start = Instant::now();
    tokio::time::sleep(secs(4)).await;
    let after = db.scalar(statements).await;
    let polls = i64::try_from(start.elapsed().as_millis() / 100).expect("a short time");
    running.shutdown().await.expect("stops");
    // One statement a poll, a few heartbeats, and this test's own question. A machine that is busy with
    // other tests makes polls late, never early.
    let asked = after - before;
    assert!(
        (10..=polls + 8).contains(&asked),
        "{asked} statements in {polls} polls"
    );
}

async fn rows_that_nobody_here_serves_cost_nothing(db: Db) {
    let foreign = i64::try_from(outbox_tests::scaled(20_000, 100_000)).expect("a small number");
    db.insert_tasks("nobodys", usize::try_from(foreign).expect("a small number"))
        .await;
    db.execute("UPDATE outbox SET version = 7, topic = 'lab.task' WHERE random() < 0.5")
        .await;
    db.execute("VACUUM ANALYZE outbox").await;
    let read = "SELECT CAST(coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) AS bigint) \
                FROM pg_stat_user_tables WHERE relname = 'outbox'";
    db.execute("SELECT pg_stat_force_next_flush()").await;
    db.execute("SELECT pg_stat_reset_single_table_counters('public.outbox'::regclass)")
        .await;

    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab);
    for n in 0..5 {
        // Published by a connection that goes away, so that its own reads are known as well.
        db.publish(&Task {
            name: "served".to_owned(),
            number: n,
        })
        .await;
        within(LONG, relay.drain()).await.expect("drains");
    }
    assert_eq!(lab.calls().len(), 5);
    // The relay's connections have ended, and with that reported what they read.
    let read = eventually(LONG, || db.scalar(read), |read| *read > 0).await;
    assert!(
        read < foreign / 10,
        "{read} rows were read to deliver five, beside {foreign} that are not served"
    );
}
