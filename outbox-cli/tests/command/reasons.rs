//! What the dead letters died of, counted.

use outbox_tests::{Db, on_every_database};

use crate::{assert_shown, outbox, settled};

on_every_database![
    reasons_are_counted,
    a_rare_reason_is_not_hidden_by_a_page_of_another,
    a_dry_run_shows_the_reasons,
    more_than_are_counted_is_said,
];

async fn reasons_are_counted(db: Db) {
    for (topic, error, n) in [
        ("orders.placed", "timeout", 3),
        ("orders.placed", "refused\nby the bank", 4),
        ("mails.due", "timeout", 3),
    ] {
        for n in 0..n {
            settled(&db, "dead", topic, &format!("k-{n}"), error).await;
        }
    }
    settled(&db, "delivered", "orders.placed", "o-1", "timeout").await;
    settled(&db, "dead", "orders.placed", "none", "").await;
    db.execute("UPDATE outbox SET errors = '[]' WHERE \"key\" = 'none'")
        .await;
    let all = outbox(&db, &["dead", "reasons"]).await;
    assert_shown("dead_reasons", all.shown());
    let some = [
        "dead",
        "reasons",
        "--topic",
        "orders.placed",
        "--key",
        "k-3",
    ];
    assert_shown("dead_reasons_filtered", outbox(&db, &some).await.shown());
    let json = outbox(&db, &["dead", "reasons", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(json.ok()).expect("JSON");
    assert_eq!(
        json["reasons"][0],
        serde_json::json!({"topic": "orders.placed", "error": "refused\nby the bank", "count": 4})
    );
    assert_eq!(
        json["reasons"][3],
        serde_json::json!({"topic": "orders.placed", "error": null, "count": 1})
    );
    assert_eq!(json["counted"], 11);
    assert_eq!(json["more"], false);
}

async fn a_rare_reason_is_not_hidden_by_a_page_of_another(db: Db) {
    dead(&db, 2_345).await;
    let one = db.uuid(db.rows("1 = 1").await[0].id);
    db.execute(&format!(
        "UPDATE outbox SET errors = '[{{\"attempt\":1,\"at\":0,\"text\":\"a rare one\"}}]' WHERE id = {one}"
    ))
    .await;
    let ran = outbox(&db, &["dead", "reasons"]).await;
    let lines: Vec<_> = ran.ok().lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "2344   lab.task  timeout",
            "1      lab.task  a rare one",
            "",
            "2,345 dead letters"
        ]
    );
}

async fn a_dry_run_shows_the_reasons(db: Db) {
    for n in 0..3 {
        settled(&db, "dead", "orders.placed", &format!("o-{n}"), "timeout").await;
    }
    settled(&db, "dead", "orders.placed", "o-3", "refused").await;
    let redrive = ["dead", "redrive", "--topic", "orders.placed", "--dry-run"];
    let discard = ["dead", "discard", "--all", "--reason", "no", "--dry-run"];
    let limited = [&redrive[..], &["--limit", "2"]].concat();
    let mut all = String::new();
    for args in [&redrive[..], &discard, &limited] {
        all.push_str(&outbox(&db, args).await.shown());
    }
    assert_shown("dead_dry_run", all);
    // Each of these is a reason of its own.
    for n in 0..30 {
        settled(&db, "dead", "mails.due", "m", &format!("no account {n}")).await;
    }
    let ran = outbox(&db, &discard).await;
    assert_eq!(
        ran.ok().matches("no account").count(),
        19,
        "{}",
        ran.shown()
    );
    let rest = "… and 12 reasons more: outbox dead reasons\n";
    assert!(ran.ok().contains(rest), "{}", ran.shown());
    assert_eq!(db.count("state = 'dead'").await, 34);
}

async fn more_than_are_counted_is_said(db: Db) {
    dead(&db, 10_000).await;
    let ran = outbox(&db, &["dead", "reasons"]).await;
    let end = "10000  lab.task  timeout\n\n10,000 dead letters\n";
    assert!(ran.ok().ends_with(end), "{}", ran.shown());
    settled(&db, "dead", "orders.placed", "o-1", "older").await;
    let ran = outbox(&db, &["dead", "reasons"]).await;
    assert_shown("dead_reasons_more", ran.shown());
    let json = outbox(&db, &["dead", "reasons", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(json.ok()).expect("JSON");
    assert_eq!(
        (&json["counted"], &json["more"]),
        (&10_000.into(), &true.into())
    );
}

/// Inserts so many dead letters that timed out just now.
async fn dead(db: &Db, n: usize) {
    db.insert_tasks("lab.task", n).await;
    db.execute(&format!(
        "UPDATE outbox SET state = 'dead', attempts = 1, settled_at = {}, \
         errors = '[{{\"attempt\":1,\"at\":0,\"text\":\"timeout\"}}]'",
        db.now()
    ))
    .await;
}
