//! The page for people.

use serde_json::Value;

use super::{Catalogue, Listed};
use crate::schema::{
    flat::{Flat, flat, name_of, properties, requires},
    gaps::{below, is_word},
    write,
};

/// How deep a type that contains itself is followed.
const DEEPEST: usize = 6;

pub(super) fn page(catalogue: &Catalogue) -> String {
    let mut page = format!("# {}, version {}\n", catalogue.title, catalogue.version);
    for listed in &catalogue.listed {
        page.push_str(&section(listed));
    }
    page
}

fn section(listed: &Listed) -> String {
    let message = &listed.message;
    let mut text = format!(
        "\n## {}, version {}: `{}`\n\n",
        message.topic,
        message.version,
        listed.title()
    );
    let schema = (message.schema)();
    let description = schema
        .as_ref()
        .and_then(|schema| schema.writes().get("description"));
    if let Some(description) = description.and_then(Value::as_str) {
        text.push_str(&format!("{description}\n\n"));
    }
    let handlers: Vec<_> = listed
        .handlers
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let mut facts = Vec::new();
    if !message.key.is_empty() {
        facts.push(format!("key: `{}`", message.key));
    }
    if listed.published {
        facts.push("published by this service".to_owned());
    }
    if !handlers.is_empty() {
        facts.push(format!("handled by {}", handlers.join(", ")));
    }
    if message.oldest < message.version {
        facts.push(format!(
            "stored messages are read from version {} on",
            message.oldest
        ));
    }
    for fact in facts {
        text.push_str(&format!("* {fact}\n"));
    }
    let Some(schema) = schema else {
        text.push_str("\nIts schema is not known.\n");
        return text;
    };
    let mut rows = Vec::new();
    for alternative in flat(schema.writes(), schema.writes()) {
        rows.extend(fields(&alternative, schema.writes(), "", 0));
    }
    if !rows.is_empty() {
        text.push_str("\n| field | type | rules | |\n|---|---|---|---|\n");
        text.push_str(&rows.concat());
    }
    let mut sample = String::new();
    write(&mut sample, &schema.sample(), 0);
    text.push_str(&format!("\n```json\n{sample}\n```\n"));
    text
}

/// A row for each field, and for those within it.
fn fields(schema: &Flat, root: &Value, path: &str, depth: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for (name, field) in properties(schema) {
        let at = below(path, name);
        let alternatives = flat(field, root);
        let mut kinds: Vec<_> = alternatives.iter().map(|one| name_of(one, root)).collect();
        kinds.dedup();
        let mut rules: Vec<_> = alternatives.iter().flat_map(rules).collect();
        if !requires(schema, name) {
            rules.insert(0, "may be left out".to_owned());
        }
        let described = |one: &Flat| one.get("description")?.as_str().map(str::to_owned);
        let description = alternatives.iter().find_map(described).unwrap_or_default();
        rows.push(format!(
            "| `{at}` | {} | {} | {} |\n",
            cell(&kinds.join(" or ")),
            cell(&rules.join(", ")),
            cell(&description)
        ));
        for one in &alternatives {
            rows.extend(within(one, root, &at, depth + 1));
        }
    }
    rows
}

/// The fields of what a field holds.
fn within(schema: &Flat, root: &Value, path: &str, depth: usize) -> Vec<String> {
    if depth > DEEPEST {
        return Vec::new();
    }
    let mut rows = fields(schema, root, path, depth);
    for (keyword, at) in [("items", "[]"), ("additionalProperties", ".*")] {
        for each in schema
            .get(keyword)
            .map(|each| flat(each, root))
            .unwrap_or_default()
        {
            rows.extend(within(&each, root, &format!("{path}{at}"), depth + 1));
        }
    }
    rows
}

/// What a field's value has to keep.
fn rules(schema: &Flat) -> Vec<String> {
    const TOLD: &[&str] = &[
        "additionalProperties",
        "const",
        "enum",
        "format",
        "items",
        "patternProperties",
        "prefixItems",
        "properties",
        "required",
        "type",
        "unevaluatedProperties",
    ];
    let told = |keyword: &str| TOLD.contains(&keyword) || is_word(keyword);
    schema
        .iter()
        .filter(|(keyword, _)| !told(keyword))
        .map(|(keyword, asked)| format!("{keyword} {asked}"))
        .collect()
}

/// A text that does not end its cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
