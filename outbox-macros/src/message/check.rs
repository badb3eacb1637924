//! Judges what was read: can this be a message, which fields make its key, which rules apply.

use proc_macro2::Ident;
use syn::{Attribute, ExprPath, Generics, Member, Path, Type, Visibility, spanned::Spanned as _};

use super::{
    parse::{Field, From, Garde, Parsed, Shape, Variant, Version},
    schema::Schema,
};
use crate::{errors::Errors, krate::Krate, topic_arg::Topic};

/// A message, as far as it can be one; what is missing has been reported.
pub(super) struct Message {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    /// Empty, unless an error has been reported.
    pub(super) generics: Generics,
    pub(super) topic: Option<Topic>,
    pub(super) version: u32,
    /// The message of the previous version.
    pub(super) from: Option<ExprPath>,
    pub(super) schema: Schema,
    pub(super) methods: bool,
    /// The derive whose rules run.
    pub(super) garde: Option<Path>,
    pub(super) validate: Option<ExprPath>,
    pub(super) key: Key,
    pub(super) deprecated: bool,
    pub(super) allows: Vec<Attribute>,
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
        version,
        schema,
        validate,
        methods,
        serde,
        garde,
        deprecated,
        allows,
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
    let (version, from) = lineage(version, errors);
    // A reader's message may lack fields that others need.
    let is_read_only = matches!(&schema, Schema::Contract(contract) if !contract.role.publishes());
    let methods = methods && !is_read_only;
    let message = Message {
        krate,
        ident,
        vis,
        generics,
        topic,
        version,
        from,
        schema,
        methods,
        garde,
        validate,
        key,
        deprecated,
        allows,
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

/// The version, and what the one before it was. That stored messages can't be read must be said by the user.
fn lineage(version: Version, errors: &mut Errors) -> (u32, Option<ExprPath>) {
    let Version {
        number,
        from,
        saw_wrong,
    } = version;
    let (number, at) = match number {
        Some((number, at)) => (number, Some(at)),
        None => (1, None),
    };
    match (number, from) {
        (1, None) => (1, None),
        (1, Some(_)) if saw_wrong => (1, None),
        (1, Some(From::None(at))) => {
            errors.at(&at, "nothing comes before version 1; remove `from`");
            (1, None)
        }
        (1, Some(From::Message(path))) => {
            errors.at(
                &path,
                "a message with `from` comes after version 1; write `version = 2` beside it, or which one it is",
            );
            (1, None)
        }
        (_, None) => {
            if let Some(at) = at.filter(|_| !saw_wrong) {
                let before = number - 1;
                errors.at(
                    &at,
                    format!(
                        "version {number} has to say what becomes of stored messages of version {before}: \
                         `from = Type` names the message that is version {before} of the topic, and which turns into this one \
                         by `From`; `from = none` says that none are stored any more"
                    ),
                );
            }
            (number, None)
        }
        (_, Some(From::None(_))) => (number, None),
        (_, Some(From::Message(path))) => (number, Some(path)),
    }
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
