//! The command line of `outbox dead`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as Group, Subcommand};
use uuid::Uuid;

use super::{How, id};

/// Look into messages that were given up, redrive or discard them
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  outbox dead reasons --topic orders.placed     why they were given up, and how many for each reason
  outbox dead list --topic orders.placed        which they are
  outbox dead redrive --topic orders.placed --error timeout")]
pub(crate) enum Dead {
    List(List),
    Reasons(Reasons),
    Show(Show),
    Redrive(Redrive),
    Discard(Discard),
}

/// Which dead letters; all of it has to hold
#[derive(Debug, Clone, Group)]
#[command(next_help_heading = "Which dead letters")]
pub(crate) struct Filter {
    /// Of this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// With this key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// That died so long ago or longer, such as 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Option<Duration>,
    /// That died so long ago at most
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub(crate) younger_than: Option<Duration>,
}

impl Filter {
    pub(crate) fn is_empty(&self) -> bool {
        self.topic.is_none()
            && self.key.is_none()
            && self.error.is_none()
            && self.older_than.is_none()
            && self.younger_than.is_none()
    }
}

/// List dead letters, the latest first
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox dead list --topic orders.placed --error timeout
  outbox dead list --limit 20 --after 01890a5d-ac96-774b-bcce-b302099a8057
  outbox dead list --discarded")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
    /// Only those that come after this one: the next page
    #[arg(long, value_name = "ID", value_parser = id::of_dead)]
    pub(crate) after: Option<Uuid>,
    /// What was discarded, and why; of the filters, only --topic counts
    #[arg(long, conflicts_with_all = ["key", "error", "older_than", "younger_than", "after"])]
    pub(crate) discarded: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Count dead letters by topic and last error, the most frequent first
///
/// The latest 10,000 are counted.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox dead reasons
  outbox dead reasons --topic orders.placed --younger-than 1d
  outbox dead reasons --json | jq '.reasons[0]'")]
pub(crate) struct Reasons {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show a dead letter: its last ten errors, with attempt and time
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox dead show 01890a5d-ac96-774b-bcce-b302099a8057
  outbox dead show 01890a5d-ac96-774b-bcce-b302099a8057 --payload
  outbox dead show 01890a5d-ac96-774b-bcce-b302099a8057 --payload --json | jq -r .payload")]
pub(crate) struct Show {
    /// The message's id
    #[arg(value_parser = id::of_dead)]
    pub(crate) id: Uuid,
    /// Its payload and headers as well
    #[arg(long)]
    pub(crate) payload: bool,
    /// Print JSON, in which the payload is a text, as it stands in the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give dead letters another chance: due at once, with all their attempts
///
/// Their errors stay. What dies again meanwhile stays dead. 2,000 a second, unless it is told another pace.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox dead redrive 01890a5d-ac96-774b-bcce-b302099a8057
  outbox dead redrive 01890a5d-ac96-774b-bcce-b302099a8057 --payload corrected.json
  outbox dead redrive --topic orders.placed --error timeout --dry-run
  outbox dead redrive --topic orders.placed --error timeout --per-second 50 --yes")]
pub(crate) struct Redrive {
    /// The messages' ids
    #[arg(value_name = "ID", value_parser = id::of_dead, conflicts_with_all = ["all", "topic", "key", "error", "older_than", "younger_than", "limit", "per_second"])]
    pub(crate) ids: Vec<Uuid>,
    /// All dead letters
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// A file with the payload that takes the place of the one message's; `-` for the standard input. The
    /// payload that it had is not kept: `outbox dead show ID --payload` prints it first
    #[arg(long, value_name = "FILE", requires = "ids", help_heading = "How")]
    pub(crate) payload: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: How,
}

/// Delete dead letters, and note why
///
/// The notes keep all but payloads and headers; `outbox dead list --discarded` shows them.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  outbox dead discard 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'paid by hand'
  outbox dead discard --topic orders.placed --older-than 30d --reason 'out of date'")]
pub(crate) struct Discard {
    /// The messages' ids
    #[arg(value_name = "ID", value_parser = id::of_dead, conflicts_with_all = ["all", "topic", "key", "error", "older_than", "younger_than", "limit", "per_second"])]
    pub(crate) ids: Vec<Uuid>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// All dead letters
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) how: How,
}
