//! Where the style lints are forbidden, an `allow` would be an error.
//!
//! serde's derives hold some of these, which rustc reports wherever they stand under such a `forbid`,
//! so that the messages here implement serde's traits by hand.

#![forbid(unsafe_code, nonstandard_style, unused_qualifications, missing_docs)]
#![forbid(
    dead_code,
    deprecated,
    unreachable_pub,
    clippy::pedantic,
    clippy::nursery
)]

use outbox::{Delivery, Router, State};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An invoice is due.
#[outbox::message(topic = "invoices.due", serde = false)]
#[derive(Debug)]
pub struct Due {
    /// Its number.
    #[outbox(key)]
    pub number: u64,
}

impl Serialize for Due {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.number.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Due {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|number| Self { number })
    }
}

/// What happens to invoices.
#[derive(Debug, outbox::Event)]
pub enum Event {
    /// It is due.
    Due(Due),
}

/// What the handlers need.
#[derive(Debug, Clone, outbox::FromRef)]
pub struct App {
    /// Whom to remind.
    pub name: String,
}

/// Reminds the customer.
///
/// # Errors
///
/// Without a name.
#[outbox::handler(
    topic = "invoices.due",
    timeout = "1s",
    max_attempts = 2,
    backoff = "1s..2s"
)]
pub async fn remind(
    due: Due,
    State(name): State<String>,
    delivery: Delivery,
) -> Result<(), String> {
    let name = std::future::ready(name).await;
    if name.is_empty() {
        return Err(format!("{}: {}", due.number, delivery.id()));
    }
    Ok(())
}

/// All of them.
pub static ROUTER: Router<App> = outbox::router![remind; requires Due];
