// A handler that does not compile is the only thing that is wrong with its router.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::message(topic = "orders.shipped")]
struct OrderShipped;

#[outbox::handler]
fn bill(_: OrderPlaced) {}

#[outbox::handler]
async fn ship(_: &OrderShipped) {}

mod shipping {
    pub static ROUTES: outbox::Router = outbox::router![super::ship];
}

static ROUTER: Router = outbox::router![bill, ..shipping::ROUTES; requires OrderPlaced, OrderShipped];

fn main() {
    let _ = ROUTER;
}
