//! The test kit: what a user's own tests deliver and move.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use outbox::{
    Counts, Enlist as _, HandlerError,
    testing::{Kit, Outcome, published_to},
};
use outbox_tests::{
    Call, Db, Lab, each,
    lab::{ALL, ERRANDS, Line, Order, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};
use uuid::Uuid;

use crate::{
    support::{insert, insert_lapsed, row},
    testing_published::{committed, errand, seen},
};

on_every_database! {
    all: [
        another_outbox_has_a_kit_of_its_own,
        one_message_is_delivered_out_of_turn,
        each_delivery_says_what_became_of_it,
        a_lapsed_message_is_taken_over,
        a_kit_refuses_what_its_relay_does_not_serve,
        a_delay_passes_with_the_clock,
        a_message_dies_as_the_clock_moves,
        all_times_move_together,
        a_lost_lease_delivers_again,
        a_message_is_delivered_twice,
        a_running_handler_hears_that_its_lease_is_lost,
    ],
    servers: [a_locked_message_is_left_alone]
}

/// A router's kit whose relay tries three times, a minute apart.
macro_rules! kit {
    ($db:expr, $router:expr, $lab:expr) => {
        Kit::new(relay!($db, $router, $lab; backoff(secs(60), secs(60)), jitter(0.0), max_attempts(3)))
    };
}

async fn one(kit: &Kit<Lab>, id: Uuid) -> Outcome {
    within(LONG, kit.deliver_one(id)).await.expect("delivers")
}

async fn drain(kit: &Kit<Lab>) -> Counts {
    within(LONG, kit.drain()).await.expect("drains")
}

async fn advance(kit: &Kit<Lab>, by: Duration) {
    kit.advance(by).await.expect("the clock moves");
}

async fn another_outbox_has_a_kit_of_its_own(db: Db) {
    let outbox = db
        .outbox_builder()
        .table("letters")
        .build()
        .expect("an outbox");
    each!(db, pool => outbox.migrate(pool).await).expect("migrates");
    let order = Order {
        lines: vec![Line {
            article: "bread".to_owned(),
            quantity: 2,
        }],
    };
    let delayed = order.publication().delay(secs(60));
    let id = db.publish_to(&outbox, &delayed).await.id;
    let mut tx = db.begin().await;
    let in_this = published_to::<Order>(&outbox, &mut tx.enlist().expect("is open"))
        .await
        .expect("reads");
    assert_eq!(in_this, [order]);
    assert!(
        seen::<Order>(&db, &mut tx).await.is_empty(),
        "not in the other one"
    );
    tx.rollback().await;

    let lab = Lab::content();
    let kit = Kit::new(relay!(db, ALL, lab; outbox(&outbox)));
    assert!(matches!(one(&kit, id).await, Outcome::NotDue { .. }));
    advance(&kit, secs(60)).await;
    assert_eq!(one(&kit, id).await, Outcome::Delivered);
    assert_eq!(lab.starts(id), 1);
}

async fn one_message_is_delivered_out_of_turn(db: Db) {
    let ids = db.publish_all(&Task::numbered(3)).await;
    let bread = db.publish(&errand("bread")).await.id;
    let lab = Lab::content();
    let kit = kit!(db, ALL, lab);
    assert_eq!(one(&kit, ids[2]).await, Outcome::Delivered);
    let calls = lab.calls();
    assert_eq!(calls.len(), 1, "no other: {calls:?}");
    assert_eq!(
        (calls[0].delivery.id(), calls[0].delivery.attempt()),
        (ids[2], 1)
    );
    assert_eq!(
        db.count("state = 'pending' AND attempts = 0").await,
        3,
        "the others wait"
    );
    assert_eq!(one(&kit, bread).await, Outcome::Delivered);
    assert_eq!(drain(&kit).await.delivered, 2);
}

async fn each_delivery_says_what_became_of_it(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        match call.name.as_str() {
            "failing" => Err(HandlerError::retry("the bank is closed")),
            "refused" => Err(HandlerError::cancel("no such account")),
            _ => Ok(()),
        }
    });
    let kit = kit!(db, TASKS, lab);
    assert_eq!(one(&kit, Uuid::now_v7()).await, Outcome::Gone);

    let delivered = db.publish(&Task::named("fine")).await.id;
    assert_eq!(one(&kit, delivered).await, Outcome::Delivered);
    assert_eq!(one(&kit, delivered).await, Outcome::Gone);
    let kept = insert(&db, "kept", &[("state", "'delivered'")]).await;
    assert_eq!(one(&kit, kept).await, Outcome::Gone);

    let failing = db.publish(&Task::named("failing")).await.id;
    let Outcome::Failed { error, due_in } = one(&kit, failing).await else {
        panic!("its handler fails")
    };
    assert_eq!(error, "the bank is closed");
    assert!((secs(50)..=secs(60)).contains(&due_in), "{due_in:?}");
    let Outcome::NotDue { due_in } = one(&kit, failing).await else {
        panic!("it is in backoff")
    };
    assert!((secs(30)..=secs(60)).contains(&due_in), "{due_in:?}");

    let refused = db.publish(&Task::named("refused")).await.id;
    let dead = Outcome::Dead {
        reason: "no such account".to_owned(),
    };
    for _ in 0..2 {
        assert_eq!(one(&kit, refused).await, dead);
    }
    let unfit = insert(&db, "", &[]).await;
    let Outcome::Dead { reason } = one(&kit, unfit).await else {
        panic!("its name is empty")
    };
    assert!(reason.contains("`name`"), "{reason}");
    assert_eq!(
        [failing, refused, unfit].map(|id| lab.starts(id)),
        [1, 1, 0]
    );
}

