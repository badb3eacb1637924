// A handler may say which topic it serves; its message decides.

#[outbox::message(topic = "orders.shipped")]
struct OrderShipped;

#[outbox::handler(topic = "orders.placed")]
async fn bill(order: OrderShipped) {
    let _ = order;
}

const PLACED: &str = "orders.placed";

#[outbox::handler(topic = PLACED)]
async fn ship(order: OrderShipped) {
    let _ = order;
}

#[outbox::handler(topic = "Orders Placed")]
async fn pack(order: OrderShipped) {
    let _ = order;
}

fn main() {}
