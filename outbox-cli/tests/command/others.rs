//! All commands but `outbox dead`.

use outbox_tests::{
    Db, Lab, each, eventually,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs},
};

use crate::{assert_shown, outbox, settled, waiting};

on_every_database![
    an_empty_database_is_migrated,
    the_sql_is_printed,
    the_sql_of_other_programs_is_printed,
    statistics_are_shown,
    nothing_in_the_table_steers_the_terminal,
    statistics_are_printed_as_json,
    statistics_are_shown_again_and_again,
    a_message_is_cancelled,
    a_message_is_rescheduled,
    what_is_old_is_purged,
];

async fn the_sql_of_other_programs_is_printed(db: Db) {
    let printed = outbox(&db, &["plain-sql"]).await;
    let told = each!(db, pool => db.outbox().plain_sql(pool)).expect("the statements");
    assert_eq!(printed.ok(), told);
    let other = outbox(&db, &["plain-sql", "--table", "letters"]).await;
    let insert = db.pick(
        r#"."letters" ("topic""#,
        "INTO `letters` (`topic`",
        r#"."letters" ("topic""#,
    );
    assert!(other.ok().contains(insert), "{}", other.ok());
}

async fn an_empty_database_is_migrated(db: Db) {
    let db = db.empty().await;
    // On SQLite, that makes the file.
    db.scalar("SELECT count(*) FROM (SELECT 1) AS one").await;
    let check = outbox(&db, &["migrate", "--check"]).await;
    assert_shown("migrate_check_missing", check.shown());
    assert_eq!(
        outbox(&db, &["migrate"]).await.ok(),
        "the tables are up to date\n"
    );
    assert_eq!(
        outbox(&db, &["migrate", "--check"]).await.ok(),
        "the tables are what this command needs: version 2, or a later one that it can use\n"
    );
    outbox(&db, &["migrate"]).await.ok();
    each!(db, pool => db.outbox().check(pool).await).expect("nothing is missing");
    let other = ["migrate", "--table", "other"];
    outbox(&db, &other).await.ok();
    assert_eq!(db.scalar("SELECT count(*) FROM other").await, 0);
    db.remove().await;
}

async fn the_sql_is_printed(db: Db) {
    let db = db.empty().await;
    let all = outbox(&db, &["migrate", "--print"]).await;
    db.execute(all.ok()).await;
    each!(db, pool => db.outbox().check(pool).await).expect("nothing is missing");
    let later = outbox(&db, &["migrate", "--print", "--from", "1"]).await;
    assert!(all.ok().ends_with(later.ok()), "{}", later.shown());
    assert!(later.ok().starts_with("-- Version 2 "), "{}", later.shown());
    let none = outbox(&db, &["migrate", "--print", "--from", "2"]).await;
    assert!(
        none.fails(3).contains("no version after 2"),
        "{}",
        none.shown()
    );
    db.remove().await;
}

async fn statistics_are_shown(db: Db) {
    assert_shown("stats_empty", outbox(&db, &["stats"]).await.shown());
    waiting(&db, "orders.placed", &db.ago(secs(7_230))).await;
    waiting(&db, "orders.placed", &db.ahead(secs(7_200))).await;
    settled(&db, "dead", "orders.placed", "o-1", "no").await;
    settled(&db, "delivered", "mails.due", "m-1", "no").await;
    outbox(
        &db,
        &["pause", "orders.placed", "--reason", "a bad release"],
    )
    .await
    .ok();
    db.execute(&format!(
        "UPDATE outbox_paused SET paused_at = {}; \
         INSERT INTO outbox_relays (id, routes, started_at, seen_at) VALUES ({}, '[[\"mails.due\", 1]]', {}, {})",
        db.ago(secs(3_630)),
        db.uuid(uuid::Uuid::now_v7()),
        db.ago(secs(86_430)),
        db.ahead(secs(600))
    ))
    .await;
    assert_shown("stats", outbox(&db, &["stats"]).await.shown());
}

