// The README's programs need these features to compile.
#![cfg_attr(all(feature = "postgres", feature = "sqlite", feature = "garde"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite", feature = "garde")),
    doc = "The transactional outbox, with the compiler on your side."
)]

// Lets expansions say `::outbox` inside this crate and its doctests as well.
extern crate self as outbox;

mod config;
mod dead_letters;
mod decode;
mod error;
mod handler;
mod lifecycle;
mod message;
mod migrate;
mod promise;
mod publish;
mod relay;
mod router;
mod stats;
mod store;
mod topic;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use outbox_macros::{FromRef, handler, message, router};

pub use self::{
    config::{Outbox, OutboxBuilder},
    dead_letters::{DeadLetter, DeadLetters, Failure},
    error::Error,
    handler::{
        Decision, Delivery, FromDelivery, FromRef, HandlerError, ResultExt, State, TestDelivery,
    },
    lifecycle::MessageState,
    message::{Invalid, Key, Message},
    migrate::{check, migrate},
    publish::{Enlist, Enlisted, Fate, Publication, Publish, Published, Publishing, Sqlx},
    relay::{Counts, HasState, NeedsState, Relay, RelayBuilder, RelayHandle},
    router::Router,
    stats::{RouteStats, Stats},
    store::DatabasePool,
};
