//! One delivery, as its handler sees it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Message;

/// One delivery of a message: the n-th attempt to handle it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<DeliveryParts>);

#[derive(Debug)]
pub(crate) struct DeliveryParts {
    pub(crate) id: Uuid,
    pub(crate) topic: &'static str,
    pub(crate) key: Option<String>,
    pub(crate) attempt: u32,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) created_at: SystemTime,
    /// Shared with the relay, which moves it at each renewal.
    pub(crate) deadline: Arc<std::sync::Mutex<Instant>>,
    pub(crate) cancellation: CancellationToken,
}

impl Delivery {
    pub(crate) fn new(parts: DeliveryParts) -> Self {
        Self(Arc::new(parts))
    }

    /// A delivery for calling a handler from a unit test: first attempt, random id, no headers, a
    /// lease of 30 s that nobody renews.
    pub fn test<M: Message>(message: &M) -> TestDelivery {
        TestDelivery(DeliveryParts {
            id: Uuid::now_v7(),
            topic: M::TOPIC,
            key: M::key(message).map(Into::into),
            attempt: 1,
            headers: BTreeMap::new(),
            created_at: SystemTime::now(),
            deadline: Arc::new(std::sync::Mutex::new(
                Instant::now() + Duration::from_secs(30),
            )),
            cancellation: CancellationToken::new(),
        })
    }

    /// The message's id: the same at every attempt, so it serves as an idempotency key.
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// The message's topic.
    pub fn topic(&self) -> &'static str {
        self.0.topic
    }

    /// The message's ordering and partition key.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Which attempt this is; the first is 1. A relay that died counts, too.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.get(name).map(String::as_str)
    }

    /// All headers that the publisher attached.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.0.headers
    }

    /// When the message was published, by the database's clock.
    pub fn created_at(&self) -> SystemTime {
        self.0.created_at
    }

    /// Until when this delivery is the only one, as far as known now: renewals move it on.
    pub fn lease_deadline(&self) -> Instant {
        *self
            .0
            .deadline
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Fires when the lease is lost, the handler's time is up, or the relay ends its grace. The
    /// handler's future is dropped right after; what it spawned should listen to this.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.0.cancellation
    }
}

/// Builds the [`Delivery`] of a unit test; see [`Delivery::test`].
#[derive(Debug)]
pub struct TestDelivery(DeliveryParts);

impl TestDelivery {
    /// Sets the message's id.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.0.id = id;
        self
    }

    /// Sets which attempt it is; the first is 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.0.attempt = attempt;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.headers.insert(name.into(), value.into());
        self
    }

    /// The delivery.
    pub fn build(self) -> Delivery {
        Delivery::new(self.0)
    }
}
