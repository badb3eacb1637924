//! Re-emits the item with the derives that make it a message.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{Attribute, DeriveInput, Path, Token, punctuated::Punctuated, spanned::Spanned as _};

use super::{ARGUMENTS, CARRIER, schema::Schema};
use crate::{
    args::Args,
    errors::Errors,
    krate::Krate,
    span::{emitted, invocation, ours},
};

pub(super) fn attach(args: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(input) = syn::parse2::<DeriveInput>(item.clone()) else {
        return refuse(item);
    };
    if matches!(input.data, syn::Data::Union(_)) {
        return refuse(item);
    }

    // The derive reports what is wrong with the arguments; here only two of them matter.
    let mut silent = Errors::default();
    let mut parsed = Args::parse(args.clone(), "", ARGUMENTS, &mut silent);
    let krate = Krate::from_args(&mut parsed, &mut silent);
    let schema = Schema::is_derived(&mut parsed);
    let serde = parsed
        .take("serde")
        .and_then(|arg| arg.flag("").ok())
        .unwrap_or(true);

    let span = emitted(Span::call_site());
    let mut errors = Errors::default();
    let serde = if serde {
        serde_derives(&input.attrs, &krate, span, &mut errors)
    } else {
        TokenStream::new()
    };
    let schema = if schema {
        schema_derive(&input.attrs, &krate, span, &mut errors)
    } else {
        TokenStream::new()
    };
    if !errors.is_empty() {
        return quote!(#item #errors);
    }
    let carrier = ours(CARRIER);
    let private = krate.private(span);
    let (first, rest) = split(item, &input.attrs);
    let ours = quote_spanned! {span=>
        #serde
        #schema
        #[derive(#private::Message)]
        #[outbox(#carrier(#args))]
    };
    quote!(#first #ours #rest)
}

/// Attributes that are no macros, or that our derives have to stand above.
const INERT: &[&str] = &[
    "allow",
    "cfg",
    "cfg_attr",
    "deny",
    "deprecated",
    "derive",
    "doc",
    "expect",
    "forbid",
    "garde",
    "must_use",
    "non_exhaustive",
    "outbox",
    "repr",
    "schemars",
    "serde",
    "warn",
];

/// Splits the item behind its last attribute that may be a macro: such a one may change what our
/// derives have to see, as `serde_as` does, and so has to be expanded before them.
fn split(item: TokenStream, attrs: &[Attribute]) -> (TokenStream, TokenStream) {
    let inert = |attr: &Attribute| INERT.iter().any(|known| attr.path().is_ident(known));
    let macros = attrs
        .iter()
        .rposition(|attr| !inert(attr))
        .map_or(0, |at| at + 1);
    // Each attribute is a `#` and its brackets.
    let mut tokens = item.into_iter();
    let first = tokens.by_ref().take(2 * macros).collect();
    (first, tokens.collect())
}

/// The serde derives that the item does not have itself. Derives above our attribute are already
/// gone from the item; `serde = false` is for them.
fn serde_derives(
    attrs: &[Attribute],
    krate: &Krate,
    span: Span,
    errors: &mut Errors,
) -> TokenStream {
    let derives = derives(attrs);
    // rkyv's derives of the same names implement traits of its own.
    let has = |name: &str| {
        derives.iter().any(|path| {
            path.segments.last().is_some_and(|last| last.ident == name)
                && path
                    .segments
                    .first()
                    .is_none_or(|first| first.ident != "rkyv")
        })
    };
    let missing: Vec<_> = ["Serialize", "Deserialize"]
        .into_iter()
        .filter(|name| !has(name))
        .map(ours)
        .collect();
    if missing.is_empty() {
        return TokenStream::new();
    }
    if let Some(of_macro) = krate.of_macro() {
        // serde takes the path as a string, in which `$crate` means nothing.
        errors.at(
            &of_macro,
            "serde can't find its way through `$crate`; derive `Serialize` and `Deserialize` below \
             `#[outbox::message]`, or write `crate = ::path`",
        );
    }
    let private = krate.private(span);
    let serde = quote_spanned!(span=> #private::serde);
    let path = serde.to_string();
    let at = (!names_crate(attrs, "serde")).then(|| quote_spanned!(span=> #[serde(crate = #path)]));
    quote_spanned!(span=> #[derive(#(#serde::#missing),*)] #at)
}

/// The paths of all derives among these attributes.
pub(super) fn derives(attrs: &[Attribute]) -> Vec<Path> {
    let lists = attrs.iter().filter(|attr| attr.path().is_ident("derive"));
    // A malformed derive is rustc's to report.
    lists
        .filter_map(|attr| {
            attr.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)
                .ok()
        })
        .flatten()
        .collect()
}

/// The derive of the message's schema, if the item does not have it itself.
fn schema_derive(
    attrs: &[Attribute],
    krate: &Krate,
    span: Span,
    errors: &mut Errors,
) -> TokenStream {
    let derived = |path: &Path| {
        path.segments
            .last()
            .is_some_and(|last| last.ident == "JsonSchema")
    };
    if derives(attrs).iter().any(derived) {
        return TokenStream::new();
    }
    if let Some(of_macro) = krate.of_macro() {
        errors.at(
            &of_macro,
            "schemars can't find its way through `$crate`; derive `JsonSchema` below `#[outbox::message]`, or write \
             `crate = ::path`, or `schema = false`",
        );
    }
    let private = krate.private(span);
    let schemars = quote_spanned!(span=> #private::schemars);
    let path = schemars.to_string();
    let derive = ours("JsonSchema");
    let at = (!names_crate(attrs, "schemars"))
        .then(|| quote_spanned!(span=> #[schemars(crate = #path)]));
    quote_spanned!(span=> #[derive(#schemars::#derive)] #at)
}

/// Whether the item says itself where a crate is: `#[serde(crate = "...")]`.
fn names_crate(attrs: &[Attribute], attribute: &str) -> bool {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident(attribute))
        .any(|attr| {
            let args = attr
                .meta
                .require_list()
                .map(|list| list.tokens.clone())
                .unwrap_or_default();
            args.into_iter()
                .any(|token| matches!(token, TokenTree::Ident(ident) if ident == "crate"))
        })
}

/// Anything that is neither a struct nor an enum.
fn refuse(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    errors.at_span(
        invocation(item.span()),
        "`#[outbox::message]` makes a message of a struct or an enum; put it on one",
    );
    quote!(#item #errors)
}
