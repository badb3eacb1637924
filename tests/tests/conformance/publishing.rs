//! What is written, what is refused, and what a handler gets to see of it.

use std::time::SystemTime;

use outbox::{Fate, MessageState};
use outbox_tests::{
    Db, Lab,
    lab::{ALL, Errand, TASK, TASKS, Task},
    on_every_database, relay, scaled,
    wait::{LONG, within},
};
use uuid::Uuid;

use crate::support::{all_delivered, delivered, row};

on_every_database! {
    all: [
    a_delivery_carries_what_was_published,
    a_row_of_plain_sql_is_delivered,
    nul_characters_are_refused_before_any_sql,
    keys_too_long_for_an_index_are_refused,
    the_size_of_a_payload_is_limited,
    a_payload_of_ten_megabytes_arrives,
    many_messages_keep_their_order,
    a_repeated_id_is_a_duplicate,
    a_dedup_key_is_unique_while_its_row_exists,
    the_fate_of_a_duplicate_names_its_state,
    duplicates_within_one_batch_are_told_apart,
    a_repeated_id_whose_first_use_was_a_duplicate_is_written,
    ],
    // On MySQL and MariaDB a trigger can refuse a row, and can't skip it.
    postgres: [a_row_that_a_trigger_skips_is_an_error],
    sqlite: [a_row_that_a_trigger_skips_is_an_error],
}

async fn a_delivery_carries_what_was_published(db: Db) {
    let id = Uuid::now_v7();
    let task = Task {
        name: "naïve 🦀 \"quoted\" \\u0041".to_owned(),
        number: i64::MAX,
    };
    let mut tx = db.begin().await;
    let published = task
        .publication()
        .id(id)
        .header("tenant", "ü")
        .header("b", "2")
        .to(&db.outbox())
        .publish(&mut tx)
        .await;
    tx.commit().await;
    assert_eq!(
        published.expect("publishes"),
        outbox::Published {
            id,
            fate: Fate::New
        }
    );
    let written = row(&db, id).await;
    assert_eq!(
        (
            written.topic.as_str(),
            written.version,
            written.state.as_str()
        ),
        (TASK, 1, "pending")
    );

    let lab = Lab::content();
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    let call = lab.calls().pop().expect("one call");
    assert_eq!((call.name, call.number), (task.name.clone(), task.number));
    let delivery = call.delivery;
    assert_eq!(
        (delivery.id(), delivery.topic(), delivery.attempt()),
        (id, TASK, 1)
    );
    assert_eq!(
        delivery.key(),
        Some(task.name.as_str()),
        "the type's own key"
    );
    assert_eq!(
        (
            delivery.header("tenant"),
            delivery.header("b"),
            delivery.headers().len()
        ),
        (Some("ü"), Some("2"), 2)
    );
    let age = SystemTime::now()
        .duration_since(delivery.created_at())
        .unwrap_or_default();
    assert!(age < LONG, "created {age:?} ago");
}

async fn a_row_of_plain_sql_is_delivered(db: Db) {
    db.execute("INSERT INTO outbox (topic, payload) VALUES ('lab.task', '{\"name\": \"plain\", \"number\": 7}')").await;
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab).spawn();
    all_delivered(&db).await;
    let counts = running.shutdown().await.expect("stops");
    let call = lab.calls().pop().expect("one call");
    assert_eq!(
        (call.name.as_str(), call.number, counts.delivered),
        ("plain", 7, 1)
    );
    assert!(call.delivery.headers().is_empty() && call.delivery.key().is_none());
}

async fn nul_characters_are_refused_before_any_sql(db: Db) {
    let good = Task::named("good");
    let mut tx = db.begin().await;
    let attempts = [
        Task {
            name: "a\0b".to_owned(),
            number: 0,
        }
        .publish(&mut tx)
        .await,
        // Not in its key, but in its payload alone.
        Errand {
            name: "a\0b".to_owned(),
            number: 0,
        }
        .publish(&mut tx)
        .await,
        good.publication()
            .key("k\0")
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
        good.publication()
            .dedup_key("\0")
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
        good.publication()
            .header("h\0", "v")
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
        good.publication()
            .header("h", "v\0")
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
    ];
    for attempt in attempts {
        let error = attempt.expect_err("U+0000 can't be stored everywhere");
        assert!(
            error.is_invalid() && error.to_string().contains("U+0000"),
            "{error}"
        );
    }
    // An escaped backslash before `u0000` is no U+0000.
    let harmless = Task {
        name: "a\\u0000b".to_owned(),
        number: 0,
    };
    let kept = db
        .outbox()
        .publish(&harmless, &mut tx)
        .await
        .expect("the transaction is still usable");
    tx.commit().await;

    assert_eq!(db.count("1 = 1").await, 1);
    let lab = Lab::content();
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    delivered(&db, kept.id).await;
    assert_eq!(lab.calls()[0].name, harmless.name);
}

