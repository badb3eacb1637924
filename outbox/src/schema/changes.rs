//! What changed between two schemas of one message, field by field, and whom it breaks.

use std::fmt;

use serde_json::Value;

use super::{
    Schema,
    flat::{Flat, flat, is_closed, name_of, properties, property, requires, tag, text, type_of},
    gaps::{Gap, below, gaps, is_word},
};

/// One thing that changed between two schemas of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The field, such as `lines[].quantity`; empty where the whole message is meant.
    pub path: String,
    /// What changed.
    pub what: String,
    /// Why the newer code can't read what the older has written, if that is so: it breaks rows already
    /// written.
    pub backward: Option<String>,
    /// Why the older code can't read what the newer writes, if that is so: it breaks readers that are not yet
    /// deployed.
    pub forward: Option<String>,
}

impl Change {
    /// Two schemas differ, and yet let the same through.
    pub(super) fn of_words() -> Self {
        Self {
            path: String::new(),
            what: "only how the schema is put together changed".to_owned(),
            backward: None,
            forward: None,
        }
    }

    /// Whether anybody is broken by it.
    #[must_use]
    pub fn is_breaking(&self) -> bool {
        self.backward.is_some() || self.forward.is_some()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.what)?;
        } else {
            write!(f, "`{}`: {}", self.path, self.what)?;
        }
        match (&self.backward, &self.forward) {
            (None, None) => f.write_str("\n    breaks nobody"),
            (backward, forward) => {
                if let Some(why) = backward {
                    write!(f, "\n    breaks rows already written (backward): {why}")?;
                }
                if let Some(why) = forward {
                    write!(f, "\n    breaks readers not yet deployed (forward): {why}")?;
                }
                Ok(())
            }
        }
    }
}

