//! Judges the fields: each type must be there once, or `State` could not tell them apart.

use proc_macro2::Ident;
use syn::{Generics, Member, Type};

use super::parse::{Field, Parsed};
use crate::{errors::Errors, krate::Krate, span::text};

/// A state whose parts have types of their own.
pub(super) struct State {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    pub(super) parts: Vec<(Member, Type)>,
}

pub(super) fn check(parsed: Parsed, errors: &mut Errors) -> State {
    let Parsed {
        krate,
        ident,
        generics,
        fields,
    } = parsed;
    let mut parts: Vec<(Member, Type)> = Vec::new();
    for Field { member, ty, .. } in fields.into_iter().filter(|field| !field.skip) {
        let name = text(&ty);
        if parts.iter().any(|(_, earlier)| text(earlier) == name) {
            errors.at(
                &ty,
                format!(
                    "two fields have the type `{name}`, so `State<{name}>` could mean either; \
                     put `#[from_ref(skip)]` on one, or give it a type of its own"
                ),
            );
        } else {
            parts.push((member, ty));
        }
    }
    State {
        krate,
        ident,
        generics,
        parts,
    }
}
