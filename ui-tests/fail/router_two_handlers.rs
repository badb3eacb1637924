// A topic has one handler.

use outbox::Router;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

mod billing {
    #[outbox::handler]
    pub async fn bill(_: super::OrderPlaced) {}
}

mod shipping {
    #[outbox::handler]
    pub async fn ship(_: super::OrderPlaced) {}
}

static ROUTER: Router = outbox::router![billing::bill, shipping::ship];

fn main() {
    let _ = ROUTER;
}
