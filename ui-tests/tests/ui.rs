//! What compiles, and what the user sees where it doesn't. `scripts/bless` accepts a change.

// `fail` cases run `cargo check` as long as no `pass` case stands in the same `TestCases`, which then
// would run `cargo build`; the promises of a router have to hold in `cargo check` already.

#[test]
fn fail() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}

#[test]
fn pass() {
    trybuild::TestCases::new().pass("pass/*.rs");
}
