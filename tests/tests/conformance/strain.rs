//! A relay under strain: a blocked thread, a crowd of relays, many messages.

use outbox_tests::{
    Call, Db, Lab, each, eventually,
    lab::{TASK, TASKS, Task},
    on_every_database, relay, scaled, trace,
    wait::{LONG, secs},
    worker::{Settings, Workers},
};

use crate::support::delivered;

on_every_database! {
    all: [a_handler_that_blocks_the_only_thread_is_noticed, memory_stays_flat],
    direct: [many_listeners_are_no_crowd, a_relay_has_five_connections_of_its_own]
}

async fn a_handler_that_blocks_the_only_thread_is_noticed(db: Db) {
    let lease = secs(1);
    let lab = Lab::new(move |call: Call| async move {
        if call.delivery.attempt() == 1 {
            // Nothing else runs on this thread meanwhile: no renewal, no deadline.
            std::thread::sleep(lease * 4);
        }
        Ok(())
    });
    let id = db.publish(&Task::named("blocks")).await.id;
    let blocked = tokio::spawn(trace::listened({
        let (db, lab) = (db.clone(), lab.clone());
        move || async move {
            let db = db.reopened().await;
            let relay = relay!(db, TASKS, lab; lease(lease)).spawn();
            eventually(
                LONG,
                || async { relay.counts().lease_lost },
                |lost| *lost == 1,
            )
            .await;
            relay.shutdown().await.expect("stops")
        }
    }));
    lab.started(1).await;
    let other = relay!(db, TASKS, lab; lease(lease)).spawn();
    delivered(&db, id).await;
    let (blocked, said) = blocked.await.expect("the relay whose thread was blocked");
    assert!(
        said.iter().any(|text| text.starts_with("lease lost")),
        "{said:?}"
    );
    let counts = other.shutdown().await.expect("stops");
    // Where the thread was blocked within a transaction (SQLite has one writer), nobody
    // could take the message over meanwhile: then either of them does.
    assert_eq!(
        (blocked.delivered + counts.delivered, lab.starts(id)),
        (1, 2),
        "{blocked:?}, {counts:?}"
    );
}

async fn memory_stays_flat(db: Db) {
    let n = scaled(20_000, 1_000_000);
    // A task's number is how long its handler takes.
    db.execute(&format!(
        "INSERT INTO outbox (topic, payload) SELECT '{TASK}', '{{\"name\":\"task\",\"number\":0}}' FROM {}",
        db.numbers(n)
    ))
    .await;
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), &db);
    let relay = workers.relay(&Settings {
        lease: secs(60),
        ..Settings::default()
    });
    let left = async || usize::try_from(db.count("1 = 1").await).expect("a number of rows");
    let timeout = LONG * u32::try_from(scaled(4, 60)).expect("a small number");
    eventually(timeout, &left, |left| *left < n * 3 / 4).await;
    let early = relay.memory();
    eventually(timeout, &left, |left| *left == 0).await;
    let late = relay.memory();
    // Ten times what a window full of rows takes; all that came by would be more.
    assert!(
        late < early + 8 * 1024,
        "{early} KiB after a quarter of {n} messages, {late} KiB after all"
    );
}

async fn many_listeners_are_no_crowd(db: Db) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let claims = "SELECT CAST(coalesce(sum(calls), 0) AS bigint) FROM pg_stat_statements \
                  WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                  AND query LIKE '%attempts + %'";
    let lab = Lab::content();
    let mut relays = Vec::new();
    for _ in 0..20 {
        relays.push(relay!(db, TASKS, lab; poll_interval(secs(600)), listener(db.url())).spawn());
    }
    // Some messages until all of them listen, and know how quick they are.
    for n in 0..20 {
        let id = db.publish(&Task::named(&format!("early {n}"))).await.id;
        delivered(&db, id).await;
    }
    let before = db.scalar(claims).await;
    let messages = 20;
    for n in 0..messages {
        let id = db.publish(&Task::named(&format!("late {n}"))).await.id;
        delivered(&db, id).await;
    }
    let claimed = db.scalar(claims).await - before;
    for relay in relays {
        relay.shutdown().await.expect("stops");
    }
    assert!(
        (messages..messages * 6).contains(&claimed),
        "{claimed} claims for {messages} messages, by twenty relays"
    );
}

async fn a_relay_has_five_connections_of_its_own(db: Db) {
    let all = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND backend_type = 'client backend'";
    let app = db.another_pool(5).await;
    let relay = relay!(app, TASKS, Lab::content(); concurrency(50), listener(db.url())).spawn();
    // Pools know how many they have; what is left is the relay's.
    let own = async || {
        let all = db.scalar(all).await;
        let pools = [&db, &app].map(|db| each!(*db, pool => pool.size()));
        all - pools.iter().map(|size| i64::from(*size)).sum::<i64>()
    };
    for id in db.publish_all(&Task::numbered(200)).await {
        delivered(&db, id).await;
        let own = own().await;
        assert!(
            own <= 5,
            "claims, settles, renewals, the listener and the lookout: {own} connections"
        );
    }
    eventually(LONG, &own, |own| *own == 5).await;
    relay.shutdown().await.expect("stops");
}
