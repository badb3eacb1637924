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
        () if is_connection(source) => Fault::Connection,
        // One writer: whoever holds it, holds all rows.
        () if is_retryable(source) && sqlite => Fault::Busy,
        // 57014: the statement was cancelled, by our own limit or by an administrator's hand.
        () if is_retryable(source) || (!sqlite && code == "57014") => Fault::Locked,
        () => Fault::Refused,
    }
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
        None => matches!(&*code, "42P01" | "3F000" | "42703"),
    }
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
