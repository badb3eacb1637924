//! The conformance suite: what the outbox promises, held against every database.

mod claims;
mod crashes;
mod dead_letters;
mod due_times;
mod fences;
mod isolation;
mod leases;
mod migrations;
mod names;
mod outcomes;
mod publishing;
mod relay_life;
mod retries;
mod settings;
mod shutdown;
mod support;
mod transactions;
mod volume;
