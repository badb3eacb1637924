// A handler's marker has the function's name, whatever it is.

#![deny(warnings)]
#![forbid(unsafe_code)]

use outbox::{Delivery, Router, State};

#[outbox::message(topic = "a")]
pub struct A {
    pub id: u64,
}

macro_rules! message_and_handler {
    ($message:ident, $topic:expr, $handler:ident, $type:ty) => {
        #[outbox::message(topic = $topic)]
        pub struct $message;

        #[outbox::handler(topic = $topic)]
        async fn $handler(_: $type) {}
    };
}

message_and_handler!(FromMacro, "from.macro", from_macro, FromMacro);

#[outbox::message(topic = "raw")]
struct Raw;

#[outbox::handler]
async fn r#type(_: Raw) {}

#[outbox::message(topic = "gen")]
struct Gen;

#[outbox::handler]
async fn r#gen(_: Gen) {}

mod names {
    use super::*;

    macro_rules! handlers {
        ($($message:ident $topic:literal $handler:ident),*) => {$(
            #[outbox::message(topic = $topic)]
            pub struct $message;

            #[outbox::handler]
            pub async fn $handler(_: $message, _: Delivery, _: State<()>) {}
        )*};
    }

    handlers!(
        M1 "names.self" self_, M2 "names.new" new, M3 "names.router" router, M4 "names.main" main,
        M5 "names.handler" handler, M6 "names.message" message, M7 "names.state" state,
        M8 "names.delivery" delivery, M9 "names.start" start, M10 "names.outbox" outbox_
    );
}

// The same name in two modules.
mod first {
    #[outbox::handler]
    pub(crate) async fn h(mut a: super::A) {
        a.id += 1;
        let _ = a.id;
    }
}

mod second {
    #[outbox::message(topic = "b")]
    pub(super) struct B;

    #[outbox::handler(name = Second)]
    pub(super) async fn h(_: B) {}
}

// A message that is less visible than its handler, and types named like ours.
mod private {
    #[outbox::message(topic = "private")]
    struct Context;

    #[derive(Clone)]
    struct State;

    #[outbox::message(topic = "delivery")]
    struct Delivery;

    #[allow(private_interfaces)]
    #[outbox::handler]
    pub async fn handles_private(_: Context, _: outbox::State<()>) {
        let _ = State.clone();
    }

    #[outbox::handler]
    async fn takes_a_delivery(_: Delivery, _: outbox::Delivery) {}

    pub const ROUTES: outbox::Router = outbox::router![handles_private, takes_a_delivery];
}

// Types by names that an expansion is tempted to use.
#[outbox::message(topic = "payload")]
struct OutboxPayload;

#[derive(Clone)]
struct OutboxState;

#[outbox::handler]
async fn of_names(_: OutboxPayload, _: State<OutboxState>) {}

static OF_NAMES: Router<OutboxState> = outbox::router![of_names];

// The type may come by an alias.
#[outbox::message(topic = "aliased")]
struct Aliased;

type Json = Aliased;

#[outbox::handler(topic = "aliased")]
async fn aliased(_: Json) {}

#[cfg(any())]
#[outbox::handler]
async fn gone(_: A) {}

#[outbox::handler]
#[cfg(any())]
async fn gone(_: A) {}

static ROUTER: Router = outbox::router![
    from_macro,
    r#type,
    r#gen,
    names::self_,
    names::new,
    names::router,
    names::main,
    names::handler,
    names::message,
    names::state,
    names::delivery,
    names::start,
    names::outbox_,
    self::first::h,
    crate::second::Second,
    ..private::ROUTES,
    aliased,
    #[cfg(any())]
    gone,
];

async fn functions_stay_callable() {
    r#type(Raw).await;
    first::h(A { id: 1 }).await;
    second::h(second::B).await;
}

fn main() {
    let _ = (functions_stay_callable(), OF_NAMES);
    let names = format!("{ROUTER:?}");
    for name in ["\"type\"", "\"gen\"", "\"self_\"", "\"h\""] {
        assert!(names.contains(name), "no {name} in {names}");
    }
    assert!(!names.contains("r#"), "a raw name in {names}");
}
