//! Setting the tables up, and checking that they are what this build needs.

use crate::{
    Error, MigrationScript, Outbox,
    store::{self, DatabasePool},
};

/// Creates or updates the tables of the default outbox; see [`Outbox::migrate`].
///
/// # Errors
///
/// See [`Outbox::migrate`].
pub async fn migrate(pool: &impl DatabasePool) -> Result<(), Error> {
    Outbox::default().migrate(pool).await
}

/// Checks the tables of the default outbox; see [`Outbox::check`].
///
/// # Errors
///
/// See [`Outbox::check`].
pub async fn check(pool: &impl DatabasePool) -> Result<(), Error> {
    Outbox::default().check(pool).await
}

impl Outbox {
    /// Creates or updates this outbox's tables, and its schema where that is missing: all of it in one
    /// transaction, or nothing; on MySQL and MariaDB one statement after the other, and what was cut off is finished by
    /// the next call. Any number of processes may do so at once, and relays and publishers may go on
    /// meanwhile: where a lock is not to be had within 300 ms it lets them through and tries again. The history
    /// stands in a table of its own, apart from the application's migrations.
    ///
    /// # Errors
    ///
    /// [`Error::is_schema_mismatch`] if the tables are newer than this build can work with;
    /// [`Error::is_retryable`] if a lock was not to be had within 10 s; [`Error::is_connection`].
    pub async fn migrate(&self, pool: &impl DatabasePool) -> Result<(), Error> {
        store::reach(self, pool)?.migrate().await
    }

    /// The SQL of each version of this outbox's tables, oldest first: for whoever applies it by hand, or by
    /// a migration tool of their own, each in one transaction. It is what [`migrate`](Self::migrate) runs, which
    /// then finds nothing left to do. Nothing is asked of the database: a pool made by `connect_lazy` will do.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # fn example(pool: sqlx::PgPool) -> Result<(), outbox::Error> {
    /// for script in outbox::Outbox::default().migration_scripts(&pool)? {
    ///     println!("-- version {}\n{}", script.version, script.sql);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for a schema on SQLite.
    pub fn migration_scripts(
        &self,
        pool: &impl DatabasePool,
    ) -> Result<Vec<MigrationScript>, Error> {
        Ok(store::reach(self, pool)?.migration_scripts())
    }

    /// The SQL by which a program in any language publishes a message to this outbox: an INSERT with what is
    /// required, and on Postgres the statement that wakes relays which listen, unless
    /// [`wake(false)`](crate::OutboxBuilder::wake) says that none are. Topic and payload are examples; what else
    /// may be given stands in [`plain_sql`](crate::plain_sql). Nothing is asked of the database: a pool made by
    /// `connect_lazy` will do.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for a schema on SQLite.
    pub fn plain_sql(&self, pool: &impl DatabasePool) -> Result<String, Error> {
        Ok(store::reach(self, pool)?.plain_sql())
    }

    /// Checks that this outbox's tables are there, and that this build can work with them.
    ///
    /// # Errors
    ///
    /// [`Error::is_schema_mismatch`] with what to do; [`Error::is_connection`].
    pub async fn check(&self, pool: &impl DatabasePool) -> Result<(), Error> {
        store::compatible(&store::reach(self, pool)?.versions().await?)
    }
}
