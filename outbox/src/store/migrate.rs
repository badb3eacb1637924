//! Which versions of the tables there are, and which of them this build can work with.

use super::Table;
use crate::Error;

/// One step of the tables' history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) version: i32,
    /// The oldest build that can work with it, as the newest version that build knows.
    pub(crate) min_reader: i32,
}

/// One numbered migration of a database.
pub(super) struct Migration {
    pub(super) version: Version,
    pub(super) sql: &'static str,
}

/// What migrates a database from one version to the next; made by
/// [`Outbox::migration_scripts`](crate::Outbox::migration_scripts).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationScript {
    /// The version that the tables are at afterwards.
    pub version: u32,
    /// The oldest build that can work with them, as the newest version which that build knows.
    pub min_reader: u32,
    /// Plain SQL, to be run in one transaction. It writes the history as well.
    pub sql: String,
}

/// The migrations of one database.
pub(super) struct Migrations {
    /// Puts the table's names into the SQL's text.
    pub(super) render: fn(&Table, &str) -> String,
    /// The first of all.
    pub(super) history: &'static str,
    pub(super) steps: [Migration; LATEST as usize],
    /// Notes that a step was taken; ends before its numbers.
    pub(super) note: &'static str,
}

impl Migrations {
    /// The scripts of all versions for this table, oldest first.
    pub(super) fn scripts(&self, table: &Table) -> Vec<MigrationScript> {
        let scripts = self.steps.iter().map(|Migration { version, sql }| {
            let Version {
                version,
                min_reader,
            } = *version;
            let history = if version == 1 { self.history } else { "" };
            let note = format!("{} ({version}, {min_reader});\n", self.note);
            MigrationScript {
                version: version.unsigned_abs(),
                min_reader: min_reader.unsigned_abs(),
                sql: [history, sql, "\n", &note]
                    .map(|sql| (self.render)(table, sql))
                    .concat(),
            }
        });
        scripts.collect()
    }
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
