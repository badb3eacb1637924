//! From the command line to the outbox in its database.

use std::{str::FromStr as _, time::Duration};

use outbox::Outbox;
use sqlx::{
    ConnectOptions as _, Connection as _, MySqlPool, PgPool, SqlitePool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::{
    args,
    failure::{self, Failure},
    show::word,
    url::{self, ENCODING, FORMS},
};

/// An outbox, and a pool of its database. Nothing is connected yet.
pub(crate) struct Database {
    pub(crate) outbox: Outbox,
    pub(crate) pool: Pool,
    /// The outbox's table, if one was given.
    table: Option<String>,
    /// What was read in the URL, for people.
    read: String,
}

pub(crate) enum Pool {
    Mysql(MySqlPool),
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// Evaluates an expression with the pool of whichever database it is.
macro_rules! each {
    ($database:expr, $pool:ident => $body:expr) => {
        match &$database.pool {
            crate::database::Pool::Mysql($pool) => $body,
            crate::database::Pool::Postgres($pool) => $body,
            crate::database::Pool::Sqlite($pool) => $body,
        }
    };
}
pub(crate) use each;

/// How long to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

impl Database {
    /// Only where `may_be_new` a SQLite file that is not there is made, if its URL says so.
    pub(crate) fn find(args: &args::Database, may_be_new: bool) -> Result<Self, Failure> {
        let mut outbox = Outbox::builder().pooler(args.pooler);
        if let Some(table) = &args.table {
            outbox = outbox.table(table);
        }
        let outbox = outbox
            .build()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let url = url::url(args.database.as_deref())?;
        let pool = Pool::of(&url, args.pooler, may_be_new)?;
        Ok(Self {
            outbox,
            read: pool.read_in(&url),
            pool,
            table: args.table.clone(),
        })
    }

    /// Connects once: a pool would only say that it has waited.
    pub(crate) async fn reach(&self) -> Result<(), Failure> {
        let connected = async {
            match &self.pool {
                Pool::Mysql(pool) => pool.connect_options().connect().await?.close().await,
                Pool::Postgres(pool) => pool.connect_options().connect().await?.close().await,
                Pool::Sqlite(pool) => pool.connect_options().connect().await?.close().await,
            }
        };
        let connected = tokio::time::timeout(PATIENCE, connected).await;
        let reason = match connected {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => match (&self.pool, error.as_database_error()) {
                (Pool::Mysql(_) | Pool::Postgres(_), Some(refusal)) => {
                    return Err(Failure::Failed(format!(
                        "the server refuses: {}; {}",
                        refusal.message(),
                        self.read
                    )));
                }
                _ => error.to_string(),
            },
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        let hint = match self.pool {
            Pool::Mysql(_) | Pool::Postgres(_) => "is the server there?",
            Pool::Sqlite(_) => {
                "is the path right? `outbox migrate` makes a file that is not there if `?mode=rwc` stands after its path"
            }
        };
        Err(Failure::Failed(format!(
            "the database can't be reached: {reason}; {}; {hint}",
            self.read
        )))
    }

    /// Whether the tables are there, and of a version that this command can use.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        let checked = each!(self, pool => self.outbox.check(pool).await);
        match (checked, &self.table) {
            (Ok(()), _) => Ok(()),
            (Err(error), Some(table)) if failure::lacks_tables(&error) => {
                let table = word(table);
                Err(Failure::Failed(format!(
                    "the outbox's tables are missing: is `--table {table}` spelled right? if it is, run \
                     `outbox migrate --table {table}` first"
                )))
            }
            (Err(error), _) => Err(error.into()),
        }
    }
}

impl Pool {
    fn of(url: &str, pooler: bool, may_be_new: bool) -> Result<Self, Failure> {
        const UNREADABLE: &str = "the database's URL can't be read";
        match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(url)
                    .map_err(|_| Failure::Usage(format!("{UNREADABLE}; {FORMS}; {ENCODING}")))?;
                let mut options = options.application_name("outbox command");
                if pooler {
                    // A setting of the session, which PgBouncer refuses.
                    options = options.extra_float_digits(None);
                }
                let pool = PgPoolOptions::new().max_connections(2);
                let pool = pool.acquire_timeout(PATIENCE);
                Ok(Self::Postgres(pool.connect_lazy_with(options)))
            }
            "mysql" | "mariadb" => {
                let options = MySqlConnectOptions::from_str(url)
                    .map_err(|_| Failure::Usage(format!("{UNREADABLE}; {FORMS}; {ENCODING}")))?;
                if options.get_database().is_none() {
                    return Err(Failure::Usage(format!(
                        "the URL names no database on its server; {FORMS}"
                    )));
                }
                let pool = MySqlPoolOptions::new().max_connections(2);
                let pool = pool.acquire_timeout(PATIENCE);
                Ok(Self::Mysql(pool.connect_lazy_with(options)))
            }
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url)
                    .map_err(|_| Failure::Usage(format!("{UNREADABLE}; {FORMS}")))?;
                let mut options = options.busy_timeout(PATIENCE);
                if !may_be_new {
                    options = options.create_if_missing(false);
                }
                let pool = SqlitePoolOptions::new().max_connections(2);
                let pool = pool.acquire_timeout(PATIENCE);
                Ok(Self::Sqlite(pool.connect_lazy_with(options)))
            }
            _ => Err(Failure::Usage(format!(
                "the URL is of no database that an outbox can live in; {FORMS}"
            ))),
        }
    }

    /// What was read in the URL, the password left out.
    fn read_in(&self, url: &str) -> String {
        match self {
            Self::Mysql(_) | Self::Postgres(_) if url::may_be_cut(url) => {
                format!("an `@` stands after the URL's host, and {ENCODING}")
            }
            Self::Mysql(pool) => {
                let options = pool.connect_options();
                let host = match options.get_socket() {
                    Some(socket) => socket.to_string_lossy().into_owned(),
                    None => options.get_host().to_owned(),
                };
                tried(
                    &host,
                    options.get_port(),
                    options.get_database().unwrap_or_default(),
                    options.get_username(),
                )
            }
            Self::Postgres(pool) => {
                let options = pool.connect_options();
                let host = match options.get_socket() {
                    Some(socket) => socket.to_string_lossy().into_owned(),
                    None => options.get_host().to_owned(),
                };
                let user = options.get_username();
                // The server's own default.
                let database = options.get_database().unwrap_or(user);
                tried(&host, options.get_port(), database, user)
            }
            Self::Sqlite(pool) => {
                let options = pool.connect_options();
                format!("the file is {}", options.get_filename().display())
            }
        }
    }
}

fn tried(host: &str, port: u16, database: &str, user: &str) -> String {
    format!("it was tried with host {host}, port {port}, database {database}, user {user}")
}
