//! What kind of trouble a driver's error is.

use sqlx::Error as Driver;

use crate::{Error, error::Kind};

/// What a relay makes of a failed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is gone or can't be trusted: make a new one.
    Connection,
    /// The whole database is busy: try again later.
    Busy,
    /// Somebody holds a row, or the statement lost a race for one: try with fewer rows.
    Locked,
    /// The statement itself was refused.
    Refused,
}

pub(crate) fn fault(error: &Error) -> Fault {
    let source = match error.kind() {
        Kind::Database { source, .. } => source,
        _ => return Fault::Connection,
    };
    let Some(code) = Code::of(source) else {
        return Fault::Connection;
    };
    match code {
        _ if is_connection(source) || code.is_unwell() => Fault::Connection,
        // One writer: whoever holds it, holds all rows.
        Code::Sqlite(_) if is_retryable(source) => Fault::Busy,
        _ if is_retryable(source) || code.is_cancelled() => Fault::Locked,
        _ => Fault::Refused,
    }
}

/// What the database says is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Code {
    /// SQLite's, which may look like a SQLSTATE.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(dead_code, reason = "only SQLite has such numbers")
    )]
    Sqlite(u32),
    /// The server's number: hardly anything has a SQLSTATE of its own there.
    #[cfg_attr(
        not(feature = "mysql"),
        expect(dead_code, reason = "only MySQL and MariaDB have such numbers")
    )]
    Mysql(u16),
    State(String),
}

impl Code {
    fn of(error: &Driver) -> Option<Self> {
        let Driver::Database(error) = error else {
            return None;
        };
        #[cfg(feature = "mysql")]
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return Some(Self::Mysql(error.number()));
        }
        let code = error.code().unwrap_or_default().into_owned();
        #[cfg(feature = "sqlite")]
        if error
            .try_downcast_ref::<sqlx::sqlite::SqliteError>()
            .is_some()
        {
            // The low byte is the kind.
            return code.parse().ok().map(|code: u32| Self::Sqlite(code & 0xff));
        }
        Some(Self::State(code))
    }

    /// The server, not the statement, is in trouble: out of resources, broken, or demoted to a standby.
    fn is_unwell(&self) -> bool {
        match self {
            // Read-only, I/O error, corrupt, full.
            Self::Sqlite(code) => matches!(code, 8 | 10 | 11 | 13),
            // Disk full, out of memory (twice), an engine's error, table full, read-only (twice, and a transaction).
            Self::Mysql(code) => {
                matches!(code, 1021 | 1037 | 1041 | 1030 | 1114 | 1290 | 1836 | 1792)
            }
            Self::State(code) => {
                code == "25006"
                    || ["53", "58", "XX"]
                        .iter()
                        .any(|class| code.starts_with(class))
            }
        }
    }

    /// The statement was cancelled, by our own limit or by an administrator's hand.
    fn is_cancelled(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            // By hand, and by the limit of MariaDB's or MySQL's.
            Self::Mysql(code) => matches!(code, 1317 | 1969 | 3024),
            Self::State(code) => code == "57014",
        }
    }

    /// The server is starting or stopping, or has no room for one more connection.
    fn is_down(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Mysql(code) => matches!(code, 1040 | 1053 | 1203 | 1226),
            Self::State(code) => matches!(&**code, "57P01" | "57P02" | "57P03" | "53300"),
        }
    }
}

/// How a transaction lost a race for a lock.
#[cfg(feature = "mysql")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostRace {
    /// It was chosen to end a deadlock.
    Deadlock,
    /// Somebody has the lock.
    Lock,
}

#[cfg(feature = "mysql")]
impl LostRace {
    pub(super) fn of(error: &Driver) -> Option<Self> {
        match Code::of(error)? {
            Code::Mysql(1213 | 1020) => Some(Self::Deadlock),
            // The wait was too long, or NOWAIT.
            Code::Mysql(1205 | 3572) => Some(Self::Lock),
            _ => None,
        }
    }
}

/// A unique key is taken.
#[cfg(feature = "mysql")]
pub(super) fn is_duplicate(error: &Driver) -> bool {
    matches!(Code::of(error), Some(Code::Mysql(1062)))
}

/// Serialization failure, deadlock, lock not to be had, a table that was altered under a snapshot, SQLite busy or
/// locked.
pub(crate) fn is_retryable(error: &Driver) -> bool {
    match Code::of(error) {
        Some(Code::Sqlite(code)) => matches!(code, 5 | 6),
        Some(Code::Mysql(code)) => matches!(code, 1213 | 1205 | 3572 | 1020 | 1412),
        Some(Code::State(code)) => matches!(&*code, "40001" | "40P01" | "55P03"),
        None => false,
    }
}

/// The table, its schema or one of its columns is not there.
pub(crate) fn is_missing_table(error: &Driver) -> bool {
    match (Code::of(error), error) {
        (Some(Code::Sqlite(_)), Driver::Database(error)) => {
            error.message().starts_with("no such table")
                || error.message().starts_with("no such column")
        }
        (Some(Code::Mysql(code)), _) => matches!(code, 1146 | 1054 | 1049),
        (Some(Code::State(code)), Driver::Database(error)) => {
            matches!(&*code, "42P01" | "3F000" | "42703") && !in_a_function(&**error)
        }
        _ => false,
    }
}

/// A prepared statement is there already, or is not there: what a session looks like that several
/// clients take turns on.
pub(crate) fn is_mixed_up(error: &Driver) -> bool {
    match Code::of(error) {
        Some(Code::State(code)) => matches!(&*code, "42P05" | "26000"),
        _ => false,
    }
}

/// The server can't be reached, refuses connections or ended this one.
pub(crate) fn is_connection(error: &Driver) -> bool {
    match error {
        Driver::Io(_) | Driver::Tls(_) | Driver::Protocol(_) => true,
        Driver::PoolTimedOut | Driver::PoolClosed | Driver::WorkerCrashed => true,
        _ => match Code::of(error) {
            // CANTOPEN and NOTADB.
            Some(Code::Sqlite(code)) => matches!(code, 14 | 26),
            // What the server says of a connection that it ends or has not let in, and of what it could not read from
            // it or write to it.
            Some(ref code @ Code::Mysql(number)) => {
                code.is_down()
                    || matches!(
                        number,
                        1042 | 1043 | 1080 | 1129 | 1152..=1161 | 1184 | 1927 | 3169 | 4031
                    )
            }
            Some(code @ Code::State(_)) => {
                code.is_down() || matches!(&code, Code::State(code) if code.starts_with("08"))
            }
            None => false,
        },
    }
}

/// The server does not answer, is starting or stopping, or has no room for one more connection.
pub(crate) fn is_down(error: &Driver) -> bool {
    match error {
        Driver::Io(_) | Driver::PoolTimedOut => true,
        _ => Code::of(error).is_some_and(|code| code.is_down()),
    }
}

/// The server names the function, such as a trigger of the user's, in which the error arose.
fn in_a_function(error: &dyn sqlx::error::DatabaseError) -> bool {
    #[cfg(feature = "postgres")]
    if let Some(error) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        return error.r#where().is_some();
    }
    let _ = error;
    false
}

/// An attempt to write to a SQLite file that may only be read.
pub(crate) fn is_read_only(error: &Driver) -> bool {
    matches!(Code::of(error), Some(Code::Sqlite(8)))
}
