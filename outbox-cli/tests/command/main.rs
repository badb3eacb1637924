//! The command as an operator meets it: run as a process, against real databases.
//!
//! `INSTA_UPDATE=always scripts/test` accepts what it prints now; read the difference before you commit it.

mod bad_input;
mod by_id;
mod connecting;
mod dead;
mod lost;
mod others;
mod pause;
mod reasons;
mod show;
mod stuck;
mod terminal;

use std::process::Stdio;

use outbox_tests::{Db, wait::secs};
use tokio::{io::AsyncWriteExt as _, process::Command};
use uuid::Uuid;

/// What came of a run.
struct Ran {
    line: String,
    code: i32,
    out: String,
    err: String,
}

/// The command, with the database in its environment.
fn command(db: &Db, args: &[&str]) -> Command {
    let mut command = bare(args);
    command.env("OUTBOX_DATABASE_URL", db.pool_url());
    if db.pooled() {
        command.arg("--pooler");
    }
    command
}

/// The command without a database.
fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outbox"));
    command
        .args(args)
        .env_remove("OUTBOX_DATABASE_URL")
        .env_remove("DATABASE_URL")
        .env("COLUMNS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs the command to its end, with this on its standard input.
async fn run_with(mut command: Command, args: &[&str], input: &str) -> Ran {
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that reads nothing may be gone already.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("the command ends");
    Ran {
        line: args.join(" "),
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

async fn outbox(db: &Db, args: &[&str]) -> Ran {
    run_with(command(db, args), args, "").await
}

impl Ran {
    /// All of it, as on a terminal.
    fn shown(&self) -> String {
        let Self {
            line,
            code,
            out,
            err,
        } = self;
        format!("$ outbox {line}\n{out}{err}[exit code {code}]\n")
    }

    /// Its output, which must come of success.
    #[track_caller]
    fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.shown());
        &self.out
    }

    /// Its error, which must come with this exit code and nothing else.
    #[track_caller]
    fn fails(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{}", self.shown());
        assert_eq!(self.out, "", "{}", self.shown());
        assert!(self.err.starts_with("error: "), "{}", self.shown());
        &self.err
    }
}

/// Holds what was shown against a snapshot that is the same on every database.
fn assert_shown(name: &str, shown: impl AsRef<str>) {
    insta::with_settings!({
        omit_expression => true,
        prepend_module_to_snapshot => false,
        filters => [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
        ],
    }, { insta::assert_snapshot!(name, shown.as_ref()) });
}

/// Inserts a task of this state that settled two hours ago, with this error.
async fn settled(db: &Db, state: &str, topic: &str, key: &str, error: &str) -> Uuid {
    let id = Uuid::now_v7();
    let error = serde_json::json!(error).to_string().replace('\'', "''");
    db.execute(&format!(
        "INSERT INTO outbox (id, topic, \"key\", payload, headers, state, attempts, settled_at, errors) VALUES \
         ({}, '{topic}', '{key}', '{{\"name\":\"secret\",\"number\":1}}', '{{\"tenant\":\"acme\"}}', '{state}', 3, {}, \
          '[{{\"attempt\":2,\"at\":1700000000000,\"text\":\"first\"}}, \
            {{\"attempt\":3,\"at\":1700000060000,\"text\":{error}}}]')",
        db.uuid(id),
        db.ago(secs(7_230))
    ))
    .await;
    id
}

/// Inserts a task that waits, due this long ago.
async fn waiting(db: &Db, topic: &str, due: &str) -> Uuid {
    let id = Uuid::now_v7();
    db.execute(&format!(
        "INSERT INTO outbox (id, topic, payload, available_at) VALUES \
         ({}, '{topic}', '{{\"name\":\"waits\",\"number\":1}}', {due})",
        db.uuid(id)
    ))
    .await;
    id
}
