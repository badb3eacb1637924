//! One use of each macro, with all that it can be told. Every path of theirs starts with `::`, so that
//! any other path in an expansion is the macro's own.

use proc_macro2::TokenStream;
use quote::quote;

/// An expansion, by the name of its sample.
pub(super) type Sample = (&'static str, TokenStream);

/// All samples.
pub(super) fn all() -> [Sample; 6] {
    [
        ("message", message()),
        ("message_enum", message_enum()),
        ("event", beside(event_item(), event())),
        ("handler", handler()),
        ("router", router()),
        ("from_ref", beside(state_item(), from_ref())),
    ]
}

pub(super) fn message() -> TokenStream {
    expanded_message(
        quote!(topic = "payments.settled", validate = ::user::check),
        quote! {
            #[derive(::garde::Validate)]
            pub struct PaymentSettled {
                #[outbox(key)]
                #[garde(skip)]
                pub account: ::core::primitive::u64,
                #[garde(range(min = 1))]
                pub amount_cents: ::core::primitive::i64,
            }
        },
    )
}

fn message_enum() -> TokenStream {
    expanded_message(
        quote!(
            topic = ::user::TOPIC,
            methods = false,
            serde = false,
            crate = ::ob
        ),
        quote! {
            #[deprecated]
            enum Entry {
                Booked(#[outbox(key)] ::user::Account, ::user::Amount),
                Closed { #[outbox(key = ::user::to_key)] account: ::user::Account },
            }
        },
    )
}

/// The attribute's expansion, which is the item with more derives, and that of our own derive.
pub(super) fn expanded_message(args: TokenStream, item: TokenStream) -> TokenStream {
    let item = crate::message::attribute(args, item);
    let derived = crate::message::derive(item.clone());
    beside(item, derived)
}

pub(super) fn event() -> TokenStream {
    crate::event::derive(event_item())
}

fn event_item() -> TokenStream {
    quote! {
        pub(crate) enum OrderEvent {
            Placed(::user::OrderPlaced),
            Cancelled { message: ::user::OrderCancelled },
        }
    }
}

pub(super) fn handler() -> TokenStream {
    crate::handler::attribute(
        quote! {
            topic = "payments.settled",
            timeout = "30s",
            max_attempts = 5,
            backoff = "1s..5m",
            on_error = ::user::decide,
        },
        quote! {
            pub async fn send_receipt(
                payment: ::user::PaymentSettled,
                ::outbox::State(mailer): ::outbox::State<::user::Mailer>,
                delivery: ::outbox::Delivery,
            ) -> ::core::result::Result<(), ::user::Failure> {
                mailer.send(payment, delivery).await
            }
        },
    )
}

fn router() -> TokenStream {
    let router = crate::router::router(quote! {
        ::user::send_receipt, #[cfg(any())] ::user::gone, ..::user::billing::ROUTES;
        requires ::user::PaymentSettled
    });
    quote! {
        static ROUTER: ::outbox::Router<::user::App> = #router;
    }
}

pub(super) fn from_ref() -> TokenStream {
    crate::from_ref::derive(state_item())
}

fn state_item() -> TokenStream {
    quote! {
        pub struct App<T: ::user::Clock> {
            mailer: ::user::Mailer,
            clock: ::user::Shared<T>,
            #[from_ref(skip)]
            attempts: ::core::primitive::u32,
        }
    }
}

/// The item and what its derive adds.
fn beside(item: TokenStream, derived: TokenStream) -> TokenStream {
    quote!(#item #derived)
}
