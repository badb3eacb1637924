//! The operator's side of an outbox: to see what is stuck and why, and to let it go.
//!
//! Whatever changes many rows is a [`Bulk`]: in chunks, each a transaction of its own, so that a lost
//! connection leaves nothing half done and the same call goes on with the rest.

pub(crate) mod amend;
pub(crate) mod bulk;
pub(crate) mod dead_letters;
pub(crate) mod pause;
pub(crate) mod purge;
pub(crate) mod stats;
