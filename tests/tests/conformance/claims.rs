//! Who gets which rows: exactly as many as asked for, in order, and only of the routes served.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use outbox::RelayHandle;
use outbox_tests::{
    Db, Gate, Lab, eventually,
    lab::{ALL, ERRAND, ERRANDS, Errand, TASK, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered, insert, row};

on_every_database! {
    all: [
    a_burst_after_stale_statistics_is_claimed_exactly,
    relays_share_a_burst_without_overlap,
    the_window_limits_what_a_process_claims,
    concurrency_limits_what_runs,
    the_earliest_due_are_claimed_first_and_started_in_order,
    a_relay_claims_only_the_topics_it_serves,
    an_unknown_version_waits_for_a_newer_build,
    a_flood_of_one_topic_does_not_starve_another,
    a_lapsed_lease_behind_many_live_ones_is_found,
    a_lapsed_lease_is_found_under_load,
    rows_leased_elsewhere_are_left_alone,
    one_message_among_twenty_relays_runs_once,
    ],
    servers: [a_message_of_a_long_transaction_is_not_overlooked_under_load],
    postgres: [
        claims_go_by_the_index_whatever_the_planner_believes,
    ]
}

async fn a_burst_after_stale_statistics_is_claimed_exactly(db: Db) {
    if matches!(db, Db::Postgres(_)) {
        db.execute("ALTER TABLE outbox SET (autovacuum_enabled = false)")
            .await;
    }
    // The planner believes in one row; then sixty are there.
    let first = insert(&db, "task", &[]).await;
    db.execute(db.pick("ANALYZE", "ANALYZE TABLE outbox", "ANALYZE"))
        .await;
    db.execute(&format!("DELETE FROM outbox WHERE id = {}", db.uuid(first)))
        .await;

    for round in 1..=3 {
        db.insert_tasks(TASK, 60).await;
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
        let running = relay!(db, TASKS, lab; concurrency(10), window(10)).spawn();
        lab.started(10).await;
        assert_eq!(
            db.count("state = 'processing'").await,
            10,
            "round {round}: the limit is exact"
        );
        assert_eq!(running.counts().claimed, 10, "round {round}");
        gate.open();
        all_delivered(&db).await;
        let counts = running.shutdown().await.expect("stops");
        assert_eq!(
            (counts.claimed, counts.delivered),
            (60, 60),
            "round {round}"
        );
        assert_eq!(lab.calls().len(), 60, "round {round}: nothing ran twice");
    }
}

async fn relays_share_a_burst_without_overlap(db: Db) {
    db.insert_tasks(TASK, 200).await;
    let lab = Lab::new(|_| async {
        tokio::time::sleep(millis(2)).await;
        Ok(())
    });
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(relay!(db, TASKS, lab; concurrency(5), window(10)).spawn());
    }
    all_delivered(&db).await;
    let mut claimed = 0;
    for relay in running {
        let counts = relay.shutdown().await.expect("stops");
        assert_eq!(counts.lease_lost, 0);
        claimed += counts.claimed;
    }
    let numbers: std::collections::HashSet<_> =
        lab.calls().iter().map(|call| call.number).collect();
    assert_eq!(
        (lab.calls().len(), numbers.len(), claimed),
        (200, 200, 200),
        "each ran once"
    );
}

async fn the_window_limits_what_a_process_claims(db: Db) {
    db.insert_tasks(TASK, 100).await;
    db.insert_tasks(ERRAND, 100).await;
    let most = AtomicUsize::new(0);
    let lab = Lab::new(|_| async {
        tokio::time::sleep(millis(1)).await;
        Ok(())
    });
    let running = relay!(db, ALL, lab; concurrency(4), window(16)).spawn();
    eventually(
        LONG,
        || async {
            let held = db
                .count("state = 'processing'")
                .await
                .try_into()
                .expect("a count");
            most.fetch_max(held, Ordering::Relaxed);
            db.count("1 = 1").await
        },
        |left| *left == 0,
    )
    .await;
    running.shutdown().await.expect("stops");
    let most = most.into_inner();
    assert!(
        (1..=16).contains(&most),
        "{most} rows were claimed at once, across all routes"
    );
}

async fn concurrency_limits_what_runs(db: Db) {
    db.insert_tasks(TASK, 60).await;
    let (now, most) = (
        std::sync::Arc::new(AtomicUsize::new(0)),
        std::sync::Arc::new(AtomicUsize::new(0)),
    );
    let lab = Lab::new({
        let most = most.clone();
        move |_| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    });
    let counts = within(LONG, relay!(db, TASKS, lab; concurrency(3)).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.delivered, most.load(Ordering::SeqCst)),
        (60, 3),
        "three ran at once, and no more"
    );
}

