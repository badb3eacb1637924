//! What can be wrong is said in a clear line, and nothing is half done.

use outbox_tests::{
    Db, on_every_database,
    wait::{LONG, within},
};

use crate::{assert_shown, bare, command, outbox, run_with, settled};

on_every_database! {
    all: [
        an_id_that_is_none_is_refused,
        a_table_of_another_version_is_refused,
        an_older_table_is_told_what_to_do,
        what_the_library_refuses_is_a_wrong_command_line,
        a_missing_table_is_named,
        a_table_that_was_given_is_asked_about,
        an_error_has_no_line_of_the_servers_source,
        a_broken_pipe_is_no_error,
    ],
    sqlite: [a_file_that_can_not_be_written_is_no_wrong_command_line]
}

/// What needs no database.
#[tokio::test]
async fn a_command_line_that_is_wrong_is_refused() {
    let cases: &[&[&str]] = &[
        &["stats"],
        &["stats", "--database", "oracle://root@localhost/db"],
        &["stats", "--database", "mysql://root@localhost"],
        &["stats", "--database", "mysql://app:hunter2@localhost/db"],
        &["stats", "--database", "postgres://localhost:port/db"],
        &["stats", "--database", "postgres://app:hunter2@localhost/db"],
        &["stats", "--database", "sqlite:x.db", "--table", "no; table"],
        &["purge", "--delivered", "soon", "--database", "sqlite:x.db"],
        &[
            "dead",
            "list",
            "--older-than",
            "-1s",
            "--database",
            "sqlite:x.db",
        ],
        &["dead", "show", "1234"],
        &["dead", "list", "--after", "1234"],
        &["cancel", "1234"],
        &["cancel"],
        &["reschedule", "01890a5d-ac96-774b-bcce-b302099a8057"],
        &["purge", "--topic", "orders.placed"],
    ];
    let mut all = String::new();
    for args in cases {
        let ran = run_with(bare(args), args, "").await;
        assert_eq!((ran.code, &*ran.out), (2, ""), "{}", ran.shown());
        all.push_str(&ran.err);
    }
    assert!(!all.contains("hunter2"), "{all}");
    assert_shown("usage", all);
}

/// A URL that was put where none belongs is not quoted.
#[tokio::test]
async fn a_misplaced_url_is_never_printed() {
    const URL: &str = "postgres://app:hunter2@localhost/db";
    let (flag, unknown) = (format!("--pooler={URL}"), format!("--databas={URL}"));
    let cases: &[&[&str]] = &[
        &[URL],
        &["stats", URL],
        &["stats", &flag],
        &["stats", &unknown],
        &["stats", "--table", URL, "--database", "sqlite:x.db"],
        &["dead", "show", URL],
        &["pause", URL, "--database", "sqlite:x.db"],
        &["purge", "--delivered", URL],
        &["stats", "host=localhost password=hunter2"],
    ];
    for args in cases {
        let ran = run_with(bare(args), args, "").await;
        assert!(ran.code != 0 && !ran.err.contains("hunter2"), "{}", ran.err);
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
    }
}

#[tokio::test]
async fn help_needs_no_manual() {
    let cases: &[&[&str]] = &[
        &["--help"],
        &["plain-sql", "--help"],
        &["migrate", "--help"],
        &["stats", "--help"],
        &["dead", "--help"],
        &["dead", "list", "--help"],
        &["dead", "reasons", "--help"],
        &["dead", "show", "--help"],
        &["dead", "redrive", "--help"],
        &["dead", "discard", "--help"],
        &["cancel", "--help"],
        &["reschedule", "--help"],
        &["purge", "--help"],
        &["pause", "--help"],
        &["resume", "--help"],
    ];
    let mut all = String::new();
    for args in cases {
        let mut command = bare(args);
        command.env("OUTBOX_DATABASE_URL", "postgres://app:hunter2@localhost/db");
        let ran = run_with(command, args, "").await;
        assert!(
            ran.ok().contains("Example") || args.len() == 1,
            "{}",
            ran.shown()
        );
        all.push_str(&ran.shown());
    }
    assert!(!all.contains("hunter2"), "{all}");
    assert_shown("help", all);
}

