//! `#[outbox::message]`: an attribute that gives the item its derives, and the hidden derive that
//! implements the message.
//!
//! Two macros, since an attribute sees the fields before `#[cfg]` and `#[cfg_attr]` are applied to
//! them and a derive sees them after.

mod attribute;
mod check;
mod expand;
mod parse;

use proc_macro2::TokenStream;
use quote::ToTokens as _;

use crate::errors::Errors;

/// The arguments of the attribute.
const ARGUMENTS: &[&str] = &["topic", "validate", "serde", "methods", "version", "crate"];

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
    let Some(parsed) = parse::parse(item, &mut errors) else {
        return errors.into_token_stream();
    };
    let message = check::check(parsed, &mut errors);
    let mut tokens = message
        .map(|message| expand::expand(&message, errors.is_empty()))
        .unwrap_or_default();
    errors.to_tokens(&mut tokens);
    tokens
}
