// The page's program needs this feature to compile.
#![cfg_attr(feature = "sqlite", doc = include_str!("../../docs/testing.md"))]
#![cfg_attr(
    not(feature = "sqlite"),
    doc = "A kit for the tests of an application, against its real database."
)]

mod kit;
mod published;
mod rigged;

pub use self::{
    kit::{Kit, Outcome},
    published::{Undelivered, published, published_to},
};
