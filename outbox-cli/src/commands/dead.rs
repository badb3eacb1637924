//! `outbox dead`.

mod by_id;
mod letter;
mod list;
mod reasons;
mod show;

use std::io::{self, Read as _};

use outbox::{Bulk, DeadLetters};
use uuid::Uuid;

use super::topics;
use crate::{
    args::{Dead, Discard, Filter, How, Redrive},
    bulk::{self, Verb},
    database::{Database, each},
    failure::Failure,
    show::print,
};

pub(crate) async fn dead(database: &Database, args: Dead) -> Result<(), Failure> {
    match args {
        Dead::List(args) => list::list(database, &args).await,
        Dead::Reasons(args) => reasons::reasons(database, &args).await,
        Dead::Show(args) => show::show(database, &args).await,
        Dead::Redrive(args) => redrive(database, &args).await,
        Dead::Discard(args) => discard(database, &args).await,
    }
}

/// All dead letters.
fn letters(database: &Database) -> DeadLetters {
    each!(database, pool => database.outbox.dead_letters(pool))
}

/// Those that the filter lets through.
fn chosen(database: &Database, filter: &Filter) -> DeadLetters {
    let mut letters = letters(database);
    if let Some(topic) = &filter.topic {
        letters = letters.topic(topic);
    }
    if let Some(key) = &filter.key {
        letters = letters.key(key);
    }
    if let Some(error) = &filter.error {
        letters = letters.error_contains(error);
    }
    if let Some(age) = filter.older_than {
        letters = letters.older_than(age);
    }
    if let Some(age) = filter.younger_than {
        letters = letters.younger_than(age);
    }
    letters
}

async fn redrive(database: &Database, args: &Redrive) -> Result<(), Failure> {
    const VERB: Verb = Verb {
        does: "redrive",
        done: "redriven",
        next: Some(
            "what fails again shows in `outbox dead list`; delivered messages leave the table, unless a relay keeps them",
        ),
    };
    if let Some(file) = &args.payload {
        let [id] = args.ids[..] else {
            return Err(Failure::Usage(
                "--payload is for one message; give one id".to_owned(),
            ));
        };
        let payload = if file.as_os_str() == "-" {
            let mut payload = String::new();
            io::stdin().read_to_string(&mut payload).map(|_| payload)
        } else {
            std::fs::read_to_string(file)
        };
        let payload = payload.map_err(|error| {
            Failure::Usage(format!(
                "the payload can't be read from {}: {error}",
                file.display()
            ))
        })?;
        return by_id::change(database, &[id], &VERB, &args.how, async |id| {
            letters(database).redrive_with_json(id, &payload).await
        })
        .await;
    }
    if !args.ids.is_empty() {
        return by_id::change(database, &args.ids, &VERB, &args.how, async |id| {
            letters(database).redrive(id).await
        })
        .await;
    }
    many(args.all, &args.filter)?;
    sweep(database, &args.filter, &VERB, &args.how, |chosen| {
        chosen.redrive_all()
    })
    .await
}

async fn discard(database: &Database, args: &Discard) -> Result<(), Failure> {
    const VERB: Verb = Verb {
        does: "discard",
        done: "discarded",
        next: None,
    };
    if !args.ids.is_empty() {
        return by_id::change(database, &args.ids, &VERB, &args.how, async |id| {
            letters(database).discard(id, &args.reason).await
        })
        .await;
    }
    many(args.all, &args.filter)?;
    sweep(database, &args.filter, &VERB, &args.how, |chosen| {
        chosen.discard_all(&args.reason)
    })
    .await
}

/// Changes all that the filter lets through.
async fn sweep(
    database: &Database,
    filter: &Filter,
    verb: &Verb,
    how: &How,
    change: impl Fn(DeadLetters) -> Bulk,
) -> Result<(), Failure> {
    match bulk::run(verb, how, || change(chosen(database, filter))).await {
        Err(Failure::Nothing(text)) => Err(unmatched(database, filter, text).await?),
        Ok(()) if how.dry_run => reasons::before_a_change(database, filter, how.limit).await,
        done => done,
    }
}

/// No dead letter matches: the topic may be mistyped.
async fn unmatched(
    database: &Database,
    filter: &Filter,
    mut text: String,
) -> Result<Failure, Failure> {
    if let Some(topic) = &filter.topic {
        let stats = topics::stats(database).await?;
        if let Some(others) = topics::dead_but_not(&stats, topic) {
            text.push_str(&format!("; topics with dead letters: {others}"));
        }
    }
    Ok(Failure::Nothing(text))
}

/// There is nothing to show. That is no fault if nothing in particular was asked for.
async fn none(database: &Database, filter: &Filter, json: bool) -> Result<(), Failure> {
    if !filter.is_empty() {
        return Err(unmatched(database, filter, "no dead letter matches".to_owned()).await?);
    }
    match json {
        true => Ok(()),
        false => print("there are no dead letters"),
    }
}

fn not_dead(id: Uuid) -> Failure {
    Failure::Nothing(format!(
        "no dead letter has the id {id}; it may have been delivered or redriven meanwhile"
    ))
}

/// A change of many needs to be told of which.
fn many(all: bool, filter: &Filter) -> Result<(), Failure> {
    match (all, filter.is_empty()) {
        (false, true) => Err(Failure::Usage(
            "which dead letters? give ids, filters such as --topic, or --all".to_owned(),
        )),
        (true, false) => Err(Failure::Usage(
            "--all and filters contradict each other; leave one of them out".to_owned(),
        )),
        _ => Ok(()),
    }
}
