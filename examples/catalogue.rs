//! What a shop publishes and handles, as a page for people or an AsyncAPI document for tools:
//! `cargo run --example catalogue --features schema [-- asyncapi]`.

use outbox::schema::Catalogue;

/// A customer has placed an order.
#[outbox::message(topic = "orders.placed")]
#[derive(Debug, garde::Validate)]
pub(crate) struct OrderPlaced {
    /// The order's number.
    #[outbox(key)]
    #[garde(skip)]
    pub(crate) order: i64,
    /// What was ordered.
    #[garde(length(min = 1), dive)]
    pub(crate) lines: Vec<Line>,
    /// Where the receipt goes.
    #[garde(email)]
    pub(crate) receipt_to: String,
    /// How the customer pays.
    #[garde(skip)]
    pub(crate) payment: Payment,
    /// What the customer has to say.
    #[garde(inner(length(max = 500)))]
    pub(crate) note: Option<String>,
}

/// A line of an order.
#[derive(
    Debug, garde::Validate, serde::Serialize, serde::Deserialize, outbox::schema::JsonSchema,
)]
#[schemars(crate = "outbox::schema::schemars")]
pub(crate) struct Line {
    /// Which article.
    #[garde(length(min = 1))]
    pub(crate) sku: String,
    /// How many of it.
    #[garde(range(min = 1))]
    pub(crate) quantity: u32,
}

/// How a customer pays.
#[derive(Debug, serde::Serialize, serde::Deserialize, outbox::schema::JsonSchema)]
#[schemars(crate = "outbox::schema::schemars")]
#[serde(tag = "by", rename_all = "lowercase")]
pub(crate) enum Payment {
    /// With a card.
    Card {
        /// Its last four digits.
        last_four: String,
    },
    /// By invoice.
    Invoice,
}

/// An order has left the house.
#[outbox::message(topic = "orders.shipped")]
#[derive(Debug)]
pub(crate) struct OrderShipped {
    /// The order's number.
    #[outbox(key)]
    pub(crate) order: i64,
}

#[outbox::handler]
pub(crate) async fn send_receipt(_order: OrderPlaced) {}

static ROUTER: outbox::Router = outbox::router![send_receipt];

/// All of the shop's messages.
pub(crate) fn catalogue() -> Catalogue {
    Catalogue::new("shop", "1.4.0")
        .router(&ROUTER)
        .publishes::<OrderPlaced>()
        .publishes::<OrderShipped>()
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("asyncapi") => println!("{:#}", catalogue().asyncapi()),
        _ => print!("{}", catalogue().markdown()),
    }
}
