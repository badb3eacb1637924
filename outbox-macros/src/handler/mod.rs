//! `#[outbox::handler]`: a marker type of the function's name, through which a router finds it.

mod check;
mod expand;
mod parse;

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};

use crate::errors::Errors;

pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(parsed) = parse::parse(args, item.clone(), &mut errors) else {
        return quote!(#item #errors);
    };
    let Some(handler) = check::check(parsed, &mut errors) else {
        return quote!(#item #errors);
    };
    // The function comes first and as it was written, so that tools find it where they expect it.
    let mut tokens = item;
    tokens.extend(expand::expand(&handler, errors.is_empty()));
    errors.to_tokens(&mut tokens);
    tokens
}