async fn keys_too_long_for_an_index_are_refused(db: Db) {
    let task = Task::named("keyed");
    let mut tx = db.begin().await;
    for attempt in [
        task.publication()
            .key("k".repeat(1025))
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
        task.publication()
            .dedup_key("k".repeat(1025))
            .to(&db.outbox())
            .publish(&mut tx)
            .await,
    ] {
        let error = attempt.expect_err("1,024 bytes are the limit");
        assert!(error.is_invalid(), "{error}");
    }
    // Text that does not compress, so that an index really has to hold all of it.
    let longest: String = (0..32)
        .map(|_| Uuid::new_v4().simple().to_string())
        .collect();
    let longest = &longest[..1024];
    task.publication()
        .key(longest)
        .dedup_key(longest)
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("the limit itself is fine");
    tx.commit().await;
    assert_eq!(
        db.count("length(\"key\") = 1024 AND length(dedup_key) = 1024")
            .await,
        1
    );
}

async fn the_size_of_a_payload_is_limited(db: Db) {
    let big = Errand {
        name: "x".repeat(1024 * 1024),
        number: 0,
    };
    let mut tx = db.begin().await;
    let error = db
        .outbox()
        .publish(&big, &mut tx)
        .await
        .expect_err("more than the default of 1 MiB");
    assert!(error.is_too_large(), "{error}");
    assert!(
        error.to_string().contains("1048576"),
        "the limit is named: {error}"
    );

    let small = db
        .outbox_builder()
        .max_payload(40)
        .build()
        .expect("a limit");
    let error = small
        .publish(
            &Task {
                name: "y".repeat(40),
                number: 0,
            },
            &mut tx,
        )
        .await
        .expect_err("more than 40");
    assert!(
        error.is_too_large() && !error.to_string().contains("yyyy"),
        "the payload is not quoted: {error}"
    );
    small
        .publish(&Task::named("fits"), &mut tx)
        .await
        .expect("the transaction is still usable");
    tx.commit().await;
    assert_eq!(db.count("1 = 1").await, 1);
}

async fn a_payload_of_ten_megabytes_arrives(db: Db) {
    let roomy = db
        .outbox_builder()
        .max_payload(16 << 20)
        .build()
        .expect("a limit");
    let errand = Errand {
        name: "z".repeat(10 << 20),
        number: 1,
    };
    db.publish_to(&roomy, &errand).await;
    let lab = Lab::content();
    within(LONG, relay!(db, ALL, lab; outbox(&roomy)).drain())
        .await
        .expect("drains");
    assert!(lab.calls()[0].name == errand.name, "it arrives whole");
}

async fn many_messages_keep_their_order(db: Db) {
    // Above every limit of bind parameters, whatever the number of columns.
    let n = scaled(35_000, 100_000);
    let ids = db.publish_all(&Task::numbered(n)).await;
    assert_eq!(ids.len(), n);
    let rows = db.rows("1 = 1").await;
    assert_eq!(rows.len(), n, "one row per message");
    let stored: std::collections::HashMap<_, _> =
        rows.into_iter().map(|row| (row.id, row.payload)).collect();
    for (number, id) in (1..).zip(&ids) {
        let payload = &stored[id];
        assert!(
            payload.contains(&format!(":{number}}}")),
            "message {number} has the id of {payload}"
        );
    }
}

async fn a_repeated_id_is_a_duplicate(db: Db) {
    let id = Uuid::now_v7();
    let (first, second) = (Task::named("first"), Task::named("second"));
    let mut tx = db.begin().await;
    first
        .publication()
        .id(id)
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let again = second
        .publication()
        .id(id)
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("a duplicate is no error");
    assert_eq!(
        again.fate,
        Fate::Duplicate {
            id,
            state: MessageState::Pending
        }
    );
    let other = db
        .outbox()
        .publish(&second, &mut tx)
        .await
        .expect("the transaction is still usable");
    tx.commit().await;
    assert_eq!(other.fate, Fate::New);
    assert!(
        row(&db, id).await.payload.contains("first"),
        "the first one stays"
    );
    assert_eq!(db.count("1 = 1").await, 2);
}

