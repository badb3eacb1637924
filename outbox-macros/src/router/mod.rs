//! `outbox::router!`: the table of handlers, and the promises that the compiler checks about it.

mod check;
mod expand;
mod parse;

use proc_macro2::TokenStream;
use quote::ToTokens as _;

use crate::errors::Errors;

pub(crate) fn router(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let parsed = parse::parse(input, &mut errors);
    let router = check::check(parsed, &mut errors);
    expand::expand(&router, &errors.into_token_stream())
}
