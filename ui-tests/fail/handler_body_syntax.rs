// A mistake in the body stays the only one.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced {
    id: u64,
}

#[outbox::handler]
async fn bill(order: OrderPlaced) {
    order.
}

static ROUTER: Router = outbox::router![bill];

fn main() {
    let _ = ROUTER;
}
