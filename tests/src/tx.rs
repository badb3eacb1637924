//! A transaction type that is not sqlx's, which messages join through an adapter.

use std::fmt;

use outbox::{Enlist, Enlisted};
use sqlx::{AssertSqlSafe, MySql, Postgres, Sqlite, Transaction};

/// The adapter under which [`Tx`] joins as a transaction type that is not sqlx's.
#[derive(Debug, Clone, Copy)]
pub struct Adapter;

/// An open transaction on one of the databases. It is foreign to the library, and joined by an adapter.
pub enum Tx {
    /// On Postgres.
    Postgres(Transaction<'static, Postgres>),
    /// On MySQL or MariaDB.
    Mysql(Transaction<'static, MySql>),
    /// On SQLite.
    Sqlite(Transaction<'static, Sqlite>),
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

impl Enlist<Adapter> for Tx {
    fn enlist(&mut self) -> Result<Enlisted<'_>, outbox::Error> {
        match self {
            Self::Postgres(tx) => Enlisted::postgres(tx),
            Self::Mysql(tx) => Enlisted::mysql(tx),
            Self::Sqlite(tx) => Enlisted::sqlite(tx),
        }
    }
}

impl Tx {
    /// Commits.
    pub async fn commit(self) {
        self.try_commit().await.expect("the transaction commits");
    }

    /// Commits, if the database agrees.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn try_commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(tx) => tx.commit().await,
            Self::Mysql(tx) => tx.commit().await,
            Self::Sqlite(tx) => tx.commit().await,
        }
    }

    /// Rolls back.
    pub async fn rollback(self) {
        match self {
            Self::Postgres(tx) => tx.rollback().await,
            Self::Mysql(tx) => tx.rollback().await,
            Self::Sqlite(tx) => tx.rollback().await,
        }
        .expect("the transaction rolls back");
    }

    /// Runs one or more statements; the number of rows that they changed.
    pub async fn execute(&mut self, sql: &str) -> u64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Postgres(tx) => sqlx::raw_sql(sql)
                .execute(&mut **tx)
                .await
                .map(|done| done.rows_affected()),
            Self::Mysql(tx) => sqlx::raw_sql(sql)
                .execute(&mut **tx)
                .await
                .map(|done| done.rows_affected()),
            Self::Sqlite(tx) => sqlx::raw_sql(sql)
                .execute(&mut **tx)
                .await
                .map(|done| done.rows_affected()),
        }
        .expect("the statement runs")
    }

    /// The one value of a query.
    pub async fn scalar(&mut self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            // A pooler lets no statement outlive its transaction.
            Self::Postgres(tx) => {
                sqlx::query_scalar(sql)
                    .persistent(false)
                    .fetch_one(&mut **tx)
                    .await
            }
            Self::Mysql(tx) => sqlx::query_scalar(sql).fetch_one(&mut **tx).await,
            Self::Sqlite(tx) => sqlx::query_scalar(sql).fetch_one(&mut **tx).await,
        }
        .expect("the query has one value")
    }
}
