// Two mistakes in one handler are both shown, and listing it adds none.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::handler(timeout = "soon")]
fn bill(_: &OrderPlaced) {}

static ROUTER: Router = outbox::router![bill];

fn main() {
    let _ = ROUTER;
}
