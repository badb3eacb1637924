//! Counts handled messages for the whole process: fang's handlers, for one, can't be given state.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::payload::Payload;

const PATIENCE: Duration = Duration::from_secs(600);

static COUNT: AtomicUsize = AtomicUsize::new(0);
static GOAL: AtomicUsize = AtomicUsize::new(0);
static REACHED_AT: Mutex<Option<Instant>> = Mutex::new(None);
static REACHED: Notify = Notify::const_new();

/// Called by every handler as the first thing it does.
pub fn record(payload: &Payload) {
    black_box(payload);
    if COUNT.fetch_add(1, SeqCst) + 1 == GOAL.load(SeqCst) {
        *REACHED_AT.lock().expect("not poisoned") = Some(Instant::now());
        REACHED.notify_one();
    }
}

/// Set the goal before the message that reaches it can be handled.
pub fn set_goal(messages: usize) {
    GOAL.store(messages, SeqCst);
}

/// Waits for the goal; returns the moment when the handler of its message began.
pub async fn goal_reached() -> Result<Instant> {
    timeout(PATIENCE, REACHED.notified())
        .await
        .with_context(|| {
            let (count, goal) = (COUNT.load(SeqCst), GOAL.load(SeqCst));
            format!("only {count} of {goal} messages were handled")
        })?;
    let reached_at = REACHED_AT.lock().expect("not poisoned").take();
    reached_at.context("woken before the goal was reached")
}
