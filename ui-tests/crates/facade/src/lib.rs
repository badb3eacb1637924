//! What a company hands to its services in place of `outbox`.

/// The library under a path of the facade's own.
pub mod messaging {
    pub use outbox;
}

/// A message and its handler, for those who write neither attribute.
#[macro_export]
macro_rules! logged {
    ($message:ident { $($field:ident: $type:ty),* }, $topic:literal, $handler:ident) => {
        /// Logged.
        #[$crate::messaging::outbox::message(topic = $topic, crate = ::outbox_facade::messaging::outbox)]
        #[derive(Debug)]
        pub struct $message { $(#[doc = "As named."] pub $field: $type),* }

        /// Logs it.
        #[$crate::messaging::outbox::handler(topic = $topic, crate = $crate::messaging::outbox)]
        pub async fn $handler(message: $message) {
            println!("{message:?}");
        }
    };
}

/// A router of such handlers.
#[macro_export]
macro_rules! routes {
    ($($handler:path),* $(,)?) => {
        $crate::messaging::outbox::router![crate = $crate::messaging::outbox; $($handler),*]
    };
}
