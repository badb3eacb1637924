//! The database's URL. It may hold a password, so that it never stands in an error.

use crate::failure::Failure;

/// Where the database's URL stands in the environment, the first that does.
pub(crate) const VARIABLES: [&str; 2] = ["OUTBOX_DATABASE_URL", "DATABASE_URL"];

pub(crate) const FORMS: &str =
    "give postgres://user@host/database, mysql://user@host/database or sqlite:path/to/file";

pub(crate) const ENCODING: &str =
    "special characters in a user name or password have to be percent-encoded, such as %2F for /";

/// The URL that was given by `--database`, or else the environment's.
pub(crate) fn url(given: Option<&str>) -> Result<String, Failure> {
    if let Some(url) = given {
        if holds_password(url) {
            return Err(Failure::Usage(
                "the URL given by --database holds a password, which everybody on this machine can see; put it into \
                 the environment: OUTBOX_DATABASE_URL, or for Postgres PGPASSWORD"
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
    let authority = rest(url).split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || url.contains("password=")
}

/// Whether what is read as host, port and database may be a piece of a password: a `/` in it that is not
/// encoded ends the host, and its `@` comes later.
pub(crate) fn may_be_cut(url: &str) -> bool {
    let after = rest(url).split_once(['/', '?', '#']);
    after.is_some_and(|(_, after)| after.contains('@'))
}

fn rest(url: &str) -> &str {
    url.split_once("://").map_or("", |(_, rest)| rest)
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
            "mysql://app:secret@host/db",
        ] {
            assert!(holds_password(url), "{url}");
        }
        for url in [
            "postgres://app@host:5432/db",
            "postgres://host:5432/db",
            "postgres://host/db?application_name=a:b@c",
            "mysql://app@host:3306/db",
            "sqlite:some:file@place",
            "sqlite://data/app.db?mode=ro",
        ] {
            assert!(!holds_password(url), "{url}");
        }
    }

    #[test]
    fn a_password_that_ends_the_host_is_seen() {
        for url in [
            "postgres://app:12/34@host/db",
            "postgres://app:12?34@host/db",
            "postgres://app:12#34@host/db",
            "postgres://app:1@2/34@host/db",
        ] {
            assert!(may_be_cut(url), "{url}");
        }
        for url in [
            "postgres://app:se@cret@host:5432/db?sslmode=require",
            "postgres://app:12%2F34@host/db",
            "postgres://host",
        ] {
            assert!(!may_be_cut(url), "{url}");
        }
    }
}
