// The macro itself sees a path that stands in the list twice.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::handler]
async fn bill(_: OrderPlaced) {}

static ROUTER: Router = outbox::router![bill, bill];

fn main() {
    let _ = ROUTER;
}
