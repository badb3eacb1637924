// Every required message has a handler.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::message(topic = "orders.shipped")]
struct OrderShipped;

struct NotAMessage;

#[outbox::handler]
async fn bill(_: OrderPlaced) {}

static ROUTER: Router = outbox::router![bill; requires OrderPlaced, OrderShipped];

fn main() {
    let _ = ROUTER;
}
