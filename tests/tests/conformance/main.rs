//! The conformance suite: what the outbox promises, held against every database.

mod by_hand;
mod claims;
mod crashes;
mod dead_letters;
mod due_times;
mod events;
mod fences;
mod health;
mod isolation;
mod leases;
mod listener;
mod metrics;
mod migrations;
mod names;
mod options;
mod outcomes;
mod poolers;
mod publishing;
mod relay_life;
mod retries;
mod settings;
mod shutdown;
mod support;
mod tracing_spans;
mod transactions;
mod volume;
