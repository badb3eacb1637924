// The router's state has to provide what its handlers ask for.

use outbox::{Router, State};

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[derive(Clone)]
struct Mailer;

#[derive(Clone)]
struct App;

#[outbox::handler]
async fn bill(_: OrderPlaced, State(mailer): State<Mailer>) {
    let _ = mailer;
}

static ROUTER: Router<App> = outbox::router![bill];

fn main() {
    let _ = ROUTER;
}
