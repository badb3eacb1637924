//! From the command line to the outbox in its database.

use std::{str::FromStr as _, time::Duration};

use outbox::Outbox;
use sqlx::{
    ConnectOptions as _, Connection as _, PgPool, SqlitePool,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::{args, failure::Failure};

/// An outbox, and a pool of its database. Nothing is connected yet.
pub(crate) struct Database {
    pub(crate) outbox: Outbox,
    pub(crate) pool: Pool,
}

pub(crate) enum Pool {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// Evaluates an expression with the pool of whichever database it is.
macro_rules! each {
    ($database:expr, $pool:ident => $body:expr) => {
        match &$database.pool {
            crate::database::Pool::Postgres($pool) => $body,
            crate::database::Pool::Sqlite($pool) => $body,
        }
    };
}
pub(crate) use each;

/// How long to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the database's URL stands in the environment, the first that does.
pub(crate) const VARIABLES: [&str; 2] = ["OUTBOX_DATABASE_URL", "DATABASE_URL"];

const FORMS: &str = "give postgres://user@host/database or sqlite:path/to/file";

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
        Ok(Self {
            outbox,
            pool: Pool::of(&url(args.database.as_deref())?, args.pooler, may_be_new)?,
        })
    }

    /// Connects once: a pool would only say that it has waited.
    pub(crate) async fn reach(&self) -> Result<(), Failure> {
        let connected = async {
            match &self.pool {
                Pool::Postgres(pool) => pool.connect_options().connect().await?.close().await,
                Pool::Sqlite(pool) => pool.connect_options().connect().await?.close().await,
            }
        };
        let connected = tokio::time::timeout(PATIENCE, connected).await;
        let reason = match connected {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        let hint = match self.pool {
            Pool::Postgres(_) => "is the server there, and the URL right?",
            Pool::Sqlite(_) => {
                "is the path right? `outbox migrate` makes a file that is not there if `?mode=rwc` stands after its path"
            }
        };
        Err(Failure::Failed(format!(
            "the database can't be reached: {reason}; {hint}"
        )))
    }
}

/// The database's URL. It may hold a password, so that it never stands in an error.
fn url(given: Option<&str>) -> Result<String, Failure> {
    if let Some(url) = given {
        if holds_password(url) {
            return Err(Failure::Usage(
                "the URL given by --database holds a password, which everybody on this machine can see; put it into \
                 the environment: OUTBOX_DATABASE_URL, or PGPASSWORD"
                    .to_owned(),
            ));
        }
        return Ok(url.to_owned());
    }
    VARIABLES
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|url| !url.is_empty())
        .ok_or_else(|| {
            Failure::Usage(format!(
                "no database is named; {FORMS} by OUTBOX_DATABASE_URL, by DATABASE_URL or by --database"
            ))
        })
}

fn holds_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || url.contains("password=")
}

impl Pool {
    fn of(url: &str, pooler: bool, may_be_new: bool) -> Result<Self, Failure> {
        let unreadable = |_| Failure::Usage(format!("the database's URL can't be read; {FORMS}"));
        match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(url).map_err(unreadable)?;
                let mut options = options.application_name("outbox command");
                if pooler {
                    // A setting of the session, which PgBouncer refuses.
                    options = options.extra_float_digits(None);
                }
                let pool = PgPoolOptions::new().max_connections(2);
                let pool = pool.acquire_timeout(PATIENCE);
                Ok(Self::Postgres(pool.connect_lazy_with(options)))
            }
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url).map_err(unreadable)?;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_seen_wherever_it_stands() {
        for url in [
            "postgres://app:secret@host/db",
            "postgres://app:@host/db",
            "postgres://app:se@cret@host:5432/db",
            "postgres://host/db?user=app&password=secret",
        ] {
            assert!(holds_password(url), "{url}");
        }
        for url in [
            "postgres://app@host:5432/db",
            "postgres://host:5432/db",
            "postgres://host/db?application_name=a:b@c",
            "sqlite:some:file@place",
            "sqlite://data/app.db?mode=ro",
        ] {
            assert!(!holds_password(url), "{url}");
        }
    }
}
