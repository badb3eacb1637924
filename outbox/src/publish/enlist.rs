//! How a message joins the caller's open transaction.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use sqlx::{Connection as _, Transaction};

use crate::Error;

/// The adapter for sqlx's own transactions; the default of [`Enlist`]'s parameter.
#[derive(Debug, Clone, Copy)]
pub struct Sqlx(());

/// An open transaction that a message can join.
///
/// Implemented for sqlx's `Transaction` and, with a check at run time, for its bare connections.
/// The parameter `Via` lets another crate implement it for a transaction type that it does not own:
/// `impl Enlist<MyAdapter> for TheirTransaction`; it is inferred at the call.
#[cfg_attr(
    any(feature = "mysql", feature = "postgres", feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "`{Self}` would commit the message on its own",
        label = "not an open transaction",
        note = "begin a transaction and publish on it: `let mut tx = pool.begin().await?;`",
        note = "your own statements belong on it as well (`.execute(&mut *tx)`), and `tx.commit().await?` \
                after them: without it nothing is stored"
    )
)]
#[cfg_attr(
    all(
        any(feature = "mysql", feature = "postgres", feature = "sqlite"),
        not(feature = "sqlite")
    ),
    diagnostic::on_unimplemented(
        note = "if it is a transaction of SQLite, switch on outbox's feature `sqlite`"
    )
)]
#[cfg_attr(
    all(
        any(feature = "mysql", feature = "postgres", feature = "sqlite"),
        not(feature = "postgres")
    ),
    diagnostic::on_unimplemented(
        note = "if it is a transaction of Postgres, switch on outbox's feature `postgres`"
    )
)]
#[cfg_attr(
    all(
        any(feature = "mysql", feature = "postgres", feature = "sqlite"),
        not(feature = "mysql")
    ),
    diagnostic::on_unimplemented(
        note = "if it is a transaction of MySQL or MariaDB, switch on outbox's feature `mysql`"
    )
)]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    diagnostic::on_unimplemented(
        message = "`{Self}` can't take a message along: no database of outbox is switched on",
        label = "not a transaction that outbox knows",
        note = "each database is a feature of outbox, `postgres`, `sqlite` or `mysql`: \
                `outbox = {{ version = \"..\", features = [\"postgres\"] }}`"
    )
)]
pub trait Enlist<Via = Sqlx>: Send {
    /// The connection on which the transaction is open.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_in_transaction`] where the type can't prove that a transaction is open, and none is.
    fn enlist(&mut self) -> Result<Enlisted<'_>, Error>;
}

/// A connection with an open transaction, for the length of one publish.
#[derive(Debug)]
pub struct Enlisted<'t>(pub(crate) On<'t>);

#[derive(Debug)]
pub(crate) enum On<'t> {
    #[cfg(feature = "mysql")]
    Mysql(&'t mut sqlx::MySqlConnection),
    #[cfg(feature = "postgres")]
    Postgres(&'t mut sqlx::PgConnection),
    #[cfg(feature = "sqlite")]
    Sqlite(&'t mut sqlx::SqliteConnection),
    #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
    #[expect(
        dead_code,
        reason = "without a database nothing can be enlisted; this keeps the lifetime in use"
    )]
    Nothing(
        std::marker::PhantomData<&'t mut ()>,
        std::convert::Infallible,
    ),
}

macro_rules! enlist {
    ($feature:literal, $database:ty, $connection:ty, $on:ident, $new:ident, $name:literal) => {
        #[cfg(feature = $feature)]
        impl<'t> Enlisted<'t> {
            #[doc = concat!("The ", $name, " connection on which the caller's transaction is open.")]
            ///
            /// # Errors
            ///
            /// [`Error::is_not_in_transaction`] if sqlx did not open a transaction on it.
            pub fn $new(connection: &'t mut $connection) -> Result<Self, Error> {
                if connection.is_in_transaction() {
                    Ok(Self(On::$on(connection)))
                } else {
                    Err(Error::new(crate::error::Kind::NotInTransaction))
                }
            }
        }

        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl Enlist for Transaction<'_, $database> {
            fn enlist(&mut self) -> Result<Enlisted<'_>, Error> {
                Enlisted::$new(self)
            }
        }

        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl Enlist for $connection {
            fn enlist(&mut self) -> Result<Enlisted<'_>, Error> {
                Enlisted::$new(self)
            }
        }
    };
}

enlist!(
    "mysql",
    sqlx::MySql,
    sqlx::MySqlConnection,
    Mysql,
    mysql,
    "MySQL or MariaDB"
);
enlist!(
    "postgres",
    sqlx::Postgres,
    sqlx::PgConnection,
    Postgres,
    postgres,
    "Postgres"
);
enlist!(
    "sqlite",
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    Sqlite,
    sqlite,
    "SQLite"
);
