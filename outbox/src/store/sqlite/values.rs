//! How ids and times stand in SQLite: as text, and as milliseconds.

use std::time::{Duration, SystemTime};

use sqlx::{Row as _, sqlite::SqliteRow};
use uuid::Uuid;

use crate::publish::to_micros;

pub(super) fn uuid(row: &SqliteRow, column: usize) -> Result<Uuid, sqlx::Error> {
    let text: &str = row.try_get(column)?;
    Uuid::parse_str(text).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// Milliseconds, rounded up: never earlier than asked for.
pub(super) fn millis(duration: Duration) -> i64 {
    to_micros(duration).saturating_add(999) / 1_000
}

/// Milliseconds since 1970.
pub(super) fn time(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
