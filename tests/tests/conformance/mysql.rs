//! What only MySQL and MariaDB ask for: their versions, limits, modes, and commits that nobody asked for.

use std::time::Instant;

use outbox::{Fate, HandlerError, Relay, Retention};
use outbox_tests::{
    Call, Db, Lab, Server, Tx, each, eventually,
    lab::{TASK, TASKS, Task},
    on_every_database, relay, scaled, try_relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered, in_state, insert};

on_every_database! {
    mariadb: [
        a_server_that_is_too_old_is_refused_by_its_version,
        a_message_larger_than_a_packet_is_refused,
        a_statement_that_ends_the_transaction_is_noticed,
        the_modes_of_a_publishers_session_change_nothing,
        a_lax_mode_cuts_nothing_off,
        a_migration_that_was_cut_off_anywhere_is_finished,
        names_are_quoted_and_a_schema_is_a_database,
        a_relay_needs_no_right_to_change_the_schema,
        the_rights_that_the_documentation_lists_are_enough,
        what_is_nested_too_deep_is_refused_and_not_lost,
        a_publish_in_the_same_process_is_noticed,
        a_relay_polls_once_and_reads_what_it_serves,
        claims_go_by_the_index_whatever_the_planner_believes,
        dead_letters_of_any_text_are_found_by_it,
    ]
}

/// What is asked of a server whose status nobody else changes.
async fn status(db: &Db, name: &str) -> i64 {
    db.scalar(&format!(
        "SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.global_status \
         WHERE variable_name LIKE '{name}'"
    ))
    .await
}