/// Plain SQL can write what no publisher would.
async fn nothing_in_the_table_steers_the_terminal(db: Db) {
    let evil = "a\u{1b}[31m; b\u{9b}2J\u{7f}";
    // Where topics are ASCII, only that part of it.
    let topic = db.pick(evil, "a\u{1b}[31m; 2J\u{7f}", evil);
    settled(&db, "dead", topic, evil, evil).await;
    let id = db.rows("1 = 1").await[0].id.to_string();
    db.execute("UPDATE outbox SET payload = '{\n  \"name\": \"\u{9b}2J\u{202e}\"\n}'")
        .await;
    for args in [
        &["stats"][..],
        &["stats", "--json"],
        &["dead", "list"],
        &["dead", "list", "--json"],
        &["dead", "reasons"],
        &["dead", "reasons", "--json"],
        &["dead", "redrive", "--all", "--dry-run"],
        &["dead", "show", &id, "--payload"],
        &["dead", "show", &id, "--payload", "--json"],
    ] {
        let ran = outbox(&db, args).await;
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!ran.ok().contains(steers), "{:?}", ran.out);
        if args.contains(&"--json") {
            let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
            let text = json.to_string();
            assert!(text.contains("2J\u{7f}"), "nothing is lost: {text:?}");
        }
        if let Some((_, payload)) = ran.out.split_once("\npayload\n") {
            let payload: serde_json::Value = serde_json::from_str(payload).expect("JSON");
            assert_eq!(payload["name"], "\u{9b}2J\u{202e}");
        }
    }
}

async fn statistics_are_printed_as_json(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab).spawn();
    waiting(&db, "lab.task", &db.ahead(secs(7_200))).await;
    waiting(&db, "nobodys", &db.ago(secs(5))).await;
    let json = || async {
        let stats = outbox(&db, &["stats", "--json", "--exact"]).await;
        serde_json::from_str::<serde_json::Value>(stats.ok()).expect("JSON")
    };
    let json = eventually(LONG, json, |json| json["relays"] != serde_json::json!([])).await;
    assert_eq!(json["routes"][0]["topic"], "lab.task");
    assert_eq!(json["routes"][0]["scheduled"], 1);
    assert_eq!(json["routes"][0]["unrouted"], false);
    assert_eq!(json["routes"][1]["due"], 1);
    assert_eq!(json["routes"][1]["unrouted"], true);
    assert!(
        json["routes"][1]["oldest_due_seconds"].as_f64() >= Some(5.0),
        "{json}"
    );
    assert_eq!(json["relays"][0]["routes"][0]["topic"], "lab.task");
    assert_eq!(json["counted_up_to"], serde_json::Value::Null);
    relay.shutdown().await.expect("stops");
}

