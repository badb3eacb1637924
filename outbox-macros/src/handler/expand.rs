//! Writes the marker type and its impls.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{
    check::{Handler, Output},
    parse::Policy,
};
use crate::span::{self, all, emitted, ours, over, unraw};

/// The marker and its impls; without impls that mean anything unless the handler is `sound`.
pub(super) fn expand(handler: &Handler, sound: bool) -> TokenStream {
    let Handler {
        krate,
        vis,
        marker,
        function,
        ..
    } = handler;
    let span = emitted(function.span());
    let name = unraw(function);
    let docs = format!("What a router lists to have `{name}` called.");
    let payload = ours("OutboxPayloadOfTheHandler");
    let private = krate.private(span);
    let vis = span::visibility(vis);
    let items = if sound {
        impls(handler, &payload, &private)
    } else {
        stubs(handler, &payload, &private)
    };
    quote_spanned! {span=>
        #[doc = #docs]
        #[non_exhaustive]
        #vis enum #marker {}

        const _: () = {
            // The message may be less visible than the function, as an argument may be; an associated
            // type of the marker itself would then be refused (E0446), one of a private type is not.
            enum #payload {}
            #items
        };
    }
}

fn impls(handler: &Handler, payload: &Ident, private: &TokenStream) -> TokenStream {
    let Handler {
        krate,
        attrs,
        function,
        marker,
        arguments,
        topic,
        ..
    } = handler;
    let Some((message, rest)) = arguments.split_first() else {
        return TokenStream::new();
    };
    let span = emitted(function.span());
    let message = &message.ty;
    let promise = promise(handler, payload, private);
    let policy = policy(&handler.policy, private);
    let start = start(handler, payload, private);
    let state = ours("OutboxStateOfTheRouter");
    let bounds = rest.iter().map(|argument| {
        let (ty, span) = (&argument.ty, over(&argument.ty));
        let krate = krate.at(span);
        quote_spanned!(span=> #ty: #krate::FromDelivery<#state>)
    });
    let declared = topic.as_ref().map(|topic| {
        let name = last_word(message);
        let declared = |span| {
            let private = krate.private(span);
            quote_spanned!(span=> #private::declared::<#marker>)
        };
        span::promise(topic, declared, quote!(#name, #topic))
    });
    let allows = allows(attrs, span);
    let of_message = over(message);
    let assigned = quote_spanned!(of_message=> type Message = #message;);
    quote_spanned! {span=>
        #allows
        impl #private::Payload for #payload {
            #assigned
        }

        impl #private::Handler for #marker {
            type This = Self;
            const PROMISE: #private::Promise = #promise;
            const POLICY: #private::Policy = #policy;
        }

        #allows
        impl<#state> #private::Handle<#state> for #marker
        where
            #(#bounds,)*
        {
            #start
        }

        #declared
    }
}

/// Impls that keep the marker a handler, for those who list it.
fn stubs(handler: &Handler, payload: &Ident, private: &TokenStream) -> TokenStream {
    let Handler {
        marker, function, ..
    } = handler;
    let span = emitted(function.span());
    let name = unraw(function);
    let state = ours("OutboxStateOfTheRouter");
    let [row, delivery, of_state] = ["outbox_row", "outbox_delivery", "outbox_state"].map(ours);
    quote_spanned! {span=>
        impl #private::Handler for #marker {
            type This = Self;
            const PROMISE: #private::Promise =
                #private::Promise::unknown(#name, ::core::concat!(::core::module_path!(), "::", #name));
            const POLICY: #private::Policy = #private::Policy::DEFAULT;
        }

        impl<#state> #private::Handle<#state> for #marker {
            fn start(#row: #private::Raw<'_>, #delivery: #private::Delivery, #of_state: &#state) -> #private::Started {
                let _ = (#row, #delivery, #of_state);
                let _: #private::Option<#payload> = #private::None;
                ::core::unreachable!("the handler did not compile")
            }
        }
    }
}

fn promise(handler: &Handler, payload: &Ident, private: &TokenStream) -> TokenStream {
    let Handler { function, .. } = handler;
    let span = emitted(function.span());
    let name = unraw(function);
    // `line!` gives the place where the outermost macro was called: with the context of our own
    // expansion that would be the attribute, not the function.
    let place = function.span();
    let at = quote_spanned!(place=> ::core::concat!(::core::file!(), ":", ::core::line!()));
    quote_spanned!(span=> #private::Promise::of::<#payload>(#name, #at))
}

fn policy(policy: &Policy, private: &TokenStream) -> TokenStream {
    let Policy {
        timeout,
        max_attempts,
        backoff,
        concurrency,
        rate,
    } = policy;
    let timeout = timeout.map(|timeout| {
        let timeout = match timeout {
            Some(timeout) => {
                let timeout = duration(timeout);
                quote!(#private::Some(#timeout))
            }
            None => quote!(#private::None),
        };
        quote!(.with_timeout(#timeout))
    });
    let max_attempts = max_attempts.map(|attempts| quote!(.with_max_attempts(#attempts)));
    let backoff = backoff.map(|(base, cap)| {
        let (base, cap) = (duration(base), duration(cap));
        quote!(.with_backoff(#base, #cap))
    });
    let concurrency = concurrency.map(|handlers| quote!(.with_concurrency(#handlers)));
    let rate = rate.map(|(starts, per)| {
        let per = duration(per);
        quote!(.with_rate(#starts, #per))
    });
    quote!(#private::Policy::DEFAULT #timeout #max_attempts #backoff #concurrency #rate)
}

fn duration(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}

/// Decodes the message, takes the rest from the delivery, and calls the function.
fn start(handler: &Handler, payload: &Ident, private: &TokenStream) -> TokenStream {
    let Handler {
        krate,
        function,
        arguments,
        ..
    } = handler;
    let span = emitted(function.span());
    let state = ours("OutboxStateOfTheRouter");
    let [row, delivery, of_state, message] = [
        "outbox_row",
        "outbox_delivery",
        "outbox_state",
        "outbox_message",
    ]
    .map(ours);
    let rest = arguments.get(1..).unwrap_or_default();
    let names: Vec<_> = (1..=rest.len())
        .map(|n| ours(&format!("outbox_argument_{n}")))
        .collect();
    let taken = rest.iter().zip(&names).map(|(argument, name)| {
        let (ty, span) = (&argument.ty, over(&argument.ty));
        let krate = krate.at(span);
        quote_spanned! {span=>
            let #name = <#ty as #krate::FromDelivery<#state>>::from_delivery(&#delivery, #of_state);
        }
    });
    let outcome = outcome(
        handler,
        quote_spanned!(span=> #function(#message, #(#names),*)),
        private,
    );
    quote_spanned! {span=>
        fn start(#row: #private::Raw<'_>, #delivery: #private::Delivery, #of_state: &#state) -> #private::Started {
            let _ = (&#delivery, #of_state);
            let #message = #private::decode::<#payload>(#row)?;
            #(#taken)*
            #private::run_on_any_thread(async move { #outcome })
        }
    }
}

/// Awaits the function's future, and makes an outcome of its result.
fn outcome(handler: &Handler, future: TokenStream, private: &TokenStream) -> TokenStream {
    let Handler {
        krate,
        function,
        output,
        on_error,
        ..
    } = handler;
    if let Some(path) = on_error {
        let span = over(path);
        let private = krate.private(span);
        return quote_spanned!(span=> #private::decide(#future.await, #path));
    }
    match output {
        Output::Unit => {
            let span = emitted(function.span());
            quote_spanned!(span=> <() as #private::IntoOutcome>::into_outcome(#future.await))
        }
        Output::Type(ty) => {
            let span = over(ty);
            let private = krate.private(span);
            quote_spanned!(span=> <#ty as #private::IntoOutcome>::into_outcome(#future.await))
        }
        Output::Opaque(span) => {
            let span = emitted(*span);
            let private = krate.private(span);
            quote_spanned!(span=> #private::IntoOutcome::into_outcome(#future.await))
        }
        Output::Future(ty) => {
            let span = over(ty);
            let private = krate.private(span);
            quote_spanned!(span=> <#ty as #private::Asynchronous>::outcome(#future).await)
        }
    }
}

/// What the user allows for the function they allow for the types in its signature. That a function is
/// deprecated is said to those who call it, which we only pass on.
fn allows(attrs: &[syn::Attribute], span: Span) -> TokenStream {
    let of = |name: &'static str| attrs.iter().filter(move |attr| attr.path().is_ident(name));
    let allowed: Vec<_> = of("allow").cloned().collect();
    let deprecated = of("deprecated")
        .next()
        .map(|_| quote_spanned!(span=> #[allow(deprecated)]));
    let allowed = all(&allowed);
    quote!(#allowed #deprecated)
}

/// The last segment of the message's path, for a message to the user.
fn last_word(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Group(group) => last_word(&group.elem),
        syn::Type::Paren(paren) => last_word(&paren.elem),
        syn::Type::Path(path) => path
            .path
            .segments
            .last()
            .map(|last| unraw(&last.ident))
            .unwrap_or_default(),
        other => span::text(other),
    }
}
