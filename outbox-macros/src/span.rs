//! Where emitted tokens claim to stand.
//!
//! An error should point at what the user wrote, so emitted tokens borrow the location of the user's
//! tokens. Their *context* must be the macro's, though: with the user's own context, rustc and clippy
//! take our code for the user's and lint it (about ten lints do), and a local variable of ours could
//! be seen by the user's tokens. [`emitted`] keeps the location and swaps the context. Tokens that the
//! user wrote are emitted as they came: their context is what makes `$crate` and names from a
//! `macro_rules!` resolve.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Path, Visibility, spanned::Spanned as _};

/// The location of `span` in the context of our expansion.
pub(crate) fn emitted(span: Span) -> Span {
    span.resolved_at(Span::mixed_site())
}

/// The location of the user's tokens in the context of our expansion.
pub(crate) fn over(tokens: &impl ToTokens) -> Span {
    emitted(tokens.span())
}

/// The user's visibility for an item of ours. rustc takes an item's context from its first token
/// when it asks whose code is unused.
pub(crate) fn visibility(vis: &Visibility) -> TokenStream {
    let with_context = |mut token: TokenTree| {
        token.set_span(emitted(token.span()));
        token
    };
    vis.to_token_stream()
        .into_iter()
        .map(with_context)
        .collect()
}

/// A `const _` item that makes the call `function(args)`, which may panic. The panic is shown at
/// `tokens`, all of them.
///
/// The call keeps the user's own context: rustc shows a panic where the outermost macro of the
/// context was called, which would be all of our attribute. Its first and its last token stand at
/// the first and the last of the user's, since only rustc can join two places.
pub(crate) fn promise(
    tokens: &impl ToTokens,
    function: impl FnOnce(Span) -> TokenStream,
    args: TokenStream,
) -> TokenStream {
    let mut spans = tokens
        .to_token_stream()
        .into_iter()
        .map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    let last = spans.last().unwrap_or(first);
    let function = function(first);
    let mut args = Group::new(Delimiter::Parenthesis, args);
    args.set_span(last);
    quote_spanned!(emitted(first)=> const _: () = #function #args;)
}

/// The attribute or derive that is being expanded, without rustc's remark that the error comes from
/// a macro. `near` is any token of the user's.
pub(crate) fn invocation(near: Span) -> Span {
    Span::call_site().resolved_at(near)
}

/// A name of ours that the user's code can't see. As a variable's it starts with `outbox_`: a constant
/// or a unit struct of the user's by the same name would make a comparison of the pattern.
pub(crate) fn ours(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// A name for an item that the user's code is to see, at `ident`. It is raw, so that a keyword of any
/// edition and the lints on naming leave it alone.
pub(crate) fn visible(ident: &Ident) -> Ident {
    Ident::new_raw(&unraw(ident), ident.span().resolved_at(Span::call_site()))
}

/// The path of an item, for an import. A lone name would be taken for the user's local variable of that
/// name, which an import can't refer to. In our own context it is none: variables are hygienic, items
/// are not. It is raw, since our edition may have keywords that the user's has not.
pub(crate) fn item(path: &Path) -> TokenStream {
    match path.get_ident() {
        Some(name) if !is_keyword(name) => {
            Ident::new_raw(&unraw(name), emitted(name.span())).into_token_stream()
        }
        _ => path.to_token_stream(),
    }
}

/// Whether it is one of the words that can't be a name, raw or not.
pub(crate) fn is_keyword(name: &Ident) -> bool {
    ["self", "Self", "super", "crate", "$crate"].contains(&&*name.to_string())
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