async fn the_earliest_due_are_claimed_first_and_started_in_order(db: Db) {
    // Due in the opposite of the order in which they are stored, and of the order of their ids.
    let mut expected = Vec::new();
    for n in 0..40 {
        expected.push(insert(&db, "task", &[("available_at", &db.ago(secs(100 + n)))]).await);
    }
    expected.reverse();
    // A runtime of one thread runs tasks in the order in which they were spawned, so the starts show
    // the order that the relay has in mind; with several threads neighbours may swap places.
    let url = db.url();
    let order = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let db = Db::open(&url).await;
            let lab = Lab::content();
            within(
                LONG,
                relay!(db, TASKS, lab; concurrency(1), window(8)).drain(),
            )
            .await
            .expect("drains");
            lab.calls()
                .iter()
                .map(|call| call.delivery.id())
                .collect::<Vec<_>>()
        })
    });
    let order = tokio::task::spawn_blocking(|| order.join())
        .await
        .expect("it ends")
        .expect("the thread ends");
    assert_eq!(order, expected);
}

async fn a_relay_claims_only_the_topics_it_serves(db: Db) {
    let task = db.publish(&Task::named("of one service")).await.id;
    let errand = db
        .publish(&Errand {
            name: "of the other".to_owned(),
            number: 0,
        })
        .await
        .id;
    db.execute("INSERT INTO outbox (topic, payload) VALUES ('nobodys', '{}')")
        .await;
    let (tasks, errands) = (Lab::content(), Lab::content());
    let one = relay!(db, TASKS, tasks).spawn();
    let other = relay!(db, ERRANDS, errands).spawn();
    delivered(&db, task).await;
    delivered(&db, errand).await;
    one.shutdown().await.expect("stops");
    other.shutdown().await.expect("stops");
    let names = |lab: &Lab| {
        lab.calls()
            .into_iter()
            .map(|call| call.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&tasks), names(&errands)),
        (
            vec!["of one service".to_owned()],
            vec!["of the other".to_owned()]
        )
    );
    let untouched = "topic = 'nobodys' AND state = 'pending' AND attempts = 0 AND unsettled = 0 AND token IS NULL";
    assert_eq!(
        db.count(untouched).await,
        1,
        "a topic that nobody serves waits and costs no attempt"
    );
}

async fn an_unknown_version_waits_for_a_newer_build(db: Db) {
    let newer = insert(&db, "from a newer build", &[("version", "2")]).await;
    let known = db.publish(&Task::named("from this build")).await.id;
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab).spawn();
    delivered(&db, known).await;
    let waiting = row(&db, newer).await;
    assert_eq!((waiting.state.as_str(), waiting.attempts), ("pending", 0));
    // The newer build's relay would take it; here the row becomes one that this build knows.
    db.execute("UPDATE outbox SET version = 1").await;
    delivered(&db, newer).await;
    running.shutdown().await.expect("stops");
    assert_eq!(lab.calls().len(), 2);
}

async fn a_flood_of_one_topic_does_not_starve_another(db: Db) {
    let window = 32;
    db.insert_tasks(TASK, 10_000).await;
    db.publish(&Errand {
        name: "errand".to_owned(),
        number: 0,
    })
    .await;
    let lab = Lab::new(|_| async {
        tokio::time::sleep(millis(1)).await;
        Ok(())
    });
    let running = relay!(db, ALL, lab; concurrency(8), window(window)).spawn();
    let started =
        |calls: &Vec<outbox_tests::Call>| calls.iter().position(|call| call.name == "errand");
    let calls = eventually(
        LONG,
        || async { lab.calls() },
        |calls| started(calls).is_some(),
    )
    .await;
    let before = started(&calls).expect("it started");
    assert!(
        before <= 2 * window,
        "{before} tasks ran first: more than two claims"
    );
    running.shutdown().await.expect("stops");
}

async fn a_lapsed_lease_behind_many_live_ones_is_found(db: Db) {
    db.insert_tasks(TASK, 1_000).await;
    let lease = format!(
        "UPDATE outbox SET state = 'processing', attempts = 1, unsettled = 1, token = {}, leased_until =",
        db.uuid(uuid::Uuid::new_v4())
    );
    db.execute(&format!("{lease} {}", db.ahead(secs(3600))))
        .await;
    let lapsed = insert(&db, "lapsed", &[]).await;
    db.execute(&format!(
        "{lease} {} WHERE id = {}",
        db.ago(secs(1)),
        db.uuid(lapsed)
    ))
    .await;

    let lab = Lab::content();
    let running = relay!(db, TASKS, lab; window(8), concurrency(8)).spawn();
    delivered(&db, lapsed).await;
    running.shutdown().await.expect("stops");
    let calls = lab.calls();
    assert_eq!(
        (calls.len(), calls[0].delivery.attempt()),
        (1, 2),
        "the lapsed one, and nothing else"
    );
    assert_eq!(
        db.count("state = 'processing' AND attempts = 1").await,
        1_000
    );
}

