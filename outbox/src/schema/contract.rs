//! The test of a message whose schema another team owns.

use std::{fs, path::Path};

use super::{Schema, gaps::gaps};
use crate::Message;

/// What a program does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It may publish it and handle it.
    Both,
    /// It only handles it.
    Reader,
    /// It only publishes it.
    Publisher,
}

/// Fails unless the message reads all that the schema's owner publishes, and publishes only what they read.
///
/// # Panics
///
/// With what does not agree, field by field.
#[track_caller]
pub fn check<M: Message>(crate_folder: &str, file: &str, role: Role) {
    if let Err(text) = agree::<M>(Path::new(crate_folder), file, role) {
        panic!("{text}");
    }
}

fn agree<M: Message>(folder: &Path, file: &str, role: Role) -> Result<(), String> {
    let Some(ours) = Schema::of::<M>() else {
        return Ok(());
    };
    let text = fs::read_to_string(folder.join(file))
        .map_err(|error| format!("{file} can't be read: {error}"))?;
    let theirs = Schema::from_json(&text).map_err(|error| format!("{file}: {error}"))?;
    if (theirs.topic(), theirs.version()) != (ours.topic(), ours.version()) {
        return Err(format!(
            "{file} is the schema of {theirs}, and `{}` is {ours}",
            M::PATH
        ));
    }
    let mut told = String::new();
    let mut tell = |what: &str, gaps: Vec<super::gaps::Gap>| {
        for gap in gaps {
            told.push_str(&format!("  `{}` {what}: {}\n", gap.path, gap.why));
        }
    };
    if role != Role::Publisher {
        tell("can't be read", gaps(ours.reads(), theirs.writes()));
    }
    if role != Role::Reader {
        tell("can't be published so", gaps(theirs.reads(), ours.writes()));
    }
    if told.is_empty() {
        return Ok(());
    }
    Err(format!("`{}` does not agree with {file}:\n{told}", M::PATH))
}
