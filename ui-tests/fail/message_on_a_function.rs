// A message is a struct or an enum.

#[outbox::message(topic = "a")]
fn function() {}

#[outbox::message(topic = "a")]
union Union {
    a: u8,
    b: u8,
}

fn main() {}
