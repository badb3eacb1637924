//! Writes the impls of a message.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{
    check::{Key, KeyField, Message},
    schema,
};
use crate::{
    krate::Krate,
    publish::Publish,
    span::{self, ours, over, unraw},
    topic_arg::Topic,
};

/// The impls; stubs of them unless the message is `sound`, so that one mistake in it does not
/// become an error at each of its uses.
pub(super) fn expand(message: &Message, sound: bool) -> TokenStream {
    let Message {
        krate,
        ident,
        generics,
        ..
    } = message;
    let span = over(ident);
    let (krate, private) = (krate.at(span), krate.private(span));
    let this = ours("outbox_this");
    let topic = topic(message);
    let path = unraw(ident);
    let (key, validate) = if sound {
        (key(message, &this), validate(message, &this))
    } else {
        (stub(span), stub(span))
    };

    let (impl_generics, type_generics, _) = generics.split_for_impl();
    // A generic message is refused; its stub must still be well-formed.
    let bounds = (!generics.params.is_empty()).then(|| {
        let bounds = generics
            .where_clause
            .iter()
            .flat_map(|clause| &clause.predicates);
        quote_spanned!(span=> where Self: #private::Plain, #(#bounds),*)
    });
    let publish = publish(message, bounds.clone(), sound);
    let assertion = sound.then(|| assertion(message)).flatten();
    let (schema, test) = match sound {
        true => (schema::items(message), schema::test(message)),
        false => (None, None),
    };
    let version = proc_macro2::Literal::u32_unsuffixed(message.version);
    let Lineage {
        items: lineage,
        successor,
    } = sound
        .then(|| lineage(message))
        .flatten()
        .unwrap_or_default();
    let allow = allow(message);
    quote_spanned! {span=>
        #allow
        impl #impl_generics #krate::Message for #ident #type_generics #bounds {
            const TOPIC: &'static #private::str = #topic;
            const VERSION: #private::u32 = #version;
            const PATH: &'static #private::str = ::core::concat!(::core::module_path!(), "::", #path);

            fn key(#this: &Self) -> #private::Option<#private::Cow<'_, #private::str>> {
                #key
            }

            fn validate(#this: &Self) -> #private::Result<(), #krate::Invalid> {
                #validate
            }

            #lineage
            #schema
        }
        #publish
        #assertion
        #successor
        #test
    }
}

