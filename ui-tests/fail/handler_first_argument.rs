// The message comes first; what comes after it is taken from the delivery.

use outbox::{Delivery, Router, State};

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[derive(Clone)]
struct Mailer;

#[outbox::handler]
async fn delivery_first(_: Delivery, _: OrderPlaced) {}

#[outbox::handler]
async fn state_first(_: State<Mailer>, _: OrderPlaced) {}

#[outbox::handler]
async fn bare_state(_: OrderPlaced, mailer: Mailer) {
    let _ = mailer;
}

static ROUTER: Router<Mailer> = outbox::router![bare_state];

fn main() {
    let _ = ROUTER;
}
