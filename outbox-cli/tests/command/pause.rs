//! `outbox pause` and `outbox resume`.

use outbox_tests::{
    Db, Lab, eventually,
    lab::TASKS,
    on_every_database, relay,
    wait::{LONG, secs},
};

use crate::{outbox, waiting};

on_every_database![
    a_topic_is_paused_and_resumed,
    a_pause_of_what_nobody_knows_is_warned_of,
    what_is_paused_instead_is_named,
    a_reason_comes_before_its_end,
];

async fn a_topic_is_paused_and_resumed(db: Db) {
    assert_eq!(
        outbox(&db, &["pause", "lab.task"]).await.ok(),
        "lab.task is paused; `outbox resume lab.task` ends it\n"
    );
    outbox(&db, &["pause", "lab.task"]).await.fails(3);
    assert_eq!(db.scalar("SELECT count(*) FROM outbox_paused").await, 1);
    assert_eq!(
        outbox(&db, &["resume", "lab.task"]).await.ok(),
        "lab.task is resumed\n"
    );
    outbox(&db, &["resume", "lab.task"]).await.fails(3);
    let ran = outbox(&db, &["pause", "Not A Topic"]).await;
    assert!(ran.fails(2).contains("lowercase"), "{}", ran.shown());
}

async fn a_pause_of_what_nobody_knows_is_warned_of(db: Db) {
    let relay = relay!(db, TASKS, Lab::content()).spawn();
    let relays = || db.scalar("SELECT count(*) FROM outbox_relays");
    eventually(LONG, relays, |relays| *relays == 1).await;
    waiting(&db, "orders.placed", &db.ahead(secs(60))).await;
    for known in ["orders.placed", "lab.task"] {
        let ran = outbox(&db, &["pause", known]).await;
        assert_eq!((ran.code, &*ran.err), (0, ""), "{}", ran.shown());
    }
    let ran = outbox(&db, &["pause", "ordrs.placed"]).await;
    ran.ok();
    let warning = "nobody knows a topic ordrs.placed: ";
    assert!(ran.err.starts_with(warning), "{}", ran.shown());
    relay.shutdown().await.expect("stops");
}

async fn what_is_paused_instead_is_named(db: Db) {
    let ran = outbox(&db, &["resume", "ordrs.placed"]).await;
    let none = "ordrs.placed was not paused; paused topics: none\n";
    assert!(ran.fails(3).ends_with(none), "{}", ran.shown());
    for topic in ["orders.placed", "mails.due"] {
        outbox(&db, &["pause", topic]).await.ok();
    }
    let ran = outbox(&db, &["resume", "ordrs.placed"]).await;
    let both = "; paused topics: mails.due, orders.placed\n";
    assert!(ran.fails(3).ends_with(both), "{}", ran.shown());
}

async fn a_reason_comes_before_its_end(db: Db) {
    for (topic, reason) in [
        ("orders.placed", &["--reason", "a bad release"][..]),
        ("mails.due", &[]),
        ("nobodys", &["--reason", "nothing waits"]),
    ] {
        let args = [&["pause", topic], reason].concat();
        outbox(&db, &args).await.ok();
    }
    waiting(&db, "orders.placed", &db.ago(secs(5))).await;
    waiting(&db, "mails.due", &db.ahead(secs(60))).await;
    let stats = outbox(&db, &["stats"]).await;
    let hints = stats.ok().lines();
    let hints: Vec<_> = hints
        .filter(|line| line.contains("outbox resume"))
        .collect();
    assert_eq!(
        hints,
        [
            "mails.due is paused (nobody said why): once that is settled, outbox resume mails.due",
            "orders.placed is paused (a bad release): once that is settled, outbox resume orders.placed",
        ]
    );
}
