//! What stands in the outbox's table.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Row as _};
use uuid::Uuid;

use crate::{Db, each};

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

impl Db {
    /// The row of this id.
    pub async fn row(&self, id: Uuid) -> Option<Row> {
        self.rows(&format!("id = {}", self.uuid(id))).await.pop()
    }

    /// The rows of the outbox that fulfil a condition, by id.
    pub async fn rows(&self, condition: &str) -> Vec<Row> {
        let millis = |column| format!("{} AS {column}", self.as_millis(column));
        let sql = format!(
            "SELECT {} AS id, topic, {} AS version, \"key\", {} AS payload, {} AS headers, state, {} AS attempts, \
             {} AS unsettled, {} AS token, {} AS dedup_key, {} AS errors, {} AS redrives, {}, {}, {}, {} \
             FROM outbox WHERE {condition} ORDER BY outbox.id",
            self.uuid_text("id"),
            self.as_number("version"),
            self.as_text("payload"),
            self.as_text("headers"),
            self.as_number("attempts"),
            self.as_number("unsettled"),
            self.uuid_text("token"),
            self.as_text("dedup_key"),
            self.as_text("errors"),
            self.as_number("redrives"),
            millis("available_at"),
            millis("leased_until"),
            millis("created_at"),
            millis("settled_at"),
        );
        each!(self.direct(), pool => {
            let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(pool).await.expect("the rows are read");
            rows.iter()
                .map(|row| Row {
                    id: row.get::<&str, _>("id").parse().expect("an id is a UUID"),
                    topic: row.get("topic"),
                    version: row.get("version"),
                    key: row.get("key"),
                    payload: row.get("payload"),
                    headers: row.get("headers"),
                    state: row.get("state"),
                    attempts: row.get("attempts"),
                    unsettled: row.get("unsettled"),
                    token: row.get("token"),
                    dedup_key: row.get("dedup_key"),
                    errors: serde_json::from_str(row.get("errors")).expect("errors are JSON"),
                    redrives: row.get("redrives"),
                    available_at: row.get("available_at"),
                    leased_until: row.get("leased_until"),
                    created_at: row.get("created_at"),
                    settled_at: row.get("settled_at"),
                })
                .collect()
        })
    }
}
