// Versions, and what each of them comes from.

#[outbox::message(topic = "orders.placed")]
struct V1 {}

// Nothing says what becomes of stored messages.
#[outbox::message(topic = "orders.placed", version = 2)]
struct FromNowhere {}

// The first version comes from nothing.
#[outbox::message(topic = "orders.placed", from = V1)]
struct WithoutVersion {}

#[outbox::message(topic = "orders.placed", version = 1, from = none)]
struct First {}

#[outbox::message(topic = "orders.placed", version = "2", from = V1)]
struct Quoted {}

#[outbox::message(topic = "orders.placed", version = 2, from = "V1")]
struct QuotedFrom {}

// No conversion.
#[outbox::message(topic = "orders.placed", version = 2, from = V1)]
struct Unconverted {}

// Not a message.
struct Plain {}

#[outbox::message(topic = "orders.placed", version = 2, from = Plain)]
struct FromPlain {}

impl From<Plain> for FromPlain {
    fn from(_: Plain) -> Self {
        Self {}
    }
}

// Version 2 is left out.
#[outbox::message(topic = "orders.placed", version = 3, from = V1)]
struct Gap {}

impl From<V1> for Gap {
    fn from(_: V1) -> Self {
        Self {}
    }
}

// Not an earlier one.
#[outbox::message(topic = "orders.placed", version = 2, from = V2)]
struct V2Again {}

#[outbox::message(topic = "orders.placed", version = 2, from = none)]
struct V2 {}

impl From<V2> for V2Again {
    fn from(_: V2) -> Self {
        Self {}
    }
}

// Of another topic.
#[outbox::message(topic = "orders.shipped", version = 2, from = V1)]
struct Shipped {}

impl From<V1> for Shipped {
    fn from(_: V1) -> Self {
        Self {}
    }
}

fn main() {}
