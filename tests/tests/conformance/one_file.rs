//! Several processes on one SQLite file: they share nothing but the file.

use outbox_tests::{
    Db, eventually,
    lab::Task,
    on_every_database,
    wait::{LONG, millis, secs, within},
    worker::{Settings, Workers},
};
use sqlx::{
    Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

on_every_database! {
    sqlite: [
        four_processes_share_a_file_with_a_write_ahead_log,
        four_processes_share_a_file_with_a_rollback_journal,
        a_relay_hears_of_commits_of_other_processes,
        a_transaction_that_has_read_before_others_wrote_can_be_run_again,
        a_file_that_is_busy_can_be_written_later,
    ]
}

/// Of each publisher: of each of its two kinds of messages.
const EACH: u32 = 60;
const PUBLISHERS: i64 = 8;

/// Two processes with four publishers each, and two with a relay each.
async fn share(db: &Db) {
    let workers = Workers::new(env!("CARGO_BIN_EXE_service"), db);
    let start = |role: &str| {
        let log = workers.log().display().to_string();
        let (each, publishers) = (EACH.to_string(), (PUBLISHERS / 2).to_string());
        workers.start(role, &["new".to_owned(), log, each, publishers])
    };
    let relays = [start("relay"), start("relay")];
    let mut publishers = [start("publish"), start("publish")];
    for publisher in &mut publishers {
        // It fails at the first error, such as that the database is locked.
        let status = publisher.ended(LONG * 2).await;
        assert!(status.success(), "{status}");
    }
    eventually(LONG, || db.count("1 = 1"), |left| *left == 0).await;
    let starts = workers.starts();
    assert_eq!(starts.len() as i64, PUBLISHERS * i64::from(EACH) * 2);
    for relay in &relays {
        let of_this = |entry: &&_| is_of(entry, relay.process());
        assert!(
            starts.iter().filter(of_this).count() > 0,
            "one relay did it all"
        );
    }
}

fn is_of(entry: &outbox_tests::log::Entry, process: u32) -> bool {
    assert_eq!(entry.attempt, 1, "an attempt was burnt: {entry:?}");
    entry.process == process
}

async fn four_processes_share_a_file_with_a_write_ahead_log(db: Db) {
    assert_eq!(journal(&db).await, "wal");
    share(&db).await;
}

async fn four_processes_share_a_file_with_a_rollback_journal(_: Db) {
    let db = Db::sqlite_with(SqliteJournalMode::Delete).await;
    share(&db).await;
    assert_eq!(journal(&db).await, "delete");
    db.remove().await;
}

/// As a connection finds it that does not ask for any.
async fn journal(db: &Db) -> String {
    let mut other = other(db, secs(5)).await;
    sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut other)
        .await
        .expect("it has one")
}

/// A connection that is none of the pool's.
async fn other(db: &Db, patience: std::time::Duration) -> SqliteConnection {
    let address = db.address();
    let file = address.strip_prefix("sqlite://").expect("a file");
    let options = SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(patience);
    SqliteConnection::connect_with(&options)
        .await
        .expect("connects")
}

async fn a_relay_hears_of_commits_of_other_processes(db: Db) {
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), &db);
    let settings = Settings {
        // It would not look by itself before the test has failed.
        poll_interval: LONG * 10,
        ..Settings::default()
    };
    let _relay = workers.relay(&settings);
    let handled = |name: &'static str| {
        let seen = || {
            let starts = workers.starts();
            async move { starts }
        };
        eventually(LONG, seen, move |starts| {
            starts.iter().any(|entry| entry.name == name)
        })
    };
    // The relay may find this one by its first look.
    db.publish(&Task::named("first")).await;
    handled("first").await;
    for name in ["second", "third"] {
        tokio::time::sleep(millis(100)).await;
        db.publish(&Task::named(name)).await;
        handled(name).await;
    }
}

async fn a_transaction_that_has_read_before_others_wrote_can_be_run_again(db: Db) {
    let mut reader = other(&db, secs(5)).await;
    let task = Task::named("late");
    let publish = async |connection: &mut SqliteConnection, read: bool| {
        let mut tx = connection.begin().await.expect("begins");
        if read {
            sqlx::query("SELECT count(*) FROM outbox")
                .fetch_all(&mut *tx)
                .await
                .expect("reads");
            // Somebody else commits: what was read is old by now.
            db.publish(&Task::named("in between")).await;
        }
        let published = task.publish(&mut tx).await;
        if published.is_ok() {
            tx.commit().await.expect("commits");
        }
        published
    };
    let refused = within(secs(4), publish(&mut reader, true)).await;
    let error = refused.expect_err("no patience helps");
    assert!(error.is_retryable(), "{error}");
    publish(&mut reader, false).await.expect("the second time");
    assert_eq!(db.count("1 = 1").await, 2);
}

async fn a_file_that_is_busy_can_be_written_later(db: Db) {
    let mut impatient = other(&db, std::time::Duration::ZERO).await;
    let writer = db.begin().await;
    let task = Task::named("busy");
    {
        let mut tx = impatient.begin().await.expect("begins");
        let refused = within(secs(4), task.publish(&mut tx)).await;
        let error = refused.expect_err("the file is busy");
        assert!(error.is_retryable(), "{error}");
    }
    writer.commit().await;
    let mut tx = impatient.begin().await.expect("begins");
    task.publish(&mut tx).await.expect("it is free");
    tx.commit().await.expect("commits");
    assert_eq!(db.count("1 = 1").await, 1);
}
