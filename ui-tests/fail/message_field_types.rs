// What is wrong with the type of a field stands at the field; of serde's own errors the first is shown at
// its derive, which here is our attribute, and marks the field.

struct NotSerde;

#[outbox::message(topic = "struct")]
struct Struct {
    id: u64,
    field: NotSerde,
}

#[outbox::message(topic = "keys")]
struct Keys {
    #[outbox(key)]
    account: Vec<u8>,
}

fn main() {}
