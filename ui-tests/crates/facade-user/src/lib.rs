//! A service that depends on the facade only.

#![deny(warnings)]

use outbox_facade::messaging::outbox::{self, Router, State};

/// A message.
#[outbox::message(topic = "facade.direct", crate = ::outbox_facade::messaging::outbox)]
#[derive(Debug)]
pub struct Direct {
    /// Its key.
    #[outbox(key)]
    pub id: u64,
}

outbox_facade::logged!(ByMacro { text: String }, "facade.macro", log);

/// What happens here.
#[derive(Debug, outbox::Event)]
#[outbox(crate = ::outbox_facade::messaging::outbox)]
pub enum Event {
    /// Directly.
    Direct(Direct),
    /// By the facade's macro.
    ByMacro(ByMacro),
}

/// The state.
#[derive(Debug, Clone, outbox::FromRef)]
#[from_ref(crate = ::outbox_facade::messaging::outbox)]
pub struct App {
    /// How many were handled.
    pub handled: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

/// Counts.
#[outbox::handler(crate = ::outbox_facade::messaging::outbox)]
pub async fn count(
    direct: Direct,
    State(handled): State<std::sync::Arc<std::sync::atomic::AtomicU64>>,
) {
    handled.fetch_add(direct.id, std::sync::atomic::Ordering::SeqCst);
}

/// The handlers that the facade's macros made.
pub const LOGS: Router<App> = outbox_facade::routes![log];

/// All handlers.
pub static ROUTER: Router<App> = outbox::router![
    crate = ::outbox_facade::messaging::outbox;
    count, ..LOGS; requires Direct, ByMacro
];
