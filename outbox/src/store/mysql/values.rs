//! How times and texts stand in MySQL: as DATETIME(6) in UTC, read as microseconds since 1970.

use std::{
    string::FromUtf8Error,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use sqlx::{Row as _, mysql::MySqlRow};
use uuid::Uuid;

/// The database's clock, as of the statement's start. The one expression by which SQL tells the time.
macro_rules! now {
    () => {
        "UTC_TIMESTAMP(6)"
    };
}
pub(super) use now;

/// A time as microseconds since 1970.
macro_rules! micros {
    ($($time:expr),+) => {
        concat!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ", $($time),+, ")")
    };
}
pub(super) use micros;

/// The time that is bound as microseconds since 1970, or NULL.
macro_rules! time {
    () => {
        "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND)"
    };
}
pub(super) use time;

/// The time that lies so many bound microseconds ahead, or NULL.
macro_rules! ahead {
    () => {
        concat!("(", super::values::now!(), " + INTERVAL ? MICROSECOND)")
    };
}
pub(super) use ahead;

/// The clock, unless an earlier time is bound in its place.
macro_rules! until {
    () => {
        concat!(
            "LEAST(",
            super::values::now!(),
            ", IFNULL(",
            super::values::time!(),
            ", ",
            super::values::now!(),
            "))"
        )
    };
}
pub(super) use until;

/// Appends a failure to the last nine; its text is an SQL expression.
macro_rules! error_added {
    ($text:literal) => {
        concat!(
            "o.errors = JSON_ARRAY_APPEND(
        IF(JSON_LENGTH(o.errors) >= 10, JSON_REMOVE(o.errors, '$[0]'), o.errors), '$',
        JSON_OBJECT('attempt', o.attempts, 'at', ",
            super::values::micros!(super::values::now!()),
            " DIV 1000, 'text', ",
            $text,
            "))"
        )
    };
}
pub(super) use error_added;

/// A topic that is bound, or that stands in a list. Those of the table are ASCII, and no text that is not can be
/// compared with them.
macro_rules! topic {
    () => {
        topic!("?")
    };
    ($text:literal) => {
        concat!("CONVERT(", $text, " USING ascii) COLLATE ascii_bin")
    };
}
pub(super) use topic;

/// The rows of these ids, found one by one, so that no other is locked: in a join whose order stands, by an index that it
/// can not do without. Binds a JSON array of
/// [`hex`].
macro_rules! by_ids {
    () => {
        "JSON_TABLE(?, '$[*]' COLUMNS (id CHAR(32) PATH '$')) AS listed
STRAIGHT_JOIN `outbox` AS o FORCE INDEX (PRIMARY) ON o.id = UNHEX(listed.id)"
    };
}
pub(super) use by_ids;

/// The type of a text in JSON_TABLE. By itself, MariaDB takes the character set of the database, which may know no
/// character of four bytes.
macro_rules! text_type {
    () => {
        "LONGTEXT /*M! CHARACTER SET utf8mb4 */"
    };
}
pub(super) use text_type;

/// An id or a token as it stands in the JSON that statements take.
pub(super) fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

/// What [`by_ids`] takes.
pub(super) fn ids_json(ids: impl IntoIterator<Item = Uuid>) -> String {
    Value::from_iter(ids.into_iter().map(|id| json!(hex(id)))).to_string()
}

/// A dedup key. Its column compares bytes, and so is not held to be UTF-8 as the texts are.
pub(super) fn dedup_key(
    row: &MySqlRow,
    column: usize,
) -> Result<Result<Option<String>, FromUtf8Error>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get(column)?;
    Ok(bytes.map(String::from_utf8).transpose())
}

/// A count as the integer that the columns are; a count never gets near its end.
pub(super) fn stored(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Of microseconds since 1970.
pub(super) fn since_1970(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
