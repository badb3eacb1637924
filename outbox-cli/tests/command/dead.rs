//! `outbox dead`.

use outbox_tests::{Db, on_every_database};

use crate::{assert_shown, command, outbox, run_with, settled};

on_every_database![
    dead_letters_are_listed,
    that_there_are_none_is_no_fault,
    a_mistyped_topic_is_told_the_others,
    dead_letters_are_chosen_by_their_age,
    pages_go_on,
    a_payload_is_corrected,
    many_are_redriven,
    many_are_discarded_with_a_reason,
    nothing_is_done_unasked,
];

async fn dead_letters_are_listed(db: Db) {
    settled(&db, "dead", "orders.placed", "o-1", "connection refused").await;
    settled(
        &db,
        "dead",
        "mails.due",
        "m-1",
        "a \u{1b}[31mred\u{1b}[0m error",
    )
    .await;
    let long = "x".repeat(300);
    settled(&db, "dead", "orders.placed", "o-2", &long).await;
    settled(&db, "delivered", "orders.placed", "o-3", "no").await;
    assert_shown("dead_list", outbox(&db, &["dead", "list"]).await.shown());
    let filtered = [
        "dead",
        "list",
        "--topic",
        "orders.placed",
        "--error",
        "refused",
    ];
    assert_shown("dead_list_filtered", outbox(&db, &filtered).await.shown());
    let none = ["dead", "list", "--key", "o-3"];
    assert_shown("dead_list_nothing", outbox(&db, &none).await.shown());
    let json = outbox(&db, &["dead", "list", "--json", "--key", "o-1"]).await;
    let json: serde_json::Value = serde_json::from_str(json.ok()).expect("JSON");
    assert_eq!(json[0]["topic"], "orders.placed");
    assert_eq!(json[0]["errors"][1]["text"], "connection refused");
    assert_eq!(json[0]["errors"][1]["at"], "2023-11-14T22:14:20.000Z");
}

async fn that_there_are_none_is_no_fault(db: Db) {
    for (args, out) in [
        (&["dead", "list"][..], "there are no dead letters\n"),
        (&["dead", "list", "--json"], "[]\n"),
        (&["dead", "list", "--discarded"], "nothing was discarded\n"),
        (&["dead", "list", "--discarded", "--json"], "[]\n"),
        (&["dead", "reasons"], "there are no dead letters\n"),
    ] {
        assert_eq!(outbox(&db, args).await.ok(), out);
    }
    // Whoever asks for something in particular may have mistyped it.
    for args in [
        &["dead", "list", "--topic", "orders.placed"][..],
        &["dead", "list", "--older-than", "0s", "--json"],
        &["dead", "list", "--discarded", "--topic", "orders.placed"],
        &["dead", "reasons", "--topic", "orders.placed"],
        &["dead", "redrive", "--all"],
    ] {
        let ran = outbox(&db, args).await;
        assert_eq!(ran.code, 3, "{}", ran.shown());
    }
}

async fn a_mistyped_topic_is_told_the_others(db: Db) {
    settled(&db, "dead", "orders.placed", "o-1", "timeout").await;
    settled(&db, "dead", "mails.due", "m-1", "timeout").await;
    settled(&db, "delivered", "orders.sent", "o-1", "timeout").await;
    let others = "; topics with dead letters: mails.due, orders.placed\n";
    for (args, named) in [
        (&["list", "--topic", "ordrs"][..], true),
        (&["list", "--topic", "orders.sent"], true),
        (&["reasons", "--topic", "ordrs"], true),
        (&["redrive", "--topic", "ordrs", "--yes"], true),
        (&["discard", "--topic", "ordrs", "--reason", "no"], true),
        // The topic is right, and something else is not.
        (&["redrive", "--topic", "mails.due", "--key", "o-1"], false),
        (&["list", "--key", "o-2"], false),
    ] {
        let ran = outbox(&db, &[&["dead"], args].concat()).await;
        assert_eq!(ran.fails(3).ends_with(others), named, "{}", ran.shown());
    }
    db.execute("DELETE FROM outbox WHERE state = 'dead'").await;
    let ran = outbox(&db, &["dead", "list", "--topic", "ordrs"]).await;
    let none = "; topics with dead letters: none\n";
    assert!(ran.fails(3).ends_with(none), "{}", ran.shown());
}

async fn dead_letters_are_chosen_by_their_age(db: Db) {
    // Dead for two hours and 30 s.
    let id = settled(&db, "dead", "orders.placed", "o-1", "no").await;
    for (flag, age, code) in [
        ("--older-than", "2h", 0),
        ("--older-than", "3h", 3),
        ("--younger-than", "3h", 0),
        ("--younger-than", "2h", 3),
    ] {
        for args in [
            &["dead", "list", flag, age][..],
            &["dead", "redrive", "--dry-run", flag, age],
        ] {
            let ran = outbox(&db, args).await;
            assert_eq!(ran.code, code, "{}", ran.shown());
        }
    }
    let between = ["dead", "list", "--older-than", "2h", "--younger-than", "3h"];
    let ran = outbox(&db, &between).await;
    assert!(ran.ok().contains(&id.to_string()), "{}", ran.shown());
}

