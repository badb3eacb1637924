//! What the handlers of child processes write down: one line per start and per finish.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    path::Path,
    time::SystemTime,
};

use uuid::Uuid;

/// A line of the log: a handler's start or finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whether the handler started (or finished).
    pub start: bool,
    /// The message.
    pub id: Uuid,
    /// Which attempt it was.
    pub attempt: u32,
    /// The process that ran it.
    pub process: u32,
    /// When, in [`now`]'s milliseconds by the clock of that process.
    pub at: u64,
    /// The message's name.
    pub name: String,
}

/// Milliseconds since 1970: a time that processes of one machine can compare.
///
/// # Panics
///
/// If the clock stands before 1970.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("the clock is past 1970");
    u64::try_from(since.as_millis()).expect("a time in this age of the world")
}

/// All lines of a log, in the order they were written; none if nobody has written yet.
///
/// # Panics
///
/// If the file can't be read, or holds anything else.
#[must_use]
pub fn read(log: &Path) -> Vec<Entry> {
    let text = match std::fs::read_to_string(log) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => panic!("the log: {error}"),
    };
    text.lines().map(Entry::parse).collect()
}

impl Entry {
    /// Appends itself to a log: one write, so that lines of several processes don't mix.
    ///
    /// # Panics
    ///
    /// If the file can't be written.
    pub fn append(&self, log: &Path) {
        let what = if self.start { "start" } else { "finish" };
        let line = format!(
            "{what} {} {} {} {} {}\n",
            self.id, self.attempt, self.process, self.at, self.name
        );
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .expect("the log opens");
        file.write_all(line.as_bytes()).expect("the log is written");
    }

    fn parse(line: &str) -> Self {
        let mut words = line.splitn(6, ' ');
        let mut word = || {
            words
                .next()
                .unwrap_or_else(|| panic!("a line of the log: {line}"))
        };
        Self {
            start: word() == "start",
            id: word().parse().expect("an id"),
            attempt: word().parse().expect("an attempt"),
            process: word().parse().expect("a process"),
            at: word().parse().expect("a time"),
            name: word().to_owned(),
        }
    }
}
