//! `outbox dead show`.

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Lab, eventually,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::LONG,
};

use crate::{assert_shown, outbox, settled};

on_every_database![
    a_dead_letter_is_shown,
    a_dead_letter_is_printed_as_json,
    a_redrive_shows_between_two_errors,
];

async fn a_dead_letter_is_shown(db: Db) {
    let id = settled(&db, "dead", "orders.placed", "o-1", "refused\nby the bank").await;
    let id = id.to_string();
    let shown = outbox(&db, &["dead", "show", &id]).await;
    assert_shown("dead_show", shown.shown());
    assert!(!shown.ok().contains("secret") && !shown.ok().contains("acme"));
    let shown = outbox(&db, &["dead", "show", &id, "--payload"]).await;
    assert_shown("dead_show_payload", shown.shown());
}

async fn a_dead_letter_is_printed_as_json(db: Db) {
    let id = settled(&db, "dead", "orders.placed", "o-1", "refused").await;
    // As it stands there, in letters that a number would lose.
    db.execute("UPDATE outbox SET payload = '{\"amount\": 1.50}'")
        .await;
    let id = id.to_string();
    let json = async |args: &[&str]| {
        let ran = outbox(&db, &[&["dead", "show", &id, "--json"], args].concat()).await;
        serde_json::from_str::<serde_json::Value>(ran.ok()).expect("JSON")
    };
    let list = outbox(&db, &["dead", "list", "--json"]).await;
    let list: serde_json::Value = serde_json::from_str(list.ok()).expect("JSON");
    let shown = json(&[]).await;
    assert_eq!(shown, list[0], "as in the list, without payload or headers");
    assert_eq!(shown["errors"][1]["text"], "refused");
    let whole = json(&["--payload"]).await;
    assert_eq!(whole["payload"], "{\"amount\": 1.50}");
    assert_eq!(whole["headers"]["tenant"], "acme");
    assert_eq!(whole["errors"], shown["errors"]);
}

async fn a_redrive_shows_between_two_errors(db: Db) {
    let lab = Lab::new(|_: Call| async { Err(HandlerError::cancel("no such account")) });
    let relay = relay!(db, TASKS, lab).spawn();
    let id = db.publish(&Task::named("redriven")).await.id.to_string();
    let died_again = "state = 'dead' AND redrives = 1";
    eventually(LONG, || db.count("state = 'dead'"), |dead| *dead == 1).await;
    outbox(&db, &["dead", "redrive", &id]).await.ok();
    eventually(LONG, || db.count(died_again), |dead| *dead == 1).await;
    let shown = outbox(&db, &["dead", "show", &id]).await;
    assert_shown("dead_show_redriven", shown.ok());
    relay.shutdown().await.expect("stops");
}