async fn pages_go_on(db: Db) {
    for n in 0..5 {
        settled(&db, "dead", "orders.placed", &format!("o-{n}"), "no").await;
    }
    let mut seen = 0;
    let mut after: Option<String> = None;
    while seen <= 5 {
        let mut args = vec!["dead", "list", "--limit", "2", "--json"];
        if let Some(after) = &after {
            args.extend(["--after", after]);
        }
        let ran = outbox(&db, &args).await;
        let page: Vec<serde_json::Value> = serde_json::from_str(&ran.out).expect("JSON");
        let Some(last) = page.last() else {
            // Programs read that there is none, and shells see it.
            assert_eq!(ran.code, 3, "{}", ran.shown());
            break;
        };
        assert_eq!(ran.code, 0, "{}", ran.shown());
        seen += page.len();
        after = Some(last["id"].as_str().expect("an id").to_owned());
    }
    assert_eq!(seen, 5, "each once");
    let more = outbox(&db, &["dead", "list", "--limit", "2"]).await;
    for told in ["there may be more: --after ", "`outbox dead reasons`"] {
        assert!(more.err.contains(told), "{}", more.shown());
    }
}

async fn a_payload_is_corrected(db: Db) {
    let id = settled(&db, "dead", "orders.placed", "o-1", "missing field `name`").await;
    let id = id.to_string();
    let args = ["dead", "redrive", &id, "--payload", "-"];
    let wrong = run_with(command(&db, &args), &args, "{\"name\":").await;
    let text = wrong.fails(2);
    assert!(
        text.contains("is not JSON") && text.contains("line 1"),
        "{text}"
    );
    let missing = ["dead", "redrive", &id, "--payload", "/no/such/file"];
    let text = outbox(&db, &missing).await;
    assert!(text.fails(2).contains("/no/such/file"), "{}", text.shown());
    assert_eq!(db.count("state = 'dead'").await, 1, "nothing was written");
    let right = run_with(command(&db, &args), &args, "{\"name\":\"right\"}").await;
    assert_eq!(right.ok(), "1 message redriven\n");
    let rows = db.rows("1 = 1").await;
    assert_eq!(
        (rows[0].state.as_str(), rows[0].payload.as_str()),
        ("pending", "{\"name\":\"right\"}")
    );
    assert_eq!(rows[0].texts(), ["first", "missing field `name`"]);
}

async fn many_are_redriven(db: Db) {
    for n in 0..5 {
        settled(&db, "dead", "orders.placed", &format!("o-{n}"), "timeout").await;
    }
    settled(&db, "dead", "mails.due", "m-1", "timeout").await;
    let choice = ["dead", "redrive", "--topic", "orders.placed"];
    let with = |more: &[&'static str]| [&choice[..], more].concat();
    let dry = outbox(&db, &with(&["--dry-run"])).await;
    let count = "5 messages would be redriven\n";
    assert!(dry.ok().starts_with(count), "{}", dry.shown());
    assert_eq!(db.count("state = 'pending'").await, 0);
    let ran = outbox(&db, &with(&["--limit", "2", "--yes"])).await;
    assert_shown("dead_redrive", ran.shown());
    let began = std::time::Instant::now();
    let slowly = with(&["--per-second", "2", "-y"]);
    assert_eq!(outbox(&db, &slowly).await.ok(), "3 messages redriven\n");
    assert!(began.elapsed().as_millis() >= 900, "two, then one more");
    outbox(&db, &with(&["--yes"])).await.fails(3);
    assert_eq!(
        outbox(&db, &["dead", "redrive", "--all", "-y"]).await.ok(),
        "1 message redriven\n"
    );
    assert_eq!(db.count("state = 'pending' AND redrives = 1").await, 6);
}

async fn many_are_discarded_with_a_reason(db: Db) {
    let id = settled(&db, "dead", "orders.placed", "o-1", "timeout").await;
    for n in 2..4 {
        settled(&db, "dead", "orders.placed", &format!("o-{n}"), "timeout").await;
    }
    let id = id.to_string();
    let one = ["dead", "discard", &id, "--reason", "paid by hand"];
    assert_eq!(outbox(&db, &one).await.ok(), "1 message discarded\n");
    outbox(&db, &one).await.fails(3);
    let rest = [
        "dead",
        "discard",
        "--older-than",
        "2h",
        "--reason",
        "out of date",
        "--yes",
    ];
    assert_eq!(outbox(&db, &rest).await.ok(), "2 messages discarded\n");
    assert_eq!(db.count("1 = 1").await, 0);
    db.execute(&format!(
        "UPDATE outbox_discarded SET discarded_at = {}",
        db.ago(outbox_tests::wait::secs(3_630))
    ))
    .await;
    let notes = outbox(
        &db,
        &["dead", "list", "--discarded", "--topic", "orders.placed"],
    )
    .await;
    let none = ["dead", "list", "--discarded", "--topic", "x", "--json"];
    let none = outbox(&db, &none).await;
    assert_eq!((none.code, &*none.out), (3, "[]\n"), "{}", none.shown());
    let mut lines: Vec<_> = notes.ok().lines().skip(1).collect();
    lines.sort_by_key(|line| line.contains("out of date"));
    assert_shown("dead_list_discarded", lines.join("\n"));
}

async fn nothing_is_done_unasked(db: Db) {
    settled(&db, "dead", "orders.placed", "o-1", "timeout").await;
    let redrive = outbox(&db, &["dead", "redrive", "--all"]).await;
    assert_shown("dead_redrive_unasked", redrive.shown());
    let discard = [
        "dead",
        "discard",
        "--topic",
        "orders.placed",
        "--reason",
        "no",
    ];
    outbox(&db, &discard).await.fails(2);
    assert_shown(
        "dead_redrive_which",
        outbox(&db, &["dead", "redrive"]).await.shown(),
    );
    let both = ["dead", "redrive", "--all", "--topic", "orders.placed"];
    outbox(&db, &both).await.fails(2);
    assert_eq!(db.count("state = 'dead'").await, 1);
}
