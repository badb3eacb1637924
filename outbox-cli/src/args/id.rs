//! Ids, as they are typed.

use uuid::Uuid;

/// The id of a dead letter.
pub(super) fn of_dead(text: &str) -> Result<Uuid, String> {
    read(text, "`outbox dead list` prints them")
}

/// The id of a message that waits.
pub(super) fn of_waiting(text: &str) -> Result<Uuid, String> {
    read(text, "publishing it returned it")
}

fn read(text: &str, source: &str) -> Result<Uuid, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no message's id, which is a UUID; {source}"))
}
