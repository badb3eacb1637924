// The functions that a message names.

#[outbox::message(topic = "validated", validate = check)]
struct Validated {
    #[outbox(key = to_key)]
    id: f64,
}

fn check(message: Validated) -> Result<(), String> {
    let _ = message;
    Ok(())
}

fn to_key(id: &f64) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

#[outbox::message(topic = "undisplayable", validate = undisplayable)]
struct Undisplayable;

struct NoDisplay;

fn undisplayable(_: &Undisplayable) -> Result<(), NoDisplay> {
    Err(NoDisplay)
}

fn main() {}
