//! The outbox's protocol as a model: small enough to be searched through to its end.
//!
//! [`row`] holds the life of one row as one pure function. The models search what relays, operators and
//! faults can do with it; the conformance suite holds the real stores against it.

pub mod leases;
pub mod row;
pub mod wake;
