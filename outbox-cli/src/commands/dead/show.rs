//! `outbox dead show`.

use outbox::{DeadLetter, Inspected};
use serde_json::json;

use super::{letter, letters, not_dead};
use crate::{
    args::Show,
    database::Database,
    failure::Failure,
    show::{counted, print, print_json, safe, safe_json, table, time},
};

pub(super) async fn show(database: &Database, args: &Show) -> Result<(), Failure> {
    let Some(inspected) = letters(database).inspect(args.id).await? else {
        return Err(not_dead(args.id));
    };
    if args.json {
        let mut json = letter::as_json(&inspected.letter);
        if args.payload {
            json["headers"] = json!(inspected.headers);
            json["payload"] = json!(inspected.payload);
        }
        return print_json(&json);
    }
    print(&for_people(&inspected, args.payload))
}

fn for_people(inspected: &Inspected, payload: bool) -> String {
    let letter = &inspected.letter;
    let attempts = match letter.redrives {
        0 => letter.attempts.to_string(),
        _ => format!("{} since the last redrive", letter.attempts),
    };
    let facts = [
        ("id", letter.id.to_string()),
        (
            "topic",
            format!("{}, version {}", letter.topic, letter.version),
        ),
        ("key", letter.key.clone().unwrap_or_else(|| "-".to_owned())),
        ("published", time(letter.created_at)),
        ("died", time(letter.died_at)),
        ("attempts", attempts),
        ("redriven", counted(letter.redrives.into(), "time")),
    ];
    let mut text = String::new();
    for (name, fact) in facts {
        text.push_str(&format!("{name:<10} {}\n", safe(&fact)));
    }
    text.push('\n');
    text.push_str(&errors(letter));
    if payload {
        for (name, value) in &inspected.headers {
            text.push_str(&format!("\nheader {}: {}", safe(name), safe(value)));
        }
        text.push_str(&format!("\npayload\n{}\n", safe_json(&inspected.payload)));
    } else {
        text.push_str("\nits payload and headers: --payload\n");
    }
    text
}

/// The errors as a table. Attempts count from 1 again after a redrive, which shows in nothing else.
fn errors(letter: &DeadLetter) -> String {
    let rows = letter.errors.iter().map(|error| {
        vec![
            error.attempt.to_string(),
            time(error.at),
            error.text.clone(),
        ]
    });
    let table = table(&["ATTEMPT", "AT", "ERROR"], rows);
    let mut lines = table.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    let mut last = 0;
    for (error, line) in letter.errors.iter().zip(lines) {
        if letter.redrives > 0 && error.attempt <= last {
            text.push_str("-- redriven --\n");
        }
        last = error.attempt;
        text.push_str(&format!("{line}\n"));
    }
    text
}
