//! What an operator does who knows no more than "messages of a topic are stuck".

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Lab, eventually,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::LONG,
};

use crate::outbox;

on_every_database![stuck_messages_are_found_explained_and_let_go];

async fn stuck_messages_are_found_explained_and_let_go(db: Db) {
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let lab = Lab::new({
        let broken = std::sync::Arc::clone(&broken);
        move |_: Call| {
            let broken = broken.load(std::sync::atomic::Ordering::Relaxed);
            async move {
                match broken {
                    true => Err(HandlerError::cancel("no such account: 7")),
                    false => Ok(()),
                }
            }
        }
    });
    let relay = relay!(db, TASKS, lab).spawn();
    db.publish_all(&Task::numbered(12)).await;
    eventually(LONG, || db.count("state = 'dead'"), |dead| *dead == 12).await;

    let stats = outbox(&db, &["stats"]).await;
    let stats = stats.ok();
    let line = stats.lines().find(|line| line.starts_with("lab.task"));
    let cells: Vec<_> = line.expect("its line").split_whitespace().collect();
    assert_eq!(
        cells[..7],
        ["lab.task", "1", "0", "0", "0", "0", "12"],
        "{stats}"
    );
    let hint = "outbox dead reasons --topic lab.task";
    assert!(stats.contains(hint), "{stats}");

    let reasons = outbox(&db, &["dead", "reasons", "--topic", "lab.task"]).await;
    let line = "12     lab.task  no such account: 7\n";
    assert!(reasons.ok().contains(line), "{}", reasons.shown());

    let list = outbox(&db, &["dead", "list", "--topic", "lab.task"]).await;
    let list = list.ok();
    assert_eq!(list.matches("no such account: 7").count(), 12, "{list}");

    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    let redrive = [
        "dead",
        "redrive",
        "--topic",
        "lab.task",
        "--error",
        "account: 7",
        "--yes",
    ];
    assert_eq!(outbox(&db, &redrive).await.ok(), "12 messages redriven\n");
    eventually(LONG, || db.count("1 = 1"), |left| *left == 0).await;
    relay.shutdown().await.expect("stops");
    outbox(&db, &redrive).await.fails(3);
}