async fn a_lapsed_message_is_taken_over(db: Db) {
    let lab = Lab::content();
    let kit = kit!(db, TASKS, lab);
    let suspect = insert_lapsed(&db, "suspect").await;
    assert_eq!(one(&kit, suspect).await, Outcome::Delivered);
    assert_eq!(lab.calls()[0].delivery.attempt(), 3);

    let lease = db.ahead(secs(60));
    let columns = [
        ("state", "'processing'"),
        ("attempts", "3"),
        ("unsettled", "3"),
        ("leased_until", &*lease),
    ];
    let leased = insert(&db, "leased", &columns).await;
    let Outcome::NotDue { due_in } = one(&kit, leased).await else {
        panic!("somebody has a lease on it")
    };
    assert!((secs(30)..=secs(60)).contains(&due_in), "{due_in:?}");
    advance(&kit, secs(60)).await;
    let Outcome::Dead { reason } = one(&kit, leased).await else {
        panic!("it has had its run alone")
    };
    assert!(reason.starts_with("gave up after 3 attempts"), "{reason}");
    assert_eq!(lab.starts(leased), 0);
}

async fn a_kit_refuses_what_its_relay_does_not_serve(db: Db) {
    let id = db.publish(&Task::named("foreign")).await.id;
    let future = insert(&db, "future", &[("version", "2")]).await;
    for (kit, id) in [
        (kit!(db, ERRANDS, Lab::content()), id),
        (kit!(db, TASKS, Lab::content()), future),
    ] {
        let error = kit.deliver_one(id).await.expect_err("no handler takes it");
        assert!(error.is_config(), "{error}");
        assert!(error.to_string().contains("`lab.task`"), "{error}");
        assert_eq!(row(&db, id).await.attempts, 0);
    }
}

async fn a_locked_message_is_left_alone(db: Db) {
    let lab = Lab::content();
    let kit = kit!(db, TASKS, lab);
    let ids = [
        db.publish(&Task::named("locked")).await.id,
        insert_lapsed(&db, "lapsed").await,
    ];
    let mut blocker = db.begin().await;
    blocker.execute("SELECT 1 FROM outbox FOR UPDATE").await;
    for id in ids {
        assert_eq!(
            one(&kit, id).await,
            Outcome::NotDue {
                due_in: Duration::ZERO
            }
        );
    }
    blocker.rollback().await;
    for id in ids {
        assert_eq!(one(&kit, id).await, Outcome::Delivered);
    }
}

