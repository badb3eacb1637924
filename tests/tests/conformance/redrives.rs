//! Dead letters by the thousand: chosen, redriven, corrected, discarded.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use outbox::DeadLetters;
use outbox_tests::{
    Db, Lab, each, eventually,
    lab::{Errand, TASK, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};
use uuid::Uuid;

use crate::support::{delivered, in_state, insert, row};

on_every_database! {
    all: [
        what_is_chosen_is_what_is_listed,
        pages_go_on_where_the_last_one_ended,
        a_redrive_takes_what_is_chosen_and_nothing_else,
        a_dry_run_changes_nothing,
        a_redrive_goes_at_its_pace,
        what_dies_again_is_not_redriven_twice,
        a_corrected_payload_is_validated_and_delivered,
        a_corrected_payload_is_for_its_own_topic,
        a_corrected_text_is_checked,
        what_is_discarded_is_noted,
        an_age_beyond_all_times_chooses_nothing,
        a_topic_that_none_can_have_is_none,
        only_dead_letters_are_discarded,
        a_dead_letter_can_be_inspected,
        a_lost_connection_leaves_nothing_half_done,
    ],
    servers: [a_redriven_row_survives_a_discard_that_waited],
}

/// Inserts a dead letter that died `secs_ago` with this error.
async fn dead(db: &Db, name: &str, error: &str, secs_ago: u64, columns: &[(&str, &str)]) -> Uuid {
    let errors = format!("'[{{\"attempt\":3,\"at\":1000,\"text\":\"{error}\"}}]'");
    let died = db.ago(secs(secs_ago));
    let mut all = vec![
        ("state", "'dead'"),
        ("attempts", "3"),
        ("errors", &*errors),
        ("settled_at", &*died),
    ];
    all.extend(columns);
    insert(db, name, &all).await
}

/// The dead letters of the database.
fn letters(db: &Db) -> DeadLetters {
    each!(db, pool => db.outbox().dead_letters(pool))
}

async fn listed(letters: DeadLetters) -> Vec<Uuid> {
    let letters = letters.list().await.expect("lists");
    letters.iter().map(|letter| letter.id).collect()
}

async fn what_is_chosen_is_what_is_listed(db: Db) {
    let old = dead(&db, "a", "connection refused", 3_000, &[("key", "'k1'")]).await;
    let new = dead(&db, "b", "connection reset", 10, &[("key", "'k2'")]).await;
    let other = dead(&db, "c", "100% wrong_", 500, &[("topic", "'lab.errand'")]).await;
    insert(&db, "pending", &[]).await;

    let all = listed(letters(&db)).await;
    assert_eq!(all, [new, other, old], "the latest first");
    let cases = [
        (letters(&db).topic(TASK), vec![new, old]),
        (letters(&db).topic("nobody's"), vec![]),
        (letters(&db).key("k1"), vec![old]),
        (letters(&db).error_contains("connection"), vec![new, old]),
        (letters(&db).error_contains("connection res"), vec![new]),
        // A text is a text, and no pattern.
        (letters(&db).error_contains("%"), vec![other]),
        (letters(&db).error_contains("_"), vec![other]),
        (letters(&db).error_contains("'; --"), vec![]),
        (letters(&db).older_than(secs(400)), vec![other, old]),
        (letters(&db).younger_than(secs(600)), vec![new, other]),
        (
            letters(&db).older_than(secs(400)).younger_than(secs(600)),
            vec![other],
        ),
        (
            letters(&db).topic(TASK).key("k2").older_than(secs(400)),
            vec![],
        ),
    ];
    for (n, (letters, expected)) in cases.into_iter().enumerate() {
        assert_eq!(listed(letters).await, expected, "case {n}");
    }
}

async fn pages_go_on_where_the_last_one_ended(db: Db) {
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(dead(&db, "task", "no", 100 - n, &[]).await);
    }
    // Three of them died at the same time, to the last digit.
    for id in &ids[2..5] {
        db.execute(&format!(
            "UPDATE outbox SET settled_at = {} WHERE id = {}",
            db.pick(
                "'2020-01-01 00:00:00.123456+00'",
                "'2020-01-01 00:00:00.123456'",
                "1577836800123"
            ),
            db.uuid(*id)
        ))
        .await;
    }
    // One that was made dead by hand, without the time.
    ids.push(insert(&db, "by hand", &[("state", "'dead'")]).await);
    let mut seen = Vec::new();
    let mut page = letters(&db).limit(2).list().await.expect("lists");
    while let Some(last) = page.last() {
        let next = letters(&db).limit(2).after(last);
        seen.extend(page.iter().map(|letter| letter.id));
        page = next.list().await.expect("lists");
    }
    assert_eq!(seen.len(), ids.len(), "each once");
    assert_eq!(
        listed(letters(&db)).await,
        seen,
        "in the order of the whole list"
    );
}

