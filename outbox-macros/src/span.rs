//! Where emitted tokens claim to stand.
//!
//! An error should point at what the user wrote, so emitted tokens borrow the location of the user's
//! tokens. Their *context* must be the macro's, though: with the user's own context, rustc and clippy
//! take our code for the user's and lint it (about ten lints do), and a local variable of ours could
//! be seen by the user's tokens. [`emitted`] keeps the location and swaps the context. Tokens that the
//! user wrote are emitted as they came: their context is what makes `$crate` and names from a
//! `macro_rules!` resolve.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned as _;

/// The location of `span` in the context of our expansion.
pub(crate) fn emitted(span: Span) -> Span {
    span.resolved_at(Span::mixed_site())
}

/// The location of the user's tokens in the context of our expansion.
pub(crate) fn over(tokens: &impl ToTokens) -> Span {
    emitted(tokens.span())
}

/// A name of ours that the user's code can't see or clash with.
pub(crate) fn ours(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// A name for an item that the user's code is to see, at `ident`. It is raw, so that a keyword of any
/// edition and the lints on naming leave it alone.
pub(crate) fn visible(ident: &Ident) -> Ident {
    Ident::new_raw(&unraw(ident), ident.span().resolved_at(Span::call_site()))
}

/// The name without `r#`.
pub(crate) fn unraw(ident: &Ident) -> String {
    syn::ext::IdentExt::unraw(ident).to_string()
}

/// The tokens as a text for messages: `a :: b` becomes `a::b`.
pub(crate) fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, tight) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" ,", ","),
    ] {
        text = text.replace(spaced, tight);
    }
    text
}

/// Tokens of the user that stand for themselves in a list, such as attributes.
pub(crate) fn all<T: ToTokens>(items: &[T]) -> TokenStream {
    items.iter().map(ToTokens::to_token_stream).collect()
}
