//! A schema as a list of alternatives, each with all that it asks for in one place.
//!
//! It knows what schemars writes for what serde and garde can say. A keyword that it does not know stays as it
//! is, and whoever compares two schemas has to treat it with suspicion.

use serde_json::{Map, Value};

/// One alternative: no `$ref`, `allOf`, `anyOf` and `oneOf`, and one type at most.
pub(super) type Flat = Map<String, Value>;

/// Deeper than a chain of references goes that leads anywhere.
const DEEPEST: u32 = 32;

/// What a schema lets through; nothing, if there is no alternative.
pub(super) fn flat(schema: &Value, root: &Value) -> Vec<Flat> {
    alternatives(schema, root, 0)
}

fn alternatives(schema: &Value, root: &Value, depth: u32) -> Vec<Flat> {
    let map = match schema {
        Value::Object(map) if depth < DEEPEST => map,
        Value::Bool(false) => return Vec::new(),
        _ => return vec![Flat::new()],
    };
    let each = |schema: &Value| alternatives(schema, root, depth + 1);
    let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);

    let mut own = map.clone();
    for keyword in ["$ref", "allOf", "anyOf", "oneOf"] {
        own.remove(keyword);
    }
    let mut all = vec![own];
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|at| root.pointer(at));
        all = both(&all, &target.map_or_else(|| vec![Flat::new()], each));
    }
    for part in list("allOf").into_iter().flatten() {
        all = both(&all, &each(part));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(parts) = list(keyword) {
            let parts: Vec<_> = parts.iter().flat_map(each).collect();
            all = both(&all, &parts);
        }
    }
    all.into_iter().flat_map(by_type).collect()
}

/// Each of the one together with each of the other.
fn both(some: &[Flat], others: &[Flat]) -> Vec<Flat> {
    some.iter()
        .flat_map(|one| others.iter().filter_map(|other| and(one, other)))
        .collect()
}

/// What holds if both hold; `None` if they exclude each other.
fn and(one: &Flat, other: &Flat) -> Option<Flat> {
    let mut all = one.clone();
    for (keyword, theirs) in other {
        let Some(ours) = all.get_mut(keyword) else {
            all.insert(keyword.clone(), theirs.clone());
            continue;
        };
        match (keyword.as_str(), &mut *ours, theirs) {
            ("properties" | "patternProperties", Value::Object(ours), Value::Object(theirs)) => {
                for (name, theirs) in theirs {
                    let asked = match ours.remove(name) {
                        Some(ours) if ours != *theirs => {
                            serde_json::json!({ "allOf": [ours, theirs] })
                        }
                        _ => theirs.clone(),
                    };
                    ours.insert(name.clone(), asked);
                }
            }
            ("required", Value::Array(ours), Value::Array(theirs)) => {
                let new: Vec<_> = theirs.iter().filter(|name| !ours.contains(name)).collect();
                ours.extend(new.into_iter().cloned());
            }
            ("enum", Value::Array(ours), Value::Array(theirs)) => {
                ours.retain(|value| theirs.contains(value));
            }
            ("type", ours, theirs) => {
                let theirs = words(theirs);
                let common: Vec<_> = words(ours)
                    .into_iter()
                    .filter(|word| theirs.contains(word))
                    .map(|word| Value::from(word.to_owned()))
                    .collect();
                if common.is_empty() {
                    return None;
                }
                *ours = Value::Array(common);
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems", ours, theirs) => {
                if theirs.as_f64() > ours.as_f64() {
                    *ours = theirs.clone();
                }
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems", ours, theirs) => {
                if theirs.as_f64() < ours.as_f64() {
                    *ours = theirs.clone();
                }
            }
            // The words on the schema that refers to another are the nearer ones.
            ("title" | "description" | "default", ..) => {}
            (_, ours, theirs) => *ours = theirs.clone(),
        }
    }
    Some(all)
}