async fn a_server_that_is_too_old_is_refused_by_its_version(db: Db) {
    let old = Server::mariadb(&["version=10.5.9-MariaDB"]);
    let Db::Mysql(inner) = Db::open(&format!("{}/mysql", old.url())).await else {
        unreachable!("a MariaDB")
    };
    let asked = [
        outbox::migrate(&inner.pool).await.expect_err("migrates"),
        outbox::check(&inner.pool).await.expect_err("checks"),
        Relay::builder(&inner.pool, &TASKS)
            .state(Lab::content())
            .build()
            .await
            .expect_err("builds"),
    ];
    for error in asked {
        assert!(error.is_config(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("MariaDB 10.5.9") && text.contains("10.6"),
            "{text}"
        );
    }
    drop(db);
}

async fn a_message_larger_than_a_packet_is_refused(_: Db) {
    let server = Server::mariadb(&["max-allowed-packet=1M"]);
    let db = Db::on(&server).await;
    let outbox = db.outbox_builder().max_payload(16 << 20).build();
    let outbox = outbox.expect("an outbox");
    let mut tx = db.begin().await;
    let large = |name: &str, times| Task::named(&name.repeat(times));
    let (beyond, within_it) = (large("x", 2 << 20), large("x", 900 << 10));
    let error = outbox
        .publish(&beyond.publication().key("k"), &mut tx)
        .await
        .expect_err("the server would end the connection");
    assert!(error.is_too_large(), "{error}");
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    // The transaction is as it was. Each of these fits, and in JSON all that is quoted takes twice as much.
    outbox
        .publish(&within_it.publication().key("k"), &mut tx)
        .await
        .expect("fits");
    let quotes = large("\"", 60 << 10);
    let header = "x".repeat(40 << 10);
    let many = (0..40).map(|_| {
        quotes
            .publication()
            .key("k")
            .header("large", header.as_str())
    });
    outbox
        .publish_all(many, &mut tx)
        .await
        .expect("in statements that fit");
    tx.commit().await;
    let lab = Lab::content();
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(lab.calls().len(), 41);
    let intact = lab
        .calls()
        .iter()
        .filter(|call| call.name == quotes.name)
        .count();
    assert_eq!(intact, 40);
}

async fn a_statement_that_ends_the_transaction_is_noticed(db: Db) {
    let task = Task::named("alone");
    let mut tx = db.begin().await;
    tx.execute("CREATE TABLE late (id integer)").await;
    let error = task.publication().publish(&mut tx).await;
    let error = error.expect_err("it would commit on its own");
    assert!(error.is_not_in_transaction(), "{error}");
    tx.rollback().await;
    assert_eq!(db.count("1 = 1").await, 0);
    // Whoever knows better can do without the question.
    let lax = db
        .outbox_builder()
        .strict(false)
        .build()
        .expect("an outbox");
    let mut tx = db.begin().await;
    tx.execute("CREATE TABLE later (id integer)").await;
    task.publication()
        .to(&lax)
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.rollback().await;
    assert_eq!(db.count("1 = 1").await, 1, "it has committed on its own");
}

async fn in_session(db: &Db, settings: &str) -> Tx {
    let mut tx = db.begin().await;
    tx.execute(&format!("COMMIT; {settings}; START TRANSACTION"))
        .await;
    tx
}

async fn the_modes_of_a_publishers_session_change_nothing(db: Db) {
    let sessions = [
        "SET SESSION sql_mode = ''",
        "SET SESSION sql_mode = 'ANSI'",
        "SET SESSION sql_mode = 'TRADITIONAL,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE'",
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT'",
        "SET SESSION time_zone = '+09:00'",
        "SET SESSION collation_connection = utf8mb4_unicode_ci",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ];
    let outbox = db.outbox();
    for (n, session) in sessions.into_iter().enumerate() {
        let mut tx = in_session(&db, session).await;
        let task = Task::named("naïve 🦀 \\ ' \"");
        let key = format!("Key {n} ");
        let keyed = task.publication().dedup_key(key.as_str()).header("a", "ü");
        let first = outbox.publish(&keyed, &mut tx).await.expect(session);
        let again = outbox.publish(&keyed, &mut tx).await.expect(session);
        assert!(
            matches!(again.fate, Fate::Duplicate { id, .. } if id == first.id),
            "{session}: {again:?}"
        );
        // Other bytes are another key, even if a collation takes them for the same.
        let trimmed = format!("Key {n}");
        let lower = format!("key {n} ");
        for other in [trimmed, lower] {
            let other = task.publication().dedup_key(other);
            let other = outbox.publish(&other, &mut tx).await.expect(session);
            assert_eq!(other.fate, Fate::New, "{session}");
        }
        let later = task.publication().delay(secs(3_600));
        let id = outbox.publish(&later, &mut tx).await.expect(session).id;
        let rescheduled = outbox.reschedule(id, millis(0), &mut tx).await;
        assert_eq!(
            rescheduled.expect(session),
            outbox::Rescheduling::Rescheduled,
            "{session}"
        );
        outbox
            .publish_all(Task::numbered(3), &mut tx)
            .await
            .expect(session);
        tx.commit().await;
        let counts = within(LONG, relay!(db, TASKS, Lab::content()).drain()).await;
        assert_eq!(counts.expect("drains").delivered, 7, "{session}");
    }
}

async fn a_lax_mode_cuts_nothing_off(db: Db) {
    let mut tx = in_session(&db, "SET SESSION sql_mode = ''").await;
    let key = "🦀".repeat(256);
    let task = Task::named(&"x".repeat(70_000));
    let published = db
        .outbox()
        .publish(
            &task.publication().key(key.as_str()).dedup_key(key.as_str()),
            &mut tx,
        )
        .await
        .expect("fits");
    tx.commit().await;
    let row = db.row(published.id).await.expect("it is there");
    assert_eq!((row.key, row.dedup_key), (Some(key.clone()), Some(key)));
    assert!(row.payload.len() > 70_000);
}

/// The statements of all scripts, one by one.
fn statements(db: &Db) -> Vec<String> {
    let scripts = each!(db, pool => db.outbox().migration_scripts(pool)).expect("scripts");
    let sql: String = scripts.iter().map(|script| script.sql.as_str()).collect();
    let lines = sql
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    let sql: Vec<_> = lines.collect();
    let sql = sql.join("\n");
    let statements = sql.split(';').map(|statement| statement.trim().to_owned());
    statements
        .filter(|statement| !statement.is_empty())
        .collect()
}

async fn a_migration_that_was_cut_off_anywhere_is_finished(db: Db) {
    let all = statements(&db);
    assert!(all.len() >= 8, "{all:#?}");
    for done in 0..=all.len() {
        let cut = db.empty().await;
        for statement in &all[..done] {
            cut.execute(statement).await;
        }
        let migrators: Vec<_> = (0..3)
            .map(|_| {
                let cut = cut.clone();
                tokio::spawn(async move { each!(cut, pool => cut.outbox().migrate(pool).await) })
            })
            .collect();
        for migrator in migrators {
            migrator.await.expect("no panic").expect("migrates");
        }
        each!(cut, pool => cut.outbox().check(pool).await).expect("nothing is missing");
        let id = cut.publish(&Task::named("afterwards")).await.id;
        within(LONG, relay!(cut, TASKS, Lab::content()).drain())
            .await
            .expect("drains");
        assert!(cut.row(id).await.is_none(), "after {done} statements");
        cut.remove().await;
    }
}

async fn names_are_quoted_and_a_schema_is_a_database(db: Db) {
    let schema = format!("My-App-{}", uuid::Uuid::now_v7().simple());
    let long = "x".repeat(50);
    for name in ["order", "Mixed-Case", "naïve", "outbox", &long] {
        for table in [name.to_owned(), format!("{schema}.{name}")] {
            let outbox = db.outbox_builder().table(table.as_str()).build();
            let outbox = outbox.expect("a good name");
            each!(db, pool => outbox.migrate(pool).await).expect(&table);
            each!(db, pool => outbox.check(pool).await).expect(&table);
            let published = db.publish_to(&outbox, &Task::named("there")).await;
            let there = format!(
                "SELECT count(*) FROM \"{}\" WHERE id = {}",
                table.replace('.', "\".\""),
                db.uuid(published.id)
            );
            assert_eq!(db.scalar(&there).await, 1, "{table}");
            let relay = relay!(db, TASKS, Lab::content(); outbox(&outbox));
            let counts = within(LONG, relay.drain()).await.expect("drains");
            assert_eq!(counts.delivered, 1, "{table}");
        }
    }
    db.execute(&format!("DROP DATABASE \"{schema}\"")).await;
}

async fn a_relay_needs_no_right_to_change_the_schema(_: Db) {
    // Accounts belong to the server.
    let server = Server::mariadb(&[]);
    let db = Db::on(&server).await;
    db.execute(
        "CREATE USER app@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE ON outbox TO app@'127.0.0.1'; \
         GRANT SELECT, INSERT, UPDATE ON outbox_relays TO app@'127.0.0.1'; \
         GRANT SELECT ON outbox_history TO app@'127.0.0.1'",
    )
    .await;
    let limited = Db::open(&db.url().replace("root@", "app@")).await;
    let error = try_relay!(limited, TASKS, Lab::content()).expect_err("it could never settle");
    assert!(error.is_config(), "{error}");
    let text = error.to_string();
    let (says, grants) = text.split_once("run: ").expect("what to do");
    assert!(
        says.contains("lacks rights: DELETE on `outbox`, DELETE on `outbox_relays`, SELECT on `outbox_paused`;"),
        "{says}"
    );
    db.execute(grants).await;
    let id = limited.publish(&Task::named("by the role")).await.id;
    let running = relay!(limited, TASKS, Lab::content()).spawn();
    delivered(&db, id).await;
    running.shutdown().await.expect("stops");
    each!(limited, pool => outbox::check(pool).await)
        .expect("the check needs no more rights either");
}

async fn the_rights_that_the_documentation_lists_are_enough(_: Db) {
    let page = include_str!("../../../outbox/docs/databases.md");
    let (_, rest) = page.split_once("```sql").expect("the GRANTs");
    let (grants, _) = rest.split_once("```").expect("their end");
    let server = Server::mariadb(&[]);
    let db = Db::on(&server).await;
    let names = ["app", "relay", "operator"];
    for name in names {
        db.execute(&format!("CREATE USER {name}@'127.0.0.1'")).await;
    }
    let to = |name: &str| format!("TO {name}@'127.0.0.1';");
    let granted = |grants: &str| {
        names.iter().fold(grants.to_owned(), |grants, name| {
            grants.replace(&format!("TO {name};"), &to(name))
        })
    };
    db.execute(&granted(grants)).await;
    // The operator's come on top of the relay's.
    db.execute(&granted(grants).replace(&to("relay"), &to("operator")))
        .await;
    let account =
        async |name: &str| Db::open(&db.url().replace("root@", &format!("{name}@"))).await;

    let app = account("app").await;
    let task = Task::named("ok");
    let keyed = task.publication().dedup_key("once");
    let mut tx = app.begin().await;
    let id = keyed.clone().publish(&mut tx).await.expect("publishes").id;
    let again = keyed.publish(&mut tx).await.expect("publishes");
    assert_ne!(again.fate, Fate::New);
    tx.commit().await;
    let bad = app.publish(&Task::named("bad")).await.id;
    let lab = Lab::new(|call: Call| async move {
        match call.name.as_str() {
            "bad" => Err(HandlerError::cancel("no use")),
            _ => Ok(()),
        }
    });
    let retention = Retention::new().discarded(secs(3_600));
    let relay = account("relay").await;
    let relay = relay!(relay, TASKS, lab; retention(retention)).spawn();
    delivered(&db, id).await;
    in_state(&db, bad, "dead").await;
    let duties = "SELECT count(*) FROM outbox_duties";
    eventually(LONG, || db.scalar(duties), |duties| *duties == 1).await;
    relay.shutdown().await.expect("stops");

    let operator = account("operator").await;
    each!(operator, pool => {
        let outbox = db.outbox();
        outbox.stats(pool).await.expect("counts");
        assert!(outbox.dead_letters(pool).redrive(bad).await.expect("redrives"));
        outbox.pause(pool, "lab.task", None).await.expect("pauses");
        outbox.resume(pool, "lab.task").await.expect("resumes");
        let dead = insert(&db, "dead", &[("state", "'dead'")]).await;
        assert!(outbox.dead_letters(pool).discard(dead, "no").await.expect("discards"));
        outbox.purge(pool).dead(secs(1)).discarded(secs(1)).run().await.expect("purges");
    });
}

async fn what_is_nested_too_deep_is_refused_and_not_lost(db: Db) {
    let insert = async |depth: usize| {
        let payload = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let sql =
            format!("INSERT INTO outbox (topic, payload) VALUES ('lab.unknown', '{payload}')");
        each!(db, pool => sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await.map(|_| ()))
    };
    insert(31).await.expect("is within what the server reads");
    insert(200).await.expect_err("is beyond it");
    assert_eq!(db.count("1 = 1").await, 1);
}

async fn a_publish_in_the_same_process_is_noticed(db: Db) {
    // By its polls it would not find the message before the test has failed.
    let relay = relay!(db, TASKS, Lab::content(); poll_interval(LONG * 10)).spawn();
    for open in [0, 30, 300] {
        let mut tx = db.begin().await;
        let task = Task::named("near");
        let published = db.outbox().publish(&task, &mut tx).await;
        tokio::time::sleep(millis(open)).await;
        tx.commit().await;
        delivered(&db, published.expect("publishes").id).await;
    }
    let dead = insert(&db, "dead", &[("state", "'dead'")]).await;
    each!(db, pool => db.outbox().dead_letters(pool).redrive(dead).await).expect("redrives");
    delivered(&db, dead).await;
    relay.shutdown().await.expect("stops");
}

async fn a_relay_polls_once_and_reads_what_it_serves(_: Db) {
    let server = Server::mariadb(&[]);
    let db = Db::on(&server).await;
    // Other tests publish to the default one.
    let own = db.outbox_builder().build().expect("an outbox");
    let running =
        relay!(db, TASKS, Lab::content(); outbox(&own), poll_interval(millis(100))).spawn();
    // A first delivery, so that what happens once at the start is over.
    let id = db.publish(&Task::named("first")).await.id;
    delivered(&db, id).await;
    let before = status(&db, "QUESTIONS").await;
    let start = Instant::now();
    tokio::time::sleep(secs(3)).await;
    let asked = status(&db, "QUESTIONS").await - before;
    let polls = i64::try_from(start.elapsed().as_millis() / 100).expect("a short time");
    running.shutdown().await.expect("stops");
    assert!(
        (10..=polls + 12).contains(&asked),
        "{asked} statements in {polls} polls"
    );

    // What is read for a hundred messages, alone, and among what is kept, dead, or of others' routes.
    let cost = async || {
        db.publish_all(&Task::numbered(100)).await;
        let before = status(&db, "HANDLER_READ%").await;
        let drained = relay!(db, TASKS, Lab::content()).drain().await;
        assert_eq!(drained.expect("drains").delivered, 100);
        status(&db, "HANDLER_READ%").await - before
    };
    let alone = cost().await;
    let n = scaled(20_000, 1_000_000);
    for (topic, state) in [(TASK, "delivered"), (TASK, "dead"), ("nobodys", "pending")] {
        db.execute(&format!(
            "INSERT INTO outbox (topic, payload, state, created_at) \
             SELECT '{topic}', '{{}}', '{state}', {} FROM {}",
            db.ago(secs(7_200)),
            db.numbers(n)
        ))
        .await;
    }
    let among_others = cost().await;
    assert!(
        among_others < alone * 2 + 100,
        "{alone} reads alone, {among_others} among {n} of each kind"
    );
}

async fn claims_go_by_the_index_whatever_the_planner_believes(_: Db) {
    let server = Server::mariadb(&[]);
    let db = Db::on(&server).await;
    // Empty, few rows, many rows; and each time the statistics know of the time before.
    for messages in [1, 60, 3_000] {
        db.execute("ANALYZE TABLE outbox").await;
        db.insert_tasks(TASK, messages).await;
        db.insert_tasks("lab.unknown", messages).await;
        let before = status(&db, "HANDLER_READ_RND_NEXT").await;
        let counts = relay!(db, TASKS, Lab::content()).drain().await;
        assert_eq!(counts.expect("drains").delivered, messages as u64);
        // Those of the lists that come as JSON, and of this question itself.
        let scanned = status(&db, "HANDLER_READ_RND_NEXT").await - before;
        let listed = i64::try_from(messages).expect("a small number") * 4;
        assert!(
            scanned <= listed + 3_000,
            "{scanned} rows were read one after the other by a drain of {messages}"
        );
    }
}

async fn dead_letters_of_any_text_are_found_by_it(db: Db) {
    let texts = ["naïve 🦀", "NAIVE", "100 % \\ of_it", "quotes \" '"];
    let lab = Lab::new(move |call: Call| async move {
        let n = usize::try_from(call.number).expect("a small number");
        Err(HandlerError::cancel(texts[n - 1]))
    });
    db.publish_all(&Task::numbered(texts.len())).await;
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    for text in texts {
        let found =
            each!(db, pool => db.outbox().dead_letters(pool).error_contains(text).list().await);
        let found = found.expect("lists");
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].errors[0].text.contains(text), "{found:?}");
    }
    let gone = insert(&db, "waits", &[]).await;
    in_state(&db, gone, "pending").await;
    let redriven =
        each!(db, pool => db.outbox().dead_letters(pool).error_contains("🦀").redrive_all().await);
    assert_eq!(redriven.expect("redrives"), 1);
    let running = relay!(db, TASKS, Lab::content()).spawn();
    eventually(LONG, || db.count("state = 'dead'"), |dead| *dead == 3).await;
    delivered(&db, gone).await;
    running.shutdown().await.expect("stops");
    each!(db, pool => db.outbox().dead_letters(pool).discard_all("no use").await)
        .expect("discards");
    all_delivered(&db).await;
}
