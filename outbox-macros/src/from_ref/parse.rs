//! Reads the struct and its `#[from_ref(..)]` attributes.

use proc_macro2::{Ident, TokenStream};
use syn::{Attribute, Data, DeriveInput, Generics, Member, Type};

use crate::{args::Args, errors::Errors, krate::Krate};

/// A state, as written.
pub(super) struct Parsed {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    pub(super) fields: Vec<Field>,
}

pub(super) struct Field {
    pub(super) member: Member,
    pub(super) ty: Type,
    pub(super) skip: bool,
}

/// Reads the struct; `None` if it is none.
pub(super) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Parsed> {
    let DeriveInput {
        attrs,
        ident,
        generics,
        data,
        ..
    } = errors.ok(syn::parse2(item))?;
    let Data::Struct(data) = data else {
        errors.at(
            &ident,
            "`FromRef` can be derived for a struct: each of its fields is what `State` can ask for",
        );
        return None;
    };
    let mut on_struct = args(
        &attrs,
        "`#[from_ref(..)]` on a struct",
        &[crate::krate::CRATE],
        errors,
    );
    let krate = Krate::from_args(&mut on_struct, errors);
    let members: Vec<_> = data.fields.members().collect();
    let fields = members.into_iter().zip(data.fields).map(|(member, field)| {
        let mut args = args(
            &field.attrs,
            "`#[from_ref(..)]` on a field",
            &["skip"],
            errors,
        );
        let skip = args.take("skip");
        if let Some(value) = skip.as_ref().and_then(|arg| arg.value.as_ref()) {
            errors.at(value, "`skip` has no value; write `#[from_ref(skip)]`");
        }
        Field {
            member,
            ty: field.ty,
            skip: skip.is_some(),
        }
    });
    let fields = fields.collect();
    Some(Parsed {
        krate,
        ident,
        generics,
        fields,
    })
}

fn args(attrs: &[Attribute], of: &str, valid: &[&str], errors: &mut Errors) -> Args {
    Args::of_attributes(attrs, "from_ref", of, valid, errors)
}