fn publish(message: &Message, bounds: Option<TokenStream>, sound: bool) -> TokenStream {
    let Message {
        krate,
        ident,
        vis,
        generics,
        methods,
        ..
    } = message;
    let span = over(ident);
    let body = if sound {
        let krate = krate.at(span);
        quote_spanned!(span=> #krate::Publication::new(self))
    } else {
        stub(span)
    };
    let publish = Publish {
        krate,
        ident,
        vis,
        generics,
        bounds,
        allow: allow(message),
        methods: *methods,
    };
    publish.expand(&body)
}

/// Who uses a deprecated message is told so; its own impls are no use of it.
fn allow(message: &Message) -> Option<TokenStream> {
    let span = over(&message.ident);
    message
        .deprecated
        .then(|| quote_spanned!(span=> #[allow(deprecated)]))
}

/// The topic, or, after an error, a text that no other message has: a second topic "" would be
/// reported as served twice.
fn topic(message: &Message) -> TokenStream {
    let Message { topic, ident, .. } = message;
    let name = unraw(ident);
    match topic {
        Some(topic) => quote!(#topic),
        None => quote_spanned!(over(ident)=> ::core::concat!(::core::module_path!(), "::", #name)),
    }
}

/// What a message with `from` has besides.
#[derive(Default)]
struct Lineage {
    /// In the impl of the message.
    items: TokenStream,
    /// Beside it.
    successor: TokenStream,
}

fn lineage(message: &Message) -> Option<Lineage> {
    let Message {
        krate,
        ident,
        allows,
        ..
    } = message;
    let earlier = message.from.as_ref()?;
    let allows = span::all(allows);
    let span = over(earlier);
    let private = krate.private(span);
    let [version, payload] = ["outbox_version", "outbox_payload"].map(ours);
    let items = quote_spanned! {span=>
        const EARLIER: #private::Option<&'static #private::Lineage> =
            #private::Some(<Self as #private::Successor>::EARLIER);

        fn from_earlier(#version: #private::u32, #payload: &#private::str)
            -> #private::Result<Self, #private::Undecodable>
        {
            #private::lift(#version, #payload)
        }
    };
    let name = span::text(earlier);
    let allow = allow(message);
    let succeeds = |span| {
        let private = krate.private(span);
        quote_spanned!(span=> #private::succeeds::<#ident>)
    };
    let promise = span::promise(earlier, succeeds, quote!(#name));
    let successor = quote_spanned! {span=>
        #allows
        impl #private::Successor for #ident {
            type Earlier = #earlier;
        }
        #allow
        #promise
    };
    Some(Lineage { items, successor })
}

/// A constant's topic is held against the grammar once its value is known.
fn assertion(message: &Message) -> Option<TokenStream> {
    let Message {
        topic: Some(Topic::Constant(constant)),
        krate,
        ident,
        ..
    } = message
    else {
        return None;
    };
    let well_formed = |span| {
        let private = krate.private(span);
        quote_spanned!(span=> #private::well_formed::<#ident>)
    };
    let allow = allow(message);
    let promise = span::promise(constant, well_formed, TokenStream::new());
    Some(quote!(#allow #promise))
}

fn key(message: &Message, this: &proc_macro2::Ident) -> TokenStream {
    let Message {
        krate, ident, key, ..
    } = message;
    let span = over(ident);
    match key {
        Key::None => {
            let private = krate.private(span);
            quote_spanned! {span=>
                let _ = #this;
                #private::None
            }
        }
        Key::Field(field) => {
            let member = &field.member;
            key_of(field, &quote_spanned!(span=> &#this.#member), krate)
        }
        Key::Variants(variants) => {
            let found = ours("outbox_found");
            let arms = variants.iter().map(|(variant, field)| {
                let member = &field.member;
                let key = key_of(field, &quote_spanned!(span=> #found), krate);
                quote_spanned!(span=> Self::#variant { #member: #found, .. } => #key,)
            });
            quote_spanned!(span=> match #this { #(#arms)* })
        }
    }
}

/// The key that the field behind `reference` makes.
fn key_of(field: &KeyField, reference: &TokenStream, krate: &Krate) -> TokenStream {
    let KeyField { ty, with, .. } = field;
    match with {
        None => {
            let span = over(ty);
            let krate = krate.at(span);
            quote_spanned!(span=> <#ty as #krate::Key>::key(#reference))
        }
        Some(path) => {
            let span = over(path);
            let private = krate.private(span);
            quote_spanned!(span=> #private::key(#path(#reference)))
        }
    }
}

/// First garde's rules, then the message's own function.
fn validate(message: &Message, this: &proc_macro2::Ident) -> TokenStream {
    let Message {
        krate,
        garde,
        validate,
        ident,
        ..
    } = message;
    let garde = garde.as_ref().map(|derive| {
        let span = over(derive);
        let private = krate.private(span);
        quote_spanned!(span=> <Self as #private::Rules>::check(#this)?;)
    });
    let own = validate.as_ref().map(|path| {
        let span = over(path);
        let private = krate.private(span);
        quote_spanned!(span=> #private::validated(#path(#this))?;)
    });
    let span = over(ident);
    let private = krate.private(span);
    quote_spanned! {span=>
        let _ = #this;
        #garde
        #own
        #private::Ok(())
    }
}

fn stub(span: Span) -> TokenStream {
    quote_spanned!(span=> ::core::unreachable!("the message did not compile"))
}
