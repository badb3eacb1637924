//! Judges the list: nothing stands in it twice.

use std::collections::HashMap;

use super::parse::{Entry, Parsed};
use crate::{errors::Errors, krate::Krate, span::text};

/// A router whose list holds nothing twice, as far as its text can tell.
pub(super) struct Router {
    pub(super) krate: Krate,
    pub(super) entries: Vec<Entry>,
    pub(super) required: Vec<Entry>,
}

pub(super) fn check(parsed: Parsed, errors: &mut Errors) -> Router {
    let Parsed {
        krate,
        entries,
        required,
    } = parsed;
    for entry in entries.iter().chain(&required) {
        for attr in entry
            .attrs
            .iter()
            .filter(|attr| !attr.path().is_ident("cfg"))
        {
            errors.at(attr, "only `#[cfg(..)]` can stand on an entry of a router");
        }
    }
    Router {
        krate,
        entries: once(entries, errors),
        required: once(required, errors),
    }
}

/// Leaves out what is listed twice. Two entries of the same path under two `#[cfg]`s may exclude each
/// other; if they don't, the compiler finds two handlers for one topic.
fn once(entries: Vec<Entry>, errors: &mut Errors) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    // Where each path without a `#[cfg]` stands in `kept`: a router may have a thousand.
    let mut places: HashMap<String, usize> = HashMap::new();
    for entry in entries {
        if entry.attrs.is_empty() {
            let name = text(&entry.path);
            if let Some(first) = places.get(&name) {
                errors.at(&entry.path, format!("`{name}` is listed twice"));
                errors.at(&kept[*first].path, "first listed here");
                continue;
            }
            places.insert(name, kept.len());
        }
        kept.push(entry);
    }
    kept
}