async fn a_dedup_key_is_unique_while_its_row_exists(db: Db) {
    let (task, errand) = (
        Task::named("task"),
        Errand {
            name: "errand".to_owned(),
            number: 0,
        },
    );
    let mut tx = db.begin().await;
    let first = task
        .publication()
        .dedup_key("inv-42")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let again = task
        .publication()
        .dedup_key("inv-42")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let elsewhere = errand
        .publication()
        .dedup_key("inv-42")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    assert_eq!(
        again.fate,
        Fate::Duplicate {
            id: first.id,
            state: MessageState::Pending
        }
    );
    assert_eq!(
        elsewhere.fate,
        Fate::New,
        "a key is unique within its topic"
    );

    within(LONG, relay!(db, TASKS, Lab::content()).drain())
        .await
        .expect("drains");
    let mut tx = db.begin().await;
    let later = task
        .publication()
        .dedup_key("inv-42")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    assert_eq!(
        later.fate,
        Fate::New,
        "a delivered row is gone, and its key with it"
    );
}

async fn the_fate_of_a_duplicate_names_its_state(db: Db) {
    let task = Task::named("task");
    let mut tx = db.begin().await;
    let first = task
        .publication()
        .dedup_key("k")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    for state in [
        MessageState::Processing,
        MessageState::Delivered,
        MessageState::Dead,
    ] {
        db.execute(&format!("UPDATE outbox SET state = '{state}'"))
            .await;
        let mut tx = db.begin().await;
        let again = task
            .publication()
            .dedup_key("k")
            .to(&db.outbox())
            .publish(&mut tx)
            .await
            .expect("publishes");
        tx.commit().await;
        assert_eq!(
            again.fate,
            Fate::Duplicate {
                id: first.id,
                state
            }
        );
    }
}

async fn duplicates_within_one_batch_are_told_apart(db: Db) {
    let tasks = Task::numbered(4);
    let id = Uuid::now_v7();
    let batch = [
        tasks[0].publication().dedup_key("a"),
        tasks[1].publication().dedup_key("a"),
        tasks[2].publication().id(id),
        tasks[3].publication().id(id),
        tasks[0].publication(),
    ];
    let mut tx = db.begin().await;
    let published = db
        .outbox()
        .publish_all(batch, &mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    let state = MessageState::Pending;
    let fates: Vec<_> = published.iter().map(|one| one.fate.clone()).collect();
    let duplicate = |of: usize| Fate::Duplicate {
        id: published[of].id,
        state,
    };
    assert_eq!(
        fates,
        [Fate::New, duplicate(0), Fate::New, duplicate(2), Fate::New]
    );
    assert_eq!(db.count("1 = 1").await, 3);
}

async fn a_repeated_id_whose_first_use_was_a_duplicate_is_written(db: Db) {
    let (task, id) = (Task::named("twice"), Uuid::now_v7());
    let mut tx = db.begin().await;
    let taken = task
        .publication()
        .dedup_key("k")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    let both = [
        task.publication().id(id).dedup_key("k"),
        task.publication().id(id),
    ];
    let published = db
        .outbox()
        .publish_all(both, &mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    assert!(
        matches!(published[0].fate, Fate::Duplicate { id, .. } if id == taken.id),
        "{published:?}"
    );
    assert_eq!(
        (published[1].fate.clone(), db.count("1 = 1").await),
        (Fate::New, 2)
    );
}

async fn a_row_that_a_trigger_skips_is_an_error(db: Db) {
    db.execute(db.pick(
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER skip BEFORE INSERT ON outbox FOR EACH ROW \
            WHEN (NEW.payload::text LIKE '%unwanted%') EXECUTE FUNCTION skip()",
        "of no use here",
        "CREATE TRIGGER skip BEFORE INSERT ON outbox WHEN NEW.payload LIKE '%unwanted%' \
         BEGIN SELECT RAISE(IGNORE); END",
    ))
    .await;
    let (unwanted, wanted) = (Task::named("unwanted"), Task::named("wanted"));
    let outbox = db.outbox();
    let batches: [Vec<outbox::Publication<'_>>; 3] = [
        vec![unwanted.publication()],
        vec![wanted.publication(), unwanted.publication()],
        vec![unwanted.publication().id(Uuid::now_v7())],
    ];
    for batch in batches {
        let mut tx = db.begin().await;
        let error = outbox.publish_all(batch, &mut tx).await;
        let error = error.expect_err("one of them is not there").to_string();
        assert!(error.contains("a trigger"), "where to look: {error}");
        tx.rollback().await;
    }
}
