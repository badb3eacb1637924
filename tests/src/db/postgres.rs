//! A database of the test's own on the server that `OUTBOX_TEST_POSTGRES` names.

use std::str::FromStr;

use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::POOL;

/// See [`Db::Postgres`](super::Db::Postgres).
#[derive(Debug, Clone)]
pub struct PostgresDb {
    /// The application's pool.
    pub pool: PgPool,
    /// The test's own way to the database.
    pub(super) direct: PgPool,
    /// The application's pool goes through a pooler in transaction mode.
    pub(super) pooled: bool,
    pub(super) server: String,
    pub(super) name: String,
}

impl PostgresDb {
    pub(super) async fn fresh() -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let template = TEMPLATE
            .get_or_init(|| async {
                let db = Self::create(None).await;
                outbox::migrate(&db.pool)
                    .await
                    .expect("the template is migrated");
                db.pool.close().await;
                db.name
            })
            .await;
        Self::create(Some(template)).await
    }

    pub(super) fn url_of_the_pooler(&self) -> String {
        let pooler = std::env::var("OUTBOX_TEST_POOLER")
            .expect("OUTBOX_TEST_POOLER names no pooler; run ./scripts/test, which starts one");
        with_name(&pooler, &self.name)
    }

    pub(super) fn through_the_pooler(self) -> Self {
        let options = PgConnectOptions::from_str(&self.url_of_the_pooler())
            .expect("a URL of Postgres")
            // A parameter of the session, which PgBouncer refuses.
            .extra_float_digits(None);
        Self {
            pool: Self::pool(options, POOL),
            pooled: true,
            ..self
        }
    }

    pub(super) async fn create(template: Option<&str>) -> Self {
        let server = std::env::var("OUTBOX_TEST_POSTGRES")
            .expect("OUTBOX_TEST_POSTGRES names no server; run ./scripts/test, which starts one");
        Self::create_on(server, template).await
    }

    pub(super) async fn create_on(server: String, template: Option<&str>) -> Self {
        let name = format!("outbox_test_{}", Uuid::now_v7().simple());
        let mut admin = Self::admin(&server).await;
        let create = format!(
            "CREATE DATABASE {name} TEMPLATE {}",
            template.unwrap_or("template0")
        );
        sqlx::raw_sql(AssertSqlSafe(create))
            .execute(&mut admin)
            .await
            .expect("the database is created");
        admin.close().await.expect("the connection closes");
        let options =
            PgConnectOptions::from_str(&with_name(&server, &name)).expect("a URL of Postgres");
        Self::at(options, server, name)
    }

    pub(super) fn at(options: PgConnectOptions, server: String, name: String) -> Self {
        let pool = Self::pool(options, POOL);
        Self {
            direct: pool.clone(),
            pool,
            pooled: false,
            server,
            name,
        }
    }

    pub(super) async fn admin(server: &str) -> PgConnection {
        PgConnection::connect(server)
            .await
            .expect("the server of OUTBOX_TEST_POSTGRES answers")
    }

    /// The database's name, for `ALTER DATABASE`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn pool(options: PgConnectOptions, connections: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(connections)
            .connect_lazy_with(options)
    }
}

/// The server's URL with another database in it.
pub(super) fn with_name(server: &str, name: &str) -> String {
    let (address, options) = match server.split_once('?') {
        Some((address, options)) => (address, format!("?{options}")),
        None => (server, String::new()),
    };
    let host = address
        .rsplit_once('/')
        .expect("the URL of OUTBOX_TEST_POSTGRES names a database")
        .0;
    format!("{host}/{name}{options}")
}
