//! Columns as the wire carries them: what a claim reads of each row costs neither the server a conversion nor
//! the relay a crate for dates.

use sqlx::{Row as _, ValueRef as _, error::BoxDynError, postgres::PgRow};

/// From 1970, where our times begin, to 2000, where those of the wire begin.
const MICROS_TO_2000: i64 = 946_684_800_000_000;

/// A column of type `timestamptz`, in microseconds since 1970.
pub(super) fn maybe_time_at(row: &PgRow, column: usize) -> Result<Option<i64>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    let decoded = value.as_bytes().and_then(|bytes| {
        let micros = i64::from_be_bytes(bytes.try_into()?);
        Ok(Some(micros.saturating_add(MICROS_TO_2000)))
    });
    decoded.map_err(|error| undecodable(column, error))
}

/// The same, where there is one in each row.
pub(super) fn time_at(row: &PgRow, column: usize) -> Result<i64, sqlx::Error> {
    maybe_time_at(row, column)?.ok_or_else(|| undecodable(column, "a time is missing".into()))
}

/// The text of a column of type `json`, which travels as it was written.
pub(super) fn json(row: &PgRow, column: usize) -> Result<Option<String>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    let decoded = value.as_str().map(|text| Some(text.to_owned()));
    decoded.map_err(|error| undecodable(column, error))
}

fn undecodable(column: usize, source: BoxDynError) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_string(),
        source,
    }
}
