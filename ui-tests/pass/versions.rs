//! Versions in all the places where a message's name can stand.
#![deny(warnings)]
#![forbid(unsafe_code)]

pub mod old {
    #[deprecated = "write the new one"]
    #[outbox::message(topic = "orders.placed")]
    pub struct OrderPlaced {
        pub price: u32,
    }

    #[outbox::message(topic = "mails.due")]
    #[allow(non_camel_case_types)]
    pub struct r#type {}
}

mod constant {
    pub(crate) const TOPIC: &str = "orders.placed";
}

#[outbox::message(topic = constant::TOPIC, version = 2, from = crate::old::OrderPlaced)]
#[allow(deprecated)]
pub struct OrderPlaced {
    pub cents: u64,
}

#[allow(deprecated)]
impl From<old::OrderPlaced> for OrderPlaced {
    fn from(old: old::OrderPlaced) -> Self {
        Self {
            cents: u64::from(old.price) * 100,
        }
    }
}

#[outbox::message(topic = "mails.due", version = 2, from = old::r#type)]
pub enum Mail {
    Due,
}

impl From<old::r#type> for Mail {
    fn from(_: old::r#type) -> Self {
        Self::Due
    }
}

// A version that comes from nothing, and one made by a macro.
#[outbox::message(topic = "parcels.sent", version = 7, from = none)]
pub struct Parcel {}

macro_rules! eighth {
    ($name:ident, $from:path, $version:literal) => {
        #[outbox::message(topic = "parcels.sent", version = $version, from = $from)]
        pub struct $name {}

        impl From<$from> for $name {
            fn from(_: $from) -> Self {
                Self {}
            }
        }
    };
}

eighth!(Eighth, Parcel, 8);
eighth!(Ninth, Eighth, 9);

#[outbox::handler]
async fn place(_: OrderPlaced) {}

#[outbox::handler]
async fn mail(_: Mail) {}

#[outbox::handler]
async fn send(_: Ninth) {}

static ROUTER: outbox::Router = outbox::router![
    place, mail, send;
    requires OrderPlaced, Mail, Ninth, Eighth, Parcel
];

fn main() {
    let _ = &ROUTER;
    assert_eq!(<Ninth as outbox::Message>::VERSION, 9);
}
