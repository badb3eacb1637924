// A derive above the attribute is invisible to it: `serde = false` says that it is there.

#[derive(serde::Serialize)]
#[outbox::message(topic = "a")]
struct Message {
    id: u64,
}

fn main() {}
