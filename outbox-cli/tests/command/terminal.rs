//! The command on a terminal: it asks before it changes many messages, and shows colours.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::Stdio,
};

use outbox_tests::{
    Db, on_every_database,
    wait::{LONG, within},
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::{command, settled};

on_every_database![
    a_change_of_many_is_asked_about,
    colours_are_for_terminals_that_want_them,
];

async fn a_change_of_many_is_asked_about(db: Db) {
    for n in 0..3 {
        settled(&db, "dead", "orders.placed", &format!("o-{n}"), "no").await;
    }
    let args = ["dead", "redrive", "--topic", "orders.placed"];
    for answer in ["n\n", "\n", "ja\n"] {
        let (code, shown) = on_terminal(&db, &args, answer, &[]).await;
        assert_eq!(code, 2, "{shown}");
        assert!(shown.contains("redrive 3 messages? [y/N]"), "{shown}");
        assert!(shown.contains("nothing was done"), "{shown}");
        assert_eq!(db.count("state = 'dead'").await, 3, "{shown}");
    }
    let (code, shown) = on_terminal(&db, &args, "y\n", &[]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("3 messages redriven"), "{shown}");
    assert_eq!(db.count("state = 'pending'").await, 3);
    let none = ["purge", "--dead", "1s", "--yes"];
    let (code, shown) = on_terminal(&db, &none, "", &[]).await;
    assert!(code == 3 && !shown.contains("[y/N]"), "{shown}");
}

async fn colours_are_for_terminals_that_want_them(db: Db) {
    settled(&db, "dead", "orders.placed", "o-1", "no").await;
    for args in [&["dead", "list"][..], &["dead", "list", "--key", "none"]] {
        let (_, shown) = on_terminal(&db, args, "", &[]).await;
        assert!(shown.contains("\u{1b}["), "{shown:?}");
        let (_, shown) = on_terminal(&db, args, "", &[("NO_COLOR", "1")]).await;
        assert!(!shown.contains("\u{1b}["), "{shown:?}");
    }
}

/// Runs the command on a terminal of its own; returns its exit code, and what the terminal was sent.
async fn on_terminal(db: &Db, args: &[&str], typed: &str, env: &[(&str, &str)]) -> (i32, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("its name");
    let name = name.into_string().expect("UTF-8");
    let end = || -> OwnedFd {
        let mut end = File::options();
        end.read(true).write(true);
        end.open(&name).expect("its other end").into()
    };
    let mut terminal = File::from(terminal);
    let mut child = command(db, args);
    child
        .stdin(Stdio::from(end()))
        .stdout(Stdio::from(end()))
        .stderr(Stdio::from(end()))
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("CI")
        .envs(env.iter().copied());
    let mut running = child.spawn().expect("the command starts");
    // These ends close the terminal when the last of them goes.
    drop(child);
    terminal.write_all(typed.as_bytes()).expect("typed");
    let shown = tokio::task::spawn_blocking(move || {
        let mut shown = Vec::new();
        // Reading from a terminal whose other ends are closed is an error.
        let _ = terminal.read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let status = within(LONG, running.wait()).await.expect("it ends");
    let shown = within(LONG, shown).await.expect("read");
    (status.code().expect("an exit code"), shown)
}
