//! `outbox dead redrive` and `discard` of messages that are named by their ids.

use outbox_tests::{Db, on_every_database};

use crate::{command, outbox, run_with, settled};

on_every_database![
    messages_are_redriven_by_their_ids,
    a_dry_run_of_ids_changes_nothing,
    several_ids_are_asked_about,
];

async fn messages_are_redriven_by_their_ids(db: Db) {
    let mut ids = Vec::new();
    for n in 0..3 {
        let id = settled(&db, "dead", "orders.placed", &format!("o-{n}"), "no").await;
        ids.push(id.to_string());
    }
    let ran = outbox(
        &db,
        &["dead", "redrive", &ids[0], &ids[1], &ids[0], "--yes"],
    )
    .await;
    assert_eq!(ran.ok(), "2 messages redriven\n");
    let next = "what fails again shows in `outbox dead list`";
    assert!(ran.err.starts_with(next), "{}", ran.shown());
    assert_eq!(db.count("state = 'pending' AND redrives = 1").await, 2);
    // One of them is dead no more: the other is redriven all the same.
    let ran = outbox(&db, &["dead", "redrive", &ids[0], &ids[2], "--yes"]).await;
    assert_eq!(
        (ran.code, &*ran.out),
        (3, "1 message redriven\n"),
        "{}",
        ran.shown()
    );
    assert!(ran.err.contains(&ids[0]), "{}", ran.shown());
    assert_eq!(db.count("state = 'pending'").await, 3);
}

async fn a_dry_run_of_ids_changes_nothing(db: Db) {
    let id = settled(&db, "dead", "orders.placed", "o-1", "timeout").await;
    let other = settled(&db, "dead", "orders.placed", "o-2", "timeout").await;
    let (id, other) = (id.to_string(), other.to_string());
    for (args, told) in [
        (&["redrive", &id][..], "1 message would be redriven\n"),
        (
            &["redrive", &id, "--payload", "-"],
            "1 message would be redriven\n",
        ),
        (&["redrive", &id, &other], "2 messages would be redriven\n"),
        (
            &["discard", &id, &other, "--reason", "no"],
            "2 messages would be discarded\n",
        ),
    ] {
        let args = [&["dead"], args, &["--dry-run"]].concat();
        let ran = run_with(command(&db, &args), &args, "{}").await;
        assert_eq!((ran.ok(), &*ran.err), (told, ""), "{}", ran.shown());
    }
    assert_eq!(db.count("state = 'dead' AND redrives = 0").await, 2);
    let gone = uuid::Uuid::now_v7().to_string();
    let args = ["dead", "redrive", &id, &gone, "--dry-run"];
    let ran = outbox(&db, &args).await;
    assert_eq!((ran.code, &*ran.out), (3, "1 message would be redriven\n"));
    assert!(ran.err.contains(&gone), "{}", ran.shown());
    // What ids can't be asked for is refused, and not left out in silence.
    for flag in ["--limit", "--per-second"] {
        let ran = outbox(&db, &["dead", "redrive", &id, flag, "1"]).await;
        assert_eq!(ran.code, 2, "{}", ran.shown());
    }
    assert_eq!(db.count("state = 'dead' AND redrives = 0").await, 2);
}

async fn several_ids_are_asked_about(db: Db) {
    let id = settled(&db, "dead", "orders.placed", "o-1", "timeout").await;
    let other = settled(&db, "dead", "orders.placed", "o-2", "timeout").await;
    let (id, other) = (id.to_string(), other.to_string());
    for args in [
        &["dead", "redrive", &id, &other][..],
        &["dead", "discard", &id, &other, "--reason", "no"],
    ] {
        let ran = outbox(&db, args).await;
        assert!(ran.fails(2).contains("2 messages"), "{}", ran.shown());
    }
    assert_eq!(db.count("state = 'dead'").await, 2);
    // None of them is there: there is nothing to ask about.
    let gone = [(); 2].map(|()| uuid::Uuid::now_v7().to_string());
    let ran = outbox(&db, &["dead", "redrive", &gone[0], &gone[1]]).await;
    assert!(ran.fails(3).contains(&gone[1]), "{}", ran.shown());
}
