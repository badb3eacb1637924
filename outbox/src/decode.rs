//! From a row's payload back to a message, with the path of whatever is wrong.

use std::fmt;

use serde_json::error::Category;
use serde_path_to_error::Segment;

use crate::Message;

/// Why a payload is not a message of its type. Its text names fields and types; of the payload's own
/// content only a map's keys that look like a field's name can stand in the path, and what the type's
/// own `Deserialize` says.
#[derive(Debug)]
pub struct Undecodable(String);

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Undecodable {
    pub(crate) fn of_version(version: u32) -> Self {
        Self(format!(
            "the payload is of version {version}, which this build can't read"
        ))
    }
}

/// Decodes a payload of this version, or an earlier one, and validates it. The rules run again here, since a
/// row can come from an older build or from plain SQL; those of an earlier version run before it is lifted.
pub(crate) fn decode<M: Message>(version: u32, payload: &str) -> Result<M, Undecodable> {
    let message: M = if version == M::VERSION {
        // To keep the path of each field at hand costs more than the decoding: it is asked for only when needed.
        serde_json::from_str(payload).or_else(|_| decode_with_path(payload))?
    } else {
        M::from_earlier(version, payload)?
    };
    M::validate(&message).map_err(|invalid| {
        Undecodable(if version == M::VERSION {
            format!("payload is invalid: {invalid}")
        } else {
            format!(
                "payload of version {version} is invalid as version {}: {invalid}",
                M::VERSION
            )
        })
    })?;
    Ok(message)
}

fn decode_with_path<M: Message>(payload: &str) -> Result<M, Undecodable> {
    let mut deserializer = serde_json::Deserializer::from_str(payload);
    let message = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let reason = reason(error.inner());
        match path(error.path()).as_str() {
            "" => Undecodable(format!("payload can't be decoded: {reason}")),
            path => Undecodable(format!("payload can't be decoded: `{path}`: {reason}")),
        }
    })?;
    // More than one value is no message.
    deserializer
        .end()
        .map_err(|error| Undecodable(format!("payload can't be decoded: {}", reason(&error))))?;
    Ok(message)
}

/// The path of what is wrong. A field's name and a map's key look alike here, so that whatever could
/// not be the name of a field is left out.
fn path(path: &serde_path_to_error::Path) -> String {
    let mut text = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                if !text.is_empty() {
                    text.push('.');
                }
                let is_name = name.len() <= 64
                    && !name.starts_with(|c: char| c.is_ascii_digit())
                    && name
                        .chars()
                        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
                text.push_str(if is_name { name } else { "*" });
            }
            Segment::Unknown => text.push('?'),
        }
    }
    text
}

/// serde quotes the value it stumbled over (`invalid type: string "4111…", expected u64`). A
/// payload must not reach a log or the error column, so what was found is left out.
fn reason(error: &serde_json::Error) -> String {
    if error.classify() != Category::Data {
        return "not valid JSON".to_owned();
    }
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text);
    match text.split_once([':', ' ']).map(|(first, _)| first) {
        // "missing field `x`", "duplicate field `x`": names of the type's own fields.
        Some("missing" | "duplicate") => text.to_owned(),
        // The quoted value may itself contain anything, ", expected " included: the last one is serde's.
        Some("invalid") => match text.rsplit_once(", expected ") {
            Some((_, expected)) => format!("expected {expected}"),
            None => "invalid value".to_owned(),
        },
        Some("unknown") if text.contains("there are no ") => "unknown name".to_owned(),
        Some("unknown") => match text.rsplit_once(", expected ") {
            Some((_, expected)) => format!("unknown name, expected {expected}"),
            None => "unknown name".to_owned(),
        },
        // A text of the type's own `Deserialize`; what it says is its author's choice.
        _ => text.to_owned(),
    }
}
