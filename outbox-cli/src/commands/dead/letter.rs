//! A dead letter, for programs.

use outbox::{DeadLetter, Failure as Attempt};
use serde_json::{Value, json};

use crate::show::time;

pub(super) fn as_json(letter: &DeadLetter) -> Value {
    let errors = letter.errors.iter().map(
        |Attempt {
             attempt, at, text, ..
         }| { json!({"attempt": attempt, "at": time(*at), "text": text}) },
    );
    json!({
        "id": letter.id,
        "topic": letter.topic,
        "version": letter.version,
        "key": letter.key,
        "attempts": letter.attempts,
        "redrives": letter.redrives,
        "created_at": time(letter.created_at),
        "died_at": time(letter.died_at),
        "errors": errors.collect::<Vec<_>>(),
    })
}
