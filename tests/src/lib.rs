//! The harness of the conformance suite: one fresh database per test, on every database.
//!
//! A behaviour is written once, as `async fn name(db: Db)`, and listed once in
//! [`on_every_database!`]; it then runs as `…::postgres::name`, `…::pooler::name`,
//! `…::mariadb::name` and `…::sqlite::name`.

pub mod builds;
pub mod db;
pub mod dialect;
pub mod dice;
pub mod lab;
pub mod log;
pub mod proxy;
pub mod server;
pub mod trace;
pub mod tx;
pub mod wait;
pub mod worker;

pub use self::{
    db::{Db, Row},
    dice::Dice,
    lab::{Call, Lab},
    proxy::Proxy,
    server::Server,
    tx::{Adapter, Tx},
    wait::{Gate, eventually},
};

/// Makes a test of each behaviour on the databases of its list:
///
/// * `all`: on every database, and on Postgres a second time, through a pooler;
/// * `unpooled`: on every database, but not through the pooler;
/// * `servers`: on Postgres, through the pooler too, and on MariaDB: SQLite has no server;
/// * `postgres`, `mariadb`, `sqlite`: on that database (`postgres` through the pooler as well);
/// * `direct`: on Postgres, but not through the pooler. The list says why.
///
/// A behaviour that is in no list is an unused function, which the compiler reports.
#[macro_export]
macro_rules! on_every_database {
    ($($name:ident),+ $(,)?) => {
        $crate::on_every_database! { all: [$($name),+] }
    };
    (
        $(all: [$($all:ident),* $(,)?] $(,)?)?
        $(unpooled: [$($unpooled:ident),* $(,)?] $(,)?)?
        $(servers: [$($servers:ident),* $(,)?] $(,)?)?
        $(postgres: [$($postgres:ident),* $(,)?] $(,)?)?
        $(direct: [$($direct:ident),* $(,)?] $(,)?)?
        $(mariadb: [$($mariadb:ident),* $(,)?] $(,)?)?
        $(sqlite: [$($sqlite:ident),* $(,)?] $(,)?)?
    ) => {
        mod postgres {
            $crate::on_every_database! {
                @tests postgres
                [$($($all)*)? $($($unpooled)*)? $($($servers)*)? $($($postgres)*)? $($($direct)*)?]
            }
        }

        mod pooler {
            $crate::on_every_database! {
                @tests pooler [$($($all)*)? $($($servers)*)? $($($postgres)*)?]
            }
        }

        mod mariadb {
            $crate::on_every_database! {
                @tests mariadb [$($($all)*)? $($($unpooled)*)? $($($servers)*)? $($($mariadb)*)?]
            }
        }

        mod sqlite {
            $crate::on_every_database! {
                @tests sqlite [$($($all)*)? $($($unpooled)*)? $($($sqlite)*)?]
            }
        }
    };
    (@tests $database:ident [$($name:ident)*]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let db = $crate::Db::$database().await;
                super::$name(db.clone()).await;
                db.remove().await;
            }
        )*
    };
}

/// Evaluates an expression with the pool of whichever database it is.
#[macro_export]
macro_rules! each {
    ($db:expr, $pool:ident => $body:expr) => {
        match &$db {
            $crate::Db::Postgres(db) => {
                let $pool = &db.pool;
                $body
            }
            $crate::Db::Mysql(db) => {
                let $pool = &db.pool;
                $body
            }
            $crate::Db::Sqlite(db) => {
                let $pool = &db.pool;
                $body
            }
        }
    };
}

/// Builds a relay that reacts fast, with the given settings on top:
/// `relay!(db, LAB, lab; lease(secs(1)), concurrency(4))`.
#[macro_export]
macro_rules! relay {
    ($db:expr, $router:expr, $state:expr $(; $($setting:ident($($value:expr),*)),* $(,)?)?) => {
        $crate::try_relay!($db, $router, $state $(; $($setting($($value),*)),*)?).expect("the relay's settings are right")
    };
}

/// Like [`relay!`], for settings that may be refused.
#[macro_export]
macro_rules! try_relay {
    ($db:expr, $router:expr, $state:expr $(; $($setting:ident($($value:expr),*)),* $(,)?)?) => {
        $crate::each!($db, pool => {
            let builder = outbox::Relay::builder(pool, &$router)
                .state($state.clone())
                .outbox(&$db.outbox())
                .poll_interval($crate::wait::millis(50))
                .backoff($crate::wait::millis(20), $crate::wait::millis(50))
                .grace($crate::wait::secs(5));
            $($(let builder = builder.$setting($($value),*);)*)?
            builder.build().await
        })
    };
}

/// The size of a test that has a long version, run by `scripts/test --full`.
#[must_use]
pub fn scaled(normal: usize, full: usize) -> usize {
    if std::env::var_os("OUTBOX_TEST_FULL").is_some() {
        full
    } else {
        normal
    }
}
