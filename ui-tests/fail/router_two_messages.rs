// Two messages of one topic, each with its handler: one mistake, one error.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::message(topic = "orders.placed")]
struct OrderShipped;

#[outbox::handler]
async fn bill(_: OrderPlaced) {}

#[outbox::handler]
async fn track(_: OrderShipped) {}

static ROUTER: Router = outbox::router![bill, track; requires OrderPlaced, OrderShipped];

fn main() {
    let _ = ROUTER;
}