async fn a_redrive_takes_what_is_chosen_and_nothing_else(db: Db) {
    let mut chosen = Vec::new();
    for n in 0..1_200 {
        chosen.push(dead(&db, "task", "timeout", 10_000 - n, &[]).await);
    }
    let others = [
        dead(&db, "task", "refused", 20, &[]).await,
        dead(&db, "task", "timeout", 20, &[("topic", "'lab.errand'")]).await,
    ];
    let token = db.uuid(Uuid::new_v4());
    let lease = db.ahead(secs(3_600));
    let running = [
        ("state", "'processing'"),
        ("attempts", "1"),
        ("unsettled", "1"),
        ("token", &*token),
        ("leased_until", &*lease),
    ];
    let running = insert(&db, "runs", &running).await;
    let before = row(&db, running).await;

    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let choice = || letters(&db).topic(TASK).error_contains("timeout");
    let first = choice().limit(700).redrive_all().await.expect("redrives");
    assert_eq!(first, 700, "no more than the limit");
    assert_eq!(
        row(&db, chosen[0]).await.state,
        "pending",
        "the oldest first"
    );
    assert_eq!(row(&db, chosen[1_199]).await.state, "dead");
    let rest = choice()
        .redrive_all()
        .on_progress(move |changed| tell.lock().expect("nobody panicked").push(changed))
        .await
        .expect("redrives");
    assert_eq!(rest, 500, "and then the rest");
    assert_eq!(told.lock().expect("nobody panicked").last(), Some(&500));
    assert_eq!(choice().redrive_all().await.expect("redrives"), 0);

    assert_eq!(
        db.count("state = 'pending' AND redrives = 1 AND attempts = 0")
            .await,
        1_200
    );
    assert_eq!(
        row(&db, chosen[7]).await.texts(),
        ["timeout"],
        "history is kept"
    );
    for other in others {
        assert_eq!(row(&db, other).await.state, "dead");
    }
    assert_eq!(row(&db, running).await, before, "what runs is not touched");
}

async fn a_dry_run_changes_nothing(db: Db) {
    for n in 0..30 {
        dead(&db, "task", "no", 100 + n, &[]).await;
    }
    let before = db.rows("1 = 1").await;
    let counted = letters(&db).redrive_all().dry_run(true).await;
    assert_eq!(counted.expect("counts"), 30);
    let counted = letters(&db)
        .limit(7)
        .discard_all("no use")
        .dry_run(true)
        .await;
    assert_eq!(counted.expect("counts"), 7);
    let counted = letters(&db)
        .older_than(secs(110))
        .redrive_all()
        .dry_run(true);
    assert!((15..30).contains(&counted.await.expect("counts")));
    assert_eq!(db.rows("1 = 1").await, before);
}

async fn a_redrive_goes_at_its_pace(db: Db) {
    for n in 0..30 {
        dead(&db, "task", "no", 100 + n, &[]).await;
    }
    let began = std::time::Instant::now();
    let redriven = letters(&db).redrive_all().per_second(20).await;
    assert_eq!(redriven.expect("redrives"), 30);
    let took = began.elapsed();
    assert!(took >= secs(1), "30 at 20 a second took {took:?}");
}

async fn what_dies_again_is_not_redriven_twice(db: Db) {
    for n in 0..40 {
        dead(&db, "", "no", 100 + n, &[]).await;
    }
    // Each is dead again at once, while the redrive goes on.
    let relay = relay!(db, TASKS, Lab::content()).spawn();
    let redriven = within(LONG, async {
        letters(&db).redrive_all().per_second(40).await
    })
    .await;
    assert_eq!(redriven.expect("redrives"), 40);
    eventually(LONG, || db.count("state = 'dead'"), |dead| *dead == 40).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(db.count("redrives = 1").await, 40);
}

async fn a_corrected_payload_is_validated_and_delivered(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab).spawn();
    let id = Uuid::now_v7();
    db.execute(&format!(
        "INSERT INTO outbox (id, topic, payload) VALUES ({}, '{TASK}', '{{\"name\":7}}')",
        db.uuid(id)
    ))
    .await;
    let dead = in_state(&db, id, "dead").await;

    let error = letters(&db)
        .redrive_with(id, &Task::named(""))
        .await
        .expect_err("an empty name is against the rules");
    assert!(error.is_invalid(), "{error}");
    assert!(error.to_string().contains("name"), "{error}");
    assert_eq!(row(&db, id).await, dead, "nothing was written");

    // Before the relay is done with it, the history can be seen in the call's own view.
    let corrected = letters(&db)
        .redrive_with(id, &Task::named("corrected"))
        .await;
    assert!(corrected.expect("redrives"));
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    let calls = lab.calls();
    assert_eq!((calls.len(), calls[0].name.as_str()), (1, "corrected"));
    assert!(
        !letters(&db)
            .redrive_with(id, &Task::named("late"))
            .await
            .expect("asks"),
        "it is gone"
    );
}

