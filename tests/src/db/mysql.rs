//! A database of the test's own on the server that `OUTBOX_TEST_MARIADB` names, or on a MySQL.

use std::str::FromStr;

use sqlx::{
    AssertSqlSafe, Connection as _, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};
use uuid::Uuid;

use super::POOL;

/// Names stand in double quotes and texts are as they stand, as on the other databases, and
/// [`Db::numbers`](super::Db::numbers) may count far. Each server reads one of the two comments.
const SESSION: &str = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES,NO_BACKSLASH_ESCAPES') \
    /*M!, max_recursive_iterations = 10000000 */ /*!80017 , cte_max_recursion_depth = 10000000 */";

/// See [`Db::Mysql`](super::Db::Mysql).
#[derive(Debug, Clone)]
pub struct MysqlDb {
    /// The application's pool.
    pub pool: MySqlPool,
    /// The test's own way to the database.
    pub(super) direct: MySqlPool,
    pub(super) server: String,
    pub(super) name: String,
}

impl MysqlDb {
    pub(super) async fn create() -> Self {
        let server = std::env::var("OUTBOX_TEST_MARIADB")
            .expect("OUTBOX_TEST_MARIADB names no server; run ./scripts/test, which starts one");
        Self::create_on(server).await
    }

    /// A database whose default is an older character set, as many are.
    pub(super) async fn create_on(server: String) -> Self {
        let name = format!("outbox_test_{}", Uuid::now_v7().simple());
        let mut admin = Self::admin(&server).await;
        let create = format!("CREATE DATABASE {name} CHARACTER SET utf8mb3");
        sqlx::raw_sql(AssertSqlSafe(create))
            .execute(&mut admin)
            .await
            .expect("the database is created");
        admin.close().await.expect("the connection closes");
        Self::at(server, name)
    }

    pub(super) fn at(server: String, name: String) -> Self {
        let options = Self::options(&server).database(&name);
        // Of its own, so that a test may do to the application's sessions what it likes.
        Self {
            direct: Self::pool(options.clone(), POOL),
            pool: Self::pool(options, POOL),
            server,
            name,
        }
    }

    pub(super) fn options(server: &str) -> MySqlConnectOptions {
        MySqlConnectOptions::from_str(server).expect("a URL of MySQL")
    }

    pub(crate) async fn admin(server: &str) -> MySqlConnection {
        MySqlConnection::connect(server)
            .await
            .expect("the server of OUTBOX_TEST_MARIADB answers")
    }

    pub(super) fn pool(options: MySqlConnectOptions, connections: u32) -> MySqlPool {
        MySqlPoolOptions::new()
            .max_connections(connections)
            .after_connect(|connection, _| {
                Box::pin(
                    async move { sqlx::raw_sql(SESSION).execute(connection).await.map(|_| ()) },
                )
            })
            .connect_lazy_with(options)
    }
}
