//! The macros of the `outbox` crate. Use them through it: `outbox::message`, `outbox::handler`,
//! `outbox::router!`, `outbox::FromRef`.

mod args;
mod duration;
mod errors;
mod from_ref;
mod handler;
mod krate;
mod message;
mod router;
mod span;
mod suggest;
mod topic;
mod topic_arg;

use proc_macro::TokenStream;

/// Makes a message of a struct or an enum.
#[proc_macro_attribute]
pub fn message(args: TokenStream, item: TokenStream) -> TokenStream {
    message::attribute(args.into(), item.into()).into()
}

/// The derive behind `#[outbox::message]`.
#[doc(hidden)]
#[proc_macro_derive(Message, attributes(outbox))]
pub fn derive_message(item: TokenStream) -> TokenStream {
    message::derive(item.into()).into()
}

/// Makes a handler of an `async fn`.
#[proc_macro_attribute]
pub fn handler(args: TokenStream, item: TokenStream) -> TokenStream {
    handler::attribute(args.into(), item.into()).into()
}

/// A router.
#[proc_macro]
pub fn router(input: TokenStream) -> TokenStream {
    router::router(input.into()).into()
}

/// Lets handlers ask for each field.
#[proc_macro_derive(FromRef, attributes(from_ref))]
pub fn from_ref(item: TokenStream) -> TokenStream {
    from_ref::derive(item.into()).into()
}
