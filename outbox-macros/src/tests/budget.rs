//! An expansion is at most twice as long as what one would write by hand.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use super::samples;

#[test]
fn an_expansion_is_at_most_twice_as_long_as_written_by_hand() {
    let pairs = [
        ("message", message()),
        ("event", event()),
        ("from_ref", from_ref()),
    ];
    for (name, (expanded, by_hand)) in pairs {
        let (ours, theirs) = (count(expanded), count(by_hand));
        println!(
            "{name}: {ours} tokens, by hand {theirs}: {:.2} times",
            ours as f64 / theirs as f64
        );
        assert!(
            ours <= 2 * theirs,
            "{name}: {ours} tokens, by hand {theirs}"
        );
    }
}

/// Tokens, delimiters included. Comments are for readers, and cost the compiler next to nothing.
fn count(tokens: TokenStream) -> usize {
    let mut count = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_doc(tokens.peek()) => {
                tokens.next();
            }
            TokenTree::Group(group) => count += 2 + self::count(group.stream()),
            _ => count += 1,
        }
    }
    count
}

fn is_doc(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group))
        if group.stream().into_iter().next().is_some_and(|first| first.to_string() == "doc"))
}

/// Methods as in `outbox::Publish`, callable without an import.
fn methods(ty: TokenStream) -> TokenStream {
    quote! {
        impl #ty {
            pub fn publish<'t, Via, T: Enlist<Via> + ?Sized>(
                &self,
                tx: &'t mut T,
            ) -> Publishing<'t, Published> {
                Publish::publish(self, tx)
            }
            pub fn publication(&self) -> Publication<'_> {
                Publish::publication(self)
            }
            pub fn publish_all<'t, 'm, Via, T: Enlist<Via> + ?Sized>(
                messages: impl IntoIterator<Item = &'m Self>,
                tx: &'t mut T,
            ) -> Publishing<'t, Vec<Published>>
            where
                Self: 'm,
            {
                Publish::publish_all(messages, tx)
            }
        }
    }
}

fn message() -> (TokenStream, TokenStream) {
    let methods = methods(quote!(PaymentSettled));
    let by_hand = quote! {
        #[derive(serde::Serialize, serde::Deserialize, garde::Validate)]
        pub struct PaymentSettled {
            #[garde(skip)]
            pub account: u64,
            #[garde(range(min = 1))]
            pub amount_cents: i64,
        }
        impl Message for PaymentSettled {
            const TOPIC: &'static str = "payments.settled";
            const VERSION: u32 = 1;
            fn key(this: &Self) -> Option<Cow<'_, str>> {
                Key::key(&this.account)
            }
            fn validate(this: &Self) -> Result<(), Invalid> {
                Validate::validate(this).map_err(|report| Invalid::new("", report.to_string()))?;
                user::check(this).map_err(|error| Invalid::new("", error.to_string()))
            }
        }
        impl Publish for PaymentSettled {
            fn publication(&self) -> Publication<'_> {
                Publication::new(self)
            }
        }
        #methods
    };
    (samples::message(), by_hand)
}

fn event() -> (TokenStream, TokenStream) {
    let methods = methods(quote!(OrderEvent));
    let by_hand = quote! {
        impl Publish for OrderEvent {
            fn publication(&self) -> Publication<'_> {
                match self {
                    Self::Placed(message) => message.publication(),
                    Self::Cancelled { message } => message.publication(),
                }
            }
        }
        #methods
    };
    (samples::event(), by_hand)
}

fn from_ref() -> (TokenStream, TokenStream) {
    let by_hand = quote! {
        impl<T: Clock> FromRef<App<T>> for Mailer {
            fn from_ref(state: &App<T>) -> Self {
                state.mailer.clone()
            }
        }
        impl<T: Clock> FromRef<App<T>> for Shared<T> {
            fn from_ref(state: &App<T>) -> Self {
                state.clock.clone()
            }
        }
    };
    (samples::from_ref(), by_hand)
}
