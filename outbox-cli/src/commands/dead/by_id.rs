//! Changes of dead letters that are named by their ids.

use uuid::Uuid;

use super::{letters, not_dead};
use crate::{
    args::How,
    bulk::{self, Verb},
    database::Database,
    failure::Failure,
    show::{messages, print},
};

/// Changes all that can be; names those that can't. Asks first if they are several.
pub(super) async fn change(
    database: &Database,
    ids: &[Uuid],
    verb: &Verb,
    how: &How,
    change: impl AsyncFn(Uuid) -> Result<bool, outbox::Error>,
) -> Result<(), Failure> {
    let ids = once_each(ids);
    if how.dry_run || ids.len() > 1 {
        let (dead, missing) = look(database, &ids).await?;
        if how.dry_run {
            if dead > 0 {
                print(&format!("{} would be {}", messages(dead), verb.done))?;
            }
            return all_dead(&missing);
        }
        if dead > 0 {
            bulk::confirm(verb, dead, how.yes)?;
        }
    }
    let (mut changed, mut missing) = (0, Vec::new());
    for id in ids {
        match change(id).await {
            Ok(true) => changed += 1,
            Ok(false) => missing.push(id),
            Err(error) => return Err(bulk::interrupted(error, changed, verb)),
        }
    }
    if changed > 0 {
        verb.told(changed)?;
    }
    all_dead(&missing)
}

/// An id that is given twice is meant once.
fn once_each(ids: &[Uuid]) -> Vec<Uuid> {
    let mut once = Vec::with_capacity(ids.len());
    for &id in ids {
        if !once.contains(&id) {
            once.push(id);
        }
    }
    once
}

/// How many of these are dead, and which are not.
async fn look(database: &Database, ids: &[Uuid]) -> Result<(u64, Vec<Uuid>), Failure> {
    let (mut dead, mut missing) = (0, Vec::new());
    for &id in ids {
        match letters(database).inspect(id).await? {
            Some(_) => dead += 1,
            None => missing.push(id),
        }
    }
    Ok((dead, missing))
}

fn all_dead(missing: &[Uuid]) -> Result<(), Failure> {
    match missing {
        [] => Ok(()),
        [id] => Err(not_dead(*id)),
        _ => {
            let ids: Vec<_> = missing.iter().map(Uuid::to_string).collect();
            Err(Failure::Nothing(format!(
                "none of these is a dead letter: {}",
                ids.join(" ")
            )))
        }
    }
}
