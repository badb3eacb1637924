//! A SQLite file of the test's own.

use std::{path::Path, sync::Arc, time::Duration};

use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::POOL;

/// See [`Db::Sqlite`](super::Db::Sqlite).
#[derive(Debug, Clone)]
pub struct SqliteDb {
    /// The application's pool.
    pub pool: SqlitePool,
    pub(super) file: String,
    pub(super) folder: Option<Arc<tempfile::TempDir>>,
}

impl SqliteDb {
    pub(super) async fn create(journal: SqliteJournalMode) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("outbox-test")
            .tempdir()
            .expect("a temporary folder");
        let file = folder.path().join("outbox.db").display().to_string();
        Self {
            pool: Self::pool(&file, POOL, Some(journal)).await,
            file,
            folder: Some(Arc::new(folder)),
        }
    }

    /// The folder that the file is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder
            .as_ref()
            .expect("the file was created here")
            .path()
    }

    /// A file that is there already knows how it keeps its journal.
    pub(super) async fn pool(
        file: &str,
        connections: u32,
        journal: Option<SqliteJournalMode>,
    ) -> SqlitePool {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(10));
        let options = match journal {
            Some(journal) => options.journal_mode(journal),
            None => options,
        };
        SqlitePoolOptions::new()
            .max_connections(connections)
            .connect_lazy_with(options)
    }
}
