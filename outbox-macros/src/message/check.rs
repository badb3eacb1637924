//! Judges what was read: can this be a message, which fields make its key, which rules apply.

use proc_macro2::Ident;
use syn::{ExprPath, Generics, Member, Path, Type, Visibility, spanned::Spanned as _};

use super::parse::{Field, Garde, Parsed, Shape, Variant};
use crate::{errors::Errors, krate::Krate, topic_arg::Topic};

/// A message, as far as it can be one; what is missing has been reported.
pub(super) struct Message {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    /// Empty, unless an error has been reported.
    pub(super) generics: Generics,
    pub(super) topic: Option<Topic>,
    pub(super) methods: bool,
    /// The derive whose rules run.
    pub(super) garde: Option<Path>,
    pub(super) validate: Option<ExprPath>,
    pub(super) key: Key,
    pub(super) deprecated: bool,
}

/// How the key is found.
pub(super) enum Key {
    None,
    /// The field of a struct.
    Field(Box<KeyField>),
    /// The field of each variant.
    Variants(Vec<(Ident, KeyField)>),
}

/// A field that is the key.
pub(super) struct KeyField {
    pub(super) member: Member,
    pub(super) ty: Type,
    pub(super) with: Option<ExprPath>,
}

/// Judges the item; `None` if what it derives can't be a message, so that not even a stub compiles.
pub(super) fn check(parsed: Parsed, errors: &mut Errors) -> Option<Message> {
    let Parsed {
        krate,
        ident,
        vis,
        generics,
        shape,
        topic,
        validate,
        methods,
        serde,
        garde,
        deprecated,
    } = parsed;
    refuse_generics(&generics, errors);
    let unreadable = serde && refuse_borrows(&shape, errors);
    let key = match shape {
        Shape::Struct(fields) => {
            key_field(fields, errors).map_or(Key::None, |field| Key::Field(Box::new(field)))
        }
        Shape::Enum(variants) => key_of_enum(variants, errors),
    };
    let garde = rules(garde, errors);
    let message = Message {
        krate,
        ident,
        vis,
        generics,
        topic,
        methods,
        garde,
        validate,
        key,
        deprecated,
    };
    (!unreadable).then_some(message)
}

fn refuse_generics(generics: &Generics, errors: &mut Errors) {
    if let Some(lifetime) = generics.lifetimes().next() {
        errors.at(
            lifetime,
            "a message can't borrow: it outlives its publisher; own the data (`String` for `&str`, `Vec<T>` for `&[T]`)",
        );
    }
    if let Some(param) = generics
        .params
        .iter()
        .find(|param| !matches!(param, syn::GenericParam::Lifetime(_)))
    {
        errors.at(
            param,
            "a message can't be generic: its topic would name many types; use a concrete type here, \
             or one message for each type",
        );
    }
}

/// Whether a field borrows and serde is not told how to read it.
fn refuse_borrows(shape: &Shape, errors: &mut Errors) -> bool {
    let mut borrows = false;
    let fields: Vec<&Field> = match shape {
        Shape::Struct(fields) => fields.iter().collect(),
        Shape::Enum(variants) => variants
            .iter()
            .flat_map(|variant| &variant.fields)
            .collect(),
    };
    for field in fields.into_iter().filter(|field| !field.has_serde) {
        if let Type::Reference(reference) = &field.ty
            && reference
                .lifetime
                .as_ref()
                .is_some_and(|lifetime| lifetime.ident == "static")
        {
            borrows = true;
            errors.at(
                &field.ty,
                "a message can't borrow: nothing lends it the data when it is read back; \
                 own it (`String` for `&str`, `Vec<T>` for `&[T]`)",
            );
        }
    }
    borrows
}

/// The one field that is the key.
fn key_field(fields: Vec<Field>, errors: &mut Errors) -> Option<KeyField> {
    let mut found = None;
    for Field {
        member, ty, keys, ..
    } in fields
    {
        for key in keys {
            if found.is_some() {
                errors.at(&key.at, "a message has one key; remove this one, or make it of both fields by `key = path::to_fn`");
            } else {
                found = Some(KeyField {
                    member: member.clone(),
                    ty: ty.clone(),
                    with: key.with,
                });
            }
        }
    }
    found
}

fn key_of_enum(variants: Vec<Variant>, errors: &mut Errors) -> Key {
    let names: Vec<_> = variants
        .iter()
        .map(|variant| variant.ident.clone())
        .collect();
    let keys: Vec<_> = variants
        .into_iter()
        .map(|variant| key_field(variant.fields, errors))
        .collect();
    if keys.iter().all(Option::is_none) {
        return Key::None;
    }
    let mut found = Vec::new();
    for (name, key) in names.into_iter().zip(keys) {
        match key {
            Some(key) => found.push((name, key)),
            None => errors.at(
                &name,
                format!("variant `{name}` has no key, but others have; mark one of its fields with `#[outbox(key)]`"),
            ),
        }
    }
    Key::Variants(found)
}

/// The derive whose rules are to run. That rules stand there and don't run must never go unnoticed.
fn rules(garde: Garde, errors: &mut Errors) -> Option<Path> {
    let Garde {
        derive,
        bare,
        rule,
        context,
    } = garde;
    if let Some(context) = context {
        errors.at(
            &context,
            "outbox has no context to give to garde's rules; check what needs one in `#[outbox::message(validate = path)]`",
        );
        return None;
    }
    let bare = bare.filter(|_| rule.is_some());
    match (derive.or(bare), rule) {
        (None, Some(rule)) => {
            errors.at_span(
                rule.path().span(),
                "this rule would not run: `#[outbox::message]` sees only the derives below it, and \
                 `garde::Validate` is not among them; write `#[derive(garde::Validate)]` there, or move it down",
            );
            None
        }
        (derive, _) => derive,
    }
}
