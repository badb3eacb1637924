// A message with a method of its own called `publish` leaves ours out with `methods = false`.

#[outbox::message(topic = "a")]
struct Message;

impl Message {
    fn publish(&self) {}
}

fn main() {}
