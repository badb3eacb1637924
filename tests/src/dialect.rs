//! The SQL snippets in which the databases differ; everything else in the suite is plain SQL.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::{Db, db::MysqlDb};

impl Db {
    /// One snippet or the other.
    #[must_use]
    pub fn pick<'s>(&self, postgres: &'s str, mysql: &'s str, sqlite: &'s str) -> &'s str {
        match self {
            Self::Postgres(_) => postgres,
            Self::Mysql(_) => mysql,
            Self::Sqlite(_) => sqlite,
        }
    }

    /// The database's time now.
    #[must_use]
    pub fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "clock_timestamp()",
            Self::Mysql(_) => "UTC_TIMESTAMP(6)",
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
            Self::Mysql(_) => format!(
                "(UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND)",
                millis * 1_000
            ),
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
            Self::Mysql(_) => {
                format!("(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time}) DIV 1000)")
            }
            Self::Sqlite(_) => format!("({time})"),
        }
    }

    /// An id or a token as a literal.
    #[must_use]
    pub fn uuid(&self, id: Uuid) -> String {
        match self {
            Self::Postgres(_) => format!("'{id}'::uuid"),
            Self::Mysql(_) => format!("x'{}'", id.simple()),
            Self::Sqlite(_) => format!("'{id}'"),
        }
    }

    /// A column of ids or tokens as text.
    #[must_use]
    pub fn uuid_text(&self, column: &str) -> String {
        match self {
            Self::Postgres(_) | Self::Sqlite(_) => self.as_text(column),
            Self::Mysql(_) => [9, 14, 19, 24]
                .iter()
                .fold(format!("LOWER(HEX({column}))"), |text, at| {
                    format!("INSERT({text}, {at}, 0, '-')")
                }),
        }
    }

    /// A value as text.
    #[must_use]
    pub fn as_text(&self, value: &str) -> String {
        match self {
            Self::Postgres(_) | Self::Sqlite(_) => format!("CAST({value} AS text)"),
            Self::Mysql(_) => format!("CONVERT({value} USING utf8mb4)"),
        }
    }

    /// A value as a whole number.
    #[must_use]
    pub fn as_number(&self, value: &str) -> String {
        match self {
            Self::Postgres(_) | Self::Sqlite(_) => format!("CAST({value} AS bigint)"),
            Self::Mysql(_) => format!("CAST({value} AS SIGNED)"),
        }
    }

    /// A source of the numbers 1 to `n` as `number`, for `INSERT INTO … SELECT … FROM`.
    #[must_use]
    pub fn numbers(&self, n: usize) -> String {
        match self {
            Self::Postgres(_) => format!("generate_series(1, {n}) AS numbers(number)"),
            Self::Mysql(_) => format!(
                "(WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers \
                 WHERE number < {n}) SELECT number FROM numbers) AS numbers"
            ),
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
            Self::Mysql(_) | Self::Sqlite(_) => format!("({text})"),
        }
    }

    /// Inserts `n` tasks, numbered from 1 and due in that order, into a topic by plain SQL.
    pub async fn insert_tasks(&self, topic: &str, n: usize) {
        let due = match self {
            Self::Postgres(_) => {
                "clock_timestamp() - interval '1 minute' + number * interval '1 microsecond'"
            }
            Self::Mysql(_) => "UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE + INTERVAL number MICROSECOND",
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

    /// Counts the sessions of this database that wait for a lock.
    #[must_use]
    pub fn lock_waits(&self) -> &'static str {
        match self {
            Self::Postgres(_) => {
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            }
            Self::Mysql(_) => {
                // InnoDB's own tables show nothing new to whoever looks often. Nothing else here takes so long.
                "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() \
                 AND command IN ('Query', 'Execute') AND time_ms > 300"
            }
            Self::Sqlite(_) => panic!("SQLite has no sessions to ask for"),
        }
    }

    /// Counts the other sessions of this database that have a transaction open.
    #[must_use]
    pub fn open_transactions(&self) -> &'static str {
        match self {
            Self::Postgres(_) => {
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND pid <> pg_backend_pid() AND state <> 'idle'"
            }
            Self::Mysql(_) => {
                "SELECT count(*) FROM information_schema.innodb_trx AS t \
                 JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id \
                 WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()"
            }
            Self::Sqlite(_) => panic!("SQLite has no sessions to ask for"),
        }
    }

    /// Ends all other sessions of this database; how many it were.
    pub async fn end_other_sessions(&self) -> i64 {
        match self {
            Self::Postgres(_) => {
                self.scalar(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
                )
                .await
            }
            Self::Mysql(_) => {
                let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                              WHERE db = DATABASE() AND id <> CONNECTION_ID()";
                let others = self.scalars(others).await;
                // The session that runs this may be one of them, or one may have ended by now.
                let mut admin = MysqlDb::admin(&self.url()).await;
                for id in &others {
                    let kill = AssertSqlSafe(format!("KILL CONNECTION {id}"));
                    let _ = sqlx::raw_sql(kill).execute(&mut admin).await;
                }
                i64::try_from(others.len()).expect("a few")
            }
            Self::Sqlite(_) => panic!("SQLite has no sessions to end"),
        }
    }

    /// Makes each later `DELETE` of a row fail.
    pub async fn refuse_deletes(&self) {
        let sql = self.pick(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'this row stays'; END $$; \
             CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()",
            "CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this row stays'",
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
            Self::Mysql(_) => {
                self.execute(&format!(
                    "CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW \
                     IF {condition} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this row is cursed'; END IF"
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
