// Not everything can be taken from a delivery.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::handler]
async fn bill(_: OrderPlaced, count: u32) {
    let _ = count;
}

static ROUTER: Router = outbox::router![bill];

fn main() {
    let _ = ROUTER;
}
