// One handler takes all versions of its topic.

#[outbox::message(topic = "orders.placed")]
struct V1 {}

#[outbox::message(topic = "orders.placed")]
struct OtherV1 {}

#[outbox::message(topic = "orders.placed", version = 2, from = V1)]
struct V2 {}

impl From<V1> for V2 {
    fn from(_: V1) -> Self {
        Self {}
    }
}

#[outbox::message(topic = "orders.placed", version = 3, from = V2)]
struct V3 {}

impl From<V2> for V3 {
    fn from(_: V2) -> Self {
        Self {}
    }
}

#[outbox::handler]
async fn first(_order: V1) {}

#[outbox::handler]
async fn second(_order: V2) {}

static TWO: outbox::Router = outbox::router![first, second];

// The handler's message is not made of these.
static OTHER: outbox::Router = outbox::router![second; requires V1, V2, OtherV1];
static NEWER: outbox::Router = outbox::router![second; requires V3];

#[outbox::message(topic = "orders.placed", version = 3, from = none)]
struct Fresh {}

#[outbox::handler]
async fn third(_order: Fresh) {}

static OLDER: outbox::Router = outbox::router![third; requires V1];

fn main() {
    let _ = (&TWO, &OTHER, &NEWER, &OLDER);
}
