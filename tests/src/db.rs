//! One fresh database per test.

mod mysql;
mod postgres;
mod row;
mod sqlite;

use std::str::FromStr;

use outbox::{Outbox, OutboxBuilder, Publish, Published};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, MySqlPool, PgPool, postgres::PgConnectOptions,
    sqlite::SqliteJournalMode,
};
use uuid::Uuid;

use self::postgres::with_name;
pub use self::{mysql::MysqlDb, postgres::PostgresDb, row::Row, sqlite::SqliteDb};
use crate::{Proxy, Server, Tx, each};

/// A database with the outbox's tables and nothing else. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Db {
    /// A database of its own on the server that `OUTBOX_TEST_POSTGRES` names.
    Postgres(PostgresDb),
    /// A database of its own on the server that `OUTBOX_TEST_MARIADB` names.
    Mysql(MysqlDb),
    /// A file of its own.
    Sqlite(SqliteDb),
}

/// Stands before the address of a database that is used through a pooler.
const POOLED: &str = "pooled+";

/// How many connections the application's pool may have.
pub const POOL: u32 = 5;

impl Db {
    /// A fresh Postgres database, copied from one that this process has migrated.
    pub async fn postgres() -> Self {
        Self::Postgres(PostgresDb::fresh().await)
    }

    /// A fresh Postgres database, whose outbox and relays go through a pooler. What the test itself
    /// asks does not.
    pub async fn pooler() -> Self {
        Self::Postgres(PostgresDb::fresh().await.through_the_pooler())
    }

    /// A fresh database on a server of the test's own.
    pub async fn on(server: &Server) -> Self {
        let url = server.url();
        let db = match url.starts_with("mysql:") {
            true => Self::Mysql(MysqlDb::create_on(url).await),
            false => Self::Postgres(PostgresDb::create_on(url, None).await),
        };
        each!(db, pool => outbox::migrate(pool).await).expect("the database is migrated");
        db
    }

    /// A fresh MariaDB database.
    pub async fn mariadb() -> Self {
        let db = MysqlDb::create().await;
        outbox::migrate(&db.pool)
            .await
            .expect("the database is migrated");
        Self::Mysql(db)
    }

    /// A fresh SQLite file, with a write-ahead log.
    pub async fn sqlite() -> Self {
        Self::sqlite_with(SqliteJournalMode::Wal).await
    }

    /// A fresh SQLite file that keeps its journal like this.
    pub async fn sqlite_with(journal: SqliteJournalMode) -> Self {
        let db = SqliteDb::create(journal).await;
        outbox::migrate(&db.pool)
            .await
            .expect("the file is migrated");
        Self::Sqlite(db)
    }

