//! `#[outbox::message]`: an attribute that gives the item its derives, and the hidden derive that
//! implements the message.
//!
//! Two macros, since an attribute sees the fields before `#[cfg]` and `#[cfg_attr]` are applied to
//! them and a derive sees them after.

mod attribute;
mod check;
#[cfg(feature = "schema")]
mod contract;
mod expand;
mod parse;
mod schema;

use proc_macro2::TokenStream;
use quote::ToTokens as _;

use crate::errors::Errors;

/// The arguments of the attribute.
const ARGUMENTS: &[&str] = &[
    "topic", "version", "from", "validate", "schema", "role", "serde", "methods", "crate",
];

/// The helper attribute in which the arguments travel from the attribute to the derive.
const CARRIER: &str = "__message";

pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute::attach(args, item)
}

/// Whether an item with these attributes is a message, to a derive that stands below the attribute.
pub(crate) fn is_message(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| parse::carried(attr).is_some())
}

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(parsed) = parse::parse(item.clone(), &mut errors) else {
        return errors.into_token_stream();
    };
    let mut tokens = TokenStream::new();
    if let Some(message) = check::check(parsed, &mut errors) {
        let contract = contract(&message, item, &mut errors);
        tokens.extend(expand::expand(&message, errors.is_empty()));
        tokens.extend(contract);
    }
    errors.to_tokens(&mut tokens);
    tokens
}

#[cfg(feature = "schema")]
fn contract(message: &check::Message, item: TokenStream, errors: &mut Errors) -> TokenStream {
    // It was parsed once already.
    let item = errors.ok(syn::parse2(item));
    item.map(|item| contract::expand(message, &item, errors))
        .unwrap_or_default()
}

#[cfg(not(feature = "schema"))]
fn contract(_: &check::Message, _: TokenStream, _: &mut Errors) -> TokenStream {
    TokenStream::new()
}
