//! What a handler is: a marker type that the attribute gives the function's name, its arguments and
//! its outcome.

mod delivery;
mod extract;
mod outcome;

use std::time::Duration;

use futures_util::future::BoxFuture;

pub(crate) use self::{delivery::DeliveryParts, outcome::Failed};
pub use self::{
    delivery::{Delivery, TestDelivery},
    extract::{FromDelivery, FromRef, State},
    outcome::{Decision, HandlerError, IntoOutcome, Outcome, ResultExt},
};
use crate::{decode::Undecodable, promise::Promise};

/// What a router reads of a handler; implemented by [`#[outbox::handler]`](macro@crate::handler) for
/// a marker type of the function's name.
///
/// The type of its message stands in none of its signatures, so that a function may take a message
/// that is less visible than itself.
#[diagnostic::on_unimplemented(
    message = "not an outbox handler",
    label = "this is not a handler, or not found",
    note = "annotate the function with `#[outbox::handler]`",
    note = "another router is joined with two dots: `router![..billing::ROUTES]`"
)]
pub trait Handler: Send + Sync + 'static {
    /// The marker itself.
    type This: Handler;

    /// Its topic, its name and its place.
    const PROMISE: Promise;
    /// What its attribute says; wins over the relay's builder.
    const POLICY: Policy;
}

/// A handler that a router with state `S` can call; implemented together with [`Handler`].
#[diagnostic::on_unimplemented(
    message = "not an outbox handler",
    label = "this is not a handler, or not found",
    note = "annotate the function with `#[outbox::handler]`",
    note = "another router is joined with two dots: `router![..billing::ROUTES]`"
)]
pub trait Handle<S>: Handler {
    /// Decodes the payload, takes from the delivery what the function asks for besides, and calls it.
    fn start(payload: Raw<'_>, delivery: Delivery, state: &S) -> Started;
}

/// A payload as it stands in its row.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'r> {
    pub(crate) version: u32,
    pub(crate) payload: &'r str,
}

/// A running handler, unless its payload was no message.
pub type Started = Result<BoxFuture<'static, Outcome>, Undecodable>;

/// What a handler's attribute says about its deliveries; `None` leaves it to the relay's builder.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Policy {
    /// How long one attempt may run; `Some(None)` is `timeout = none`.
    pub timeout: Option<Option<Duration>>,
    /// How many attempts a message gets.
    pub max_attempts: Option<u32>,
    /// The base and the cap of the delay before the next attempt.
    pub backoff: Option<(Duration, Duration)>,
    /// How many run at once in one relay.
    pub concurrency: Option<u32>,
    /// How many start in a time in one relay.
    pub rate: Option<Rate>,
}

/// So many starts in such a time.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub(crate) starts: u32,
    pub(crate) per: Duration,
}

impl Policy {
    /// Says nothing: the relay's builder decides.
    pub const DEFAULT: Self = Self {
        timeout: None,
        max_attempts: None,
        backoff: None,
        concurrency: None,
        rate: None,
    };

    /// See [`Policy::timeout`].
    pub const fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// See [`Policy::max_attempts`].
    pub const fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// See [`Policy::backoff`].
    pub const fn with_backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.backoff = Some((base, cap));
        self
    }

    /// See [`Policy::concurrency`].
    pub const fn with_concurrency(mut self, handlers: u32) -> Self {
        self.concurrency = Some(handlers);
        self
    }

    /// See [`Policy::rate`].
    pub const fn with_rate(mut self, starts: u32, per: Duration) -> Self {
        self.rate = Some(Rate { starts, per });
        self
    }
}
