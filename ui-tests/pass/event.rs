// An enum whose variants each wrap a message.

#![deny(warnings, missing_docs, unused_qualifications)]
#![forbid(unsafe_code)]

//! Documented.

use outbox::{Outbox, Publish};

/// Placed.
#[outbox::message(topic = "orders.placed")]
pub struct OrderPlaced {
    #[outbox(key)]
    order: u64,
}

/// Cancelled.
#[outbox::message(topic = "orders.cancelled")]
pub struct OrderCancelled;

/// Documented.
#[derive(outbox::Event)]
pub enum OrderEvent {
    /// Documented.
    Placed(OrderPlaced),
    /// Documented.
    Cancelled {
        /// Documented.
        message: OrderCancelled,
    },
    /// Documented.
    #[cfg(any())]
    Gone,
}

#[derive(outbox::Event)]
#[outbox(methods = false, crate = ::outbox)]
enum Generic<'a, T, const N: usize>
where
    T: Publish,
{
    A(&'a T),
    #[deprecated]
    B(Box<OrderPlaced>),
    C(std::sync::Arc<OrderCancelled>),
    r#Self_(Inner),
}

struct Inner;

impl Publish for Inner {
    fn publication(&self) -> outbox::Publication<'_> {
        outbox::Publication::new(&OrderCancelled)
    }
}

#[derive(outbox::Event)]
enum Nothing {}

// Parameters by the names of ours.
#[derive(outbox::Event)]
enum Names<'outbox, 'message, Via: Publish, Tx: Publish, Messages: Publish> {
    A(&'outbox Via),
    B(&'message Tx),
    C(Messages),
}

// By value, by reference, mixed with options; through any handle on the transaction.
async fn publish(event: OrderEvent, events: Vec<OrderEvent>, tx: &mut sqlx::PgTransaction<'_>) -> Result<(), outbox::Error> {
    event.publish(tx).await?;
    event.publish(&mut *tx).await?;
    event.publication().dedup_key("once").publish(tx).await?;
    OrderEvent::publish_all(&events, tx).await?;
    let outbox = Outbox::default();
    outbox.publish(&event, tx).await?;
    outbox.publish_all(&events, tx).await?;
    outbox.publish_all(events.iter().map(|event| event.publication().header("a", "b")), tx).await?;
    outbox.publish_all(events, tx).await?;
    outbox.publish_all([&event], tx).await?;
    outbox.publish_all([std::sync::Arc::new(event)], tx).await?;
    outbox.publish_all([OrderPlaced { order: 1 }], tx).await?;
    let nothing: Option<Nothing> = None;
    outbox.publish_all(nothing, tx).await?;
    Ok(())
}

fn main() {
    let _ = publish;
    let _ = Names::<OrderPlaced, OrderPlaced, _>::C(OrderCancelled).publication();
    let topic = |event: &dyn Publish| format!("{:?}", event.publication());
    assert!(topic(&OrderEvent::Placed(OrderPlaced { order: 1 })).contains("orders.placed"));
    assert!(topic(&OrderEvent::Cancelled { message: OrderCancelled }).contains("orders.cancelled"));
    assert!(topic(&Generic::<_, 1>::A(&OrderCancelled)).contains("orders.cancelled"));
    assert!(topic(&Generic::<OrderPlaced, 1>::Self_(Inner)).contains("orders.cancelled"));
    #[allow(deprecated)]
    let boxed = Generic::<OrderPlaced, 1>::B(Box::new(OrderPlaced { order: 1 }));
    assert!(topic(&boxed).contains("orders.placed"));
}
