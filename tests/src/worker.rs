//! Child processes: relays that can be killed, publishers with another clock, migrators.

use std::{
    fmt,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    Db,
    log::{self, Entry},
    wait::{millis, secs},
};

/// How to start child processes on one database. They share one log file.
#[derive(Debug)]
pub struct Workers {
    binary: String,
    address: String,
    folder: tempfile::TempDir,
}

/// A running child process; killed when dropped.
pub struct Worker(Child);

/// What a relay in a child process is built with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the fields are the builder's settings of the same names"
)]
pub struct Settings {
    pub lease: Duration,
    pub max_attempts: u32,
    pub concurrency: usize,
    pub window: usize,
    pub poll_interval: Duration,
    pub store_timeout: Duration,
    /// Whether it listens.
    pub listener: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: secs(1),
            max_attempts: 10,
            concurrency: 64,
            window: 256,
            poll_interval: millis(50),
            store_timeout: secs(10),
            listener: false,
        }
    }
}

/// The message's name that makes the worker's handler abort the process.
pub const POISON: &str = "poison";

/// The message's name that makes the worker's handler never return.
pub const HOLD: &str = "hold";

impl Workers {
    /// Child processes of this binary, which a test knows as `env!("CARGO_BIN_EXE_worker")`.
    ///
    /// # Panics
    ///
    /// If there can be no temporary folder.
    #[must_use]
    pub fn new(binary: &str, db: &Db) -> Self {
        Self::at(binary, db.address())
    }

    /// Like [`new`](Self::new), on a database that they reach by another address, such as a proxy's.
    ///
    /// # Panics
    ///
    /// If there can be no temporary folder.
    #[must_use]
    pub fn at(binary: &str, address: String) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("outbox-worker")
            .tempdir()
            .expect("a temporary folder");
        Self {
            binary: binary.to_owned(),
            address,
            folder,
        }
    }

    /// The file in which the handlers of all processes write.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn spawn(&self, prefix: &[&str], role: &str, arguments: &[String]) -> Worker {
        let words: Vec<&str> = prefix
            .iter()
            .copied()
            .chain([&*self.binary, role, &self.address])
            .collect();
        let (program, rest) = words.split_first().expect("there is the binary");
        let child = Command::new(program)
            .args(rest)
            .args(arguments)
            // A process with another clock keeps its timers.
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            // It ends when this pipe does, should the test end without a chance to kill it.
            .stdin(Stdio::piped())
            // `faketime` starts the program as a child of its own: the group is what can be killed.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        Worker(child)
    }

    fn relay_with(&self, prefix: &[&str], settings: &Settings) -> Worker {
        let settings = serde_json::to_string(settings).expect("settings are JSON");
        let log = self.log().display().to_string();
        self.spawn(prefix, "relay", &[log, settings])
    }

    /// A process that runs a relay until it is killed.
    #[must_use]
    pub fn relay(&self, settings: &Settings) -> Worker {
        self.relay_with(&[], settings)
    }

    /// A relay whose process believes that it is an hour later.
    #[must_use]
    pub fn relay_an_hour_ahead(&self, settings: &Settings) -> Worker {
        self.relay_with(&["faketime", "-f", "+1h"], settings)
    }

    /// A process of any role that the binary knows.
    #[must_use]
    pub fn start(&self, role: &str, arguments: &[String]) -> Worker {
        self.spawn(&[], role, arguments)
    }

    /// A process that migrates.
    #[must_use]
    pub fn migrator(&self) -> Worker {
        self.spawn(&[], "migrate", &[])
    }

    /// A process that publishes one task and believes that it is an hour later.
    #[must_use]
    pub fn publisher_an_hour_ahead(&self, name: &str, delay: Duration) -> Worker {
        self.spawn(
            &["faketime", "-f", "+1h"],
            "publish",
            &[name.to_owned(), delay.as_millis().to_string()],
        )
    }

    /// What the handlers of all processes have logged.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        log::read(&self.log())
    }

    /// The starts among them.
    #[must_use]
    pub fn starts(&self) -> Vec<Entry> {
        self.entries()
            .into_iter()
            .filter(|entry| entry.start)
            .collect()
    }
}

impl Worker {
    /// The process, as the system knows it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.0.id()
    }

    /// Kills it, as a crash of the machine would.
    pub fn kill(mut self) {
        self.end();
    }

    /// Stops it without its knowledge, as a pause of the machine would.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let group = format!("-{}", self.0.id());
        // The shell's own: the program `kill` is not on every machine.
        let sent = Command::new("bash")
            .args(["-c", "kill \"$0\" -- \"$1\"", signal, &group])
            .status()
            .expect("bash runs");
        assert!(sent.success(), "kill {signal}: {sent}");
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If that takes longer than `timeout`.
    pub async fn ended(&mut self, timeout: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("the child can be waited for") {
                return status;
            }
            assert!(
                start.elapsed() < timeout,
                "the child process still runs after {timeout:?}"
            );
            tokio::time::sleep(millis(10)).await;
        }
    }

    /// How much memory it has, in KiB.
    ///
    /// # Panics
    ///
    /// If the system can't tell.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))
            .expect("the process runs, on Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let words = line.and_then(|line| line.split_whitespace().nth(1));
        words
            .and_then(|kib| kib.parse().ok())
            .expect("the process has memory")
    }

    /// Whether it still runs.
    ///
    /// # Panics
    ///
    /// If the system can't tell.
    pub fn runs(&mut self) -> bool {
        self.0
            .try_wait()
            .expect("the child can be waited for")
            .is_none()
    }

    fn end(&mut self) {
        // It may have ended by itself, which is what was wanted.
        if self.runs() {
            self.signal("-KILL");
        }
        let _ = self.0.wait();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.0.id()).finish()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
