//! How a delivery can end: bad payloads, panics, timeouts, and rows that can't be settled.

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Lab,
    lab::{ALL, End, Order, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};
use uuid::Uuid;

use crate::support::{delivered, in_state, insert, row};

on_every_database![
    a_payload_that_does_not_decode_is_dead_at_once,
    a_payload_that_breaks_its_rules_is_dead_at_once,
    a_bad_payload_does_not_hold_up_its_siblings,
    unknown_fields_and_missing_defaults_are_fine,
    a_panic_is_a_failed_attempt,
    a_handler_that_never_returns_is_timed_out,
    others_flow_while_one_handler_hangs,
    a_row_that_cant_be_settled_does_not_take_its_batch_along,
    delivered_rows_are_kept_on_request,
];

async fn insert_payload(db: &Db, topic: &str, payload: &str) -> Uuid {
    let id = Uuid::now_v7();
    let id_sql = db.uuid(id);
    db.execute(&format!(
        "INSERT INTO outbox (id, topic, payload) VALUES ({id_sql}, '{topic}', '{payload}')"
    ))
    .await;
    id
}

/// Lets a relay with these payloads run, and expects each to be dead after one attempt without a
/// start of its handler, with a text that holds `expected` and not the payload's values.
async fn dead_at_once(db: &Db, cases: &[(&str, &str, &str)]) {
    let mut ids = Vec::new();
    for (topic, payload, _) in cases {
        ids.push(insert_payload(db, topic, payload).await);
    }
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, ALL, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        counts.dead,
        u64::try_from(cases.len()).expect("few"),
        "{counts:?}"
    );
    assert!(lab.calls().is_empty(), "no handler saw them");
    for (id, (_, payload, expected)) in ids.iter().zip(cases) {
        let dead = row(db, *id).await;
        assert_eq!(
            (dead.state.as_str(), dead.attempts, dead.errors.len()),
            ("dead", 1, 1),
            "{payload}"
        );
        let text = dead.last_text();
        assert!(
            text.contains(expected),
            "{payload}: the text names {expected}: {text}"
        );
        assert!(
            !text.contains("secret") && !text.contains("4711"),
            "a value of {payload} is in the text: {text}"
        );
    }
}

