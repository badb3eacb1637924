//! The one error type of the public API.

use std::{error::Error as StdError, fmt};

use crate::Invalid;

/// Why an operation failed.
///
/// Opaque on purpose: the predicates say what a caller can act on, [`source`](StdError::source)
/// leads to the driver's error. No error text contains a payload, a header's value or a password.
pub struct Error(Box<Kind>);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error(
        "no open transaction on this connection: a message published here would commit on its own; \
         begin a transaction and publish on it (`let mut tx = pool.begin().await?;`)"
    )]
    NotInTransaction,
    #[error("message for topic `{topic}` is invalid: {invalid}")]
    Invalid {
        topic: &'static str,
        invalid: Invalid,
    },
    #[error("the corrected payload is refused: {0}")]
    Correction(Invalid),
    #[error("message for topic `{topic}` can't be serialized: {source}")]
    Serialize {
        topic: &'static str,
        source: serde_json::Error,
    },
    #[error(
        "message for topic `{topic}` has a payload of {bytes} bytes, the limit is {limit}; \
         publish a reference to the data, or raise `Outbox::builder().max_payload(..)`"
    )]
    TooLarge {
        topic: &'static str,
        bytes: usize,
        limit: usize,
    },
    #[error(
        "message for topic `{topic}` has {bytes} bytes, and the server takes {limit} in one packet; \
         publish a reference to the data, or raise the server's `max_allowed_packet`"
    )]
    #[cfg(feature = "mysql")]
    TooLargeForServer {
        topic: &'static str,
        bytes: usize,
        limit: usize,
    },
    #[error("{0}")]
    #[cfg(feature = "mysql")]
    Busy(&'static str),
    #[error(
        "no answer from the database within {after:?} while {doing}; \
         roll the transaction back: the statement may still reach the server"
    )]
    PublishTimeout {
        doing: &'static str,
        after: std::time::Duration,
    },
    #[error("no answer from the database within {after:?} while {doing}")]
    Timeout {
        doing: &'static str,
        after: std::time::Duration,
    },
    #[error("{0}")]
    Config(String),
    #[error("{0}")]
    Schema(String),
    #[error("{doing}: {source}")]
    Database {
        doing: &'static str,
        source: sqlx::Error,
    },
    #[error(
        "publishing: a row was not written, though none with its id or dedup key is there; \
         look for a trigger on the outbox's table that skips it"
    )]
    Skipped,
    #[cfg(feature = "testing")]
    #[error("message {id} of topic `{topic}`: {reason}")]
    Undecodable {
        id: uuid::Uuid,
        topic: &'static str,
        reason: String,
    },
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    pub(crate) fn config(text: impl Into<String>) -> Self {
        Self::new(Kind::Config(text.into()))
    }

    pub(crate) fn schema(text: impl Into<String>) -> Self {
        Self::new(Kind::Schema(text.into()))
    }

    /// The same error of the driver, with other words for what was being done.
    #[cfg(feature = "postgres")]
    pub(crate) fn while_doing(self, doing: &'static str) -> Self {
        match *self.0 {
            Kind::Database { source, .. } => Self::new(Kind::Database { doing, source }),
            _ => self,
        }
    }

    /// The connection is not inside a transaction; nothing was sent to the database.
    #[must_use]
    pub fn is_not_in_transaction(&self) -> bool {
        matches!(*self.0, Kind::NotInTransaction)
    }

    /// The message breaks its own rules or can't be stored as it is; nothing was sent to the
    /// database. The broken rules are in [`invalid`](Self::invalid). From the test kit: a row is no
    /// message of its type.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        match *self.0 {
            Kind::Invalid { .. } | Kind::Correction(_) | Kind::Serialize { .. } => true,
            #[cfg(feature = "testing")]
            Kind::Undecodable { .. } => true,
            _ => false,
        }
    }

    /// The broken rules with the paths of their fields; `None` for other errors, and for a message
    /// whose `Serialize` failed.
    #[must_use]
    pub fn invalid(&self) -> Option<&Invalid> {
        match &*self.0 {
            Kind::Invalid { invalid, .. } | Kind::Correction(invalid) => Some(invalid),
            _ => None,
        }
    }

    /// The payload is larger than the outbox allows, or than a server of MySQL's kind takes in one packet; nothing of
    /// it was sent to the database.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        match *self.0 {
            Kind::TooLarge { .. } => true,
            #[cfg(feature = "mysql")]
            Kind::TooLargeForServer { .. } => true,
            _ => false,
        }
    }

    /// The database did not answer in time. At publish: roll the transaction back.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Kind::Timeout { .. } | Kind::PublishTimeout { .. })
    }

    /// The same transaction may succeed when it is run again from its start: a serialization
    /// failure, a deadlock, a lock that was not to be had in time, a busy SQLite file, another migrator.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Kind::Database { source, .. } => crate::store::is_retryable(source),
            #[cfg(feature = "mysql")]
            Kind::Busy(_) => true,
            _ => false,
        }
    }

    /// The outbox's tables are missing, or of a version that this build can't use.
    #[must_use]
    pub fn is_schema_mismatch(&self) -> bool {
        match &*self.0 {
            Kind::Schema(_) => true,
            Kind::Database { source, .. } => crate::store::is_missing_table(source),
            _ => false,
        }
    }

    /// The database can't be reached, or the connection broke.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        match &*self.0 {
            Kind::Database { source, .. } => crate::store::is_connection(source),
            _ => false,
        }
    }

    /// Nobody answers, or not yet: what a start may wait for.
    pub(crate) fn is_down(&self) -> bool {
        match &*self.0 {
            Kind::Timeout { .. } => true,
            Kind::Database { source, .. } => crate::store::is_down(source),
            _ => false,
        }
    }

    /// A setting is out of its range, a delay too long to be stored, a MySQL or MariaDB too old, or a SQLite file may
    /// only be read.
    #[must_use]
    pub fn is_config(&self) -> bool {
        match &*self.0 {
            Kind::Config(_) => true,
            Kind::Database { source, .. } => crate::store::is_read_only(source),
            _ => false,
        }
    }
}

/// Names what was being done when the driver failed.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::new(Kind::Database { doing, source }))
    }
}

/// The same text as `Display`: a driver's own `Debug` prints the server's detail, which quotes rows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "outbox::Error({self})")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Database { doing, source } if self.is_schema_mismatch() => {
                write!(
                    f,
                    "{doing}: {source}; if that is the outbox's table, run `outbox::migrate(&pool)` first"
                )
            }
            Kind::Database { doing, source } if crate::store::is_mixed_up(source) => {
                write!(
                    f,
                    "{doing}: {source}; if a pooler such as PgBouncer stands before the database, \
                     use an outbox of `Outbox::builder().pooler(true)`"
                )
            }
            kind => kind.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