async fn rows_leased_elsewhere_are_left_alone(db: Db) {
    let token = db.uuid(uuid::Uuid::new_v4());
    let columns = [
        ("state", "'processing'"),
        ("attempts", "1"),
        ("unsettled", "1"),
        ("token", &token),
        ("leased_until", &db.ahead(secs(3600))),
    ];
    let leased = insert(&db, "leased", &columns).await;
    let before = row(&db, leased).await;
    let counts = within(LONG, relay!(db, TASKS, Lab::content()).drain())
        .await
        .expect("drains");
    assert_eq!(counts.claimed, 0);
    assert_eq!(row(&db, leased).await, before);
}

async fn one_message_among_twenty_relays_runs_once(db: Db) {
    let lab = Lab::content();
    let mut running = Vec::new();
    for _ in 0..20 {
        running.push(relay!(db, TASKS, lab).spawn());
    }
    for n in 0..5 {
        let id = db
            .publish(&Task {
                name: "one".to_owned(),
                number: n,
            })
            .await
            .id;
        delivered(&db, id).await;
    }
    let mut claimed = 0;
    for relay in running {
        claimed += relay.shutdown().await.expect("stops").claimed;
    }
    assert_eq!((claimed, lab.calls().len()), (5, 5));
}

async fn a_lapsed_lease_is_found_under_load(db: Db) {
    // More than can be delivered before the lease that somebody left behind lapses, of the one topic
    // that is served.
    db.insert_tasks("lab.task", 6_000).await;
    let lapses = db.ahead(millis(200));
    let columns = [
        ("state", "'processing'"),
        ("unsettled", "1"),
        ("attempts", "1"),
        ("leased_until", lapses.as_str()),
    ];
    let left_behind = insert(&db, "left behind", &columns).await;
    let lab = Lab::new(|_| async {
        tokio::time::sleep(millis(10)).await;
        Ok(())
    });
    let running = relay!(db, TASKS, lab; concurrency(16), window(64)).spawn();
    eventually(
        LONG,
        || async { lab.starts(left_behind) },
        |starts| *starts == 1,
    )
    .await;
    let waiting = db.count("state = 'pending'").await;
    running.shutdown().await.expect("stops");
    assert!(
        waiting > 1_000,
        "it did not wait for the backlog, of which {waiting} are left"
    );
}

/// SQLite has one writer: nobody publishes while a transaction that has published is open.
async fn a_message_of_a_long_transaction_is_not_overlooked_under_load(db: Db) {
    let relay = relay!(db, TASKS, Lab::content(); poll_interval(millis(200))).spawn();
    let mut long = db.begin().await;
    let published = db.outbox().publish(&Task::named("late"), &mut long).await;
    let late = published.expect("publishes").id;
    // By the end of it, claims begin long after the time from which the late one is due.
    let mut others = load(&db, &relay, 0, secs(3)).await;
    long.commit().await;
    let committed = Instant::now();
    while db.row(late).await.is_some() {
        assert!(committed.elapsed() < LONG, "delivered under load");
        others = load(&db, &relay, others, millis(100)).await;
    }
    all_delivered(&db).await;
    let counts = relay.shutdown().await.expect("stops");
    assert_eq!(counts.delivered, others + 1);
}

/// Publishes one after the other, and waits for each; how many there have been.
async fn load(db: &Db, relay: &RelayHandle, before: u64, for_so_long: Duration) -> u64 {
    let (began, mut published) = (Instant::now(), before);
    while began.elapsed() < for_so_long {
        db.publish(&Task::named("load")).await;
        published += 1;
        let delivered = || async { relay.counts().delivered };
        eventually(LONG, delivered, |delivered| *delivered >= published).await;
    }
    published
}

async fn claims_go_by_the_index_whatever_the_planner_believes(db: Db) {
    const SCANS: &str = "SELECT seq_scan::bigint FROM pg_stat_user_tables WHERE relname = 'outbox'";
    db.execute("ALTER TABLE outbox SET (autovacuum_enabled = false)")
        .await;
    for mode in ["auto", "force_custom_plan", "force_generic_plan"] {
        db.execute(&format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET plan_cache_mode = {mode}', current_database()); END $$"
        ))
        .await;
        // Empty, few rows, many rows; and each time the statistics know of the time before.
        for messages in [1, 60, 5_000] {
            db.execute("ANALYZE outbox").await;
            db.insert_tasks(TASK, messages).await;
            // Other topics, which are older.
            db.insert_tasks("lab.unknown", messages).await;
            let before = settled(&db, SCANS).await;
            let relay = relay!(db, TASKS, Lab::content());
            let counts = relay.drain().await.expect("drains");
            assert_eq!(counts.delivered, messages as u64);
            let scans = settled(&db, SCANS).await - before;
            assert_eq!(
                scans, 0,
                "whole tables read by a drain of {messages}, {mode}"
            );
        }
    }
}

/// What the statistics say once they stay the same: sessions report what they have done when they end.
async fn settled(db: &Db, sql: &str) -> i64 {
    let mut last = db.scalar(sql).await;
    for _ in 0..20 {
        tokio::time::sleep(millis(20)).await;
        let now = db.scalar(sql).await;
        if now != last {
            last = now;
        }
    }
    last
}
