// The relay may move a handler between threads.

use std::rc::Rc;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

async fn elsewhere() {}

#[outbox::handler]
async fn bill(_: OrderPlaced) {
    let shared = Rc::new(1);
    elsewhere().await;
    drop(shared);
}

fn main() {}
