//! From one version of the tables to the next, by the library or by hand, while others work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use outbox::{MigrationScript, Outbox};
use outbox_tests::{
    Db, Lab, each, eventually,
    lab::{TASKS, Task},
    on_every_database, relay, try_relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, insert};

on_every_database! {
    all: [
        the_scripts_can_be_run_by_hand,
        an_older_table_is_refused_and_then_upgraded,
        messages_are_published_while_a_migration_runs,
        a_hand_written_outbox_can_be_taken_over,
    ],
    postgres: [
        an_open_transaction_stops_a_migration_and_nobody_else,
        a_migration_that_is_killed_can_be_run_again,
    ],
    direct: [the_scripts_make_a_schema_of_any_name]
}

fn scripts(db: &Db, outbox: &Outbox) -> Vec<MigrationScript> {
    each!(db, pool => outbox.migration_scripts(pool)).expect("there are some")
}

/// Runs scripts as a person would, each in one transaction.
async fn run(db: &Db, scripts: &[MigrationScript]) {
    for script in scripts {
        db.execute(&format!("BEGIN; {} COMMIT", script.sql)).await;
    }
}

/// A database whose tables are at the first version.
async fn first_version(db: &Db) -> Db {
    let old = db.empty().await;
    run(&old, &scripts(&old, &old.outbox())[..1]).await;
    old
}

async fn versions(db: &Db) -> Vec<i64> {
    let version = db.as_number("version");
    db.scalars(&format!(
        "SELECT {version} FROM outbox_history ORDER BY outbox_history.version"
    ))
    .await
}

async fn the_scripts_can_be_run_by_hand(db: Db) {
    let by_hand = db.empty().await;
    let all = scripts(&by_hand, &by_hand.outbox());
    let numbers: Vec<_> = all.iter().map(|script| i64::from(script.version)).collect();
    assert_eq!(
        numbers,
        versions(&db).await,
        "those that a migration applies"
    );
    run(&by_hand, &all).await;
    each!(by_hand, pool => by_hand.outbox().check(pool).await).expect("nothing is missing");
    each!(by_hand, pool => by_hand.outbox().migrate(pool).await).expect("nothing is left to do");
    assert_eq!(versions(&by_hand).await, numbers);
    by_hand.publish(&Task::named("by hand")).await;
    within(LONG, relay!(by_hand, TASKS, Lab::content()).drain())
        .await
        .expect("drains");
    all_delivered(&by_hand).await;
    by_hand.remove().await;
}

async fn the_scripts_make_a_schema_of_any_name(db: Db) {
    let outbox = db
        .outbox_builder()
        .table("My-App.order")
        .build()
        .expect("a name");
    run(&db, &scripts(&db, &outbox)).await;
    each!(db, pool => outbox.check(pool).await).expect("nothing is missing");
    let named =
        "SELECT count(*) FROM pg_tables WHERE schemaname = 'My-App' AND tablename LIKE 'order%'";
    assert_eq!(db.scalar(named).await, 6);
    db.execute("DROP SCHEMA \"My-App\" CASCADE").await;
}

