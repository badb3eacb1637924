//! A paused topic waits: nothing is claimed from it, nothing is lost, and nobody else waits with it.

use outbox_tests::{
    Call, Db, Gate, Lab, each, eventually,
    lab::{ALL, ERRAND, ERRANDS, Errand, TASK, TASKS, Task},
    on_every_database, relay, trace,
    wait::{LONG, millis, within},
};

use crate::support::{delivered, insert_lapsed, row};

on_every_database![
    a_paused_topic_waits_and_others_go_on,
    every_relay_knows_of_a_pause,
    what_runs_when_a_topic_is_paused_is_delivered,
    a_lapsed_lease_of_a_paused_topic_waits,
    a_drain_leaves_a_paused_topic,
    a_pause_is_named_in_the_stats,
    a_pause_is_told_in_the_log,
    only_a_topic_can_be_paused,
];

async fn pause(db: &Db, topic: &str, reason: Option<&str>) -> bool {
    each!(db, pool => db.outbox().pause(pool, topic, reason).await).expect("pauses")
}

async fn resume(db: &Db, topic: &str) -> bool {
    each!(db, pool => db.outbox().resume(pool, topic).await).expect("resumes")
}

/// Long enough for a relay to look several times.
async fn some_polls() {
    tokio::time::sleep(millis(300)).await;
}

fn errand() -> Errand {
    Errand {
        name: "errand".to_owned(),
        number: 0,
    }
}

async fn a_paused_topic_waits_and_others_go_on(db: Db) {
    let lab = Lab::content();
    assert!(pause(&db, TASK, None).await);
    let relay = relay!(db, ALL, lab).spawn();
    let waits = db.publish(&Task::named("waits")).await.id;
    for _ in 0..5 {
        let id = db.publish(&errand()).await.id;
        delivered(&db, id).await;
    }
    some_polls().await;
    let row = row(&db, waits).await;
    assert_eq!((row.state.as_str(), row.attempts), ("pending", 0));
    assert!(resume(&db, TASK).await);
    delivered(&db, waits).await;
    relay.shutdown().await.expect("stops");
    assert!(!resume(&db, TASK).await, "it was not paused any more");
}

async fn every_relay_knows_of_a_pause(db: Db) {
    let lab = Lab::content();
    let relays: Vec<_> = (0..3)
        .map(|_| async { relay!(db, TASKS, lab).spawn() })
        .collect();
    let relays = futures_util::future::join_all(relays).await;
    let before = db.publish(&Task::named("before")).await.id;
    delivered(&db, before).await;
    assert!(pause(&db, TASK, Some("a bad release")).await);
    some_polls().await;
    for _ in 0..20 {
        db.publish(&Task::named("waits")).await;
    }
    some_polls().await;
    assert_eq!(db.count("state = 'pending' AND attempts = 0").await, 20);
    resume(&db, TASK).await;
    eventually(LONG, || db.count("1 = 1"), |left| *left == 0).await;
    for relay in relays {
        relay.shutdown().await.expect("stops");
    }
}

async fn what_runs_when_a_topic_is_paused_is_delivered(db: Db) {
    let gate = Gate::closed();
    let held = gate.clone();
    let lab = Lab::new(move |_: Call| {
        let held = held.clone();
        async move {
            held.pass().await;
            Ok(())
        }
    });
    let relay = relay!(db, TASKS, lab).spawn();
    let id = db.publish(&Task::named("runs")).await.id;
    lab.started(1).await;
    pause(&db, TASK, None).await;
    some_polls().await;
    gate.open();
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
}

async fn a_lapsed_lease_of_a_paused_topic_waits(db: Db) {
    pause(&db, TASK, None).await;
    let lab = Lab::content();
    let id = insert_lapsed(&db, "lapsed").await;
    let before = row(&db, id).await;
    let relay = relay!(db, TASKS, lab).spawn();
    some_polls().await;
    assert_eq!(row(&db, id).await, before);
    resume(&db, TASK).await;
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
}

async fn a_drain_leaves_a_paused_topic(db: Db) {
    pause(&db, TASK, None).await;
    let id = db.publish(&Task::named("waits")).await.id;
    let errand = db.publish(&errand()).await.id;
    let counts = within(LONG, relay!(db, ALL, Lab::content()).drain()).await;
    assert_eq!(counts.expect("drains").delivered, 1);
    assert!(db.row(id).await.is_some() && db.row(errand).await.is_none());
}

async fn a_pause_is_named_in_the_stats(db: Db) {
    db.publish(&Task::named("waits")).await;
    db.publish(&errand()).await;
    assert!(pause(&db, TASK, Some("a bad release")).await);
    assert!(
        !pause(&db, TASK, Some("another reason")).await,
        "it is already"
    );
    assert!(pause(&db, "empty.topic", None).await);
    let stats = each!(db, pool => db.outbox().stats(pool).await).expect("counts");
    let paused: Vec<_> = stats
        .paused
        .iter()
        .map(|paused| (paused.topic.as_str(), paused.reason.as_deref()))
        .collect();
    assert_eq!(
        paused,
        [("empty.topic", None), (TASK, Some("a bad release"))]
    );
    let routes: Vec<_> = stats
        .routes
        .iter()
        .map(|route| (route.topic.as_str(), route.paused))
        .collect();
    assert_eq!(routes, [(ERRAND, false), (TASK, true)]);
    let since = std::time::SystemTime::now().duration_since(stats.paused[0].paused_at);
    assert!(since.unwrap_or_default() < LONG);
}

async fn a_pause_is_told_in_the_log(db: Db) {
    let ((), said) = trace::listened({
        let db = db.clone();
        move || async move {
            let db = db.reopened().await;
            let relay = relay!(db, ERRANDS, Lab::content()).spawn();
            pause(&db, ERRAND, None).await;
            some_polls().await;
            resume(&db, ERRAND).await;
            let id = db.publish(&errand()).await.id;
            delivered(&db, id).await;
            relay.shutdown().await.expect("stops");
        }
    })
    .await;
    let told = |what: &str| said.iter().filter(|said| said.contains(what)).count();
    assert_eq!(
        (told("topic is paused"), told("topic is resumed")),
        (1, 1),
        "{said:?}"
    );
}

async fn only_a_topic_can_be_paused(db: Db) {
    for topic in ["", "Not A Topic", "lab.task'; --"] {
        let error =
            each!(db, pool => db.outbox().pause(pool, topic, None).await).expect_err("no topic");
        assert!(error.is_config(), "{error}");
        assert!(error.to_string().contains("lowercase"), "{error}");
    }
    assert_eq!(db.scalar("SELECT count(*) FROM outbox_paused").await, 0);
}
