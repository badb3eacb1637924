//! From the application's pool to the store of its database.

use std::sync::Arc;

use super::Store;
use crate::{Error, Outbox};

/// A connection pool of a database that an outbox can live in: `sqlx::PgPool` (feature `postgres`),
/// `sqlx::SqlitePool` (feature `sqlite`) or `sqlx::MySqlPool` (feature `mysql`, for MariaDB as well). Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the pool of a database that `outbox` works on",
    label = "expected a `sqlx::PgPool`, a `sqlx::SqlitePool` or a `sqlx::MySqlPool`",
    note = "switch the database's feature on: `outbox = {{ features = [\"postgres\"] }}`, `\"sqlite\"` or `\"mysql\"`"
)]
pub trait DatabasePool: Send + Sync {
    #[doc(hidden)]
    fn handle(&self) -> Handle;
}

/// A pool with its type erased; can't be made outside of this crate, which seals [`DatabasePool`].
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Handle(Database);

#[derive(Debug, Clone)]
enum Database {
    #[cfg(feature = "mysql")]
    Mysql(sqlx::MySqlPool),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
}

#[cfg(feature = "mysql")]
impl DatabasePool for sqlx::MySqlPool {
    fn handle(&self) -> Handle {
        Handle(Database::Mysql(self.clone()))
    }
}

#[cfg(feature = "postgres")]
impl DatabasePool for sqlx::PgPool {
    fn handle(&self) -> Handle {
        Handle(Database::Postgres(self.clone()))
    }
}

#[cfg(feature = "sqlite")]
impl DatabasePool for sqlx::SqlitePool {
    fn handle(&self) -> Handle {
        Handle(Database::Sqlite(self.clone()))
    }
}

impl Handle {
    pub(super) fn reach(self, outbox: &Outbox) -> Result<Arc<dyn Store>, Error> {
        let _ = outbox;
        match self.0 {
            #[cfg(feature = "mysql")]
            Database::Mysql(pool) => Ok(Arc::new(super::mysql::Mysql::new(outbox, pool))),
            #[cfg(feature = "postgres")]
            Database::Postgres(pool) => Ok(Arc::new(super::postgres::Postgres::new(outbox, pool))),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(pool) => Ok(Arc::new(super::sqlite::Sqlite::new(outbox, pool)?)),
        }
    }
}