async fn a_delay_passes_with_the_clock(db: Db) {
    let task = Task::named("later");
    let id = db.publish(&task.publication().delay(secs(3_600))).await.id;
    let lab = Lab::content();
    let kit = kit!(db, TASKS, lab);
    assert_eq!(drain(&kit).await.claimed, 0);
    advance(&kit, secs(3_000)).await;
    assert_eq!(drain(&kit).await.claimed, 0, "ten minutes are left");
    let Outcome::NotDue { due_in } = one(&kit, id).await else {
        panic!("ten minutes are left")
    };
    assert!((secs(570)..=secs(600)).contains(&due_in), "{due_in:?}");
    assert_eq!(committed::<Task>(&db).await[0].delay, secs(3_600));
    advance(&kit, secs(600)).await;
    assert_eq!(drain(&kit).await.delivered, 1);
    assert_eq!(lab.starts(id), 1);
}

async fn a_message_dies_as_the_clock_moves(db: Db) {
    let lab = Lab::new(|_| async { Err(HandlerError::retry("the bank is closed")) });
    let kit = kit!(db, TASKS, lab);
    let id = db.publish(&Task::named("hopeless")).await.id;
    for attempt in 1..=2 {
        let counts = drain(&kit).await;
        assert_eq!((counts.retried, counts.dead), (1, 0), "attempt {attempt}");
        assert_eq!(drain(&kit).await.claimed, 0, "it is in backoff");
        advance(&kit, secs(60)).await;
    }
    assert_eq!(
        one(&kit, id).await,
        Outcome::Dead {
            reason: "the bank is closed".to_owned()
        }
    );
    let attempts = lab.calls().into_iter().map(|call| call.delivery.attempt());
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 2, 3]);

    let letters = each!(db, pool => db.outbox().dead_letters(pool).list().await).expect("lists");
    let at = letters[0].errors.iter().map(|failure| failure.at);
    let at: Vec<_> = at.collect();
    for pair in at.windows(2) {
        let apart = pair[1]
            .duration_since(pair[0])
            .expect("one after the other");
        assert!((secs(60)..secs(90)).contains(&apart), "{apart:?}");
    }
}

async fn all_times_move_together(db: Db) {
    let now = db.now();
    let failure =
        r#"'[{"attempt":1,"at":1700000000000,"text":"first"},{"at":7,"text":"early"},{"else":1}]'"#;
    let columns = [
        ("state", "'dead'"),
        ("leased_until", now),
        ("settled_at", now),
        ("errors", failure),
    ];
    let full = insert(&db, "full", &columns).await;
    let empty = insert(&db, "empty", &[]).await;
    let id = db.uuid(Uuid::now_v7());
    db.execute(&format!(
        "INSERT INTO outbox_relays (id, routes, started_at, seen_at) VALUES ({id}, '[]', {now}, {now}); \
         INSERT INTO outbox_paused (topic, paused_at) VALUES ('lab.errand', {now}); \
         INSERT INTO outbox_duties (name, holder, held_until) VALUES ('purge', {id}, {now}); \
         INSERT INTO outbox_discarded (id, topic, version, attempts, redrives, errors, reason, \
             created_at, died_at, discarded_at) \
         VALUES ({id}, 'lab.task', 1, 1, 0, {failure}, 'no use', {now}, {now}, {now})"
    ))
    .await;
    let controls = async || {
        let mut times = Vec::new();
        for (table, columns) in [
            ("relays", &["started_at", "seen_at"][..]),
            ("paused", &["paused_at"]),
            ("duties", &["held_until"]),
            ("discarded", &["created_at", "died_at", "discarded_at"]),
        ] {
            for column in columns {
                let sql = format!("SELECT {} FROM outbox_{table}", db.as_millis(column));
                times.push((format!("{table}.{column}"), db.scalar(&sql).await));
            }
        }
        times
    };
    let before = [row(&db, full).await, row(&db, empty).await];
    let controls_before = controls().await;

    // The default tables are those of every outbox of this database.
    let kit = kit!(db, TASKS, Lab::content());
    advance(&kit, secs(3_600)).await;

    let moved = |time: i64| time - 3_600_000;
    for before in before {
        let after = row(&db, before.id).await;
        assert_eq!(after.available_at, moved(before.available_at));
        assert_eq!(after.created_at, moved(before.created_at));
        assert_eq!(after.leased_until, before.leased_until.map(moved));
        assert_eq!(after.settled_at, before.settled_at.map(moved));
        assert_eq!(
            (after.state, after.attempts, after.payload),
            (before.state, before.attempts, before.payload),
            "nothing else moves"
        );
    }
    let errors = serde_json::json!([
        {"attempt": 1, "at": 1_699_996_400_000_i64, "text": "first"},
        {"at": 0, "text": "early"},
        {"else": 1},
    ]);
    assert_eq!(serde_json::Value::from(row(&db, full).await.errors), errors);
    let expected = controls_before.into_iter();
    let expected: Vec<_> = expected.map(|(name, time)| (name, moved(time))).collect();
    assert_eq!(controls().await, expected);

    // Nothing is older than the tables allow, and nothing is moved beyond reason.
    let century = secs(100 * 365 * 24 * 60 * 60);
    let error = kit
        .advance(century + secs(1))
        .await
        .expect_err("a mistake in the unit");
    assert!(error.is_config(), "{error}");
    advance(&kit, century).await;
    let full = row(&db, full).await;
    assert_eq!(
        (full.available_at, full.leased_until, full.settled_at),
        (0, Some(0), Some(0))
    );
    assert_eq!(
        drain(&kit).await.delivered,
        1,
        "what is left can be delivered"
    );
}

