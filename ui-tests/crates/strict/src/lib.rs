//! A crate that allows nothing stays silent: neither rustc nor clippy finds fault with what the macros
//! write.

#![deny(warnings)]
#![deny(missing_docs, unreachable_pub, unused_qualifications)]
#![deny(
    missing_debug_implementations,
    single_use_lifetimes,
    unused_lifetimes,
    unused_results
)]
#![deny(
    trivial_casts,
    trivial_numeric_casts,
    let_underscore_drop,
    non_local_definitions
)]
#![deny(elided_lifetimes_in_paths, explicit_outlives_requirements)]
#![deny(private_interfaces, private_bounds)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![deny(nonstandard_style)]
#![forbid(unsafe_code)]
#![allow(
    clippy::redundant_pub_crate,
    reason = "asks for the opposite of `unreachable_pub`"
)]

pub mod forbidden;

use std::collections::BTreeMap;

use outbox::{Decision, Delivery, HandlerError, Router, State};

/// The topic of [`Refunded`].
pub const REFUNDED: &str = "payments.refunded";

/// A payment went through.
#[outbox::message(topic = "payments.settled", validate = not_three)]
#[derive(Debug, Clone, PartialEq, Eq, garde::Validate)]
pub struct Settled {
    /// Whose payment.
    #[outbox(key)]
    #[garde(skip)]
    pub account: u64,
    /// How much.
    #[garde(range(min = 1))]
    pub cents: i64,
}

/// A payment went back.
#[outbox::message(topic = REFUNDED)]
#[derive(Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Refunded {
    /// All of it.
    Whole {
        /// Whose payment.
        #[outbox(key = shout)]
        account_name: String,
    },
    /// Some of it.
    Part {
        /// Whose payment.
        #[outbox(key)]
        account_name: String,
        /// How much of which.
        parts: BTreeMap<String, i64>,
    },
}

/// Nobody should use it.
#[outbox::message(topic = "payments.old")]
#[deprecated(note = "nobody uses it")]
#[derive(Debug)]
pub struct Old;

#[outbox::message(topic = "payments.own", methods = false)]
#[derive(Debug)]
pub(crate) struct Own(u8);

/// What happens to payments.
#[derive(Debug, outbox::Event)]
pub enum Event {
    /// It went through.
    Settled(Settled),
    /// It went back.
    Refunded(Box<Refunded>),
}

/// What the handlers need.
#[derive(Debug, Clone, outbox::FromRef)]
pub struct App {
    name: String,
    #[from_ref(skip)]
    other_name: String,
}

fn not_three(settled: &Settled) -> Result<(), String> {
    if settled.cents == 3 {
        Err(format!("{} is not an amount", settled.cents))
    } else {
        Ok(())
    }
}

fn shout(name: &str) -> String {
    name.to_uppercase()
}

const fn decide(_: &HandlerError) -> Decision {
    Decision::Retry
}

/// Tells the customer.
///
/// # Errors
///
/// If there is nobody to tell.
#[outbox::handler(
    topic = "payments.settled",
    timeout = "30s",
    max_attempts = 5,
    concurrency = 4,
    rate = "100/s",
    backoff = "1s..5m"
)]
pub async fn tell(
    settled: Settled,
    State(name): State<String>,
    delivery: Delivery,
) -> Result<(), HandlerError> {
    std::future::ready(()).await;
    if settled.account == 0 {
        return Err(HandlerError::cancel(format!("{name}: {}", delivery.id())));
    }
    Ok(())
}

mod refunds {
    use super::{HandlerError, Own, Refunded, State, decide};

    #[outbox::handler(topic = super::REFUNDED, on_error = decide)]
    pub(super) async fn book(refunded: Refunded, _: State<super::App>) -> Result<(), HandlerError> {
        let refunded = std::future::ready(refunded).await;
        drop(refunded);
        Ok(())
    }

    #[outbox::handler(name = KeepOwn, timeout = none)]
    pub(super) async fn keep_own(own: Own) {
        let Own(number) = std::future::ready(own).await;
        assert_ne!(number, 0, "never published");
    }

    pub(super) const ROUTES: outbox::Router<super::App> = outbox::router![book, KeepOwn];
}

/// All of them.
pub static ROUTER: Router<App> =
    outbox::router![tell, ..refunds::ROUTES; requires Settled, Refunded, Own];

/// Publishes what there is.
///
/// # Errors
///
/// If the database refuses.
pub async fn publish<T: outbox::Enlist + ?Sized>(
    app: &App,
    events: Vec<Event>,
    tx: &mut T,
) -> Result<usize, outbox::Error> {
    let refunded = Refunded::Whole {
        account_name: app.other_name.clone(),
    };
    let _ = refunded.publish(tx).await?;
    let own = outbox::Publish::publication(&Own(1)).publish(tx).await?;
    let published = outbox::Outbox::default().publish_all(events, tx).await?;
    Ok(published.len() + usize::from(own.fate == outbox::Fate::New))
}