async fn statistics_are_shown_again_and_again(db: Db) {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    let args = ["stats", "--json", "--watch", "1"];
    let mut child = crate::command(&db, &args).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for n in 0..2 {
        let line = outbox_tests::wait::within(LONG, lines.next_line()).await;
        let line = line.expect("readable").expect("one more");
        let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(json["routes"].as_array().map(Vec::len), Some(n));
        db.publish(&Task::named("meanwhile")).await;
    }
    // Whoever reads along has read enough: that is no error.
    drop(lines);
    let output = outbox_tests::wait::within(LONG, child.wait_with_output()).await;
    let output = output.expect("it ends");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

async fn a_message_is_cancelled(db: Db) {
    let id = waiting(&db, "lab.task", &db.ahead(secs(60)))
        .await
        .to_string();
    assert_eq!(
        outbox(&db, &["cancel", &id]).await.ok(),
        "the message is cancelled\n"
    );
    let again = outbox(&db, &["cancel", &id]).await;
    assert_shown("cancel_gone", again.shown());
    for (state, why) in [
        ("processing", "too late"),
        ("delivered", "delivered"),
        ("dead", "discard"),
    ] {
        let id = settled(&db, state, "lab.task", "k", "no").await.to_string();
        let ran = outbox(&db, &["cancel", &id]).await;
        assert!(ran.fails(3).contains(why), "{}", ran.shown());
    }
    db.execute(
        "UPDATE outbox SET dedup_key = 'inv-1', state = 'pending' WHERE state = 'delivered'",
    )
    .await;
    let keyed = ["cancel", "--topic", "lab.task", "--dedup-key", "inv-1"];
    outbox(&db, &keyed).await.ok();
    outbox(&db, &keyed).await.fails(3);
    assert_eq!(db.count("1 = 1").await, 2);
}

async fn a_message_is_rescheduled(db: Db) {
    let id = waiting(&db, "lab.task", &db.ahead(secs(60))).await;
    let text = id.to_string();
    let later = ["reschedule", &text, "--in", "2h"];
    assert_eq!(
        outbox(&db, &later).await.ok(),
        "the message is rescheduled\n"
    );
    let due = db.as_millis("available_at");
    let now = db.as_millis(db.now());
    let away = db
        .scalar(&format!("SELECT {due} - {now} FROM outbox"))
        .await;
    assert!((7_000_000..7_300_000).contains(&away), "{away} ms");
    outbox(&db, &["reschedule", &text, "--now"]).await.ok();
    let away = db
        .scalar(&format!("SELECT {due} - {now} FROM outbox"))
        .await;
    assert!(away <= 0, "{away} ms");
    let ran = outbox(&db, &["reschedule", &text]).await;
    assert_eq!(ran.code, 2, "{}", ran.shown());
    let dead = settled(&db, "dead", "lab.task", "k", "no")
        .await
        .to_string();
    let ran = outbox(&db, &["reschedule", &dead, "--now"]).await;
    assert!(ran.fails(3).contains("redrive"), "{}", ran.shown());
}

async fn what_is_old_is_purged(db: Db) {
    for n in 0..3 {
        settled(&db, "delivered", "orders.placed", &format!("o-{n}"), "no").await;
        settled(&db, "dead", "mails.due", &format!("m-{n}"), "no").await;
    }
    let dry = ["purge", "--delivered", "2h", "--dead", "2h", "--dry-run"];
    assert_eq!(outbox(&db, &dry).await.ok(), "6 messages would be purged\n");
    let unasked = outbox(&db, &["purge", "--delivered", "2h"]).await;
    assert_shown("purge_unasked", unasked.shown());
    let young = ["purge", "--delivered", "3h", "--yes"];
    outbox(&db, &young).await.fails(3);
    let other = [
        "purge",
        "--delivered",
        "2h",
        "--topic",
        "mails.due",
        "--yes",
    ];
    outbox(&db, &other).await.fails(3);
    let one = ["purge", "--delivered", "2h", "--limit", "1", "--yes"];
    assert_eq!(outbox(&db, &one).await.ok(), "1 message purged\n");
    let rest = ["purge", "--delivered", "2h", "--yes"];
    assert_eq!(outbox(&db, &rest).await.ok(), "2 messages purged\n");
    assert_eq!(db.count("state = 'dead'").await, 3, "nobody said so");
    let discard = ["dead", "discard", "--all", "--reason", "no", "--yes"];
    outbox(&db, &discard).await.ok();
    outbox(&db, &["purge", "--discarded", "1h", "-y"])
        .await
        .fails(3);
    let ran = outbox(&db, &["purge", "--discarded", "0s", "-y"]).await;
    assert_eq!(ran.ok(), "3 messages purged\n");
    // The notes are those of all topics.
    let notes = ["purge", "--discarded", "1s", "--topic", "mails.due", "-y"];
    let ran = outbox(&db, &notes).await;
    assert!(ran.fails(2).contains("--topic"), "{}", ran.shown());
}