async fn a_lost_lease_delivers_again(db: Db) {
    let lab = Lab::content();
    let kit = kit!(db, TASKS, lab);
    let ids = db.publish_all(&Task::numbered(2)).await;
    kit.lose_next_lease(ids[0]);
    let counts = drain(&kit).await;
    assert_eq!(
        (counts.delivered, counts.lease_lost, counts.claimed),
        (1, 1, 2),
        "once each, in this drain: {counts:?}"
    );
    let left = row(&db, ids[0]).await;
    assert_eq!(
        (left.state.as_str(), left.attempts, left.errors.len()),
        ("processing", 1, 0),
        "nothing of its outcome is recorded"
    );
    assert_eq!(lab.starts(ids[0]), 1);

    let counts = drain(&kit).await;
    assert_eq!((counts.delivered, counts.lease_lost), (1, 0), "{counts:?}");
    let calls = lab.calls();
    let attempts = calls.iter().filter(|call| call.delivery.id() == ids[0]);
    let attempts: Vec<_> = attempts.map(|call| call.delivery.attempt()).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(lab.starts(ids[1]), 1, "the other one was not touched");
}

async fn a_message_is_delivered_twice(db: Db) {
    // The effect stands, whatever becomes of the lease.
    let effects = Arc::new(AtomicUsize::new(0));
    let lab = Lab::new({
        let effects = Arc::clone(&effects);
        move |_| {
            effects.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        }
    });
    let kit = kit!(db, TASKS, lab);
    let id = db.publish(&Task::named("twice")).await.id;
    let twice = async |id| within(LONG, kit.deliver_twice(id)).await.expect("delivers");
    assert_eq!(twice(id).await, Outcome::Delivered);
    assert_eq!(effects.load(Ordering::SeqCst), 2);
    let deliveries = lab.calls().into_iter();
    let deliveries = deliveries.map(|call| (call.delivery.id(), call.delivery.attempt()));
    assert_eq!(deliveries.collect::<Vec<_>>(), [(id, 1), (id, 2)]);

    // Where nothing was delivered there is nothing to lose, now or later.
    let task = Task::named("later");
    let id = db.publish(&task.publication().delay(secs(60))).await.id;
    assert!(matches!(twice(id).await, Outcome::NotDue { .. }));
    advance(&kit, secs(60)).await;
    assert_eq!(one(&kit, id).await, Outcome::Delivered);
}

async fn a_running_handler_hears_that_its_lease_is_lost(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.delivery.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    // A lease of 30 s: without help it would take 15 s until anybody looks at it.
    let kit = kit!(db, TASKS, lab);
    let id = db.publish(&Task::named("long")).await.id;
    kit.lose_next_lease(id);
    assert_eq!(
        within(secs(10), kit.deliver_one(id))
            .await
            .expect("delivers"),
        Outcome::LeaseLost
    );
    let calls = lab.calls();
    assert_eq!(calls.len(), 1);
    assert!(calls[0].delivery.cancellation().is_cancelled());
    assert_eq!(lab.ends(id), [outbox_tests::lab::End::Dropped]);

    assert_eq!(drain(&kit).await.delivered, 1);
    assert_eq!(lab.calls()[1].delivery.attempt(), 2);
    assert!(!lab.calls()[1].delivery.cancellation().is_cancelled());
}
