//! What a handler may ask for besides its message.

use super::Delivery;

/// Something a handler can take after its message.
#[diagnostic::on_unimplemented(
    message = "a handler can't take `{Self}` as an argument",
    label = "not something a delivery can provide",
    note = "for a part of the relay's state write `outbox::State(name): outbox::State<{Self}>`",
    note = "after the message a handler takes `outbox::Delivery`, `outbox::State<T>` and what implements `outbox::FromDelivery`"
)]
pub trait FromDelivery<S>: Send {
    /// Takes it from the delivery or from the router's state.
    fn from_delivery(delivery: &Delivery, state: &S) -> Self;
}

impl<S> FromDelivery<S> for Delivery {
    fn from_delivery(delivery: &Delivery, _: &S) -> Self {
        delivery.clone()
    }
}

/// A part of the relay's state: `State(mailer): State<Mailer>`.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<S, T: FromRef<S> + Send> FromDelivery<S> for State<T> {
    fn from_delivery(_: &Delivery, state: &S) -> Self {
        Self(T::from_ref(state))
    }
}

/// A value that can be taken out of the state `S`.
///
/// Every clonable state is a part of itself; [`#[derive(outbox::FromRef)]`](derive@crate::FromRef)
/// on the state implements it for each of its fields.
#[diagnostic::on_unimplemented(
    message = "the state `{S}` does not hand out a `{Self}`",
    label = "a handler asks for `State<{Self}>`",
    note = "`#[derive(outbox::FromRef)]` on `{S}` hands out each of its fields; or implement `outbox::FromRef<{S}>` for `{Self}`"
)]
pub trait FromRef<S> {
    /// Takes a copy of the value.
    fn from_ref(state: &S) -> Self;
}

/// A state that no relay has.
#[doc(hidden)]
#[derive(Debug)]
pub struct NoState(());

// A router's state is inferred. As long as a value has only one impl, rustc would take that one's
// state for the router's, and report that the router has another one instead of what is missing.
#[diagnostic::do_not_recommend]
impl<T> FromRef<NoState> for T {
    fn from_ref(_: &NoState) -> Self {
        unreachable!("no value of this state is ever made")
    }
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> Self {
        state.clone()
    }
}
