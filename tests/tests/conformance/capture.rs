//! What a reader of the stream of changes sees: each message once, and nothing of what relays do.

use outbox::Outbox;
use outbox_tests::{
    Db, Lab, Server, each, eventually,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, within},
};
use serde_json::Value;
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

on_every_database! {
    all: [
        captured_messages_are_no_relays,
        captured_messages_are_purged,
        a_captured_message_can_not_be_delayed,
    ],
    direct: [
        pgoutput_has_each_message_once,
        wal2json_has_each_message_once,
    ]
}

fn captured(db: &Db) -> Outbox {
    let builder = db.outbox_builder().captured(true);
    builder.build().expect("an outbox")
}

async fn captured_messages_are_no_relays(db: Db) {
    let outbox = captured(&db);
    db.publish_to(&outbox, &Task::named("one")).await;
    let mut tx = db.begin().await;
    let many = outbox.publish_all(Task::numbered(3), &mut tx).await;
    assert_eq!(many.expect("publishes").len(), 3);
    let keyed = Task::named("keyed");
    for fresh in [true, false] {
        let publication = outbox::Publish::publication(&keyed)
            .dedup_key("once")
            .to(&outbox);
        let published = publication.publish(&mut tx).await.expect("publishes");
        assert_eq!(published.fate == outbox::Fate::New, fresh);
    }
    tx.commit().await;

    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab);
    within(LONG, relay.drain()).await.expect("drains");
    assert!(lab.calls().is_empty(), "no relay handles them");
    let rows = db.rows("state = 'delivered'").await;
    assert_eq!(rows.len(), 5);
    for row in rows {
        let settled = row.settled_at.expect("since they were written");
        assert_eq!((row.attempts, row.available_at <= settled), (0, true));
    }
    // By plain SQL as well.
    let told = each!(db, pool => outbox.plain_sql(pool)).expect("the statement");
    db.execute(&told).await;
    assert_eq!(
        db.count("state = 'delivered' AND settled_at IS NOT NULL")
            .await,
        6
    );
}

