// A derive of `Validate` that is not garde's runs no garde rules.

mod other {
    pub use std::clone::Clone as Validate;
}

use other::Validate;

#[outbox::message(topic = "a")]
#[derive(Validate)]
struct Message {
    #[garde(range(min = 1))]
    amount: i64,
}

fn main() {}
