//! What the compiler says when a feature is off.

#[test]
fn fail() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
