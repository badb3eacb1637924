// The attribute's arguments.

#[outbox::message]
struct Nothing;

#[outbox::message()]
struct Empty;

#[outbox::message(topik = "a")]
struct Misspelt;

#[outbox::message(topic = "a", topic = "b")]
struct Twice;

#[outbox::message(topic = "a", retries = 3)]
struct Unknown;

#[outbox::message(topic = "a", version = 2)]
struct Later;

#[outbox::message(topic = "a", version = 0)]
struct Never;

#[outbox::message(topic = "a", validate = "check")]
struct Quoted;

#[outbox::message(topic = "a", serde = no)]
struct Flag;

#[outbox::message(topic = "a", crate = outbox)]
struct Relative;

#[outbox::message(topic = "a", crate = "outbox")]
struct QuotedCrate;

#[outbox::message(topic = "a", crate = ::outbox, crate = ::outbox)]
struct CrateTwice;

#[outbox::message("a")]
struct Positional;

fn main() {}
