// The payload's type was not made a message.

struct Plain {
    _id: u64,
}

#[outbox::handler]
async fn on_plain(msg: Plain) {
    let _ = msg;
}

#[outbox::handler(topic = "plain")]
async fn on_plain_with_topic(msg: Plain) {
    let _ = msg;
}

fn main() {}
