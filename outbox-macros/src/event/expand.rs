//! Writes the impl that publishes the message of the variant.

use proc_macro2::TokenStream;
use quote::quote_spanned;

use super::check::{Event, Wrapped};
use crate::{
    publish::Publish,
    span::{ours, over},
};

/// The impl; a stub of it unless the event is `sound`.
pub(super) fn expand(event: &Event, sound: bool) -> TokenStream {
    let Event {
        krate,
        ident,
        vis,
        generics,
        methods,
        deprecated,
        wrapped,
    } = event;
    let span = over(ident);
    let body = if !sound {
        quote_spanned!(span=> ::core::unreachable!("the event did not compile"))
    } else if wrapped.is_empty() {
        quote_spanned!(span=> match *self {})
    } else {
        let arms = wrapped.iter().map(|wrapped| arm(event, wrapped));
        quote_spanned!(span=> match self { #(#arms)* })
    };
    let publish = Publish {
        krate,
        ident,
        vis,
        generics,
        bounds: generics
            .where_clause
            .as_ref()
            .map(|clause| quote_spanned!(span=> #clause)),
        allow: deprecated.then(|| quote_spanned!(span=> #[allow(deprecated)])),
        methods: *methods,
    };
    publish.expand(&body)
}

fn arm(event: &Event, wrapped: &Wrapped) -> TokenStream {
    let Wrapped {
        variant,
        member,
        ty,
    } = wrapped;
    let span = over(ty);
    let krate = event.krate.at(span);
    let message = ours("outbox_message");
    quote_spanned! {span=>
        Self::#variant { #member: #message } => <#ty as #krate::Publish>::publication(#message),
    }
}
