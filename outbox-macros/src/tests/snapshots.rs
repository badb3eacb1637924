//! The expansions, whole, as documentation. `scripts/bless` accepts a change.

use proc_macro2::TokenStream;

use super::samples;

#[test]
fn the_expansions_are_those_of_the_snapshots() {
    for (name, tokens) in samples::all() {
        insta::assert_snapshot!(name, pretty(tokens));
    }
}

/// As rustfmt would have it, nearly.
fn pretty(tokens: TokenStream) -> String {
    let file = syn::parse2(tokens).expect("an expansion is a list of items");
    prettyplease::unparse(&file)
}
