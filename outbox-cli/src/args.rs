//! The command line.

mod dead;
mod id;

use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand};
use uuid::Uuid;

pub(crate) use self::dead::{Dead, Discard, Filter, List, Reasons, Redrive, Show};

/// See what is stuck in an outbox, and why, and let it go.
#[derive(Debug, Parser)]
#[command(
    name = "outbox",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
The database's URL comes from --database, or else from OUTBOX_DATABASE_URL or DATABASE_URL in
the environment: postgres://user@host/database, mysql://user@host/database (MariaDB as well) or
sqlite:path/to/file. A password belongs into the environment (in the URL there, or for Postgres in
PGPASSWORD); it is never printed.

Messages of a topic are stuck?
  outbox stats                                  how many wait, since when, and who serves them
  outbox dead reasons --topic orders.placed     why they were given up, and how many for each reason
  outbox dead list --topic orders.placed        which they are
  outbox dead show ID                           all errors of one of them
Once a reason is mended, give what died of it another chance:
  outbox dead redrive --topic orders.placed --error timeout

Exit codes:
  0  done
  1  the database, or what is in it, is not as it should be
  2  the command line is wrong, or a question could not be asked or was answered with no
  3  there is nothing of what was asked for: no message matches, or none with the id is in the
     state that it takes"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) database: Database,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the outbox is.
#[derive(Debug, Group)]
#[command(next_help_heading = "Where the outbox is")]
pub(crate) struct Database {
    /// The database's URL, without a password [env: OUTBOX_DATABASE_URL, DATABASE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The outbox's table, as `table` or `schema.table` [default: outbox]
    #[arg(long, global = true, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// The URL is that of a pooler in transaction mode, such as PgBouncer
    #[arg(long, global = true)]
    pub(crate) pooler: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Migrate(Migrate),
    Stats(Stats),
    #[command(subcommand)]
    Dead(Dead),
    Cancel(Cancel),
    Reschedule(Reschedule),
    Purge(Purge),
    Pause(Pause),
    Resume(Resume),
    PlainSql(PlainSql),
}

/// Create or update the outbox's tables
///
/// All in one transaction, or nothing. Any number of these may run at once, and so may relays and publishers.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox migrate
  outbox migrate --check && deploy
  outbox migrate --print --from 1 | psql        what brings version 1 up to date, by hand")]
pub(crate) struct Migrate {
    /// Only say whether the tables are of a version that this command can use; exit code 1 if not
    #[arg(long, conflicts_with = "print")]
    pub(crate) check: bool,
    /// Only print the SQL; nothing is asked of the database
    #[arg(long)]
    pub(crate) print: bool,
    /// Only print what comes after this version
    #[arg(long, requires = "print", value_name = "VERSION", default_value_t = 0)]
    pub(crate) from: u32,
}

/// Show how many messages wait, run, are kept and are dead
///
/// Per topic and version: due (their time has come), scheduled (delayed, or in backoff), processing, delivered (and
/// kept), dead, and for how long the oldest due one has been due. Then the relays that were seen within the
/// last 30 s.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox stats
  outbox stats --watch 5
  outbox stats --json | jq '.routes[] | select(.unrouted)'")]
pub(crate) struct Stats {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print it again every so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) watch: Option<u64>,
    /// Count all rows, not only up to 10,000 of a topic and state
    #[arg(long)]
    pub(crate) exact: bool,
}

/// Delete a message that still waits
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox cancel 01890a5d-ac96-774b-bcce-b302099a8057
  outbox cancel --topic reminders.due --dedup-key inv-42")]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) message: Which,
}

/// Make a message that still waits due at another time
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox reschedule 01890a5d-ac96-774b-bcce-b302099a8057 --now      ends a backoff, too
  outbox reschedule --topic reminders.due --dedup-key inv-42 --in 2h")]
pub(crate) struct Reschedule {
    #[command(flatten)]
    pub(crate) message: Which,
    #[command(flatten)]
    pub(crate) when: When,
}

/// When a message becomes due
#[derive(Debug, Group)]
#[group(required = true, multiple = false)]
pub(crate) struct When {
    /// So long from now
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) r#in: Option<Duration>,
    /// At once
    #[arg(long)]
    pub(crate) now: bool,
}

/// Which message
#[derive(Debug, Group)]
#[group(required = true, multiple = true)]
pub(crate) struct Which {
    /// The message's id
    #[arg(value_parser = id::of_waiting, conflicts_with_all = ["topic", "dedup_key"])]
    pub(crate) id: Option<Uuid>,
    /// The message's topic, for --dedup-key
    #[arg(long, requires = "dedup_key")]
    pub(crate) topic: Option<String>,
    /// The key by which it was published only once
    #[arg(long, value_name = "KEY", requires = "topic")]
    pub(crate) dedup_key: Option<String>,
}

/// How a change of many messages is made
#[derive(Debug, Clone, Group)]
#[command(next_help_heading = "How")]
pub(crate) struct How {
    /// At most so many
    #[arg(long)]
    pub(crate) limit: Option<u64>,
    /// At most so many a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) per_second: Option<u32>,
    /// Only say how many it would be
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Don't ask before many are changed
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Delete rows that settled long ago
///
/// Rows that wait or run are never touched.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox purge --delivered 7d --dry-run
  outbox purge --delivered 1d --topic orders.placed
  outbox purge --delivered 7d --dead 90d --yes")]
pub(crate) struct Purge {
    #[command(flatten)]
    pub(crate) what: Settled,
    /// Only of this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    #[command(flatten)]
    pub(crate) how: How,
}

/// What is old enough
#[derive(Debug, Group)]
#[group(required = true, multiple = true)]
pub(crate) struct Settled {
    /// What was delivered so long ago or longer, and kept
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub(crate) delivered: Option<Duration>,
    /// Dead letters that died so long ago or longer
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub(crate) dead: Option<Duration>,
    /// Notes on what was discarded so long ago or longer, of all topics: not together with --topic
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration, conflicts_with = "topic")]
    pub(crate) discarded: Option<Duration>,
}

/// Have no relay claim messages of a topic
///
/// Each relay follows within one of its poll intervals; what it has by then it delivers. Messages can be
/// published all the same, and wait.
#[derive(Debug, Group)]
#[command(after_help = "Example: outbox pause orders.placed --reason 'a bad release'")]
pub(crate) struct Pause {
    /// The topic
    pub(crate) topic: String,
    /// Why; `outbox stats` shows it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// End a pause
///
/// Relays go on with the topic within one of their poll intervals.
#[derive(Debug, Group)]
#[command(after_help = "Example: outbox resume orders.placed")]
pub(crate) struct Resume {
    /// The topic
    pub(crate) topic: String,
}

/// Print the SQL by which a program in any language publishes
///
/// Nothing is asked of the database. What else a row may have stands in the library's page `plain_sql`.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox plain-sql
  outbox plain-sql --table msg.outbox")]
pub(crate) struct PlainSql {}
