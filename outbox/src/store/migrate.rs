//! Which versions of the tables there are, and which of them this build can work with.

use crate::Error;

/// One step of the tables' history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) version: i32,
    /// The oldest build that can work with it, as the newest version that build knows.
    pub(crate) min_reader: i32,
}

/// One numbered migration of a database.
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), expect(dead_code))]
pub(super) struct Migration {
    pub(super) version: Version,
    pub(super) sql: &'static str,
}

/// The newest version that this build knows.
pub(crate) const LATEST: i32 = 2;

/// Whether this build can work with tables of this history.
pub(crate) fn compatible(history: &[Version]) -> Result<(), Error> {
    let Some(newest) = history.iter().max_by_key(|step| step.version) else {
        return Err(Error::schema(
            "the outbox's tables are missing; run `outbox::migrate(&pool)` first",
        ));
    };
    if newest.version < LATEST {
        return Err(Error::schema(format!(
            "the outbox's tables are at version {}, this build needs version {LATEST}; run `outbox::migrate(&pool)`",
            newest.version
        )));
    }
    if newest.min_reader > LATEST {
        return Err(Error::schema(format!(
            "the outbox's tables are at version {}, which builds that know at least version {} can use; \
             this build knows version {LATEST}: update the `outbox` crate",
            newest.version, newest.min_reader
        )));
    }
    Ok(())
}