async fn an_older_table_is_refused_and_then_upgraded(db: Db) {
    let old = first_version(&db).await;
    let id = insert(&old, "before the upgrade", &[]).await;
    let dead = insert(&old, "dead", &[("state", "'dead'")]).await;
    let error = each!(old, pool => old.outbox().check(pool).await).expect_err("too old");
    assert!(error.is_schema_mismatch(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("at version 1") && text.contains("needs version 2"),
        "{text}"
    );
    assert!(text.contains("outbox::migrate"), "{text}");
    let error = try_relay!(old, TASKS, Lab::content()).expect_err("nor does a relay start");
    assert!(error.is_schema_mismatch(), "{error}");

    each!(old, pool => old.outbox().migrate(pool).await).expect("upgrades");
    assert_eq!(versions(&old).await, versions(&db).await);
    let lab = Lab::content();
    within(LONG, relay!(old, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(lab.starts(id), 1);
    let letters = each!(old, pool => old.outbox().dead_letters(pool).list().await);
    assert_eq!(letters.expect("lists")[0].id, dead);
    old.remove().await;
}

async fn messages_are_published_while_a_migration_runs(db: Db) {
    let old = first_version(&db).await;
    let rows = 20_000;
    old.execute(&format!(
        "INSERT INTO outbox (topic, payload, state) SELECT 'kept', '{{}}', 'dead' FROM {}",
        old.numbers(rows)
    ))
    .await;
    let (stop, published) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let publishers: Vec<_> = (0..4)
        .map(|_| {
            let (old, stop) = (old.clone(), Arc::clone(&stop));
            let published = Arc::clone(&published);
            tokio::spawn(async move {
                // A publisher knows of no versions.
                while !stop.load(Ordering::Relaxed) {
                    old.publish(&Task::named("meanwhile")).await;
                    published.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(millis(2)).await;
                }
            })
        })
        .collect();
    let some = || async { published.load(Ordering::Relaxed) };
    eventually(LONG, some, |n| *n > 50).await;
    each!(old, pool => old.outbox().migrate(pool).await).expect("upgrades");
    let then = published.load(Ordering::Relaxed);
    eventually(LONG, some, |n| *n > then + 50).await;
    stop.store(true, Ordering::Relaxed);
    for publisher in publishers {
        publisher.await.expect("none of them met an error");
    }
    let stored = old.count("topic = 'lab.task'").await;
    assert_eq!(
        stored.unsigned_abs(),
        published.load(Ordering::Relaxed) as u64
    );
    old.remove().await;
}

async fn an_open_transaction_stops_a_migration_and_nobody_else(db: Db) {
    let old = first_version(&db).await;
    let mut open = old.begin().await;
    open.execute("INSERT INTO outbox (topic, payload) VALUES ('lab.errand', '{}')")
        .await;
    let began = Instant::now();
    let migrators: Vec<_> = (0..2)
        .map(|_| {
            let old = old.clone();
            tokio::spawn(async move { each!(old, pool => old.outbox().migrate(pool).await) })
        })
        .collect();
    // Meanwhile others publish, and wait for none of them.
    let mut longest = millis(0);
    while began.elapsed() < secs(8) {
        let began = Instant::now();
        old.publish(&Task::named("meanwhile")).await;
        longest = longest.max(began.elapsed());
        tokio::time::sleep(millis(20)).await;
    }
    assert!(longest < secs(5), "a publish took {longest:?}");
    for migrator in migrators {
        let error = within(LONG * 2, migrator)
            .await
            .expect("no panic")
            .expect_err("somebody uses the table");
        assert!(error.is_retryable(), "{error}");
        assert!(error.to_string().contains("pg_stat_activity"), "{error}");
    }
    assert_eq!(versions(&old).await, [1], "nothing is half done");
    open.commit().await;
    each!(old, pool => old.outbox().migrate(pool).await).expect("the way is free");
    old.remove().await;
}

async fn a_migration_that_is_killed_can_be_run_again(db: Db) {
    let old = first_version(&db).await;
    let mut open = old.begin().await;
    open.execute("INSERT INTO outbox (topic, payload) VALUES ('lab.errand', '{}')")
        .await;
    let migrator = tokio::spawn({
        let old = old.clone();
        async move { each!(old, pool => old.outbox().migrate(pool).await) }
    });
    // In the middle: it waits for the table that it is about to change.
    let killed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                  WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INDEX%'";
    eventually(LONG, || old.scalar(killed), |killed| *killed > 0).await;
    let error = within(LONG, migrator)
        .await
        .expect("no panic")
        .expect_err("it was killed");
    assert!(error.is_connection(), "{error}");
    assert_eq!(versions(&old).await, [1], "nothing is half done");
    open.rollback().await;
    each!(old, pool => old.outbox().migrate(pool).await).expect("and again");
    assert_eq!(versions(&old).await, versions(&db).await);
    old.remove().await;
}

async fn a_hand_written_outbox_can_be_taken_over(db: Db) {
    let script = match db {
        Db::Postgres(_) => include_str!("../../../migrations/postgres/take_over.sql"),
        Db::Mysql(_) => include_str!("../../../migrations/mysql/take_over.sql"),
        Db::Sqlite(_) => include_str!("../../../migrations/sqlite/take_over.sql"),
    };
    let ids: Vec<_> = (0..4).map(|_| uuid::Uuid::now_v7()).collect();
    let (uuid, time, json) = match db {
        Db::Postgres(_) => ("uuid", "timestamptz", "jsonb"),
        Db::Mysql(_) => ("BINARY(16)", "DATETIME(6)", "LONGTEXT"),
        Db::Sqlite(_) => ("TEXT", "TEXT", "TEXT"),
    };
    let now = db.pick(
        "now()",
        "UTC_TIMESTAMP(6)",
        "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    );
    db.execute(&format!(
        "CREATE TABLE my_outbox (id {uuid} PRIMARY KEY, topic text NOT NULL, payload {json} NOT NULL, \
         created_at {time} NOT NULL DEFAULT ({now}), published_at {time})"
    ))
    .await;
    let write = async |n: usize, published: &str| {
        db.execute(&format!(
            "INSERT INTO my_outbox (id, topic, payload, published_at) VALUES \
             ({}, 'lab.task', '{{\"name\":\"task {n}\",\"number\":{n}}}', {published})",
            db.uuid(ids[n])
        ))
        .await;
    };
    write(0, now).await;
    write(1, "NULL").await;
    write(2, "NULL").await;
    db.execute(script).await;
    // An old writer goes on meanwhile.
    write(3, "NULL").await;
    // Run again, by whoever is not sure.
    db.execute(script).await;
    let left = "SELECT count(*) FROM my_outbox WHERE published_at IS NULL";
    assert_eq!(db.scalar(left).await, 0, "the old relay finds nothing");
    assert_eq!(db.count("state = 'pending'").await, 3);

    let lab = Lab::content();
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    let mut handled: Vec<_> = lab
        .calls()
        .iter()
        .map(|call| (call.delivery.id(), call.number))
        .collect();
    handled.sort_by_key(|(_, number)| *number);
    assert_eq!(
        handled,
        [(ids[1], 1), (ids[2], 2), (ids[3], 3)],
        "under their own ids"
    );
    // What was taken over is not taken over twice.
    db.execute(script).await;
    assert_eq!(db.count("1 = 1").await, 0);
}
