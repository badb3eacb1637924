// A router is a value: in a static, a const, a let, with and without state, joined.

#![deny(warnings)]

use outbox::{Delivery, FromRef, Relay, Router, State};

#[outbox::message(topic = "a")]
pub struct A;

#[outbox::message(topic = "b")]
pub struct B;

#[outbox::message(topic = "c")]
pub struct C;

#[derive(Clone)]
pub struct Mailer;

#[derive(Clone, FromRef)]
pub struct App {
    mailer: Mailer,
}

pub mod billing {
    use super::*;

    #[outbox::handler]
    pub async fn bill(_: A, _: Delivery) {}

    #[outbox::handler]
    pub async fn charge(_: B, State(_): State<Mailer>, State(_): State<App>) {}

    pub static ROUTES: Router<App> = outbox::router![bill, charge];
    pub const FOR_ANY: Router = outbox::router![bill];
}

#[outbox::handler]
pub async fn ship(_: C) {}

static STATIC: Router<App> = outbox::router![ship, ..billing::ROUTES; requires A, B, C];
const CONST: Router<App> = outbox::router![..billing::ROUTES, ship; requires C];
static NESTED: Router<App> = outbox::router![..STATIC; requires A];
static EMPTY: Router = outbox::router![];
static CONDITIONAL: Router<App> = outbox::router![
    #[cfg(any())]
    nothing::of_this_name,
    #[cfg(all())]
    ship,
    #[cfg(any())]
    ..nothing::of_this_name,
    #[cfg(all())]
    ..billing::ROUTES,
    ;
    requires
    #[cfg(any())]
    Nothing,
    #[cfg(all())]
    A,
];
// One path under two conditions.
static EITHER: Router = outbox::router![#[cfg(any())] ship, #[cfg(all())] ship];

// A local variable of a handler's name is not in its way.
fn beside_variables(ship: u8) -> Router<App> {
    let bill = ship;
    let _ = bill;
    use billing::bill;
    let within = |charge: u8| {
        let _ = charge;
        outbox::router![ship]
    };
    let _: Router<App> = within(1);
    outbox::router![ship, bill]
}

fn takes<S>(_: &Router<S>) {}

fn generic<S>() -> Router<S> {
    outbox::router![ship, billing::bill]
}

async fn relays(pool: sqlx::SqlitePool) {
    // The state is inferred: there is none, or the builder is given one.
    let without = outbox::router![ship, billing::bill; requires A];
    let _ = Relay::builder(&pool, &without).build().await;
    let with = outbox::router![ship, billing::charge];
    let _ = Relay::builder(&pool, &with).state(App { mailer: Mailer }).build().await;
    let _ = Relay::builder(&pool, &STATIC).state(App { mailer: Mailer }).build().await;
    let _ = Relay::builder(&pool, &outbox::router![ship]).build().await;
}

fn main() {
    let local: Router<App> = outbox::router![ship, ..CONST_OF_BILLING];
    takes(&local);
    takes(&generic::<u8>());
    takes(&beside_variables(1));
    takes(&[STATIC, CONST, NESTED, CONDITIONAL][0]);
    takes(&[EMPTY, EITHER, billing::FOR_ANY][0]);
    // Where nothing says otherwise, the item of a function's body is as good as that of a module.
    #[outbox::message(topic = "local")]
    struct Local;
    #[outbox::handler]
    async fn on_local(_: Local) {}
    takes::<()>(&outbox::router![on_local; requires Local]);
    let _ = relays;
}

const CONST_OF_BILLING: Router<App> = outbox::router![..billing::ROUTES];
