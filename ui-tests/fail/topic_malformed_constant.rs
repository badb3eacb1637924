// A topic given as a constant is held against the same grammar.

mod topics {
    pub const PLACED: &str = "Orders Placed";
    pub const NUMBER: u32 = 1;
}

#[outbox::message(topic = topics::PLACED)]
struct Placed;

fn main() {}
