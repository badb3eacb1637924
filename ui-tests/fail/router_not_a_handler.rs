// A type that is no handler, and a router that is not joined.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

static ROUTER: Router = outbox::router![OrderPlaced];

fn main() {
    let _ = ROUTER;
}
