//! A database that goes away in the middle of a long change.

use outbox_tests::{
    Db, eventually, on_every_database,
    wait::{LONG, within},
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::{command, outbox, settled};

on_every_database! {
    // The pooler's own connections would be lost, and not the command's.
    direct: [
        a_redrive_that_loses_its_connection_leaves_nothing_half_done,
        a_purge_that_loses_its_connection_leaves_nothing_half_done,
    ],
}

async fn a_redrive_that_loses_its_connection_leaves_nothing_half_done(db: Db) {
    let args = ["dead", "redrive", "--all", "--per-second", "100", "--yes"];
    let done = "state = 'pending' AND redrives = 1";
    let rest = cut_off(&db, &args, "state = 'dead'").await;
    assert!(db.count(done).await < 400, "it was not over");
    let ran = outbox(&db, &["dead", "redrive", "--all", "--yes"]).await;
    assert_eq!(ran.ok(), format!("{rest} messages redriven\n"));
    assert_eq!(db.count(done).await, 400);
}

async fn a_purge_that_loses_its_connection_leaves_nothing_half_done(db: Db) {
    let args = ["purge", "--dead", "2h", "--per-second", "100", "--yes"];
    let rest = cut_off(&db, &args, "state = 'dead'").await;
    let ran = outbox(&db, &["purge", "--dead", "2h", "--yes"]).await;
    assert_eq!(ran.ok(), format!("{rest} messages purged\n"));
    assert_eq!(db.count("1 = 1").await, 0);
}

/// Runs the command on 400 dead letters, and takes the database away once some are done. Returns how many
/// are left.
async fn cut_off(db: &Db, args: &[&str], undone: &str) -> i64 {
    for n in 0..400 {
        settled(db, "dead", "lab.task", &format!("k{n}"), "no").await;
    }
    let mut running = command(db, args);
    let running =
        tokio::spawn(async move { running.spawn().expect("starts").wait_with_output().await });
    eventually(LONG, || db.count(undone), |left| *left < 400).await;
    // A pool makes a new connection when it finds one gone: here it gets none.
    allow_connections(db, false).await;
    db.scalar(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'outbox command'",
    )
    .await;
    let output = within(LONG * 2, running)
        .await
        .expect("no panic")
        .expect("ends");
    allow_connections(db, true).await;
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(1), &b""[..]),
        "{err}"
    );
    assert!(
        err.starts_with("error: ") && err.lines().count() == 1,
        "{err}"
    );
    let left = db.count(undone).await;
    assert!((1..400).contains(&left), "{left}");
    assert!(err.contains("nothing is half done"), "{err}");
    let (_, told) = err.split_once("at least ").expect("how many it were");
    let told = told.split(' ').next().and_then(|told| told.parse().ok());
    let told: i64 = told.expect("a number");
    // The commit of one chunk, a quarter of a second's, may not have been answered.
    assert!(
        (told..=told + 25).contains(&(400 - left)),
        "{left} left: {err}"
    );
    left
}

async fn allow_connections(db: &Db, allow: bool) {
    let name = name(db);
    admin(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {allow}")).await;
}

/// Runs a statement as the server's administrator, in no test's database.
async fn admin(sql: &str) {
    let server = std::env::var("OUTBOX_TEST_POSTGRES").expect("the tests' server");
    let mut admin = PgConnection::connect(&server).await.expect("connects");
    let sql = AssertSqlSafe(sql.to_owned());
    sqlx::raw_sql(sql).execute(&mut admin).await.expect("runs");
}

fn name(db: &Db) -> &str {
    match db {
        Db::Postgres(db) => db.name(),
        Db::Mysql(_) | Db::Sqlite(_) => unreachable!("this test is for Postgres"),
    }
}
