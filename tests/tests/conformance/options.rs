//! Options of publications, outboxes and handlers, each used once for real.

use std::{sync::Arc, time::Duration};

use outbox::{Delivery, Fate, FromDelivery, Relay, State};
use outbox_tests::{
    Db, Lab, each,
    lab::{ALL, Errand, TASKS, Task, run_task},
    on_every_database, relay,
    wait::{LONG, millis, within},
};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::support::{all_delivered, delivered, row};

on_every_database! {
    all: [
        a_publication_can_go_to_another_outbox,
        a_batch_mixes_types_and_options,
        a_handler_can_be_called_from_a_test,
        a_handler_takes_what_the_user_extracts,
        a_dropped_run_stops_the_relay,
        a_stop_without_grace_gives_back_what_has_not_started,
    ],
    servers: [a_strict_outbox_asks_the_server, no_error_quotes_the_payload],
    postgres: [a_schema_may_be_called_like_the_table],
    sqlite: [a_database_in_memory_is_refused]
}

async fn a_publication_can_go_to_another_outbox(db: Db) {
    let second = db
        .outbox_builder()
        .table("second")
        .build()
        .expect("a good name");
    each!(db, pool => second.migrate(pool).await).expect("migrates");
    let mut tx = db.begin().await;
    let there = Task::named("there")
        .publication()
        .to(&second)
        .publish(&mut tx)
        .await;
    tx.commit().await;
    assert_eq!(there.expect("publishes").fate, Fate::New);
    assert_eq!(db.count("1 = 1").await, 0, "not in the default one");
    assert_eq!(db.scalar("SELECT count(*) FROM second").await, 1);
}

async fn a_batch_mixes_types_and_options(db: Db) {
    let (task, errand) = (
        Task::named("a"),
        Errand {
            name: "b".to_owned(),
            number: 1,
        },
    );
    let id = Uuid::now_v7();
    let mut tx = db.begin().await;
    let published = db
        .outbox()
        .publish_all(
            [
                task.publication().delay(Duration::from_secs(600)),
                errand.publication().id(id).key("k").header("h", "v"),
                task.publication().dedup_key("once"),
                task.publication().dedup_key("once"),
            ],
            &mut tx,
        )
        .await
        .expect("publishes");
    tx.commit().await;
    assert_eq!(published[1].id, id);
    assert!(
        matches!(published[3].fate, Fate::Duplicate { id, .. } if id == published[2].id),
        "{published:?}"
    );
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, ALL, lab).drain())
        .await
        .expect("drains");
    assert_eq!(counts.delivered, 2, "the delayed one waits: {counts:?}");
    let calls = lab.calls();
    let errand = calls
        .iter()
        .find(|call| call.delivery.id() == id)
        .expect("was delivered");
    assert_eq!(
        (
            errand.delivery.key(),
            errand.delivery.header("h"),
            errand.delivery.topic()
        ),
        (Some("k"), Some("v"), "lab.errand")
    );
    assert_eq!(row(&db, published[0].id).await.attempts, 0);
}

async fn a_handler_can_be_called_from_a_test(_: Db) {
    let (lab, id, task) = (Lab::content(), Uuid::now_v7(), Task::named("direct"));
    let delivery = Delivery::test(&task)
        .id(id)
        .attempt(3)
        .header("tenant", "a")
        .build();
    run_task(task, State(lab.clone()), delivery)
        .await
        .expect("succeeds");
    let calls = lab.calls();
    let seen = &calls[0].delivery;
    assert_eq!(
        (seen.id(), seen.attempt(), seen.topic()),
        (id, 3, "lab.task")
    );
    assert_eq!(
        (seen.header("tenant"), seen.key()),
        (Some("a"), Some("direct"))
    );
    assert!(seen.lease_deadline() > std::time::Instant::now());
    assert!(!seen.cancellation().is_cancelled());
}

/// What a user may take from a delivery by an extractor of their own.
struct Attempt(u32);

impl<S> FromDelivery<S> for Attempt {
    fn from_delivery(delivery: &Delivery, _: &S) -> Self {
        Self(delivery.attempt())
    }
}

#[outbox::message(topic = "options.extracted")]
struct Extracted {
    n: u32,
}

type Seen = Arc<Mutex<Vec<(u32, u32)>>>;

#[outbox::handler]
async fn extract(message: Extracted, Attempt(attempt): Attempt, State(seen): State<Seen>) {
    seen.lock().await.push((message.n, attempt));
}

static EXTRACT: outbox::Router<Seen> = outbox::router![extract; requires Extracted];

