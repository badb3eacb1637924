//! `outbox dead list`.

use outbox::Discarded;
use serde_json::{Value, json};

use super::{chosen, letter, letters, none, not_dead};
use crate::{
    args::List,
    database::Database,
    failure::Failure,
    show::{ago, print, print_json, short, table, tell, time, word},
};

pub(super) async fn list(database: &Database, args: &List) -> Result<(), Failure> {
    let mut choice = chosen(database, &args.filter).limit(args.limit);
    if args.discarded {
        return discarded(&choice.discarded().await?, args);
    }
    if let Some(id) = args.after {
        let last = letters(database).inspect(id).await?;
        let last = last.ok_or_else(|| not_dead(id))?;
        choice = choice.after(&last.letter);
    }
    let page = choice.list().await?;
    if args.json {
        print_json(&Value::from_iter(page.iter().map(letter::as_json)))?;
    }
    let Some(last) = page.last() else {
        return match args.after {
            Some(_) => Err(Failure::Nothing(
                "no dead letter comes after that one".to_owned(),
            )),
            None => none(database, &args.filter, args.json).await,
        };
    };
    if args.json {
        return Ok(());
    }
    let rows = page.iter().map(|letter| {
        let error = letter.errors.last().map_or("-", |error| &*error.text);
        vec![
            letter.id.to_string(),
            letter.topic.clone(),
            letter.key.clone().unwrap_or_else(|| "-".to_owned()),
            ago(letter.died_at),
            letter.attempts.to_string(),
            letter.redrives.to_string(),
            short(error),
        ]
    });
    let header = [
        "ID",
        "TOPIC",
        "KEY",
        "DEAD FOR",
        "ATTEMPTS",
        "REDRIVEN",
        "LAST ERROR",
    ];
    print(&table(&header, rows))?;
    if page.len() == args.limit as usize {
        tell(&format!(
            "there may be more: --after {}; `outbox dead reasons` counts them by their errors",
            last.id
        ));
    }
    Ok(())
}

fn discarded(page: &[Discarded], args: &List) -> Result<(), Failure> {
    if args.json {
        let notes = page.iter().map(|note| {
            let mut json = letter::as_json(&note.letter);
            json["reason"] = json!(note.reason);
            json["discarded_at"] = json!(time(note.discarded_at));
            json
        });
        print_json(&Value::from_iter(notes))?;
    }
    if page.is_empty() {
        return match (&args.filter.topic, args.json) {
            (Some(topic), _) => Err(Failure::Nothing(format!(
                "nothing of the topic {} was discarded",
                word(topic)
            ))),
            (None, true) => Ok(()),
            (None, false) => print("nothing was discarded"),
        };
    }
    if args.json {
        return Ok(());
    }
    let rows = page.iter().map(|note| {
        vec![
            note.letter.id.to_string(),
            note.letter.topic.clone(),
            ago(note.discarded_at),
            short(&note.reason),
            short(note.letter.errors.last().map_or("-", |error| &error.text)),
        ]
    });
    let header = ["ID", "TOPIC", "DISCARDED FOR", "WHY", "LAST ERROR"];
    print(&table(&header, rows))
}
