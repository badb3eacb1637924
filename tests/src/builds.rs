//! Two builds of one service, on either side of a deploy that changes its messages.

use std::path::{Path, PathBuf};

use outbox::Delivery;

use crate::log::{self, Entry};

/// Writes down that a handler has got a message, and how it looked to it.
fn note(log: &Path, delivery: &Delivery, name: String) {
    let entry = Entry {
        start: true,
        id: delivery.id(),
        attempt: delivery.attempt(),
        process: std::process::id(),
        at: log::now(),
        name,
    };
    entry.append(log);
}

/// Where the handlers of a build write.
#[derive(Debug, Clone, outbox::FromRef)]
pub struct Book {
    /// The log of all processes.
    pub log: PathBuf,
}

/// The build that goes.
pub mod old {
    use std::path::PathBuf;

    use outbox::{Delivery, State};

    use super::{Book, note};

    /// An order, with a price in whole units.
    #[outbox::message(topic = "deploy.ordered")]
    #[derive(Debug, Clone)]
    pub struct Ordered {
        /// Its number.
        pub number: u32,
        /// What it costs.
        pub price: u32,
    }

    /// Has a field that the next build has no use for.
    #[outbox::message(topic = "deploy.mailed")]
    #[derive(Debug, Clone)]
    pub struct Mailed {
        /// Its number.
        pub number: u32,
        /// Goes.
        pub note: Option<String>,
    }

    #[outbox::handler]
    pub(crate) async fn ordered(it: Ordered, State(log): State<PathBuf>, delivery: Delivery) {
        note(&log, &delivery, format!("old: {it:?}"));
    }

    #[outbox::handler]
    pub(crate) async fn mailed(it: Mailed, State(log): State<PathBuf>, delivery: Delivery) {
        note(&log, &delivery, format!("old: {it:?}"));
    }

    /// What the old build handles.
    pub static ROUTER: outbox::Router<Book> = outbox::router![ordered, mailed];
}

/// The build that comes.
pub mod new {
    use std::path::PathBuf;

    use outbox::{Delivery, State};

    use super::{Book, note};

    /// An order, with a price in hundredths and a currency, which no old reader would understand.
    #[outbox::message(topic = "deploy.ordered", version = 2, from = super::old::Ordered)]
    #[derive(Debug, Clone)]
    pub struct Ordered {
        /// Its number.
        pub number: u32,
        /// What it costs, in hundredths.
        pub cents: u64,
        /// Of what.
        pub currency: String,
    }

    impl From<super::old::Ordered> for Ordered {
        fn from(old: super::old::Ordered) -> Self {
            Self {
                number: old.number,
                cents: u64::from(old.price) * 100,
                currency: "EUR".to_owned(),
            }
        }
    }

    /// Has lost an optional field and won two that may be left out: old and new read each other's.
    #[outbox::message(topic = "deploy.mailed")]
    #[derive(Debug, Clone)]
    pub struct Mailed {
        /// Its number.
        pub number: u32,
        /// Comes.
        pub subject: Option<String>,
        /// Comes as well.
        #[serde(default)]
        pub copies: u32,
    }

    #[outbox::handler]
    pub(crate) async fn ordered(it: Ordered, State(log): State<PathBuf>, delivery: Delivery) {
        note(&log, &delivery, format!("new: {it:?}"));
    }

    #[outbox::handler]
    pub(crate) async fn mailed(it: Mailed, State(log): State<PathBuf>, delivery: Delivery) {
        note(&log, &delivery, format!("new: {it:?}"));
    }

    /// What the new build handles.
    pub static ROUTER: outbox::Router<Book> =
        outbox::router![ordered, mailed; requires Ordered, super::old::Ordered];
}