async fn an_id_that_is_none_is_refused(db: Db) {
    for args in [
        &["dead", "show", "42"][..],
        &["cancel", "o-1"],
        &["dead", "redrive", "''"],
    ] {
        let ran = outbox(&db, args).await;
        assert_eq!((ran.code, &*ran.out), (2, ""), "{}", ran.shown());
        assert!(ran.err.contains(args[args.len() - 1]), "{}", ran.shown());
    }
}

async fn a_table_of_another_version_is_refused(db: Db) {
    settled(&db, "dead", "lab.task", "k", "no").await;
    db.execute("INSERT INTO outbox_history (version, min_reader) VALUES (98, 97)")
        .await;
    for args in [
        &["stats"][..],
        &["migrate"],
        &["migrate", "--check"],
        &["dead", "list"],
        &["dead", "redrive", "--all", "--yes"],
        &["dead", "discard", "--all", "--reason", "no", "--yes"],
        &["purge", "--dead", "1s", "--yes"],
        &["pause", "lab.task"],
    ] {
        let ran = outbox(&db, args).await;
        let text = ran.fails(1);
        assert!(
            text.contains("98") && text.contains("97"),
            "{}",
            ran.shown()
        );
    }
    assert_eq!(db.count("state = 'dead'").await, 1, "nothing was written");
}

async fn an_older_table_is_told_what_to_do(db: Db) {
    db.execute("DELETE FROM outbox_history WHERE version > 1")
        .await;
    for args in [&["stats"][..], &["migrate", "--check"], &["dead", "list"]] {
        let ran = outbox(&db, args).await;
        let text = ran.fails(1);
        let told = "at version 1, this build needs version 2; run `outbox migrate`\n";
        assert!(text.ends_with(told), "{}", ran.shown());
    }
}

async fn what_the_library_refuses_is_a_wrong_command_line(db: Db) {
    let id = settled(&db, "dead", "lab.task", "k", "no")
        .await
        .to_string();
    for args in [
        &["reschedule", &id, "--in", "200y"][..],
        &["pause", "Not A Topic"],
        &["dead", "redrive", &id, "--payload", "-"],
    ] {
        run_with(command(&db, args), args, "{").await.fails(2);
    }
    assert_eq!(db.count("state = 'dead'").await, 1, "nothing was written");
}

async fn a_file_that_can_not_be_written_is_no_wrong_command_line(db: Db) {
    let args = ["pause", "lab.task"];
    let mut command = command(&db, &args);
    command.env("OUTBOX_DATABASE_URL", format!("{}?mode=ro", db.pool_url()));
    let ran = run_with(command, &args, "").await;
    assert!(ran.fails(1).contains("readonly"), "{}", ran.shown());
}

async fn a_missing_table_is_named(db: Db) {
    let db = db.empty().await;
    // On SQLite, that makes the file.
    db.scalar("SELECT count(*) FROM (SELECT 1) AS one").await;
    let ran = outbox(&db, &["stats"]).await;
    assert_shown("missing_tables", ran.shown());
    db.remove().await;
}

async fn a_table_that_was_given_is_asked_about(db: Db) {
    for args in [
        &["stats", "--table", "outbx"][..],
        &["migrate", "--check", "--table", "outbx"],
    ] {
        let ran = outbox(&db, args).await;
        let text = ran.fails(1);
        let (spelling, migrate) = ("is `--table outbx` spelled right?", "`outbox migrate");
        let asked = text.find(spelling).zip(text.find(migrate));
        assert!(asked.is_some_and(|(first, then)| first < then), "{text}");
    }
}

async fn an_error_has_no_line_of_the_servers_source(db: Db) {
    db.execute("ALTER TABLE outbox RENAME COLUMN errors TO mistakes")
        .await;
    let ran = outbox(&db, &["dead", "list"]).await;
    let text = ran.fails(1);
    assert!(
        text.contains("errors") && !text.contains(" at line "),
        "{text}"
    );
}

async fn a_broken_pipe_is_no_error(db: Db) {
    settled(&db, "dead", "lab.task", "k", "no").await;
    let mut child = command(&db, &["dead", "list"]).spawn().expect("starts");
    drop(child.stdout.take());
    let output = within(LONG, child.wait_with_output()).await.expect("ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*err), (Some(0), ""));
}
