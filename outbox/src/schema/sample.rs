//! A payload made up from a schema.

use serde_json::{Map, Value, json};

use super::flat::{Flat, flat, properties, requires, type_of, values};

/// How deep a type that contains itself is followed.
const DEEPEST: u32 = 6;

pub(super) fn sample(schema: &Value) -> Value {
    one(schema, schema, 0)
}

fn one(schema: &Value, root: &Value, depth: u32) -> Value {
    let alternatives = flat(schema, root);
    // Something rather than nothing, unless the end has to be found.
    let is_null = |one: &&Flat| type_of(one) == Some("null");
    let chosen = if depth < DEEPEST {
        alternatives.iter().find(|one| !is_null(one))
    } else {
        alternatives.iter().find(is_null)
    };
    match chosen.or(alternatives.first()) {
        Some(one) => of(one, root, depth),
        None => Value::Null,
    }
}

fn of(schema: &Flat, root: &Value, depth: u32) -> Value {
    if let Some(value) = values(schema).and_then(|values| values.first().copied()) {
        return value.clone();
    }
    match type_of(schema) {
        Some("boolean") => Value::Bool(true),
        Some("integer") => integer(schema),
        Some("number") => number(schema),
        Some("string") => text(schema).into(),
        Some("array") => items(schema, root, depth),
        Some("object") => fields(schema, root, depth),
        _ => Value::Null,
    }
}

fn bound(schema: &Flat, keyword: &str) -> Option<f64> {
    schema.get(keyword).and_then(Value::as_f64)
}

fn size(schema: &Flat, keyword: &str) -> Option<usize> {
    let size = schema.get(keyword).and_then(Value::as_u64)?;
    usize::try_from(size).ok()
}

fn integer(schema: &Flat) -> Value {
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
    let least = number("minimum").or_else(|| Some(number("exclusiveMinimum")?.saturating_add(1)));
    let most = number("maximum").or_else(|| Some(number("exclusiveMaximum")?.saturating_sub(1)));
    let step = number("multipleOf").unwrap_or(1).max(1);
    let wanted = 42_i64
        .min(most.unwrap_or(i64::MAX))
        .max(least.unwrap_or(i64::MIN));
    let below = wanted - wanted.rem_euclid(step);
    let kept = below >= least.unwrap_or(i64::MIN);
    Value::from(if kept {
        below
    } else {
        below.saturating_add(step)
    })
}

fn number(schema: &Flat) -> Value {
    let least = bound(schema, "minimum").or_else(|| Some(bound(schema, "exclusiveMinimum")? + 0.5));
    let most = bound(schema, "maximum").or_else(|| Some(bound(schema, "exclusiveMaximum")? - 0.5));
    let number = 1.5_f64
        .min(most.unwrap_or(f64::MAX))
        .max(least.unwrap_or(f64::MIN));
    json!(number)
}

fn text(schema: &Flat) -> String {
    let format = schema.get("format").and_then(Value::as_str);
    let known = match format {
        Some("uuid") => "018f6f0e-7b5c-7cc1-9d5c-2f6a1e0b4c3d",
        Some("date-time") => "2024-02-29T12:30:00Z",
        Some("partial-date-time") => "2024-02-29T12:30:00",
        Some("date") => "2024-02-29",
        Some("time") => "12:30:00Z",
        Some("partial-time") => "12:30:00",
        Some("duration") => "PT1H30M",
        Some("email") => "somebody@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("ip" | "ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let (least, most) = (size(schema, "minLength"), size(schema, "maxLength"));
    let mut text = "text".to_owned();
    while text.len() < least.unwrap_or(0) {
        text.push('x');
    }
    text.truncate(most.unwrap_or(text.len()));
    text
}

fn items(schema: &Flat, root: &Value, depth: u32) -> Value {
    let first = schema.get("prefixItems").and_then(Value::as_array);
    let mut items: Vec<_> = first
        .into_iter()
        .flatten()
        .map(|item| one(item, root, depth + 1))
        .collect();
    if let Some(each) = schema.get("items").filter(|each| **each != false) {
        let least = size(schema, "minItems").unwrap_or(0);
        let wanted = if depth < DEEPEST { 1 } else { 0 };
        let wanted = wanted.min(size(schema, "maxItems").unwrap_or(wanted));
        while items.len() < least.max(wanted) {
            items.push(one(each, root, depth + 1));
        }
    }
    Value::Array(items)
}

fn fields(schema: &Flat, root: &Value, depth: u32) -> Value {
    let mut fields = Map::new();
    for (name, field) in properties(schema) {
        if depth < DEEPEST || requires(schema, name) {
            fields.insert(name.clone(), one(field, root, depth + 1));
        }
    }
    if fields.is_empty()
        && depth < DEEPEST
        && let Some(each) = schema
            .get("additionalProperties")
            .filter(|each| each.is_object())
    {
        fields.insert("key".to_owned(), one(each, root, depth + 1));
    }
    Value::Object(fields)
}
