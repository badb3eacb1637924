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
