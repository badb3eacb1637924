//! Dead letters: what was given up, why, and how it gets another chance.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::Deserialize;
use uuid::Uuid;

use crate::{
    Error, Outbox,
    store::{self, DatabasePool, Store},
};

/// A message that was given up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The message's id.
    pub id: Uuid,
    /// Its topic.
    pub topic: String,
    /// The version of its payload.
    pub version: u32,
    /// Its key.
    pub key: Option<String>,
    /// How often it was claimed since it was published or last redriven.
    pub attempts: u32,
    /// How often it was redriven.
    pub redrives: u32,
    /// Its last ten failures, oldest first; the last one says why it is dead.
    pub errors: Vec<Failure>,
    /// When it was published.
    pub created_at: SystemTime,
    /// When it was given up.
    pub died_at: SystemTime,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Which attempt failed; the first is 1.
    pub attempt: u32,
    /// When, by the database's clock.
    pub at: SystemTime,
    /// What the handler, or the relay, said.
    pub text: String,
}

/// Reads the `errors` column; what is not in our form was written by somebody else and is left out.
pub(crate) fn failures(json: &str) -> Vec<Failure> {
    #[derive(Deserialize)]
    struct Stored {
        attempt: u32,
        at: u64,
        text: String,
    }
    let stored: Vec<serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
    let stored = stored
        .into_iter()
        .filter_map(|failure| serde_json::from_value::<Stored>(failure).ok());
    let failures = stored.map(|Stored { attempt, at, text }| Failure {
        attempt,
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(at),
        text,
    });
    failures.collect()
}

/// The dead letters of an outbox; made by [`Outbox::dead_letters`].
#[must_use = "call `.list().await` or `.redrive(id).await`"]
pub struct DeadLetters {
    store: Result<Arc<dyn Store>, Error>,
    limit: u32,
}

impl Outbox {
    /// The dead letters of this outbox: `outbox.dead_letters(&pool).list().await?` lists them,
    /// `outbox.dead_letters(&pool).redrive(letter.id).await?` gives one another chance.
    pub fn dead_letters(&self, pool: &impl DatabasePool) -> DeadLetters {
        DeadLetters {
            store: store::reach(self, pool),
            limit: 100,
        }
    }
}

impl DeadLetters {
    /// How many [`list`](Self::list) returns at most. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Lists dead letters, the latest first.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`]; [`Error::is_schema_mismatch`] without the table.
    pub async fn list(self) -> Result<Vec<DeadLetter>, Error> {
        self.store?.dead_letters(self.limit).await
    }

    /// Makes a dead message pending again, due at once, with all its attempts; its errors stay.
    /// Returns false, and changes nothing, if no dead message has this id.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`]; [`Error::is_schema_mismatch`] without the table.
    pub async fn redrive(self, id: Uuid) -> Result<bool, Error> {
        self.store?.redrive(id).await
    }
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
