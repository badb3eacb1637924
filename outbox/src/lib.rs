// The README's programs need these features to compile.
#![cfg_attr(all(feature = "postgres", feature = "sqlite", feature = "garde"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite", feature = "garde")),
    doc = "The transactional outbox, with the compiler on your side."
)]
#![cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    allow(
        dead_code,
        unused_imports,
        reason = "only the databases' stores use some of it"
    )
)]

// Lets expansions say `::outbox` inside this crate and its doctests as well.
extern crate self as outbox;

// In the order of a message's way: what it is, how it is published and stored, what may become of it,
// who takes it, and who delivers it.
mod message;
mod topic;
mod version;

mod publish;
mod store;

mod lifecycle;

mod handler;
mod promise;
mod router;
mod text;

mod decode;
mod relay;

// The operator's side, and what all the others use.
mod config;
mod error;
mod meter;
mod migrate;
mod operator;
mod trace_context;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "schema")]
pub mod schema;

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/databases.md")]
pub mod databases {}

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/compile-errors.md")]
pub mod compile_errors {}

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/changing-a-message.md")]
pub mod changing_a_message {}

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/plain-sql.md")]
pub mod plain_sql {}

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/change-data-capture.md")]
pub mod change_data_capture {}

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/metrics.md")]
pub mod metrics {}

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/migrations.md")]
#[doc = "```sql"]
#[doc = include_str!("../migrations/postgres/take_over.sql")]
#[doc = "```"]
pub mod migrations {}

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use outbox_macros::{Event, FromRef, handler, message, router};

pub use self::{
    config::{Outbox, OutboxBuilder},
    error::Error,
    handler::{
        Decision, Delivery, FromDelivery, FromRef, HandlerError, ResultExt, State, TestDelivery,
    },
    lifecycle::MessageState,
    message::{Invalid, Key, Message},
    migrate::{check, migrate},
    operator::{
        amend::{Cancellation, MessageRef, Rescheduling},
        bulk::Bulk,
        dead_letters::{DeadLetter, DeadLetters, Discarded, Failure, Inspected},
        pause::Paused,
        purge::{Purge, Retention},
        stats::{LiveRelay, RouteStats, Stats, StatsQuery},
    },
    publish::{Enlist, Enlisted, Fate, Publication, Publish, Published, Publishing, Sqlx},
    relay::{
        Counts, Died, HasState, Health, NeedsState, Relay, RelayBuilder, RelayHandle, StateOf,
        Trouble,
    },
    router::Router,
    store::{DatabasePool, ListenerAddress, MigrationScript},
};