async fn a_payload_that_does_not_decode_is_dead_at_once(db: Db) {
    dead_at_once(
        &db,
        &[
            ("lab.task", r#"{"name": "secret"}"#, "number"),
            ("lab.task", r#"{"name": "x", "number": "secret"}"#, "`number`"),
            ("lab.task", r#"{"name": 4711, "number": 1}"#, "`name`"),
            ("lab.task", r#"["secret"]"#, "Task"),
            ("lab.task", "null", "decoded"),
            ("lab.order", r#"{"lines": [{"article": "a", "quantity": 1}, {"article": "secret", "quantity": -4711}]}"#, "`lines[1].quantity`"),
        ],
    )
    .await;
}

async fn a_payload_that_breaks_its_rules_is_dead_at_once(db: Db) {
    dead_at_once(
        &db,
        &[
            ("lab.task", r#"{"name": "", "number": 1}"#, "`name`"),
            ("lab.task", r#"{"name": "x", "number": -4711}"#, "`number`"),
            ("lab.order", r#"{"lines": [{"article": "a", "quantity": 1}, {"article": "secret", "quantity": 0}]}"#, "lines[1].quantity"),
        ],
    )
    .await;
}

async fn a_bad_payload_does_not_hold_up_its_siblings(db: Db) {
    db.publish_all(&Task::numbered(20)).await;
    let undecodable = insert_payload(&db, "lab.task", r#"{"name": 1}"#).await;
    let invalid = insert_payload(&db, "lab.task", r#"{"name": "", "number": 0}"#).await;
    db.publish(&Order { lines: Vec::new() }).await;
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, ALL, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.delivered, counts.dead, lab.calls().len()),
        (21, 2, 21)
    );
    assert_eq!(row(&db, undecodable).await.state, "dead");
    assert_eq!(row(&db, invalid).await.state, "dead");
}

async fn unknown_fields_and_missing_defaults_are_fine(db: Db) {
    // What an older build left out has a default, what a newer one added is ignored.
    insert_payload(&db, "lab.errand", r#"{"name": "old"}"#).await;
    insert_payload(
        &db,
        "lab.errand",
        r#"{"name": "new", "number": 1, "added": [1, 2]}"#,
    )
    .await;
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, ALL, lab).drain())
        .await
        .expect("drains");
    let mut seen: Vec<_> = lab
        .calls()
        .into_iter()
        .map(|call| (call.name, call.number))
        .collect();
    seen.sort();
    assert_eq!(seen, [("new".to_owned(), 1), ("old".to_owned(), 0)]);
    assert_eq!(counts.delivered, 2);
}

async fn a_panic_is_a_failed_attempt(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.name == "good" {
            return Ok(());
        }
        if call.name.ends_with("later") {
            tokio::task::yield_now().await;
            tokio::time::sleep(millis(5)).await;
        }
        match call.name.split(' ').next() {
            Some("str") => panic!("a fixed text"),
            Some("string") => panic!("a text with {}", call.number),
            _ => std::panic::panic_any(call.number),
        }
    });
    let bad = [
        "str",
        "string",
        "other",
        "str later",
        "string later",
        "other later",
    ];
    let texts = ["a fixed text", "a text with 0", "panicked"];
    let ids = db.publish_all(&bad.map(Task::named)).await;
    let running = relay!(db, TASKS, lab; max_attempts(2)).spawn();
    for (n, id) in ids.iter().enumerate() {
        let dead = in_state(&db, *id, "dead").await;
        assert_eq!((dead.attempts, dead.errors.len()), (2, 2), "{}", bad[n]);
        assert!(
            dead.texts()
                .iter()
                .all(|text| text.contains("panicked") && text.contains(texts[n % 3])),
            "{:?}",
            dead.texts()
        );
    }
    let good = db.publish(&Task::named("good")).await.id;
    delivered(&db, good).await;
    let counts = running.shutdown().await.expect("the relay lives");
    assert_eq!(
        (counts.panicked, counts.dead, counts.delivered),
        (12, 6, 1),
        "{counts:?}"
    );
}

async fn a_handler_that_never_returns_is_timed_out(db: Db) {
    let lab = Lab::new(|_| std::future::pending());
    let id = db.publish(&Task::named("endless")).await.id;
    let running = relay!(db, TASKS, lab; handler_timeout(millis(300)), max_attempts(2)).spawn();
    let dead = in_state(&db, id, "dead").await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(
        (
            lab.starts(id),
            counts.retried,
            counts.dead,
            counts.lease_lost
        ),
        (2, 1, 1, 0),
        "{counts:?}"
    );
    assert!(
        dead.texts().iter().all(|text| text.contains("300ms")),
        "the text names the timeout: {:?}",
        dead.texts()
    );
    let calls = lab.calls();
    assert!(
        calls
            .iter()
            .all(|call| call.delivery.cancellation().is_cancelled()),
        "what the handler spawned is told"
    );
    assert_eq!(lab.ends(id), [End::Dropped, End::Dropped]);
    assert!(calls[1].at - calls[0].at >= millis(300), "it had its time");
}

async fn others_flow_while_one_handler_hangs(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.name == "hangs" {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let hanging = db.publish(&Task::named("hangs")).await.id;
    let running =
        relay!(db, TASKS, lab; handler_timeout(secs(600)), concurrency(2), grace(millis(10)))
            .spawn();
    lab.started(1).await;
    let others = db.publish_all(&Task::numbered(100)).await;
    for id in others {
        delivered(&db, id).await;
    }
    assert_eq!(row(&db, hanging).await.state, "processing");
    running.shutdown().await.expect("stops");
}

async fn a_row_that_cant_be_settled_does_not_take_its_batch_along(db: Db) {
    // The database refuses any row whose errors say "cursed", as a check or a trigger of the user might.
    let errors = db.pick("NEW.errors::text", "NEW.errors", "NEW.errors");
    db.refuse_updates(&format!("{errors} LIKE '%cursed%'"))
        .await;
    let gate = outbox_tests::Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |call: Call| {
            let gate = gate.clone();
            async move {
                // All end at the same moment, so that they are settled in the same batch.
                gate.pass().await;
                match (call.name.as_str(), call.number % 2) {
                    ("cursed", _) => Err(HandlerError::retry("cursed")),
                    (_, 0) => Err(HandlerError::cancel("given up")),
                    _ => Ok(()),
                }
            }
        }
    });
    let mut tasks = Task::numbered(30);
    tasks.insert(13, Task::named("cursed"));
    let ids = db.publish_all(&tasks).await;
    let running =
        relay!(db, TASKS, lab; lease(secs(60)), backoff(secs(600), secs(600)), jitter(0.0)).spawn();
    lab.started(31).await;
    gate.open();

    let cursed = crate::support::until(&db, ids[13], |row| row.state != "processing").await;
    outbox_tests::eventually(LONG, || db.count("state = 'dead'"), |dead| *dead == 15).await;
    outbox_tests::eventually(LONG, || db.count("1 = 1"), |rows| *rows == 16).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(
        (cursed.state.as_str(), cursed.attempts, cursed.errors.len()),
        ("pending", 1, 1),
        "settled as what it is: a retry"
    );
    assert!(
        !cursed.last_text().contains("cursed") && !cursed.last_text().is_empty(),
        "with a fixed text: {:?}",
        cursed.texts()
    );
    assert_eq!(
        (counts.delivered, counts.dead, counts.lease_lost),
        (15, 15, 0),
        "{counts:?}"
    );
    assert_eq!(lab.calls().len(), 31, "nothing ran twice");
}

async fn delivered_rows_are_kept_on_request(db: Db) {
    let id = insert(&db, "kept", &[]).await;
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab; keep_delivered(true)).spawn();
    let kept = in_state(&db, id, "delivered").await;
    let another = db.publish(&Task::named("kept as well")).await.id;
    in_state(&db, another, "delivered").await;
    running.shutdown().await.expect("stops");
    assert_eq!((kept.attempts, kept.unsettled), (1, 0));
    assert!(
        kept.settled_at.is_some_and(|at| at >= kept.created_at),
        "{kept:?}"
    );
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.claimed, lab.calls().len()),
        (0, 2),
        "a delivered row is not delivered again"
    );
}
