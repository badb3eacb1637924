//! `#[derive(outbox::Event)]`: an enum whose variants each wrap a message is published as the message
//! of its variant.

mod check;
mod expand;
mod parse;

use proc_macro2::TokenStream;
use quote::ToTokens as _;

use crate::errors::Errors;

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(parsed) = parse::parse(item, &mut errors) else {
        return errors.into_token_stream();
    };
    let event = check::check(parsed, &mut errors);
    let mut tokens = expand::expand(&event, errors.is_empty());
    errors.to_tokens(&mut tokens);
    tokens
}
