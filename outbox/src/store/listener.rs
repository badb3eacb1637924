//! Where a relay listens for commits.

use std::fmt;

/// The address of the database for a relay's listener: a URL, or sqlx's `PgConnectOptions`.
#[derive(Clone)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only Postgres has listeners")
)]
pub struct ListenerAddress(Address);

#[derive(Clone)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only Postgres has listeners")
)]
enum Address {
    Url(String),
    #[cfg(feature = "postgres")]
    Postgres(Box<sqlx::postgres::PgConnectOptions>),
}

impl From<&str> for ListenerAddress {
    fn from(url: &str) -> Self {
        Self(Address::Url(url.to_owned()))
    }
}

impl From<String> for ListenerAddress {
    fn from(url: String) -> Self {
        Self(Address::Url(url))
    }
}

#[cfg(feature = "postgres")]
impl From<sqlx::postgres::PgConnectOptions> for ListenerAddress {
    fn from(options: sqlx::postgres::PgConnectOptions) -> Self {
        Self(Address::Postgres(Box::new(options)))
    }
}

#[cfg(feature = "postgres")]
impl ListenerAddress {
    pub(super) fn postgres(&self) -> Result<sqlx::postgres::PgConnectOptions, crate::Error> {
        match &self.0 {
            Address::Postgres(options) => Ok((**options).clone()),
            // What is wrong with it may quote a password.
            Address::Url(url) => {
                let none = || {
                    crate::Error::config(
                        "the listener's address is not a URL of Postgres; give `postgres://user@host/database`, \
                         or `PgConnectOptions`",
                    )
                };
                // sqlx takes any scheme.
                let ours = ["postgres://", "postgresql://"];
                if !ours.iter().any(|scheme| url.starts_with(scheme)) {
                    return Err(none());
                }
                url.parse().map_err(|_| none())
            }
        }
    }
}

impl fmt::Debug for ListenerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A password may stand in it.
        f.write_str("ListenerAddress")
    }
}
