//! What is counted for a metrics system, under the names that `docs/metrics.md` explains. Without the
//! feature `metrics` all of this does nothing.

#![cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "nobody counts")
)]

use std::time::Duration;

use crate::Stats;

pub(crate) fn published(topic: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_published_total", "topic" => topic).increment(1);
}

/// How late a handler starts, from when its message was due.
pub(crate) fn started(topic: &'static str, late: Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!("outbox_due_to_start_seconds", "topic" => topic).record(late);
}

pub(crate) fn delivered(topic: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_delivered_total", "topic" => topic).increment(1);
}

pub(crate) fn retried(topic: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_retried_total", "topic" => topic).increment(1);
}

pub(crate) fn died(topic: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_dead_total", "topic" => topic).increment(1);
}

pub(crate) fn lease_lost(topic: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_lease_lost_total", "topic" => topic).increment(1);
}

pub(crate) fn panicked(topic: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_panics_total", "topic" => topic).increment(1);
}

/// An operation of a relay's failed at its database.
pub(crate) fn failed(operation: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_store_errors_total", "operation" => operation).increment(1);
}

/// An operation of a relay's lost a race for a lock, and is run again.
#[cfg(feature = "mysql")]
pub(crate) fn repeated(operation: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_store_repeats_total", "operation" => operation).increment(1);
}

pub(crate) fn listener_reconnected() {
    #[cfg(feature = "metrics")]
    metrics::counter!("outbox_listener_reconnects_total").increment(1);
}

/// A handler that runs, from when this is made to when it is dropped.
pub(crate) struct Handling {
    #[cfg(feature = "metrics")]
    topic: &'static str,
    #[cfg(feature = "metrics")]
    since: std::time::Instant,
}

impl Handling {
    pub(crate) fn begin(topic: &'static str) -> Self {
        #[cfg(feature = "metrics")]
        metrics::gauge!("outbox_in_flight", "topic" => topic).increment(1.0);
        Self {
            #[cfg(feature = "metrics")]
            topic,
            #[cfg(feature = "metrics")]
            since: std::time::Instant::now(),
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Handling {
    fn drop(&mut self) {
        let topic = self.topic;
        metrics::gauge!("outbox_in_flight", "topic" => topic).decrement(1.0);
        metrics::histogram!("outbox_handler_seconds", "topic" => topic)
            .record(self.since.elapsed());
    }
}

/// What was found in the table.
pub(crate) fn backlog(stats: &Stats) {
    #[cfg(feature = "metrics")]
    for route in &stats.routes {
        let labels = [
            ("topic", route.topic.clone()),
            ("version", route.version.to_string()),
        ];
        let oldest = route.oldest_due.unwrap_or_default();
        metrics::gauge!("outbox_oldest_due_seconds", &labels).set(oldest);
        let rows = [
            ("pending", route.pending()),
            ("processing", route.processing),
            ("delivered", route.delivered),
            ("dead", route.dead),
        ];
        for (state, rows) in rows {
            let [topic, version] = labels.clone();
            let labels = [topic, version, ("state", state.to_owned())];
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
            metrics::gauge!("outbox_messages", &labels).set(rows as f64);
        }
    }
}

/// Says what the names mean, to a recorder that was installed before.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
        use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
        describe_counter!("outbox_published_total", "messages written by a publish");
        describe_counter!("outbox_delivered_total", "messages handled and settled");
        describe_counter!("outbox_retried_total", "failed attempts to be repeated");
        describe_counter!("outbox_dead_total", "messages given up");
        describe_counter!("outbox_lease_lost_total", "deliveries whose lease ran out");
        describe_counter!("outbox_panics_total", "handlers that panicked");
        describe_counter!("outbox_store_errors_total", "operations that failed");
        describe_counter!(
            "outbox_store_repeats_total",
            "operations run again after a lost race for a lock"
        );
        describe_counter!("outbox_listener_reconnects_total", "listeners replaced");
        describe_gauge!("outbox_in_flight", "handlers that run");
        describe_gauge!("outbox_messages", "rows at the last `Outbox::stats`");
        let oldest = "age of the oldest due message at the last `Outbox::stats`";
        describe_gauge!("outbox_oldest_due_seconds", Unit::Seconds, oldest);
        let handling = "how long handlers ran";
        describe_histogram!("outbox_handler_seconds", Unit::Seconds, handling);
        let late = "from when a message was due to its handler's start";
        describe_histogram!("outbox_due_to_start_seconds", Unit::Seconds, late);
    }
}
