//! The AsyncAPI document.

use serde_json::{Map, Value, json};

use super::{Catalogue, Listed};

pub(super) fn document(catalogue: &Catalogue) -> Value {
    let mut channels = Map::new();
    let mut operations = Map::new();
    let mut messages = Map::new();
    let mut schemas = Map::new();
    for listed in &catalogue.listed {
        let (topic, name) = (listed.message.topic, listed.name());
        let channel = channels
            .entry(topic)
            .or_insert_with(|| json!({ "address": topic, "messages": {} }));
        channel["messages"][&name] = json!({ "$ref": format!("#/components/messages/{name}") });
        messages.insert(name, message(listed, &mut schemas));
        for (id, operation) in operations_of(listed) {
            operations.insert(id, operation);
        }
    }
    json!({
        "asyncapi": "3.0.0",
        "info": { "title": catalogue.title, "version": catalogue.version },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": { "messages": messages, "schemas": schemas },
    })
}

fn operations_of(listed: &Listed) -> Vec<(String, Value)> {
    let (topic, name) = (listed.message.topic, listed.name());
    let operation = |action: &str, summary: String| {
        json!({
            "action": action,
            "summary": summary,
            "channel": { "$ref": format!("#/channels/{topic}") },
            "messages": [{ "$ref": format!("#/channels/{topic}/messages/{name}") }],
        })
    };
    let mut operations = Vec::new();
    if listed.published {
        let summary = format!("publishes `{}`", listed.title());
        operations.push((format!("publish.{name}"), operation("send", summary)));
    }
    for handler in &listed.handlers {
        let summary = format!("`{}` is handled by `{handler}`", listed.title());
        operations.push((
            format!("handle.{name}.{handler}"),
            operation("receive", summary),
        ));
    }
    operations
}

fn message(listed: &Listed, schemas: &mut Map<String, Value>) -> Value {
    let mut message = json!({
        "name": listed.name(),
        "title": listed.title(),
        "x-outbox-version": listed.message.version,
    });
    if !listed.message.key.is_empty() {
        message["x-outbox-key"] = listed.message.key.into();
    }
    if let Some(mut payload) = listed.draft_7() {
        hoist(listed, &mut payload, schemas);
        if let Some(description) = payload.get("description").cloned() {
            message["description"] = description;
        }
        message["payload"] = payload;
    }
    if let Some(schema) = (listed.message.schema)() {
        message["examples"] = json!([{ "payload": schema.sample() }]);
    }
    message
}

/// Moves the definitions of a schema to where the whole document has them: in it, `#` is the document.
fn hoist(listed: &Listed, payload: &mut Value, schemas: &mut Map<String, Value>) {
    let prefix = listed.name();
    let Some(payload) = payload.as_object_mut() else {
        return;
    };
    payload.remove("$schema");
    let definitions = payload.remove("definitions");
    for field in payload.values_mut() {
        point(field, &prefix);
    }
    if let Some(Value::Object(definitions)) = definitions {
        for (name, mut schema) in definitions {
            point(&mut schema, &prefix);
            schemas.insert(format!("{prefix}.{}", plain(&name)), schema);
        }
    }
    if let Some(Value::String(target)) = payload.get_mut("$ref") {
        redirect(target, &prefix);
    }
}

/// Has all references point to where the definitions are now.
fn point(schema: &mut Value, prefix: &str) {
    match schema {
        Value::Object(map) => {
            for (keyword, value) in map {
                match value {
                    Value::String(target) if keyword == "$ref" => redirect(target, prefix),
                    other => point(other, prefix),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point(item, prefix)),
        _ => {}
    }
}

fn redirect(target: &mut String, prefix: &str) {
    if let Some(name) = target.strip_prefix("#/definitions/") {
        *target = format!("#/components/schemas/{prefix}.{}", plain(name));
    } else if target == "#" {
        // A message that contains itself.
        *target = format!("#/components/messages/{prefix}/payload");
    }
}

/// A name of the letters that AsyncAPI takes for one.
fn plain(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') => c,
        _ => '_',
    };
    name.chars().map(plain).collect()
}
