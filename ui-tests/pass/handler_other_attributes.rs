// Attributes of other crates, above and below.

#![deny(warnings)]

use std::{future::Future, pin::Pin};

use outbox::{Delivery, HandlerError, Router, State};
use tracing::instrument;

macro_rules! messages {
    ($($name:ident = $topic:literal),*) => {
        $(#[outbox::message(topic = $topic)] #[derive(Debug)] pub struct $name;)*
    };
}

messages!(A = "a", B = "b", C = "c", D = "d", E = "e");

#[instrument(skip_all, fields(id = %delivery.id()))]
#[outbox::handler]
async fn above(_: A, delivery: Delivery) -> Result<(), HandlerError> {
    Ok(())
}

#[outbox::handler(timeout = "1s")]
#[instrument(skip_all, err)]
async fn below(message: B, State(number): State<u8>) -> Result<(), String> {
    let _ = (message, number);
    Err("failed".to_owned())
}

#[must_use]
#[cfg_attr(all(), outbox::handler)]
#[inline]
#[doc(hidden)]
#[expect(clippy::unused_async)]
pub async fn conditional(_: C) -> Result<(), String> {
    Ok(())
}

// What attributes such as `async_recursion` leave behind.
macro_rules! boxed {
    ($(#[$attr:meta])* async fn $name:ident($message:ident: $type:ty) $body:block) => {
        $(#[$attr])*
        fn $name($message: $type) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move { $body })
        }
    };
}

boxed! {
    #[outbox::handler]
    async fn unrolled(message: D) {
        let _ = message;
    }
}

#[outbox::handler]
#[deprecated]
async fn old(_: E) {}

#[allow(deprecated)]
static ROUTER: Router<u8> = outbox::router![above, below, conditional, unrolled, old];

fn main() {
    let _ = ROUTER;
}
