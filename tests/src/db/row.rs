//! What stands in the outbox's table.

use serde_json::Value;
use uuid::Uuid;

/// A row of the outbox; times are milliseconds since 1970 by the database's clock.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the table's columns, which its DDL explains"
)]
pub struct Row {
    pub id: Uuid,
    pub topic: String,
    pub version: i64,
    pub key: Option<String>,
    pub payload: String,
    pub headers: Option<String>,
    pub state: String,
    pub attempts: i64,
    pub unsettled: i64,
    pub token: Option<String>,
    pub dedup_key: Option<String>,
    pub errors: Vec<Value>,
    pub redrives: i64,
    pub available_at: i64,
    pub leased_until: Option<i64>,
    pub created_at: i64,
    pub settled_at: Option<i64>,
}

impl Row {
    /// The texts of the failures, oldest first.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        self.errors
            .iter()
            .map(|error| error["text"].as_str().expect("a failure has a text"))
            .collect()
    }

    /// The text of the latest failure.
    #[must_use]
    pub fn last_text(&self) -> &str {
        self.texts().last().copied().expect("there is a failure")
    }
}