async fn a_handler_takes_what_the_user_extracts(db: Db) {
    db.publish(&Extracted { n: 7 }).await;
    let seen = Seen::default();
    let relay = each!(db, pool => Relay::builder(pool, &EXTRACT).state(seen.clone()).outbox(&db.outbox()).build().await);
    within(LONG, relay.expect("builds").drain())
        .await
        .expect("drains");
    assert_eq!(*seen.lock().await, [(7, 1)]);
}

async fn a_dropped_run_stops_the_relay(db: Db) {
    let relay = relay!(db, TASKS, Lab::content());
    let running = tokio::spawn(async move { relay.run_until(std::future::pending()).await });
    let first = db.publish(&Task::named("before")).await.id;
    delivered(&db, first).await;
    running.abort();
    // A relay that polls every 50 ms leaves nothing lying for ten polls.
    let left_alone = || async {
        let id = db.publish(&Task::named("after")).await.id;
        tokio::time::sleep(millis(500)).await;
        db.row(id).await.is_some()
    };
    outbox_tests::eventually(LONG, left_alone, |left_alone| *left_alone).await;
}

async fn a_stop_without_grace_gives_back_what_has_not_started(db: Db) {
    let lab = Lab::new(|_| std::future::pending());
    db.publish_all(&Task::numbered(6)).await;
    let running = relay!(
        db, TASKS, lab;
        concurrency(2), window(6), grace(Duration::ZERO), lease(Duration::from_secs(600))
    )
    .spawn();
    lab.started(2).await;
    outbox_tests::eventually(LONG, || db.count("state = 'processing'"), |held| *held == 6).await;
    let counts = within(LONG, running.shutdown()).await.expect("stops");
    assert_eq!(
        (counts.claimed, counts.delivered, counts.given_back),
        (6, 0, 4),
        "{counts:?}"
    );
    assert_eq!(db.count("state = 'pending' AND attempts = 0").await, 4);
    assert_eq!(db.count("state = 'processing' AND attempts = 1").await, 2);
}

async fn a_strict_outbox_asks_the_server(db: Db) {
    let strict = db
        .outbox_builder()
        .strict(true)
        .build()
        .expect("a good setting");
    let task = Task::named("strict");
    let mut tx = db.begin().await;
    strict
        .publish(&task, &mut tx)
        .await
        .expect("a transaction is open");
    // Behind the driver's back: it still believes that the transaction is open.
    tx.execute("COMMIT").await;
    let error = strict
        .publish(&task, &mut tx)
        .await
        .expect_err("none is open");
    assert!(error.is_not_in_transaction(), "{error}");
    tx.execute("BEGIN").await;
    tx.rollback().await;
    assert_eq!(db.count("1 = 1").await, 1, "the first one only");
}

async fn a_schema_may_be_called_like_the_table(db: Db) {
    for name in [
        "outbox.messages",
        "outbox_prod.outbox",
        "msg.public",
        "outbox.outbox",
    ] {
        let outbox = db
            .outbox_builder()
            .table(name)
            .build()
            .expect("a good name");
        each!(db, pool => outbox.migrate(pool).await).expect("migrates");
        each!(db, pool => outbox.check(pool).await).expect("checks");
        let published = db.publish_to(&outbox, &Task::named("there")).await;
        let (schema, table) = name.split_once('.').expect("a qualified name");
        let there = format!(
            "SELECT count(*) FROM \"{schema}\".\"{table}\" WHERE id = '{}'",
            published.id
        );
        assert_eq!(db.scalar(&there).await, 1, "{name}");
        let lab = Lab::content();
        let counts = within(LONG, relay!(db, TASKS, lab; outbox(&outbox)).drain()).await;
        assert_eq!(counts.expect("drains").delivered, 1, "{name}");
    }
    all_delivered(&db).await;
}

async fn no_error_quotes_the_payload(db: Db) {
    // The server's detail of a failed check quotes the whole row.
    let check = db.as_text("payload");
    db.execute(&format!(
        "ALTER TABLE outbox ADD CHECK ({check} NOT LIKE '%4711%')"
    ))
    .await;
    let mut tx = db.begin().await;
    let error = db
        .outbox()
        .publish(&Task::named("4711"), &mut tx)
        .await
        .expect_err("the check fails");
    tx.rollback().await;
    assert!(
        !format!("{error} {error:?} {error:#?}").contains("4711"),
        "{error:?}"
    );
}

async fn a_database_in_memory_is_refused(_: Db) {
    let pool = sqlx::SqlitePool::connect("sqlite::memory:")
        .await
        .expect("opens");
    outbox::migrate(&pool)
        .await
        .expect("publishing to it would work");
    let error = Relay::builder(&pool, &TASKS)
        .state(Lab::content())
        .build()
        .await;
    let error = error.expect_err("its own connections could not see the messages");
    assert!(
        error.is_config() && error.to_string().contains("file"),
        "{error}"
    );
}
