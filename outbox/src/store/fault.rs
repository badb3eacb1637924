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
    let Kind::Database { source, .. } = error.kind() else {
        return Fault::Connection;
    };
    let Driver::Database(database) = source else {
        return Fault::Connection;
    };
    let code = database.code().unwrap_or_default();
    let sqlite = sqlite_code(&**database, &code).is_some();
    match () {
        () if is_connection(source) || is_unwell(&code, sqlite) => Fault::Connection,
        // One writer: whoever holds it, holds all rows.
        () if is_retryable(source) && sqlite => Fault::Busy,
        // 57014: the statement was cancelled, by our own limit or by an administrator's hand.
        () if is_retryable(source) || (!sqlite && code == "57014") => Fault::Locked,
        () => Fault::Refused,
    }
}

/// The server, not the statement, is in trouble: out of resources (53), broken (58, XX), or demoted to
/// a standby (25006). In SQLite: I/O error, corrupt, full, read-only.
fn is_unwell(code: &str, sqlite: bool) -> bool {
    if sqlite {
        return code
            .parse::<u32>()
            .is_ok_and(|code| matches!(code & 0xff, 8 | 10 | 11 | 13));
    }
    code == "25006"
        || ["53", "58", "XX"]
            .iter()
            .any(|class| code.starts_with(class))
}

/// Serialization failure, deadlock, lock not to be had, SQLite busy or locked.
pub(crate) fn is_retryable(error: &Driver) -> bool {
    let Driver::Database(error) = error else {
        return false;
    };
    let Some(code) = error.code() else {
        return false;
    };
    match sqlite_code(&**error, &code) {
        Some(code) => matches!(code & 0xff, 5 | 6),
        None => matches!(&*code, "40001" | "40P01" | "55P03"),
    }
}

/// The table, its schema or one of its columns is not there.
pub(crate) fn is_missing_table(error: &Driver) -> bool {
    let Driver::Database(error) = error else {
        return false;
    };
    let Some(code) = error.code() else {
        return false;
    };
    match sqlite_code(&**error, &code) {
        Some(_) => {
            error.message().starts_with("no such table")
                || error.message().starts_with("no such column")
        }
        None => matches!(&*code, "42P01" | "3F000" | "42703") && !in_a_function(&**error),
    }
}

/// A prepared statement is there already, or is not there: what a session looks like that several
/// clients take turns on.
pub(crate) fn is_mixed_up(error: &Driver) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| matches!(&*code, "42P05" | "26000"))
}

/// The server can't be reached, refuses connections or ended this one.
pub(crate) fn is_connection(error: &Driver) -> bool {
    match error {
        Driver::Io(_) | Driver::Tls(_) | Driver::Protocol(_) => true,
        Driver::PoolTimedOut | Driver::PoolClosed | Driver::WorkerCrashed => true,
        Driver::Database(error) => match error.code() {
            Some(code) => match sqlite_code(&**error, &code) {
                // CANTOPEN and NOTADB.
                Some(code) => matches!(code & 0xff, 14 | 26),
                None => {
                    code.starts_with("08")
                        || matches!(&*code, "57P01" | "57P02" | "57P03" | "53300")
                }
            },
            None => false,
        },
        _ => false,
    }
}

/// The server does not answer, is starting or stopping, or has no room for one more connection.
pub(crate) fn is_down(error: &Driver) -> bool {
    match error {
        Driver::Io(_) | Driver::PoolTimedOut => true,
        Driver::Database(error) => {
            let code = error.code();
            code.is_some_and(|code| matches!(&*code, "57P01" | "57P02" | "57P03" | "53300"))
        }
        _ => false,
    }
}

/// SQLite's codes are plain numbers, which a SQLSTATE of Postgres may look like as well.
fn sqlite_code(error: &dyn sqlx::error::DatabaseError, code: &str) -> Option<u32> {
    #[cfg(feature = "sqlite")]
    if error
        .try_downcast_ref::<sqlx::sqlite::SqliteError>()
        .is_some()
    {
        return code.parse().ok();
    }
    let _ = (error, code);
    None
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
    let Some(error) = error.as_database_error() else {
        return false;
    };
    let code = error.code().and_then(|code| sqlite_code(error, &code));
    code.is_some_and(|code| code & 0xff == 8)
}
