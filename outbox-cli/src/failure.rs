//! How a command ends when it does not do what it was asked to.

use std::{
    error::Error as _,
    io::{self, Write as _},
    process::ExitCode,
};

use anstyle::{AnsiColor, Style};
use sqlx::postgres::PgDatabaseError;

use crate::{secrets, show::safe};

/// Why a command ended early; each kind has its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database, or what is in it, is not as it should be.
    Failed(String),
    /// The command line does not say what to do.
    Usage(String),
    /// There is nothing of what was asked for.
    Nothing(String),
    /// Nobody reads the output any more.
    Closed,
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Nothing(_) => 3,
            Self::Closed => 0,
        }
    }

    /// Says why, in one line.
    pub(crate) fn tell(&self) {
        let (Self::Failed(text) | Self::Usage(text) | Self::Nothing(text)) = self else {
            return;
        };
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        let text = safe(&secrets::without(text));
        // Nobody may be there to hear it.
        let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {text}");
    }
}

/// Tells what the command line lacks, or helps where help was asked for.
pub(crate) fn misread(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let text = secrets::without(&error.render().ansi().to_string());
        let _ = write!(anstream::stderr(), "{text}");
    } else {
        let _ = error.print();
    }
    u8::try_from(error.exit_code()).unwrap_or(2).into()
}

/// Whether the outbox's tables are not there at all, rather than of a version that can't be used.
pub(crate) fn lacks_tables(error: &outbox::Error) -> bool {
    error.is_schema_mismatch() && error.to_string().contains("tables are missing")
}

impl From<outbox::Error> for Failure {
    fn from(error: outbox::Error) -> Self {
        let mut text = error.to_string();
        if let Some(source) = driver(&error) {
            text = without_line(text, source);
        }
        // The library speaks to programmers.
        for (theirs, ours) in WORDS {
            text = text.replace(theirs, ours);
        }
        // A SQLite file that may only be read is called a setting as well; that error is the driver's.
        let is_setting = error.is_config() && driver(&error).is_none();
        if is_setting || error.is_invalid() || error.is_too_large() {
            return Self::Usage(text);
        }
        if error.is_connection() {
            text.push_str("; the connection was lost, try again");
        } else if error.is_timeout() || error.is_retryable() {
            text.push_str("; try again");
        }
        Self::Failed(text)
    }
}

const WORDS: [(&str, &str); 3] = [
    ("`outbox::migrate(&pool)`", "`outbox migrate`"),
    (
        "use an outbox of `Outbox::builder().pooler(true)`",
        "add --pooler",
    ),
    ("update the `outbox` crate", "update this command"),
];

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(without_line(error.to_string(), &error))
    }
}

/// The driver's error behind one of the library's.
fn driver(error: &outbox::Error) -> Option<&sqlx::Error> {
    error.source()?.downcast_ref()
}

/// The driver adds where in the server's own source an error was made, as if it were a line of the user's.
fn without_line(text: String, error: &sqlx::Error) -> String {
    let error = error.as_database_error();
    match error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>()) {
        Some(error) => text.replace(&error.to_string(), error.message()),
        None => text,
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("writing the output: {error}")),
        }
    }
}
