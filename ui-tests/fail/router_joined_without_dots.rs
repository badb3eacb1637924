// A router is a value, an entry is a type; `..` tells which.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
pub struct OrderPlaced;

mod billing {
    #[outbox::handler]
    pub async fn bill(_: super::OrderPlaced) {}

    pub static ROUTES: outbox::Router = outbox::router![bill];
}

static MISSING: Router = outbox::router![billing::ROUTES];
static TOO_MANY: Router = outbox::router![..billing::bill];

fn main() {
    let _ = (MISSING, TOO_MANY);
}