/// A schema of several types as one schema for each.
fn by_type(schema: Flat) -> Vec<Flat> {
    let Some(types) = schema.get("type").map(|types| words(types).join(" ")) else {
        return vec![schema];
    };
    let of_type = |word: &str| {
        let mut one = schema.clone();
        one.insert("type".to_owned(), word.into());
        // What is asked of numbers, say, is not asked of null.
        one.retain(|keyword, _| asked_of(keyword).is_none_or(|words| words.contains(&word)));
        if let Some(Value::Array(values)) = one.get_mut("enum") {
            values.retain(|value| is_of(value, word));
            if values.is_empty() {
                return None;
            }
        }
        let fits = one.get("const").is_none_or(|value| is_of(value, word));
        fits.then_some(one)
    };
    types.split(' ').filter_map(of_type).collect()
}

/// The types that a keyword asks something of; of all, if it is none of these.
fn asked_of(keyword: &str) -> Option<&'static [&'static str]> {
    match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            Some(&["integer", "number"])
        }
        "minLength" | "maxLength" | "pattern" => Some(&["string"]),
        "format" => Some(&["integer", "number", "string"]),
        "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" => Some(&["array"]),
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "unevaluatedProperties"
        | "minProperties"
        | "maxProperties" => Some(&["object"]),
        _ => None,
    }
}

/// One type or several.
fn words(types: &Value) -> Vec<&str> {
    match types {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// Whether a value is of a JSON Schema's type.
pub(super) fn is_of(value: &Value, word: &str) -> bool {
    match value {
        Value::Null => word == "null",
        Value::Bool(_) => word == "boolean",
        Value::Number(number) => word == "number" || word == "integer" && !number.is_f64(),
        Value::String(_) => word == "string",
        Value::Array(_) => word == "array",
        Value::Object(_) => word == "object",
    }
}

/// The type of an alternative, if it asks for one.
pub(super) fn type_of(schema: &Flat) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

/// The values of an alternative that lists them.
pub(super) fn values(schema: &Flat) -> Option<Vec<&Value>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![value]);
    }
    Some(schema.get("enum")?.as_array()?.iter().collect())
}

/// The named fields of an alternative.
pub(super) fn properties(schema: &Flat) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// The schema of a named field.
pub(super) fn property<'s>(schema: &'s Flat, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

/// Whether a field has to be there.
pub(super) fn requires(schema: &Flat, name: &str) -> bool {
    required(schema).any(|required| required == name)
}

/// The fields that have to be there.
pub(super) fn required(schema: &Flat) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether fields without a name in the schema are refused.
pub(super) fn is_closed(schema: &Flat) -> bool {
    ["additionalProperties", "unevaluatedProperties"]
        .iter()
        .any(|keyword| schema.get(*keyword) == Some(&Value::Bool(false)))
}

/// What an alternative is called in a text: the tag of a variant, or its type.
pub(super) fn name_of(schema: &Flat, root: &Value) -> String {
    if let Some(values) = values(schema) {
        let values: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", text(value)))
            .collect();
        return values.join(", ");
    }
    if let Some(tag) = tag(schema, root) {
        return format!("`{tag}`");
    }
    match (
        type_of(schema),
        schema.get("format").and_then(Value::as_str),
    ) {
        (Some(word), Some(format)) => format!("{word} ({format})"),
        (Some(word), None) => word.to_owned(),
        (None, _) => "anything".to_owned(),
    }
}

/// The tag by which serde tells a variant: a field of one value, or the only field that there is.
pub(super) fn tag(schema: &Flat, root: &Value) -> Option<String> {
    let constant = properties(schema).find_map(|(name, field)| {
        let one = requires(schema, name).then(|| flat(field, root))?;
        let [one] = one.as_slice() else { return None };
        let value = one.get("const")?.as_str()?;
        Some(value.to_owned())
    });
    constant.or_else(|| {
        let mut names = required(schema);
        let only = names.next().filter(|_| is_closed(schema))?;
        let alone = names.next().is_none() && properties(schema).count() == 1;
        alone.then(|| only.to_owned())
    })
}

/// A value as it stands in a text: strings without their quotes.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