async fn captured_messages_are_purged(db: Db) {
    let outbox = captured(&db);
    let mut tx = db.begin().await;
    outbox
        .publish_all(Task::numbered(20), &mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    let purge = |age: std::time::Duration| each!(db, pool => outbox.purge(pool)).delivered(age);
    let kept = purge(LONG * 10).run().await.expect("purges");
    assert_eq!((kept, db.count("1 = 1").await), (0, 20), "too young");
    let purged = purge(std::time::Duration::ZERO)
        .run()
        .await
        .expect("purges");
    assert_eq!((purged, db.count("1 = 1").await), (20, 0));
}

async fn a_captured_message_can_not_be_delayed(db: Db) {
    let outbox = captured(&db);
    let task = Task::named("late");
    let mut tx = db.begin().await;
    let late = outbox::Publish::publication(&task).delay(LONG).to(&outbox);
    let refused = late.publish(&mut tx).await.expect_err("refused");
    assert!(refused.is_config(), "{refused}");
    let sooner = outbox::Publish::publication(&task).to(&outbox);
    sooner.publish(&mut tx).await.expect("at once");
    tx.commit().await;
    assert_eq!(db.count("1 = 1").await, 1);
}

/// A server that keeps a stream of changes, and one with an outbox on it.
async fn streaming() -> (Server, Db) {
    let server = Server::started_with(&["wal_level=logical"]);
    let db = Db::on(&server).await;
    (server, db)
}

/// Messages that are delivered, fail for good, and are rolled back; the ids of those that were committed.
async fn a_busy_life(db: &Db) -> Vec<Uuid> {
    let mut ids = db.publish_all(&Task::numbered(30)).await;
    let doomed = Task::named("doomed");
    ids.push(db.publish(&doomed).await.id);
    let mut tx = db.begin().await;
    outbox::Publish::publication(&Task::named("never"))
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.rollback().await;
    let lab = Lab::new(|call: outbox_tests::Call| async move {
        match call.name.as_str() {
            "doomed" => Err(outbox::HandlerError::cancel("as it was meant to")),
            _ => Ok(()),
        }
    });
    let relay = relay!(db, TASKS, lab; keep_delivered(true));
    within(LONG, relay.drain()).await.expect("drains");
    eventually(LONG, || db.count("state = 'delivered'"), |n| *n == 30).await;
    // One is redriven, discarded and purged away again: more changes of rows.
    let letters = each!(*db, pool => db.outbox().dead_letters(pool));
    letters.discard(ids[30], "seen").await.expect("runs");
    ids.sort();
    ids
}

async fn pgoutput_has_each_message_once(_: Db) {
    let (_server, db) = streaming().await;
    let Db::Postgres(postgres) = &db else {
        panic!("a test of Postgres");
    };
    let pool = &postgres.pool;
    run(pool, r#"CREATE PUBLICATION outbox_messages FOR TABLE "public"."outbox" WITH (publish = 'insert')"#).await;
    run(
        pool,
        "SELECT pg_create_logical_replication_slot('reader', 'pgoutput')",
    )
    .await;
    let published = a_busy_life(&db).await;
    let changes = sqlx::query(
        "SELECT data FROM pg_logical_slot_get_binary_changes('reader', NULL, NULL, \
         'proto_version', '1', 'publication_names', 'outbox_messages')",
    )
    .fetch_all(pool)
    .await
    .expect("the stream");
    let mut seen = Vec::new();
    for change in &changes {
        let data: Vec<u8> = change.get(0);
        match data[0] {
            b'I' => seen.push(first_column(&data)),
            // The frame: begin, commit, and what the table looks like.
            b'B' | b'C' | b'R' | b'Y' => {}
            other => panic!("a change that is no INSERT: {}", char::from(other)),
        }
    }
    seen.sort();
    assert_eq!(seen, published, "each once");
    db.remove().await;
}

/// The id of an inserted row, by the protocol of logical replication: `I`, the relation's number, `N`, the number of
/// columns, and for each its kind, its length and its text.
fn first_column(insert: &[u8]) -> Uuid {
    assert_eq!((insert[5], insert[8]), (b'N', b't'));
    let length = u32::from_be_bytes(insert[9..13].try_into().expect("four bytes"));
    let text = &insert[13..13 + length as usize];
    let text = std::str::from_utf8(text).expect("a text");
    text.parse().expect("an id")
}

async fn wal2json_has_each_message_once(_: Db) {
    let (_server, db) = streaming().await;
    let Db::Postgres(postgres) = &db else {
        panic!("a test of Postgres");
    };
    let pool = &postgres.pool;
    run(
        pool,
        "SELECT pg_create_logical_replication_slot('reader', 'wal2json')",
    )
    .await;
    let published = a_busy_life(&db).await;
    let changes = sqlx::query(
        "SELECT data FROM pg_logical_slot_get_changes('reader', NULL, NULL, 'format-version', '2', \
         'actions', 'insert', 'add-tables', 'public.outbox', 'include-transaction', 'false')",
    )
    .fetch_all(pool)
    .await
    .expect("the stream");
    let mut seen = Vec::new();
    for change in &changes {
        let change: Value = serde_json::from_str(change.get(0)).expect("JSON");
        assert_eq!(
            (&change["action"], &change["table"]),
            (&"I".into(), &"outbox".into())
        );
        let column = |name: &str| {
            let columns = change["columns"].as_array().expect("columns");
            let found = columns.iter().find(|column| column["name"] == name);
            found.expect("it is there")["value"].clone()
        };
        assert_eq!(column("topic"), "lab.task");
        assert_eq!(column("state"), "pending", "as it was published");
        let id = column("id");
        seen.push(id.as_str().expect("a text").parse::<Uuid>().expect("an id"));
    }
    seen.sort();
    assert_eq!(seen, published, "each once");
    db.remove().await;
}

async fn run(pool: &PgPool, sql: &'static str) {
    sqlx::query(sql).execute(pool).await.expect("runs");
}