    /// The outbox of this database: the default one, unless there is a pooler to tell it of.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        if self.pooled() {
            self.outbox_builder().build().expect("an outbox")
        } else {
            Outbox::default()
        }
    }

    /// Builds another outbox in this database.
    pub fn outbox_builder(&self) -> OutboxBuilder {
        Outbox::builder().pooler(self.pooled())
    }

    /// Whether a pooler stands before the database.
    #[must_use]
    pub fn pooled(&self) -> bool {
        matches!(self, Self::Postgres(db) if db.pooled)
    }

    /// The same Postgres database through the pooler.
    ///
    /// # Panics
    ///
    /// On SQLite, which has none.
    #[must_use]
    pub fn through_the_pooler(&self) -> Self {
        let Self::Postgres(db) = self else {
            panic!("SQLite has no pooler")
        };
        Self::Postgres(db.clone().through_the_pooler())
    }

    /// The test's own way to the same database.
    fn direct(&self) -> Self {
        match self {
            Self::Postgres(db) => Self::Postgres(PostgresDb {
                pool: db.direct.clone(),
                ..db.clone()
            }),
            Self::Mysql(db) => Self::Mysql(MysqlDb {
                pool: db.direct.clone(),
                ..db.clone()
            }),
            Self::Sqlite(_) => self.clone(),
        }
    }

    /// Another database of the same kind, without any table.
    pub async fn empty(&self) -> Self {
        match self {
            Self::Postgres(db) if db.pooled => {
                Self::Postgres(PostgresDb::create(None).await.through_the_pooler())
            }
            Self::Postgres(_) => Self::Postgres(PostgresDb::create(None).await),
            Self::Mysql(db) => Self::Mysql(MysqlDb::create_on(db.server.clone()).await),
            Self::Sqlite(_) => Self::Sqlite(SqliteDb::create(SqliteJournalMode::Wal).await),
        }
    }

    /// The database that [`address`](Self::address) named in another process.
    pub async fn open(address: &str) -> Self {
        let url = address.strip_prefix(POOLED).unwrap_or(address);
        if url.starts_with("mysql://") {
            let (server, name) = url.rsplit_once('/').expect("the URL names a database");
            return Self::Mysql(MysqlDb::at(server.to_owned(), name.to_owned()));
        }
        match url.strip_prefix("sqlite://") {
            Some(file) => Self::Sqlite(SqliteDb {
                pool: SqliteDb::pool(file, POOL, None).await,
                file: file.to_owned(),
                folder: None,
            }),
            None => {
                let options = PgConnectOptions::from_str(url).expect("a URL of Postgres");
                let name = options.get_database().expect("a database").to_owned();
                let db = PostgresDb::at(options, url.to_owned(), name);
                Self::Postgres(if address == url {
                    db
                } else {
                    db.through_the_pooler()
                })
            }
        }
    }

    /// The same database through pools of the runtime that asks: a pool can't be used on two.
    pub async fn reopened(&self) -> Self {
        match self {
            Self::Postgres(db) => {
                let pool =
                    |pool: &PgPool| PostgresDb::pool((*pool.connect_options()).clone(), POOL);
                Self::Postgres(PostgresDb {
                    pool: pool(&db.pool),
                    direct: pool(&db.direct),
                    ..db.clone()
                })
            }
            Self::Mysql(db) => {
                let pool =
                    |pool: &MySqlPool| MysqlDb::pool((*pool.connect_options()).clone(), POOL);
                Self::Mysql(MysqlDb {
                    pool: pool(&db.pool),
                    direct: pool(&db.direct),
                    ..db.clone()
                })
            }
            Self::Sqlite(_) => self.another_pool(POOL).await,
        }
    }

    /// The same database through another pool of so many connections.
    pub async fn another_pool(&self, connections: u32) -> Self {
        match self {
            Self::Postgres(db) => {
                let pool = PostgresDb::pool((*db.pool.connect_options()).clone(), connections);
                Self::Postgres(PostgresDb { pool, ..db.clone() })
            }
            Self::Mysql(db) => {
                let pool = MysqlDb::pool((*db.pool.connect_options()).clone(), connections);
                Self::Mysql(MysqlDb { pool, ..db.clone() })
            }
            Self::Sqlite(db) => Self::Sqlite(SqliteDb {
                pool: SqliteDb::pool(&db.file, connections, None).await,
                ..db.clone()
            }),
        }
    }

    /// The same Postgres database through a pool whose sessions start with these settings.
    ///
    /// # Panics
    ///
    /// On SQLite, which has none.
    #[must_use]
    pub fn with_settings(&self, settings: &[(&str, &str)]) -> Self {
        let Self::Postgres(db) = self else {
            panic!("SQLite has no settings of a session")
        };
        let options = (*db.pool.connect_options())
            .clone()
            .options(settings.iter().copied());
        Self::Postgres(PostgresDb {
            pool: PostgresDb::pool(options, POOL),
            ..db.clone()
        })
    }

    /// The same Postgres database as another role.
    ///
    /// # Panics
    ///
    /// On SQLite, which has none.
    #[must_use]
    pub fn as_role(&self, role: &str) -> Self {
        let Self::Postgres(db) = self else {
            panic!("SQLite has no roles")
        };
        let options = (*db.pool.connect_options()).clone().username(role);
        Self::Postgres(PostgresDb {
            pool: PostgresDb::pool(options, POOL),
            ..db.clone()
        })
    }

    /// The host and the port of the server.
    ///
    /// # Panics
    ///
    /// On SQLite, which has none.
    #[must_use]
    pub fn server(&self) -> (String, u16) {
        match self {
            Self::Postgres(db) => {
                let options = db.direct.connect_options();
                (options.get_host().to_owned(), options.get_port())
            }
            Self::Mysql(db) => {
                let options = db.direct.connect_options();
                (options.get_host().to_owned(), options.get_port())
            }
            Self::Sqlite(_) => panic!("SQLite has no server"),
        }
    }

    /// A proxy in front of what the application's pool connects to, and the same database through it.
    ///
    /// # Panics
    ///
    /// On SQLite, which has no server.
    pub async fn behind_a_proxy(&self) -> (Self, Proxy) {
        match self {
            Self::Postgres(db) => {
                let options = (*db.pool.connect_options()).clone();
                let proxy = Proxy::to(options.get_host(), options.get_port()).await;
                let pool = PostgresDb::pool(options.host("127.0.0.1").port(proxy.port()), POOL);
                (Self::Postgres(PostgresDb { pool, ..db.clone() }), proxy)
            }
            Self::Mysql(db) => {
                let options = (*db.pool.connect_options()).clone();
                let proxy = Proxy::to(options.get_host(), options.get_port()).await;
                let pool = MysqlDb::pool(options.host("127.0.0.1").port(proxy.port()), POOL);
                (Self::Mysql(MysqlDb { pool, ..db.clone() }), proxy)
            }
            Self::Sqlite(_) => panic!("SQLite has no server"),
        }
    }

    /// How a listener reaches this Postgres database through a proxy of its server.
    ///
    /// # Panics
    ///
    /// On SQLite, which has no server.
    #[must_use]
    pub fn through(&self, proxy: &Proxy) -> PgConnectOptions {
        let Self::Postgres(db) = self else {
            panic!("SQLite has no server")
        };
        (*db.direct.connect_options())
            .clone()
            .host("127.0.0.1")
            .port(proxy.port())
    }

    /// How a child process reaches this database through a proxy of its server.
    ///
    /// # Panics
    ///
    /// On SQLite, which has no server.
    #[must_use]
    pub fn url_through(&self, proxy: &Proxy) -> String {
        match self {
            Self::Mysql(db) => (*db.direct.connect_options())
                .clone()
                .host("127.0.0.1")
                .port(proxy.port())
                .to_url_lossy()
                .into(),
            _ => self.through(proxy).to_url_lossy().into(),
        }
    }

    /// The direct address of this database.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Postgres(db) => with_name(&db.server, &db.name),
            Self::Mysql(db) => format!("{}/{}", db.server, db.name),
            Self::Sqlite(db) => format!("sqlite://{}", db.file),
        }
    }

    /// The application's address of this database: that of the pooler, where there is one.
    #[must_use]
    pub fn pool_url(&self) -> String {
        match self {
            Self::Postgres(db) if db.pooled => db.url_of_the_pooler(),
            _ => self.url(),
        }
    }

    /// What [`open`](Self::open) finds this database by, in another process.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Postgres(db) if db.pooled => format!("{POOLED}{}", self.url()),
            _ => self.url(),
        }
    }

    /// Drops the database at the end of a test that passed; that of a failed test stays to be looked at.
    pub async fn remove(self) {
        match self {
            Self::Postgres(db) => {
                db.pool.close().await;
                db.direct.close().await;
                let mut admin = PostgresDb::admin(&db.server).await;
                let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", db.name);
                sqlx::raw_sql(AssertSqlSafe(drop))
                    .execute(&mut admin)
                    .await
                    .expect("the database is dropped");
            }
            Self::Mysql(db) => {
                db.pool.close().await;
                db.direct.close().await;
                let mut admin = MysqlDb::admin(&db.server).await;
                let drop = format!("DROP DATABASE IF EXISTS {}", db.name);
                sqlx::raw_sql(AssertSqlSafe(drop))
                    .execute(&mut admin)
                    .await
                    .expect("the database is dropped");
            }
            Self::Sqlite(db) => db.pool.close().await,
        }
    }

    /// Begins a transaction, as a publisher of this database should.
    pub async fn begin(&self) -> Tx {
        match self {
            Self::Postgres(db) => {
                Tx::Postgres(db.pool.begin().await.expect("a transaction begins"))
            }
            Self::Mysql(db) => Tx::Mysql(db.pool.begin().await.expect("a transaction begins")),
            // A deferred transaction that reads before it writes can't wait for another writer.
            Self::Sqlite(db) => Tx::Sqlite(
                db.pool
                    .begin_with("BEGIN IMMEDIATE")
                    .await
                    .expect("a transaction begins"),
            ),
        }
    }

    /// Publishes and commits.
    pub async fn publish<P: Publish>(&self, message: &P) -> Published {
        self.publish_to(&self.outbox(), message).await
    }

    /// Publishes to this outbox and commits.
    pub async fn publish_to<P: Publish>(&self, outbox: &Outbox, message: &P) -> Published {
        let mut tx = self.begin().await;
        let published = outbox
            .publish(message, &mut tx)
            .await
            .expect("the message is published");
        tx.commit().await;
        published
    }

    /// Publishes many and commits.
    pub async fn publish_all<P: Publish>(&self, messages: &[P]) -> Vec<Uuid> {
        let mut tx = self.begin().await;
        let published = self
            .outbox()
            .publish_all(messages, &mut tx)
            .await
            .expect("all are published");
        tx.commit().await;
        published.into_iter().map(|one| one.id).collect()
    }

    /// Runs one or more statements; the number of rows that they changed.
    pub async fn execute(&self, sql: &str) -> u64 {
        let run = each!(self.direct(), pool => sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await
            .map(|done| done.rows_affected()));
        run.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// The one value of a query.
    pub async fn scalar(&self, sql: &str) -> i64 {
        let found = each!(self.direct(), pool => sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(pool).await);
        found.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// The values of a query of one column.
    pub async fn scalars(&self, sql: &str) -> Vec<i64> {
        let found = each!(self.direct(), pool => sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(pool).await);
        found.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// How many rows of the outbox fulfil a condition.
    pub async fn count(&self, condition: &str) -> i64 {
        self.scalar(&format!("SELECT count(*) FROM outbox WHERE {condition}"))
            .await
    }
}
