#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::message(topic = "orders.placed")]
struct OrderShipped;

#[outbox::handler]
async fn bill(_order: OrderPlaced) {}

static ROUTER: outbox::Router = outbox::router![bill; requires OrderPlaced, OrderShipped];

fn main() {
    let _ = (&ROUTER, OrderPlaced, OrderShipped);
}
