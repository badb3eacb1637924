//! Schemas of messages: what stands in the table, and what other teams read from a broker, can't change in
//! silence.
#![doc = include_str!("../../docs/schema.md")]

pub(crate) mod catalogue;
mod changes;
pub(crate) mod contract;
mod flat;
mod gaps;
pub(crate) mod kinds;
pub(crate) mod lock;
mod patch;
mod sample;

use std::fmt;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use self::patch::patched;
use crate::{Error, Message};

pub use schemars::{self, JsonSchema};

pub use self::{catalogue::Catalogue, changes::Change};

/// The JSON Schema of a message: what is written, and what is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    topic: String,
    version: u32,
    /// Of a payload as it is published.
    writes: Value,
    /// Of a payload as it may be for the message to be made of it: fields with a default may be left out.
    reads: Value,
}

/// Where a file has the topic, the version, and the schema to read by where it is another one.
const TOPIC: &str = "x-outbox-topic";
const VERSION: &str = "x-outbox-version";
const READS: &str = "x-outbox-reads";

impl Schema {
    /// The schema of `M`; `None` of a message with `schema = false`.
    #[must_use]
    pub fn of<M: Message>() -> Option<Self> {
        let settings = SchemaSettings::draft2020_12;
        let schema = |settings: SchemaSettings| {
            let schema = M::json_schema(settings.into_generator())?;
            Some(schema.to_value())
        };
        let (mut writes, mut reads) = (
            schema(settings().for_serialize())?,
            schema(settings().for_deserialize())?,
        );
        sort(&mut writes);
        sort(&mut reads);
        Some(Self {
            topic: M::TOPIC.to_owned(),
            version: M::VERSION,
            writes,
            reads,
        })
    }

    /// The message's topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The version of its shape.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The JSON Schema (draft 2020-12) of what is published.
    #[must_use]
    pub fn writes(&self) -> &Value {
        &self.writes
    }

    /// The JSON Schema of what can be read, in which fields with a default may be left out.
    #[must_use]
    pub fn reads(&self) -> &Value {
        &self.reads
    }

    /// The text of its file: the schema of what is published, and as `x-outbox-reads` in what the schema of what
    /// can be read differs from it, as a merge patch (RFC 7396). The order of the parts is always the same.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut file = self.writes.as_object().cloned().unwrap_or_default();
        file.insert(TOPIC.to_owned(), self.topic.clone().into());
        file.insert(VERSION.to_owned(), self.version.into());
        if self.reads != self.writes {
            file.insert(READS.to_owned(), patch(&self.writes, &self.reads));
        }
        let mut text = String::new();
        write(&mut text, &Value::Object(file), 0);
        text.push('\n');
        text
    }

    /// Reads a file that [`to_json`](Self::to_json) has written.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for a text that is no such file, with what is wrong.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::config(format!("this is no schema of a message: {what}"));
        let file: Value = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        let Value::Object(mut file) = file else {
            return Err(wrong("it is no JSON object"));
        };
        let topic = file.remove(TOPIC);
        let topic = topic.as_ref().and_then(Value::as_str);
        let topic = topic.ok_or_else(|| wrong("`x-outbox-topic` is missing"))?;
        let version = file.remove(VERSION).and_then(|version| version.as_u64());
        let version = version.and_then(|version| u32::try_from(version).ok());
        let version = version.ok_or_else(|| wrong("`x-outbox-version` is missing"))?;
        let patch = file.remove(READS);
        let mut writes = Value::Object(file);
        sort(&mut writes);
        let mut reads = match patch {
            Some(patch @ Value::Object(_)) => patched(writes.clone(), &patch),
            Some(_) => return Err(wrong("`x-outbox-reads` is no JSON object")),
            None => writes.clone(),
        };
        sort(&mut reads);
        Ok(Self {
            topic: topic.to_owned(),
            version,
            writes,
            reads,
        })
    }

    /// What changed from this schema to a newer one, field by field, and whom each change breaks.
    #[must_use]
    pub fn changes(&self, newer: &Self) -> Vec<Change> {
        changes::changes(self, newer)
    }

    /// A payload made up from the schema. Rules that no JSON Schema can tell, such as a message's own
    /// `validate` function, may refuse it.
    #[must_use]
    pub fn sample(&self) -> Value {
        sample::sample(&self.writes)
    }

    fn title(&self) -> &str {
        let title = self.writes.get("title").and_then(Value::as_str);
        title.unwrap_or(&self.topic)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.topic, self.version)
    }
}

/// The merge patch that makes the one of the other. What it can't say, since `null` in it means that something
/// goes, is a default of `null`, which tells nothing of what can be read.
fn patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let gone = from.keys().filter(|key| !to.contains_key(*key));
    let mut parts: Map<_, _> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, to) in to {
        let part = match from.get(key) {
            Some(from) if from == to => continue,
            Some(from) => patch(from, to),
            None => to.clone(),
        };
        parts.insert(key.clone(), part);
    }
    Value::Object(parts)
}

/// Sorts the lists whose order means nothing, and leaves out what a merge patch can't say and nobody misses.
fn sort(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.retain(|keyword, value| keyword != "default" || !value.is_null());
            for (keyword, value) in map {
                match (keyword.as_str(), value) {
                    // Values, in which all has its meaning.
                    ("const" | "default" | "examples", _) => {}
                    ("enum" | "required", Value::Array(names)) => {
                        names.sort_by_key(Value::to_string);
                    }
                    (_, value) => sort(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}

/// What comes first in each part of a file; the rest follows by name.
const ORDER: [&str; 14] = [
    "$schema",
    TOPIC,
    VERSION,
    "title",
    "description",
    "type",
    "format",
    "const",
    "enum",
    "properties",
    "required",
    "items",
    "$defs",
    READS,
];

/// Writes JSON in an order that depends on nothing but the value. Lists of plain values stay on their line.
fn write(text: &mut String, value: &Value, depth: usize) {
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let place = |key: &str| ORDER.iter().position(|known| *known == key);
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_by_key(|key| (place(key).unwrap_or(ORDER.len() - 2), (*key).clone()));
            text.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                line(text, depth + 1);
                text.push_str(&Value::from(key.clone()).to_string());
                text.push_str(": ");
                write(text, &map[key], depth + 1);
            }
            line(text, depth);
            text.push('}');
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                line(text, depth + 1);
                write(text, item, depth + 1);
            }
            line(text, depth);
            text.push(']');
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(Value::to_string).collect();
            text.push_str(&format!("[{}]", items.join(", ")));
        }
        plain => text.push_str(&plain.to_string()),
    }
}