async fn a_corrected_payload_is_for_its_own_topic(db: Db) {
    let id = dead(&db, "task", "no", 5, &[]).await;
    let before = row(&db, id).await;
    let errand = Errand {
        name: "not a task".to_owned(),
        number: 0,
    };
    let redriven = letters(&db).redrive_with(id, &errand).await;
    assert!(!redriven.expect("asks"), "it is of another topic");
    assert_eq!(row(&db, id).await, before);
}

async fn a_corrected_text_is_checked(db: Db) {
    let id = dead(&db, "task", "wrong", 5, &[]).await;
    let before = row(&db, id).await;
    let huge = format!("\"{}\"", "x".repeat(2 * 1024 * 1024));
    for (json, why) in [
        ("{\"name\":", "is not JSON"),
        ("", "is not JSON"),
        ("{\"name\":\"a\\u0000\"}", "U+0000"),
        (&huge, "the limit is 1048576"),
    ] {
        let error = letters(&db)
            .redrive_with_json(id, json)
            .await
            .expect_err("it can't be a payload");
        assert!(error.is_invalid(), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(row(&db, id).await, before, "nothing was written");

    let lab = Lab::content();
    let json = "{\"name\":\"corrected\",\"number\":4}";
    assert!(
        letters(&db)
            .redrive_with_json(id, json)
            .await
            .expect("redrives")
    );
    assert_eq!(row(&db, id).await.texts(), ["wrong"], "the old error stays");
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(lab.calls()[0].number, 4);
}

async fn an_age_beyond_all_times_chooses_nothing(db: Db) {
    dead(&db, "task", "no", 100, &[]).await;
    let always = Duration::MAX;
    for age in [always, Duration::from_secs(u64::from(u32::MAX) * 100)] {
        assert_eq!(
            letters(&db)
                .older_than(age)
                .list()
                .await
                .expect("lists")
                .len(),
            0
        );
        let discarded = letters(&db)
            .older_than(age)
            .discard_all("none is so old")
            .await;
        assert_eq!(discarded.expect("asks"), 0);
        let younger = letters(&db).younger_than(age).list().await.expect("lists");
        assert_eq!(younger.len(), 1, "all of them are younger");
        let purged = each!(db, pool => db.outbox().purge(pool).dead(age).run().await);
        assert_eq!(purged.expect("asks"), 0);
    }
    assert_eq!(db.count("state = 'dead'").await, 1);
}

async fn a_topic_that_none_can_have_is_none(db: Db) {
    dead(&db, "task", "no", 100, &[]).await;
    let topic = "täsk 🦀";
    assert_eq!(
        letters(&db).topic(topic).list().await.expect("lists").len(),
        0
    );
    let redriven = letters(&db).topic(topic).redrive_all().await;
    assert_eq!(redriven.expect("asks"), 0);
    let resumed = each!(db, pool => db.outbox().resume(pool, topic).await);
    assert!(resumed.expect_err("no topic").is_config());
    let mut tx = db.begin().await;
    let message = outbox::MessageRef::dedup_key_of(topic, "once");
    let cancelled = db.outbox().cancel(message, &mut tx).await.expect("asks");
    assert_eq!(cancelled, outbox::Cancellation::Gone);
    tx.rollback().await;
}

async fn what_is_discarded_is_noted(db: Db) {
    let one = dead(&db, "one", "no such account", 50, &[("key", "'k'")]).await;
    for n in 0..3 {
        dead(&db, "task", "no", 10 + n, &[]).await;
    }
    assert!(
        letters(&db)
            .discard(one, "paid by hand")
            .await
            .expect("discards")
    );
    assert!(db.row(one).await.is_none(), "its row is gone");
    assert!(!letters(&db).discard(one, "again").await.expect("asks"));

    let rest = letters(&db).discard_all("a test's leftovers").await;
    assert_eq!(rest.expect("discards"), 3);
    assert_eq!(db.count("1 = 1").await, 0);

    let notes = letters(&db).discarded().await.expect("lists");
    assert_eq!(notes.len(), 4);
    let note = notes.last().expect("the first one");
    assert_eq!(
        (note.letter.id, note.reason.as_str()),
        (one, "paid by hand")
    );
    assert_eq!(note.letter.errors[0].text, "no such account");
    assert_eq!(
        (
            note.letter.topic.as_str(),
            note.letter.key.as_deref(),
            note.letter.attempts
        ),
        (TASK, Some("k"), 3)
    );
    assert!(note.discarded_at >= note.letter.died_at);

    let page = letters(&db).limit(3).discarded().await.expect("lists");
    let last = page.last().expect("three");
    let next = letters(&db).after_discarded(last).discarded().await;
    let next = next.expect("lists");
    assert_eq!((next.len(), next[0].letter.id), (1, one));

    // The same id may come again, and be discarded again.
    insert(&db, "again", &[]).await;
    db.execute(&format!(
        "UPDATE outbox SET id = {}, state = 'dead'",
        db.uuid(one)
    ))
    .await;
    assert!(
        letters(&db)
            .discard(one, "once more")
            .await
            .expect("discards")
    );
    let notes = letters(&db).discarded().await.expect("lists");
    assert_eq!((notes.len(), notes[0].reason.as_str()), (4, "once more"));
}

async fn only_dead_letters_are_discarded(db: Db) {
    for state in ["pending", "processing", "delivered"] {
        let id = insert(&db, "task", &[("state", &format!("'{state}'"))]).await;
        let before = row(&db, id).await;
        assert!(
            !letters(&db).discard(id, "no").await.expect("asks"),
            "{state}"
        );
        assert_eq!(row(&db, id).await, before, "{state}");
    }
    assert_eq!(letters(&db).discard_all("no").await.expect("asks"), 0);
    assert_eq!(db.count("1 = 1").await, 3);
    assert_eq!(db.scalar("SELECT count(*) FROM outbox_discarded").await, 0);
}

async fn a_dead_letter_can_be_inspected(db: Db) {
    let headers = [("headers", "'{\"tenant\":\"acme\"}'")];
    let id = dead(&db, "secret", "no", 5, &headers).await;
    let inspected = letters(&db)
        .inspect(id)
        .await
        .expect("reads")
        .expect("it is there");
    assert_eq!(inspected.letter.id, id);
    assert!(inspected.payload.contains("secret"));
    assert_eq!(inspected.headers["tenant"], "acme");
    let debug = format!("{inspected:?}");
    assert!(
        !debug.contains("secret") && !debug.contains("acme"),
        "{debug}"
    );
    assert!(debug.contains("tenant"), "{debug}");
    let pending = insert(&db, "task", &[]).await;
    assert!(
        letters(&db)
            .inspect(pending)
            .await
            .expect("reads")
            .is_none()
    );
}

async fn a_lost_connection_leaves_nothing_half_done(db: Db) {
    for n in 0..600 {
        dead(&db, "task", "no", 1_000 + n, &[]).await;
    }
    // It is given up after its first chunk, as a program that dies gives it up.
    let told = Arc::new(Mutex::new(0));
    let tell = Arc::clone(&told);
    let (first, gone) = (outbox_tests::Gate::closed(), letters(&db));
    let opened = first.clone();
    let redrive = tokio::spawn(async move {
        gone.redrive_all()
            .per_second(200)
            .on_progress(move |changed| {
                *tell.lock().expect("nobody panicked") = changed;
                opened.open();
            })
            .await
    });
    within(LONG, first.pass()).await;
    redrive.abort();
    let _ = redrive.await;
    let done = db.count("state = 'pending'").await;
    let told = *told.lock().expect("nobody panicked");
    assert!(
        done.unsigned_abs() >= told && done < 600,
        "{done} of which {told} were told"
    );
    let rest = letters(&db).redrive_all().await.expect("redrives");
    assert_eq!(done.unsigned_abs() + rest, 600);
    assert_eq!(db.count("redrives = 1").await, 600);
}

async fn a_redriven_row_survives_a_discard_that_waited(db: Db) {
    let id = dead(&db, "task", "no", 5, &[]).await;
    let mut tx = db.begin().await;
    tx.execute(&format!(
        "UPDATE outbox SET state = 'pending', redrives = 1 WHERE id = {}",
        db.uuid(id)
    ))
    .await;
    let discard = tokio::spawn({
        let letters = letters(&db);
        async move { letters.discard(id, "too late").await }
    });
    let waits = db.lock_waits();
    eventually(LONG, || db.scalar(waits), |waiting| *waiting == 1).await;
    // A sweep does not wait for it.
    let swept = within(LONG, async { letters(&db).discard_all("no").await }).await;
    assert_eq!(swept.expect("asks"), 0);
    tx.commit().await;
    let discarded = within(LONG, discard).await.expect("no panic");
    assert!(!discarded.expect("asks"), "it is not dead any more");
    assert_eq!(row(&db, id).await.state, "pending");
    assert_eq!(db.scalar("SELECT count(*) FROM outbox_discarded").await, 0);
}
