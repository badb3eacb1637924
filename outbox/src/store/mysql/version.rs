//! Which server that is, and what it has to be told.

use std::time::Duration;

use sqlx::{MySqlConnection, Row as _};

use super::super::Limits;
use crate::{Error, error::Doing as _};

/// A server that is new enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    MariaDb,
    MySql,
}

/// The first with SKIP LOCKED and JSON_TABLE.
const MARIADB: (u32, u32, u32) = (10, 6, 0);

/// The first whose texts can be compared byte for byte; SKIP LOCKED is older.
const MYSQL: (u32, u32, u32) = (8, 0, 17);

impl Server {
    /// Asks the server.
    pub(super) async fn of(connection: &mut MySqlConnection) -> Result<Self, Error> {
        const DOING: &str = "asking for the server's version";
        let row = sqlx::query("SELECT VERSION()").fetch_one(connection).await;
        let text: String = row.and_then(|row| row.try_get(0)).doing(DOING)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let (server, name, oldest) = if text.to_ascii_lowercase().contains("mariadb") {
            (Self::MariaDb, "MariaDB", MARIADB)
        } else {
            (Self::MySql, "MySQL", MYSQL)
        };
        // MariaDB may put this before its own, for replicas that know no greater one.
        let numbers = text.strip_prefix("5.5.5-").unwrap_or(text);
        let mut numbers = numbers
            .split(|c: char| !c.is_ascii_digit())
            .map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        let version = (next(), next(), next());
        if version < oldest {
            let (major, minor, patch) = oldest;
            return Err(Error::config(format!(
                "the server is {name} {}, which lacks what the outbox needs, such as FOR UPDATE SKIP LOCKED; \
                 use {name} {major}.{minor}.{patch} or later",
                text.strip_prefix("5.5.5-").unwrap_or(text)
            )));
        }
        Ok(server)
    }

    /// How a relay's session has to behave, whatever the server's or the role's defaults are.
    pub(super) fn settings(self, limits: Limits) -> String {
        let seconds = |limit: Duration| limit.as_secs().max(1);
        let mut sql = format!(
            // At REPEATABLE READ a claim would lock the gaps between rows, and so keep publishers from writing.
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION TRANSACTION READ WRITE; \
             SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             autocommit = 1, innodb_lock_wait_timeout = {}",
            seconds(limits.lock)
        );
        match self {
            Self::MariaDb => {
                sql += &format!(
                    ", max_statement_time = {:.3}, idle_transaction_timeout = {}",
                    limits.statement.as_secs_f64().max(0.001),
                    seconds(limits.statement)
                );
            }
            // Of what only reads; other statements are given up by this side.
            Self::MySql => {
                sql += &format!(
                    ", max_execution_time = {}",
                    limits.statement.as_millis().max(1)
                );
            }
        }
        sql
    }
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn servers_are_told_apart() {
        for text in [
            "10.6.0-MariaDB",
            "5.5.5-10.11.6-MariaDB-0+deb12u1",
            "11.4.2-MariaDB-log",
        ] {
            assert_eq!(Server::parse(text).ok(), Some(Server::MariaDb), "{text}");
        }
        for text in ["8.0.17", "8.4.0-log", "9.1.0"] {
            assert_eq!(Server::parse(text).ok(), Some(Server::MySql), "{text}");
        }
    }

    #[test]
    fn an_old_server_is_refused_by_its_version() {
        let refused = |text: &str| Server::parse(text).expect_err(text).to_string();
        assert!(
            refused("10.5.27-MariaDB-log")
                .starts_with("the server is MariaDB 10.5.27-MariaDB-log,")
        );
        assert!(refused("5.5.5-10.5.9-MariaDB").ends_with("use MariaDB 10.6.0 or later"));
        assert!(refused("8.0.16").ends_with("use MySQL 8.0.17 or later"));
        assert!(refused("5.7.44").starts_with("the server is MySQL 5.7.44,"));
    }
}
