//! Databases that are not there, or let nobody in: what was tried is said, and no password.

use outbox_tests::{Db, each, on_every_database};

use crate::{assert_shown, bare, command, run_with};

on_every_database! {
    postgres: [a_password_is_never_printed],
    // A pooler has its own words for a database that is not there.
    direct: [a_refusal_is_no_silence],
    sqlite: [a_file_that_is_not_there_is_not_made],
}

/// A `/` that is not encoded ends the host, so that the rest of a password is read as a database.
#[tokio::test]
async fn no_piece_of_a_password_is_printed() {
    for url in [
        "postgres://127.0.0.1:1/hunter2@localhost/db",
        "postgres://127.0.0.1:1?hunter2@localhost/db",
        "postgres://app:1/hunter2@127.0.0.1:1/db",
        "postgres://app:hunter2/@localhost/db",
    ] {
        let mut command = bare(&["stats"]);
        command.env("DATABASE_URL", url);
        let ran = run_with(command, &["stats"], "").await;
        assert!(ran.code != 0 && !ran.err.contains("hunter2"), "{}", ran.err);
        assert!(ran.err.contains("percent-encoded"), "{}", ran.err);
    }
}

async fn a_password_is_never_printed(db: Db) {
    let url = db.pool_url();
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (user, host) = rest.split_once('@').expect("a user");
    let with_password = format!("{scheme}://{user}:hunter2@{host}");
    let wrong = format!("{scheme}://nobody-{user}:hunter2@{host}");
    for url in [with_password, wrong] {
        for args in [
            &["stats"][..],
            &["dead", "list"],
            &["migrate", "--check"],
            &["dead", "show", "x"],
        ] {
            let mut command = command(&db, args);
            command.env("OUTBOX_DATABASE_URL", &url);
            let ran = run_with(command, args, "").await;
            assert!(!ran.shown().contains("hunter2"), "{}", ran.shown());
        }
    }
    each!(db, pool => db.outbox().check(pool).await).expect("and nothing was changed");
}

async fn a_refusal_is_no_silence(db: Db) {
    let url = db.pool_url();
    let (server, _) = url.rsplit_once('/').expect("a database");
    let mut refused = command(&db, &["stats"]);
    refused.env("OUTBOX_DATABASE_URL", format!("{server}/shopp"));
    let ran = run_with(refused, &["stats"], "").await;
    let text = ran.fails(1);
    assert!(
        text.starts_with("error: the server refuses: database \"shopp\" does not exist; "),
        "{text}"
    );
    let (host, port) = db.server();
    for named in [&*host, &port.to_string(), "database shopp", "postgres"] {
        assert!(text.contains(named), "{named} in {text}");
    }
    // Nobody listens on port 1.
    let mut silent = command(&db, &["stats"]);
    silent.env("OUTBOX_DATABASE_URL", "postgres://app@127.0.0.1:1/shop");
    let ran = run_with(silent, &["stats"], "").await;
    assert_shown("unreachable", ran.fails(1));
}

async fn a_file_that_is_not_there_is_not_made(_: Db) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("new.db");
    let url = format!("sqlite:{}", file.display());
    let creating = format!("{url}?mode=rwc");
    for (args, url) in [
        (&["stats"][..], &url),
        (&["migrate"], &url),
        (&["dead", "list"], &url),
        // Only a migration makes a file, and only when it is told to.
        (&["stats"], &creating),
        (&["migrate", "--check"], &creating),
        (&["dead", "redrive", "--all", "--yes"], &creating),
    ] {
        let mut command = bare(args);
        command.env("DATABASE_URL", url);
        let ran = run_with(command, args, "").await;
        let text = ran.fails(1);
        let path = file.display().to_string();
        assert!(text.contains("mode=rwc") && text.contains(&path), "{text}");
        assert!(!file.exists(), "{}", ran.shown());
    }
    let mut command = bare(&["migrate"]);
    command.env("DATABASE_URL", creating);
    run_with(command, &["migrate"], "").await.ok();
    assert!(file.exists());
}
