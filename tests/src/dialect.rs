//! The SQL snippets in which the databases differ; everything else in the suite is plain SQL.

use std::time::Duration;

use uuid::Uuid;

use crate::Db;

impl Db {
    /// One snippet or the other.
    #[must_use]
    pub fn pick<'s>(&self, postgres: &'s str, sqlite: &'s str) -> &'s str {
        match self {
            Self::Postgres(_) => postgres,
            Self::Sqlite(_) => sqlite,
        }
    }

    /// The database's time now.
    #[must_use]
    pub fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "clock_timestamp()",
            Self::Sqlite(_) => "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
        }
    }

    /// A time that lies ahead.
    #[must_use]
    pub fn ahead(&self, by: Duration) -> String {
        self.shifted(i64::try_from(by.as_millis()).expect("a short time"))
    }

    /// A time that lies back.
    #[must_use]
    pub fn ago(&self, by: Duration) -> String {
        self.shifted(-i64::try_from(by.as_millis()).expect("a short time"))
    }

    fn shifted(&self, millis: i64) -> String {
        match self {
            Self::Postgres(_) => format!("(clock_timestamp() + interval '{millis} milliseconds')"),
            Self::Sqlite(_) => format!("({} + {millis})", self.now()),
        }
    }

    /// A column of time as milliseconds since 1970.
    #[must_use]
    pub fn as_millis(&self, time: &str) -> String {
        match self {
            Self::Postgres(_) => {
                format!("CAST(floor(extract(epoch FROM {time}) * 1000) AS bigint)")
            }
            Self::Sqlite(_) => format!("({time})"),
        }
    }

    /// An id or a token as a literal.
    #[must_use]
    pub fn uuid(&self, id: Uuid) -> String {
        match self {
            Self::Postgres(_) => format!("'{id}'::uuid"),
            Self::Sqlite(_) => format!("'{id}'"),
        }
    }

    /// A source of the numbers 1 to `n` as `number`, for `INSERT INTO … SELECT … FROM`.
    #[must_use]
    pub fn numbers(&self, n: usize) -> String {
        match self {
            Self::Postgres(_) => format!("generate_series(1, {n}) AS numbers(number)"),
            Self::Sqlite(_) => format!(
                "(WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers \
                 WHERE number < {n}) SELECT number FROM numbers)"
            ),
        }
    }

    /// The payload of the n-th task, made of a column.
    #[must_use]
    pub fn payload_of(&self, number: &str) -> String {
        let text = format!("'{{\"name\":\"task\",\"number\":' || {number} || '}}'");
        match self {
            Self::Postgres(_) => format!("({text})::json"),
            Self::Sqlite(_) => format!("({text})"),
        }
    }

    /// Inserts `n` tasks, numbered from 1 and due in that order, into a topic by plain SQL.
    pub async fn insert_tasks(&self, topic: &str, n: usize) {
        let due = match self {
            Self::Postgres(_) => {
                "clock_timestamp() - interval '1 minute' + number * interval '1 microsecond'"
            }
            Self::Sqlite(_) => {
                "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) - 60000 + number / 1000"
            }
        };
        self.execute(&format!(
            "INSERT INTO outbox (topic, payload, available_at) SELECT '{topic}', {}, {due} FROM {}",
            self.payload_of("number"),
            self.numbers(n)
        ))
        .await;
    }

    /// Makes each later `DELETE` of a row fail.
    pub async fn refuse_deletes(&self) {
        let sql = self.pick(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'this row stays'; END $$; \
             CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()",
            "CREATE TRIGGER keep BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'this row stays'); END",
        );
        self.execute(sql).await;
    }

    /// Makes each later statement that changes a row `WHEN` the condition on `NEW` fail.
    pub async fn refuse_updates(&self, condition: &str) {
        match self {
            Self::Postgres(_) => {
                self.execute(
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN RAISE EXCEPTION 'this row is cursed'; END $$",
                )
                .await;
                self.execute(&format!(
                    "CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW WHEN ({condition}) \
                     EXECUTE FUNCTION refuse()"
                ))
                .await;
            }
            Self::Sqlite(_) => {
                self.execute(&format!(
                    "CREATE TRIGGER refuse BEFORE UPDATE ON outbox WHEN {condition} \
                     BEGIN SELECT RAISE(ABORT, 'this row is cursed'); END"
                ))
                .await;
            }
        }
    }
}
