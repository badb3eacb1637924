//! What a peer has to do for the jobs.

use std::future::Future;
use std::time::Instant;

use anyhow::Result;

use crate::payload::Payload;

/// What a worker's settings are chosen for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    Throughput,
    Latency,
}

pub trait Peer {
    /// Why the library's enqueue can't join the caller's transaction, if it can't.
    const NOT_TRANSACTIONAL: Option<&'static str> = None;

    type Worker: Worker;
    type Producer: Producer;

    async fn setup(url: &str) -> Result<()>;

    /// Enqueues all payloads, due at once.
    async fn fill(url: &str, payloads: &[Payload]) -> Result<()>;

    /// How many messages are not yet acknowledged.
    async fn waiting(url: &str) -> Result<i64>;

    /// A connected worker that has not been started.
    async fn worker(url: &str, aim: Aim) -> Result<Self::Worker>;

    /// A producer with one connection of its own.
    async fn producer(url: &str) -> Result<Self::Producer>;
}

/// Its handlers call [`crate::handled::record`] with each payload.
pub trait Worker {
    async fn start(&mut self) -> Result<()>;

    /// Returns when all that was handled is acknowledged in the database.
    async fn stop(self) -> Result<()>;
}

pub trait Producer: Send + 'static {
    /// Inserts an order and enqueues its message, in one transaction where the peer can.
    fn publish(&mut self, payload: &Payload) -> impl Future<Output = Result<Commit>> + Send;
}

/// When a COMMIT was about to be sent, and when its answer was there.
pub struct Commit {
    pub sent: Instant,
    pub answered: Instant,
}

impl Commit {
    pub fn answered(sent: Instant) -> Self {
        let answered = Instant::now();
        Self { sent, answered }
    }
}
