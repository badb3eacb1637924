// The promises of a router hold across the routers it joins.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
pub struct OrderPlaced;

mod billing {
    #[outbox::handler]
    pub async fn bill(_: super::OrderPlaced) {}

    pub static ROUTES: outbox::Router = outbox::router![bill];
}

mod shipping {
    #[outbox::handler]
    pub async fn ship(_: super::OrderPlaced) {}

    pub const ROUTES: outbox::Router = outbox::router![ship];
}

static BOTH: Router = outbox::router![..billing::ROUTES, ..shipping::ROUTES];
static TWICE: Router = outbox::router![shipping::ship, ..shipping::ROUTES];

fn main() {
    let _ = (BOTH, TWICE);
}
