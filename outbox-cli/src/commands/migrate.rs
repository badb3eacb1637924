//! `outbox migrate`.

use std::fmt::Write as _;

use crate::{
    args::Migrate,
    database::{Database, each},
    failure::Failure,
    show::print,
};

pub(crate) async fn migrate(database: &Database, args: &Migrate) -> Result<(), Failure> {
    let outbox = &database.outbox;
    if args.print {
        return print(&scripts(database, args.from)?);
    }
    if args.check {
        database.check().await?;
        let scripts = each!(database, pool => outbox.migration_scripts(pool))?;
        let latest = scripts.last().map_or(0, |script| script.version);
        return print(&format!(
            "the tables are what this command needs: version {latest}, or a later one that it can use"
        ));
    }
    each!(database, pool => outbox.migrate(pool).await)?;
    print("the tables are up to date")
}

fn scripts(database: &Database, from: u32) -> Result<String, Failure> {
    let scripts = each!(database, pool => database.outbox.migration_scripts(pool))?;
    let mut text = String::new();
    for script in scripts.iter().filter(|script| script.version > from) {
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "-- Version {} of the outbox's tables, for builds that know at least version {}.\nBEGIN;\n{}COMMIT;\n\n",
            script.version, script.min_reader, script.sql
        );
    }
    if text.is_empty() {
        return Err(Failure::Nothing(format!(
            "there is no version after {from}; the latest that this command knows is {}",
            scripts.last().map_or(0, |script| script.version)
        )));
    }
    Ok(text)
}
