//! Setting the tables up, and checking that they are what this build needs.

use crate::{
    Error, Outbox,
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
    /// Creates or updates this outbox's tables, and its schema where that is missing. Any number of
    /// processes may do so at once. The history stands in a table of its own, apart from the
    /// application's migrations.
    ///
    /// # Errors
    ///
    /// [`Error::is_schema_mismatch`] if the tables are newer than this build can work with;
    /// [`Error::is_retryable`] if a lock was not to be had within 10 s; [`Error::is_connection`].
    pub async fn migrate(&self, pool: &impl DatabasePool) -> Result<(), Error> {
        store::reach(self, pool)?.migrate().await
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
