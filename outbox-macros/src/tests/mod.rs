//! What the macros write, looked at as tokens.
//!
//! What it means to the compiler is tested in `ui-tests/`.

mod broken_body;
mod budget;
mod order;
mod qualified;
mod samples;
mod snapshots;
