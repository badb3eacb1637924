//! When a message is due: delays, times, and whose clock they are read from.

use std::time::{Duration, SystemTime};

use outbox_tests::{
    Db, Lab,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
    worker::{Settings, Workers},
};

use crate::support::{delivered, in_state, row};

on_every_database! {
    all: [
        a_delay_counts_from_the_publish,
        delays_beyond_reason_are_refused,
        a_time_in_the_past_means_now,
    ],
    servers: [the_databases_clock_decides]
}

async fn a_delay_counts_from_the_publish(db: Db) {
    let task = Task::named("later");
    let mut tx = db.begin().await;
    // The transaction is older than the publish.
    tx.scalar("SELECT count(*) FROM outbox").await;
    tokio::time::sleep(millis(300)).await;
    let now = format!("SELECT {}", db.as_millis(db.now()));
    let before = tx.scalar(&now).await;
    let published = task
        .publication()
        .delay(millis(400))
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let after = tx.scalar(&now).await;
    tx.commit().await;
    let due = row(&db, published.id).await.available_at;
    assert!(
        (before + 399..=after + 401).contains(&due),
        "due at {due}, published between {before} and {after}"
    );

    let lab = Lab::content();
    let running = relay!(db, TASKS, lab).spawn();
    let calls = lab.started(1).await;
    let ran = db.scalar(&now).await;
    assert!(ran >= due, "ran at {ran}, due at {due}");
    assert_eq!(calls.len(), 1);
    running.shutdown().await.expect("stops");
}

async fn delays_beyond_reason_are_refused(db: Db) {
    let task = Task::named("never");
    let mut tx = db.begin().await;
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    for attempt in [
        task.publication()
            .delay(Duration::MAX)
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
        task.publication()
            .at(far)
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
    ] {
        let error = attempt.expect_err("no time type holds this");
        assert!(error.is_config(), "{error}");
    }
    let century = Duration::from_secs(99 * 365 * 24 * 60 * 60);
    let kept = task
        .publication()
        .delay(century)
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("the transaction is still usable");
    tx.commit().await;
    let now = db
        .scalar(&format!("SELECT {}", db.as_millis(db.now())))
        .await;
    assert!(row(&db, kept.id).await.available_at > now + 98 * 365 * 24 * 60 * 60 * 1000);
}

async fn a_time_in_the_past_means_now(db: Db) {
    let task = Task::named("overdue");
    let before = db
        .scalar(&format!("SELECT {}", db.as_millis(db.now())))
        .await;
    let mut tx = db.begin().await;
    let hour_ago = SystemTime::now() - secs(3600);
    let past = task
        .publication()
        .at(hour_ago)
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let ancient = task
        .publication()
        .at(SystemTime::UNIX_EPOCH - secs(1))
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let ahead = task
        .publication()
        .at(SystemTime::now() + secs(3600))
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    for id in [past.id, ancient.id] {
        let due = row(&db, id).await.available_at;
        assert!(
            due >= before - 1,
            "due at {due}, which is before {before}: it would overtake what waits"
        );
    }
    let counts = within(LONG, relay!(db, TASKS, Lab::content()).drain())
        .await
        .expect("drains");
    assert_eq!(counts.delivered, 2, "what lies ahead waits");
    assert_eq!(row(&db, ahead.id).await.state, "pending");
}

async fn the_databases_clock_decides(db: Db) {
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), &db);
    for (name, delay) in [("now", Duration::ZERO), ("in half an hour", secs(1800))] {
        let status = workers
            .publisher_an_hour_ahead(name, delay)
            .ended(LONG)
            .await;
        assert!(status.success(), "the publisher failed: {status}");
    }
    let now = db
        .scalar(&format!("SELECT {}", db.as_millis(db.now())))
        .await;
    let rows = db.rows("1 = 1").await;
    let [first, later] = &rows[..] else {
        panic!("two rows, not {rows:?}")
    };
    assert!(
        (first.available_at - now).abs() < 60_000,
        "due now by the database's clock: {first:?}"
    );
    assert!(
        (later.available_at - now - 1_800_000).abs() < 60_000,
        "due in half an hour by it: {later:?}"
    );
    assert!(
        (first.created_at - now).abs() < 60_000,
        "created now by it: {first:?}"
    );

    let relay = workers.relay_an_hour_ahead(&Settings {
        lease: secs(20),
        ..Settings::default()
    });
    delivered(&db, first.id).await;
    let leased = db.publish(&Task::named("hold")).await.id;
    let until = in_state(&db, leased, "processing")
        .await
        .leased_until
        .expect("it is leased");
    let now = db
        .scalar(&format!("SELECT {}", db.as_millis(db.now())))
        .await;
    assert!(
        (until - now).abs() < 60_000,
        "leased for seconds by the database's clock, not until {until}"
    );
    let waiting = row(&db, later.id).await;
    assert_eq!(
        (waiting.state.as_str(), waiting.attempts),
        ("pending", 0),
        "half an hour is not over by it"
    );
    relay.kill();
}
