//! What expansions of the macros use, and nothing else. Not part of the public API.

pub use core::{
    iter::IntoIterator,
    marker::Sized,
    option::Option::{self, None, Some},
    primitive::{bool, str, u8, u32},
    result::Result::{self, Ok},
};
pub use std::{borrow::Cow, vec::Vec};

pub use outbox_macros::Message;
pub use serde;

pub use crate::{
    decode::Undecodable,
    handler::{Delivery, Handle, Handler, IntoOutcome, Outcome, Policy, Raw, Started},
    promise::{
        Part, Payload, Promise, Required, Table, count, declared, flatten, slots, succeeds,
        well_formed,
    },
    publish::Publishing,
    router::{Entry, Router},
    version::{Lineage, Successor, lift},
};

use std::pin::Pin;

use crate::{Decision, Invalid};

#[cfg(feature = "schema")]
pub use crate::schema::{
    contract::{Role, check as check_contract},
    kinds::{Field, Optional, Probe, UnknownKinds, UnknownOption, agrees},
    lock::check as check_schema,
};
#[cfg(feature = "schema")]
pub use schemars;

/// What every message is besides; the bound of stubs for generic messages, which are refused.
pub trait Plain: serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static {}

impl<T: serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static> Plain for T {}

/// What a router's entry is as a type, if it is none.
#[derive(Debug)]
pub enum NotAHandler {}

/// What an `#[outbox(key = path)]` function may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the key of a message",
    label = "returns no text",
    note = "a key's function returns a `String`, or what turns into one: `fn(&Field) -> String`"
)]
pub trait IntoKey {
    /// The key's text.
    fn into_key(self) -> String;
}

#[diagnostic::do_not_recommend]
impl<T: Into<String>> IntoKey for T {
    fn into_key(self) -> String {
        self.into()
    }
}

/// The key that an `#[outbox(key = path)]` function made.
pub fn key<'k>(key: impl IntoKey) -> Option<Cow<'k, str>> {
    Some(Cow::Owned(key.into_key()))
}

/// What a `validate = path` function found.
pub fn validated<E: std::fmt::Display>(result: Result<(), E>) -> Result<(), Invalid> {
    result.map_err(|error| Invalid::new("", error.to_string()))
}

/// The rules of `#[derive(garde::Validate)]`.
#[cfg_attr(
    feature = "garde",
    diagnostic::on_unimplemented(
        message = "the garde rules of `{Self}` can't be run",
        label = "`{Self}` has no `Validate` of garde 0.23 without a context",
        note = "if garde reports an error of its own, mend that first",
        note = "outbox runs the rules of `garde` 0.23; depend on that version"
    )
)]
#[cfg_attr(
    not(feature = "garde"),
    diagnostic::on_unimplemented(
        message = "the message derives `garde::Validate`, but outbox's feature `garde` is off",
        label = "these rules would not run",
        note = "add `features = [\"garde\"]` to the dependency on `outbox`"
    )
)]
pub trait Rules {
    /// Runs them.
    fn check(&self) -> Result<(), Invalid>;
}

#[cfg(feature = "garde")]
#[diagnostic::do_not_recommend]
impl<T: garde::Validate<Context = ()>> Rules for T {
    fn check(&self) -> Result<(), Invalid> {
        self.validate()
            .map_err(|report| Invalid::from_garde(&report))
    }
}

/// Decodes and validates the message of a handler.
pub fn decode<P: Payload>(row: Raw<'_>) -> Result<P::Message, Undecodable> {
    crate::decode::decode(row.version, row.payload)
}

/// A handler's running future.
pub fn run_on_any_thread(future: impl Future<Output = Outcome> + Send + 'static) -> Started {
    Ok(Box::pin(future))
}

/// What a handler returns that is no `async fn`.
#[diagnostic::on_unimplemented(
    message = "a handler must be an `async fn`",
    label = "`{Self}` is not a future",
    note = "write `async` before `fn`; without it the function has to return its future: `impl Future<Output = ()> + Send`, or a boxed one that is `Send`"
)]
pub trait Asynchronous {
    /// Awaits it.
    fn outcome(self) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
}

// Not for every future: rustc would then tell in its own words that the type is none.
#[diagnostic::do_not_recommend]
impl<P> Asynchronous for Pin<P>
where
    Self: Future<Output: IntoOutcome> + Send + 'static,
{
    fn outcome(self) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(async { self.await.into_outcome() })
    }
}

/// What an `on_error` function decides about a handler's error.
pub fn decide<E>(result: Result<(), E>, on_error: fn(&E) -> Decision) -> Outcome
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match result {
        Ok(()) => ().into_outcome(),
        Err(error) => Outcome::decided(on_error(&error), error),
    }
}

/// The promise of a router's entry.
#[must_use]
pub const fn promise<H: Handler>() -> Promise {
    H::PROMISE
}
