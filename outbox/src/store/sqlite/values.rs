//! How ids and times stand in SQLite: as text, and as milliseconds.

use std::{
    string::FromUtf8Error,
    time::{Duration, SystemTime},
};

use sqlx::{Row as _, sqlite::SqliteRow};
use uuid::Uuid;

use crate::publish::to_micros;

pub(super) fn uuid(row: &SqliteRow, column: usize) -> Result<Uuid, sqlx::Error> {
    let text: &str = row.try_get(column)?;
    Uuid::parse_str(text).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// A text as it is stored, which need not be UTF-8: SQLite does not check what it is given.
pub(super) fn text(
    row: &SqliteRow,
    column: usize,
) -> Result<Result<Option<String>, FromUtf8Error>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
    Ok(bytes.map(String::from_utf8).transpose())
}

/// A text for people to read: what is not UTF-8 is shown as U+FFFD.
pub(super) fn shown(row: &SqliteRow, column: usize) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Milliseconds, rounded up: never earlier than asked for.
pub(super) fn millis(duration: Duration) -> i64 {
    to_micros(duration).saturating_add(999) / 1_000
}

/// Milliseconds since 1970.
pub(super) fn time(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
