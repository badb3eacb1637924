// The constant is a `&'static str`.

const NUMBER: u32 = 1;

#[outbox::message(topic = NUMBER)]
struct Placed;

fn main() {}
