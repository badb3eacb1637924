// Joined routers and extractors of another state.

use outbox::{Delivery, FromDelivery, Router, State};

#[outbox::message(topic = "orders.placed")]
pub struct OrderPlaced;

#[derive(Clone)]
pub struct Mailer;

#[derive(Clone)]
pub struct App;

pub struct Tenant;

impl FromDelivery<Mailer> for Tenant {
    fn from_delivery(_: &Delivery, _: &Mailer) -> Self {
        Self
    }
}

mod billing {
    #[outbox::handler]
    pub async fn bill(_: super::OrderPlaced, _: super::State<super::Mailer>) {}

    pub static ROUTES: outbox::Router<super::Mailer> = outbox::router![bill];
}

#[outbox::handler]
async fn audit(_: OrderPlaced, _: Tenant) {}

static JOINED: Router<App> = outbox::router![..billing::ROUTES];
static LISTED: Router<App> = outbox::router![audit];

fn main() {
    let _ = (JOINED, LISTED);
}
