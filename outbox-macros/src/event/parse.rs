//! Reads the enum and its `#[outbox(..)]` attributes.

use proc_macro2::{Ident, TokenStream};
use syn::{Attribute, Data, DeriveInput, Generics, Variant, Visibility};

use crate::{args::Args, errors::Errors, krate::Krate, message::is_message};

/// An event, as written.
pub(super) struct Parsed {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    pub(super) generics: Generics,
    pub(super) methods: bool,
    pub(super) variants: Vec<Variant>,
    /// Whether the event or a variant of it is `#[deprecated]`.
    pub(super) deprecated: bool,
}

/// Reads the enum; `None` if it is none, or something else already.
pub(super) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Parsed> {
    let DeriveInput {
        attrs,
        ident,
        vis,
        generics,
        data,
    } = errors.ok(syn::parse2(item))?;
    let Data::Enum(data) = data else {
        errors.at(
            &ident,
            "`Event` can be derived for an enum whose variants each wrap a message; \
             for one message write `#[outbox::message(topic = \"...\")]`",
        );
        return None;
    };
    if is_message(&attrs) {
        errors.at(
            &ident,
            format!(
                "`{ident}` is a message, with a topic of its own, and can't be an event as well, which has \
                 the topics of the messages it wraps; remove `#[outbox::message]` or `outbox::Event`"
            ),
        );
        return None;
    }
    let mut args = args(&attrs, errors);
    let variants: Vec<_> = data.variants.into_iter().collect();
    let mut inner = variants.iter().flat_map(|variant| {
        let fields = variant.fields.iter().flat_map(|field| &field.attrs);
        variant.attrs.iter().chain(fields)
    });
    for attr in inner.clone().filter(|attr| attr.path().is_ident("outbox")) {
        errors.at(
            attr,
            "`#[outbox(..)]` says nothing on a part of an event; a key stands on a field of the message",
        );
    }
    let deprecated = |attr: &Attribute| attr.path().is_ident("deprecated");
    Some(Parsed {
        krate: Krate::from_args(&mut args, errors),
        methods: args
            .take("methods")
            .and_then(|arg| errors.ok(arg.flag("methods = false")))
            .unwrap_or(true),
        deprecated: attrs.iter().any(deprecated) || inner.any(deprecated),
        ident,
        vis,
        generics,
        variants,
    })
}

fn args(attrs: &[Attribute], errors: &mut Errors) -> Args {
    const VALID: &[&str] = &["methods", crate::krate::CRATE];
    Args::of_attributes(
        attrs,
        "outbox",
        "`#[outbox(..)]` on an event",
        VALID,
        errors,
    )
}
