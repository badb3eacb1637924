//! Rows that somebody writes by plain SQL: delivered, dead with a reason, or refused by the table.

use outbox_tests::{
    Db, Lab, each,
    lab::{ALL, Errand, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, within},
};

use crate::support::{delivered, in_state, insert, row};

on_every_database! {
    all: [
        what_no_relay_could_read_is_refused_by_the_table,
        headers_that_are_no_texts_are_a_dead_letter,
        used_up_attempts_are_a_dead_letter,
        a_refused_claim_does_not_stop_other_topics,
        a_row_that_cant_be_removed_frees_its_place,
        no_key_of_a_map_is_quoted,
    ],
    postgres: [an_error_of_another_table_is_not_taken_for_ours],
    sqlite: [a_text_that_is_not_utf8_is_a_dead_letter, a_file_that_may_only_be_read_is_refused]
}

async fn what_no_relay_could_read_is_refused_by_the_table(db: Db) {
    let far = db.pick("'infinity'", "'9999-12-31 23:59:59'", "9e18");
    let early = db.pick("'-infinity'", "'1969-12-31 23:59:59'", "-1");
    let cases = [
        ("available_at", far),
        ("available_at", early),
        ("created_at", far),
        ("leased_until", far),
        ("settled_at", early),
        ("errors", "'{}'"),
        ("headers", "'[]'"),
        ("attempts", "-1"),
        ("unsettled", "-1"),
        ("unsettled", "1"),
        ("version", "0"),
        ("state", "'waiting'"),
        ("payload", "'{'"),
        // Sixteen bytes are an id, whatever they say.
        (
            "id",
            db.pick("'NO-UUID'", "'NOT ONE OF SIXTEEN'", "'NO-UUID'"),
        ),
    ];
    for (column, value) in cases {
        let sql = match column {
            "payload" => {
                format!("INSERT INTO outbox (topic, payload) VALUES ('lab.task', {value})")
            }
            _ => format!(
                "INSERT INTO outbox (topic, payload, {column}) VALUES ('lab.task', '{{}}', {value})"
            ),
        };
        let written = each!(db, pool => sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone())).execute(pool).await.is_ok());
        assert!(!written, "{sql}");
    }
    // And so a relay has nothing to stumble over.
    let good = insert(&db, "good", &[]).await;
    let lab = Lab::content();
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(lab.starts(good), 1);
}

async fn headers_that_are_no_texts_are_a_dead_letter(db: Db) {
    let bad = insert(&db, "bad", &[("headers", r#"'{"tenant": 4711}'"#)]).await;
    let good = insert(&db, "good", &[("headers", r#"'{"tenant": "a"}'"#)]).await;
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!((counts.dead, counts.delivered), (1, 1), "{counts:?}");
    let dead = row(&db, bad).await;
    assert!(
        dead.last_text().contains("headers") && !dead.last_text().contains("4711"),
        "{dead:?}"
    );
    assert_eq!(lab.starts(good), 1);
}

async fn used_up_attempts_are_a_dead_letter(db: Db) {
    // As if the limit had been lowered since it was last tried.
    let id = insert(&db, "tired", &[("attempts", "5")]).await;
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; max_attempts(5));
    let counts = within(LONG, relay.drain()).await.expect("drains");
    assert_eq!((counts.dead, lab.starts(id)), (1, 0), "{counts:?}");
    assert!(row(&db, id).await.last_text().contains("all 5 attempts"));
}

async fn a_refused_claim_does_not_stop_other_topics(db: Db) {
    // As a trigger of the user might: no task can ever be claimed.
    db.refuse_updates("NEW.topic = 'lab.task'").await;
    insert(&db, "refused", &[]).await;
    let lab = Lab::content();
    let running = relay!(db, ALL, lab).spawn();
    for number in 0..3 {
        let name = "errand".to_owned();
        let errand = db.publish(&Errand { name, number }).await.id;
        delivered(&db, errand).await;
    }
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(
        (counts.delivered, db.count("state = 'pending'").await),
        (3, 1)
    );
}

async fn a_row_that_cant_be_removed_frees_its_place(db: Db) {
    db.refuse_deletes().await;
    let ids = db.publish_all(&Task::numbered(4)).await;
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab; concurrency(2), window(2)).spawn();
    // It is marked where it can't be deleted, so all four have their turn.
    for id in &ids {
        in_state(&db, *id, "delivered").await;
    }
    let counts = running.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, lab.calls().len()), (4, 4), "{counts:?}");
}

#[outbox::message(topic = "by-hand.map")]
struct ByCard {
    by_card: std::collections::BTreeMap<String, u32>,
}

#[outbox::handler]
async fn on_map(message: ByCard) {
    drop(message.by_card);
}

static MAPS: outbox::Router = outbox::router![on_map];

async fn no_key_of_a_map_is_quoted(db: Db) {
    db.execute(
        r#"INSERT INTO outbox (topic, payload) VALUES ('by-hand.map', '{"by_card": {"4111-1111": "x"}}')"#,
    )
    .await;
    let relay =
        each!(db, pool => outbox::Relay::builder(pool, &MAPS).outbox(&db.outbox()).build().await);
    within(LONG, relay.expect("builds").drain())
        .await
        .expect("drains");
    let dead = db.rows("state = 'dead'").await.pop().expect("it is dead");
    assert!(
        dead.last_text().contains("`by_card.*`"),
        "{}",
        dead.last_text()
    );
}

async fn an_error_of_another_table_is_not_taken_for_ours(db: Db) {
    db.execute(
        "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN INSERT INTO audit_log VALUES (NEW.id); RETURN NEW; END $$",
    )
    .await;
    db.execute(
        "CREATE TRIGGER audit BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION audit()",
    )
    .await;
    let mut tx = db.begin().await;
    let error = db
        .outbox()
        .publish(&Task::named("audited"), &mut tx)
        .await
        .expect_err("the trigger fails");
    tx.rollback().await;
    assert!(
        !error.is_schema_mismatch() && error.to_string().contains("audit_log"),
        "{error}"
    );
}

async fn a_text_that_is_not_utf8_is_a_dead_letter(db: Db) {
    let bad = insert(&db, "bad", &[("key", "CAST(x'41ff42' AS TEXT)")]).await;
    let lapsed = db.ago(std::time::Duration::from_secs(1));
    let worse = insert(
        &db,
        "worse",
        &[
            ("key", "CAST(x'ff' AS TEXT)"),
            ("state", "'processing'"),
            ("unsettled", "1"),
            ("attempts", "1"),
            ("leased_until", &lapsed),
        ],
    )
    .await;
    let good = insert(&db, "good", &[]).await;
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.dead, counts.delivered, lab.starts(good)),
        (2, 1, 1),
        "{counts:?}"
    );
    let letters = each!(db, pool => db.outbox().dead_letters(pool).list().await);
    let letters = letters.expect("lists");
    assert!(
        letters
            .iter()
            .all(|letter| letter.id == bad || letter.id == worse)
    );
    assert!(letters[0].errors[0].text.contains("UTF-8"), "{letters:?}");
}

async fn a_file_that_may_only_be_read_is_refused(db: Db) {
    let Db::Sqlite(file) = &db else {
        unreachable!("this test is for SQLite")
    };
    let path = file.pool.connect_options().get_filename().to_owned();
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .read_only(true);
    let pool = sqlx::SqlitePool::connect_with(options)
        .await
        .expect("opens");
    let error = outbox::Relay::builder(&pool, &TASKS)
        .state(Lab::content())
        .build()
        .await;
    let error = error.expect_err("no relay can work on it");
    assert!(error.is_config(), "{error}");
}
