//! Judges the variants: each wraps one message.

use proc_macro2::Ident;
use syn::{Fields, Generics, Member, Type, Variant, Visibility};

use super::parse::Parsed;
use crate::{errors::Errors, krate::Krate};

/// An event, as far as it can be one; what is missing has been reported.
pub(super) struct Event {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    pub(super) generics: Generics,
    pub(super) methods: bool,
    pub(super) deprecated: bool,
    pub(super) wrapped: Vec<Wrapped>,
}

/// A variant and the message in it.
pub(super) struct Wrapped {
    pub(super) variant: Ident,
    pub(super) member: Member,
    pub(super) ty: Type,
}

pub(super) fn check(parsed: Parsed, errors: &mut Errors) -> Event {
    let Parsed {
        krate,
        ident,
        vis,
        generics,
        methods,
        variants,
        deprecated,
    } = parsed;
    Event {
        krate,
        ident,
        vis,
        generics,
        methods,
        deprecated,
        wrapped: variants
            .into_iter()
            .filter_map(|variant| wrapped(variant, errors))
            .collect(),
    }
}

/// The one field of the variant, named or not.
fn wrapped(variant: Variant, errors: &mut Errors) -> Option<Wrapped> {
    let Variant {
        ident: name,
        fields,
        ..
    } = variant;
    let wraps = match (&fields, fields.len()) {
        (_, 1) => None,
        (Fields::Unit, _) | (_, 0) => Some("nothing".to_owned()),
        (_, many) => Some(format!("{many} fields")),
    };
    if let Some(what) = wraps {
        errors.at(
            &name,
            format!(
                "variant `{name}` wraps {what}; each variant of an event wraps one message: \
                 `{name}({name}Message)`, which is a struct under `#[outbox::message(topic = \"...\")]`"
            ),
        );
        return None;
    }
    let member = fields.members().next()?;
    let field = fields.into_iter().next()?;
    Some(Wrapped {
        variant: name,
        member,
        ty: field.ty,
    })
}
