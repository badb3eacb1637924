//! The commands, a file each.

mod amend;
mod dead;
mod migrate;
mod pause;
mod plain_sql;
mod purge;
mod stats;
mod topics;

use crate::{
    args::{Args, Command},
    database::Database,
    failure::Failure,
};

/// Does what the command line says.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let migrates = matches!(&args.command, Command::Migrate(args) if !args.check);
    let database = Database::find(&args.database, migrates)?;
    match &args.command {
        Command::Migrate(args) if args.print => {}
        Command::PlainSql(_) => {}
        Command::Migrate(_) => database.reach().await?,
        _ => {
            database.reach().await?;
            database.check().await?;
        }
    }
    match args.command {
        Command::Migrate(args) => migrate::migrate(&database, &args).await,
        Command::Stats(args) => stats::stats(&database, &args).await,
        Command::Dead(args) => dead::dead(&database, args).await,
        Command::Cancel(args) => amend::cancel(&database, args).await,
        Command::Reschedule(args) => amend::reschedule(&database, args).await,
        Command::Purge(args) => purge::purge(&database, &args).await,
        Command::Pause(args) => pause::pause(&database, &args).await,
        Command::Resume(args) => pause::resume(&database, &args).await,
        Command::PlainSql(_) => plain_sql::plain_sql(&database),
    }
}
