// Which fields can be the key.

struct Account(u64);

#[outbox::message(topic = "not-a-key")]
struct NotAKey {
    #[outbox(key)]
    amount: f64,
}

#[outbox::message(topic = "two-keys")]
struct TwoKeys {
    #[outbox(key)]
    a: u64,
    #[outbox(key)]
    b: u64,
}

#[outbox::message(topic = "disagreeing")]
enum Disagreeing {
    With {
        #[outbox(key)]
        id: u64,
    },
    Without {
        id: u64,
    },
    Unit,
}

#[outbox::message(topic = "misplaced")]
#[outbox(key)]
enum Misplaced {
    #[outbox(key)]
    Variant(u64),
}

#[outbox::message(topic = "quoted")]
struct Quoted {
    #[outbox(key = "to_key")]
    a: u64,
    #[outbox()]
    b: u64,
}

fn main() {}