/// What changed from the older to the newer.
pub(super) fn changes(older: &Schema, newer: &Schema) -> Vec<Change> {
    let mut changes = Vec::new();
    // Whether a field is optional is told of reading it; what is only true of writing follows.
    for (old, new) in [(&older.reads, &newer.reads), (&older.writes, &newer.writes)] {
        let told: Vec<_> = changes
            .iter()
            .map(|change: &Change| change.path.clone())
            .collect();
        let mut search = Search {
            old,
            new,
            open: Vec::new(),
            found: Vec::new(),
        };
        search.schema(old, new, "");
        for (path, what) in search.found {
            if !told.contains(&path) {
                changes.push(Change {
                    path,
                    what,
                    backward: None,
                    forward: None,
                });
            }
        }
    }
    for gap in gaps(&newer.reads, &older.writes) {
        put(&mut changes, gap, |change| &mut change.backward);
    }
    for gap in gaps(&older.reads, &newer.writes) {
        put(&mut changes, gap, |change| &mut change.forward);
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

/// Puts a gap to the change that it comes from: the one of its field, or of what the field is part of.
fn put(changes: &mut Vec<Change>, gap: Gap, side: impl Fn(&mut Change) -> &mut Option<String>) {
    let mut found: Option<usize> = None;
    for (at, change) in changes.iter().enumerate() {
        let nearer = found.is_none_or(|found| change.path.len() > changes[found].path.len());
        if is_within(&gap.path, &change.path) && nearer {
            found = Some(at);
        }
    }
    let at = found.unwrap_or_else(|| {
        changes.push(Change {
            path: gap.path.clone(),
            what: "changed".to_owned(),
            backward: None,
            forward: None,
        });
        changes.len() - 1
    });
    let side = side(&mut changes[at]);
    match side {
        Some(why) if why.contains(&gap.why) => {}
        Some(why) => why.push_str(&format!("; {}", gap.why)),
        None => *side = Some(gap.why),
    }
}

/// Whether a field is the other, or a part of it.
fn is_within(path: &str, whole: &str) -> bool {
    path.strip_prefix(whole)
        .is_some_and(|rest| whole.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}

struct Search<'s> {
    old: &'s Value,
    new: &'s Value,
    /// The pairs that are being compared: a type may contain itself.
    open: Vec<(Value, Value)>,
    found: Vec<(String, String)>,
}

impl Search<'_> {
    fn note(&mut self, path: &str, what: impl Into<String>) {
        self.found.push((path.to_owned(), what.into()));
    }

    fn schema(&mut self, old: &Value, new: &Value, path: &str) {
        let pair = (old.clone(), new.clone());
        if self.open.contains(&pair) {
            return;
        }
        self.open.push(pair);
        let (old, new) = (flat(old, self.old), flat(new, self.new));
        match (old.as_slice(), new.as_slice()) {
            ([old], [new]) => self.alternative(old, new, path),
            _ => self.alternatives(&old, &new, path),
        }
        self.open.pop();
    }

    /// Pairs the alternatives that mean the same.
    fn alternatives(&mut self, old: &[Flat], new: &[Flat], path: &str) {
        let key = |schema: &Flat, root: &Value| {
            let word = type_of(schema).unwrap_or("anything").to_owned();
            tag(schema, root).unwrap_or(word)
        };
        let mut left: Vec<_> = new.iter().collect();
        for one in old {
            let same = |other: &&Flat| key(other, self.new) == key(one, self.old);
            match left.iter().position(same) {
                Some(at) => {
                    let other = left.remove(at);
                    self.alternative(one, other, path);
                }
                None => self.note(path, format!("{} removed", name_of(one, self.old))),
            }
        }
        for one in left {
            self.note(path, format!("{} added", name_of(one, self.new)));
        }
    }

    fn alternative(&mut self, old: &Flat, new: &Flat, path: &str) {
        self.keywords(old, new, path);
        self.fields(old, new, path);
        let any = Value::Bool(true);
        for (keyword, at) in [("items", "[]"), ("additionalProperties", ".*")] {
            match (old.get(keyword), new.get(keyword)) {
                (None, None) | (Some(Value::Bool(_)), Some(Value::Bool(_))) => {}
                // Told by `keywords`.
                (Some(Value::Bool(false)), _) | (_, Some(Value::Bool(false))) => {}
                (None, Some(_)) if keyword == "additionalProperties" => {
                    self.note(path, "is a map now");
                }
                (Some(_), None) if keyword == "additionalProperties" => {
                    self.note(path, "is no map any more");
                }
                (old, new) => {
                    let at = format!("{path}{at}");
                    let at = at.trim_start_matches('.');
                    self.schema(old.unwrap_or(&any), new.unwrap_or(&any), at);
                }
            }
        }
        let list = |schema: &Flat, keyword: &str| {
            let list = schema.get(keyword).and_then(Value::as_array);
            list.cloned().unwrap_or_default()
        };
        let (old_items, new_items) = (list(old, "prefixItems"), list(new, "prefixItems"));
        for at in 0..old_items.len().max(new_items.len()) {
            let path = format!("{path}[{at}]");
            match (old_items.get(at), new_items.get(at)) {
                (Some(old), Some(new)) => self.schema(old, new, &path),
                (None, _) => self.note(&path, "added"),
                (_, None) => self.note(&path, "removed"),
            }
        }
        for (pattern, old) in entries(old, "patternProperties") {
            if let Some((_, new)) = entries(new, "patternProperties").find(|(it, _)| *it == pattern)
            {
                self.schema(old, new, &below(path, "*"));
            }
        }
    }

    fn fields(&mut self, old: &Flat, new: &Flat, path: &str) {
        for (name, was) in properties(old) {
            let at = below(path, name);
            let Some(is) = property(new, name) else {
                self.note(&at, format!("removed (it was {})", kind(was, self.old)));
                continue;
            };
            match (requires(old, name), requires(new, name)) {
                (true, false) => self.note(&at, "may be left out now"),
                (false, true) => self.note(&at, "has to be there now"),
                _ => {}
            }
            self.schema(was, is, &at);
        }
        for (name, is) in properties(new).filter(|(name, _)| property(old, name).is_none()) {
            let presence = if requires(new, name) {
                "required"
            } else {
                "optional"
            };
            let kind = kind(is, self.new);
            self.note(&below(path, name), format!("added ({kind}), {presence}"));
        }
    }

    /// All that is neither a field nor an item.
    fn keywords(&mut self, old: &Flat, new: &Flat, path: &str) {
        if is_closed(old) != is_closed(new) {
            let verb = if is_closed(new) { "refused" } else { "ignored" };
            self.note(path, format!("unknown fields are {verb} now"));
        }
        if let (Some(was), Some(is)) = (listed(old), listed(new)) {
            for value in was.iter().filter(|value| !is.contains(value)) {
                self.note(path, format!("`{}` removed", text(value)));
            }
            for value in is.iter().filter(|value| !was.contains(value)) {
                self.note(path, format!("`{}` added", text(value)));
            }
        }
        let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for keyword in names {
            let (was, is) = (old.get(keyword), new.get(keyword));
            let listed = matches!(keyword.as_str(), "enum" | "const")
                && listed(old).is_some()
                && listed(new).is_some();
            if was == is || STRUCTURE.contains(&keyword.as_str()) || listed {
                continue;
            }
            if path.is_empty() && (keyword.starts_with("x-") || keyword.starts_with('$')) {
                continue;
            }
            let shown = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), text);
            self.note(
                path,
                match is_word(keyword) {
                    true => format!("{keyword} changed"),
                    false => format!("{keyword} was {}, is {}", shown(was), shown(is)),
                },
            );
        }
    }
}

/// Keywords that are followed into what they hold.
const STRUCTURE: &[&str] = &[
    "$defs",
    "additionalProperties",
    "items",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "unevaluatedProperties",
];

fn listed(schema: &Flat) -> Option<Vec<&Value>> {
    super::flat::values(schema)
}

fn entries<'s>(schema: &'s Flat, keyword: &str) -> impl Iterator<Item = (&'s String, &'s Value)> {
    let entries = schema.get(keyword).and_then(Value::as_object);
    entries.into_iter().flatten()
}

/// What a field is, in a word or two.
fn kind(schema: &Value, root: &Value) -> String {
    let mut names: Vec<_> = flat(schema, root)
        .iter()
        .map(|one| name_of(one, root))
        .collect();
    names.dedup();
    names.join(" or ")
}
