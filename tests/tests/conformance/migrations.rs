//! The tables: how they come, who else migrates, and which versions go together.

use outbox_tests::{
    Db, Lab, each,
    lab::{TASKS, Task},
    on_every_database, try_relay,
    wait::{LONG, within},
    worker::Workers,
};

use crate::support::delivered;

on_every_database! {
    all: [
        sixteen_processes_migrate_at_once,
        migrating_again_changes_nothing,
        missing_tables_are_named,
        newer_tables_are_used_while_they_allow_it,
        newer_tables_are_refused_once_they_forbid_it,
    ],
    // sqlx's own migrator prepares statements for longer than a transaction.
    unpooled: [the_applications_own_migrations_are_left_alone]
}

async fn the_applications_own_migrations_are_left_alone(db: Db) {
    let db = db.empty().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let add = |file: &str, sql: &str| {
        std::fs::write(folder.path().join(file), sql).expect("the file is written")
    };
    let run_own = || async {
        let migrator = sqlx::migrate::Migrator::new(folder.path())
            .await
            .expect("the folder is read");
        each!(db, pool => migrator.run(pool).await)
    };

    add(
        "0001_accounts.sql",
        "CREATE TABLE accounts (id bigint PRIMARY KEY);",
    );
    run_own()
        .await
        .expect("the application migrates before the outbox");
    each!(db, pool => db.outbox().migrate(pool).await).expect("the outbox migrates in between");
    add(
        "0002_orders.sql",
        "CREATE TABLE orders (id bigint PRIMARY KEY);",
    );
    run_own()
        .await
        .expect("the application migrates after the outbox");
    each!(db, pool => db.outbox().migrate(pool).await).expect("the outbox migrates again");

    assert_eq!(
        db.scalar("SELECT count(*) FROM _sqlx_migrations").await,
        2,
        "the history of sqlx holds the application's rows only"
    );
    assert_eq!(
        db.scalar("SELECT count(*) FROM accounts").await
            + db.scalar("SELECT count(*) FROM orders").await,
        0
    );
    db.publish(&Task::named("after all migrations")).await;
    assert_eq!(db.count("state = 'pending'").await, 1);
    db.remove().await;
}

async fn sixteen_processes_migrate_at_once(db: Db) {
    let db = db.empty().await;
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), &db);
    let mut migrators: Vec<_> = (0..16).map(|_| workers.migrator()).collect();
    for migrator in &mut migrators {
        let status = migrator.ended(LONG * 2).await;
        assert!(status.success(), "a migrator failed: {status}");
    }
    let versions = db
        .scalar("SELECT count(*) - count(DISTINCT version) FROM outbox_history")
        .await;
    assert_eq!(versions, 0, "each migration was applied once");
    each!(db, pool => db.outbox().check(pool).await).expect("the tables are complete");
    db.publish(&Task::named("after the race")).await;
    db.remove().await;
}

async fn migrating_again_changes_nothing(db: Db) {
    db.publish(&Task::named("kept")).await;
    let history = "SELECT count(*) FROM outbox_history";
    let before = db.scalar(history).await;
    assert!(before > 0, "the history says what was applied");
    each!(db, pool => db.outbox().migrate(pool).await).expect("a second run is no error");
    assert_eq!(db.scalar(history).await, before);
    assert_eq!(db.count("1 = 1").await, 1, "the message is still there");
}

async fn missing_tables_are_named(db: Db) {
    let db = db.empty().await;
    let error =
        each!(db, pool => db.outbox().check(pool).await).expect_err("there is nothing to check");
    assert!(error.is_schema_mismatch(), "{error}");
    assert!(
        error.to_string().contains("outbox::migrate"),
        "the text says what to do: {error}"
    );

    let error =
        try_relay!(db, TASKS, Lab::content()).expect_err("a relay can't start without its tables");
    assert!(error.is_schema_mismatch(), "{error}");

    let mut tx = db.begin().await;
    let error = db
        .outbox()
        .publish(&Task::named("nowhere"), &mut tx)
        .await
        .expect_err("there is no table to write to");
    assert!(error.is_schema_mismatch(), "{error}");
    assert!(
        error.to_string().contains("outbox::migrate"),
        "the text says what to do: {error}"
    );
    tx.rollback().await;
    db.remove().await;
}

async fn newer_tables_are_used_while_they_allow_it(db: Db) {
    db.execute("INSERT INTO outbox_history (version, min_reader) VALUES (99, 1)")
        .await;
    each!(db, pool => db.outbox().check(pool).await)
        .expect("version 99 allows readers of version 1");
    let lab = Lab::content();
    let relay = try_relay!(db, TASKS, lab).expect("a relay starts");
    let id = db.publish(&Task::named("on newer tables")).await.id;
    within(LONG, relay.drain()).await.expect("drains");
    delivered(&db, id).await;
}

async fn newer_tables_are_refused_once_they_forbid_it(db: Db) {
    db.execute("INSERT INTO outbox_history (version, min_reader) VALUES (98, 97)")
        .await;
    db.publish(&Task::named("waits for a newer build")).await;

    let error = each!(db, pool => db.outbox().check(pool).await)
        .expect_err("version 98 needs readers of version 97");
    assert!(error.is_schema_mismatch(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("98") && text.contains("97") && text.contains("knows version 2"),
        "the versions are named: {text}"
    );

    let error = try_relay!(db, TASKS, Lab::content()).expect_err("nor does a relay start");
    assert!(error.is_schema_mismatch(), "{error}");
    let error = each!(db, pool => db.outbox().migrate(pool).await)
        .expect_err("nor does an older build migrate");
    assert!(error.is_schema_mismatch(), "{error}");
    assert_eq!(
        db.count("state = 'pending' AND attempts = 0").await,
        1,
        "nothing was written"
    );
}
