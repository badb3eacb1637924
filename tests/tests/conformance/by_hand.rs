//! Rows that somebody writes by plain SQL: delivered, dead with a reason, or refused by the table.

use outbox_tests::{
    Db, Lab, each,
    lab::TASKS,
    on_every_database, relay,
    wait::{LONG, within},
};

use crate::support::{insert, row};

on_every_database![
    what_no_relay_could_read_is_refused_by_the_table,
    headers_that_are_no_texts_are_a_dead_letter,
    used_up_attempts_are_a_dead_letter,
];

async fn what_no_relay_could_read_is_refused_by_the_table(db: Db) {
    let far = db.pick("'infinity'", "9e18");
    let early = db.pick("'-infinity'", "-1");
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
        ("id", "'NO-UUID'"),
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
