//! A message that has passed its checks and is ready to be a row.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::de::IgnoredAny;
use serde_json::Value;
use uuid::Uuid;

use crate::{Error, Invalid, Message, error::Kind, lifecycle::LONGEST_DELAY};

/// A checked, serialized message: what the INSERT takes.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) id: Uuid,
    pub(crate) topic: &'static str,
    pub(crate) version: i32,
    pub(crate) key: Option<String>,
    pub(crate) payload: String,
    /// A JSON object of strings, if there are any.
    pub(crate) headers: Option<String>,
    pub(crate) due: Due,
    pub(crate) dedup_key: Option<String>,
    /// There can be no other row like it: its id was made just now, and it has no dedup key.
    pub(crate) fresh: bool,
}

/// When a message may be delivered. The database's clock decides what "now" is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// This long after the INSERT; zero means at once.
    In(Duration),
    /// At this time; one in the past means at once.
    At(SystemTime),
}

/// The longest key and dedup key in bytes. The latter stands in an index, whose entries are limited
/// (in Postgres to about 2,700 bytes), and so will the former once messages are ordered by it.
const LONGEST_KEY: usize = 1024;

impl Due {
    /// Microseconds: after the INSERT, or since the Unix epoch.
    pub(crate) fn micros(self) -> (Option<i64>, Option<i64>) {
        match self {
            Self::In(delay) => (Some(to_micros(delay)), None),
            Self::At(time) => {
                let since = time
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or(Duration::ZERO);
                (None, Some(to_micros(since)))
            }
        }
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        let too_far = match self {
            Self::In(delay) => delay > LONGEST_DELAY,
            Self::At(time) => time
                .duration_since(SystemTime::now())
                .is_ok_and(|delay| delay > LONGEST_DELAY),
        };
        if too_far {
            return Err(Error::config(
                "a message can't be delayed by more than 100 years; give a shorter delay",
            ));
        }
        Ok(())
    }
}

pub(crate) fn to_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// What a publication adds to its message.
#[derive(Debug, Clone)]
pub(crate) struct Addressed {
    pub(crate) id: Option<Uuid>,
    pub(crate) key: Option<String>,
    pub(crate) dedup_key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) due: Due,
}

impl Envelope {
    /// Validates and serializes `message`; sends nothing anywhere.
    pub(crate) fn seal<M: Message>(
        message: &M,
        addressed: Addressed,
        limit: usize,
    ) -> Result<Self, Error> {
        let topic = M::TOPIC;
        let invalid = |invalid| Error::new(Kind::Invalid { topic, invalid });
        if !M::IS_PUBLISHED {
            return Err(Error::config(format!(
                "messages of `{topic}` are only handled here, by `role = reader`, and may lack fields; to publish \
                 them, leave the role out"
            )));
        }
        let (payload, version) = Self::contents(message, limit)?;
        let key = addressed.key.or_else(|| M::key(message).map(Into::into));
        for (what, key) in [("key", &key), ("dedup key", &addressed.dedup_key)] {
            let Some(key) = key else { continue };
            if key.contains('\0') {
                return Err(invalid(nul(what)));
            }
            if key.len() > LONGEST_KEY {
                let reason = format!(
                    "is {} bytes long, at most {LONGEST_KEY} are allowed",
                    key.len()
                );
                return Err(invalid(Invalid::new(what, reason)));
            }
        }
        for (name, value) in &addressed.headers {
            if name.contains('\0') || value.contains('\0') {
                return Err(invalid(nul(&format!(
                    "header {}",
                    name.replace('\0', "\u{fffd}")
                ))));
            }
        }
        addressed.due.check()?;

        let headers = &addressed.headers;
        let headers = (!headers.is_empty())
            .then(|| serde_json::to_string(headers))
            .transpose()
            .map_err(|source| Error::new(Kind::Serialize { topic, source }))?;
        Ok(Self {
            fresh: addressed.id.is_none() && addressed.dedup_key.is_none(),
            id: addressed.id.unwrap_or_else(Uuid::now_v7),
            topic,
            version,
            key,
            payload,
            headers,
            due: addressed.due,
            dedup_key: addressed.dedup_key,
        })
    }

    /// How long its texts are together.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.key, &self.headers, &self.dedup_key];
        let others = texts.into_iter().flatten().map(String::len);
        self.payload.len() + others.sum::<usize>()
    }

    /// The payload of a message that keeps its rules, and the payload's version.
    pub(crate) fn contents<M: Message>(message: &M, limit: usize) -> Result<(String, i32), Error> {
        let topic = M::TOPIC;
        let invalid = |invalid| Error::new(Kind::Invalid { topic, invalid });
        M::validate(message).map_err(invalid)?;

        let payload = serde_json::to_string(message)
            .map_err(|source| Error::new(Kind::Serialize { topic, source }))?;
        if payload.len() > limit {
            return Err(Error::new(Kind::TooLarge {
                topic,
                bytes: payload.len(),
                limit,
            }));
        }
        if holds_nul(&payload) {
            return Err(invalid(nul(&path_of_nul(&payload))));
        }
        let version = i32::try_from(M::VERSION).map_err(|_| {
            Error::config(format!(
                "version {} of topic `{topic}` is too large",
                M::VERSION
            ))
        })?;
        Ok((payload, version))
    }
}

/// Whether a text can be a payload; if not, why.
pub(crate) fn check_json(json: &str, limit: usize) -> Result<(), String> {
    if json.len() > limit {
        return Err(format!("has {} bytes, the limit is {limit}", json.len()));
    }
    // serde's text has the line and the column, and quotes nothing.
    serde_json::from_str::<IgnoredAny>(json).map_err(|error| format!("is not JSON: {error}"))?;
    if holds_nul(json) {
        return Err(NUL.to_owned());
    }
    Ok(())
}

const NUL: &str =
    "contains the character U+0000, which Postgres can't store; remove it or encode it";

fn nul(path: &str) -> Invalid {
    Invalid::new(path, NUL)
}

/// Whether serialized JSON holds an escaped U+0000 (JSON has no unescaped one).
fn holds_nul(json: &str) -> bool {
    let mut rest = json.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let escape = &rest[at + 1..];
        if escape.starts_with(b"u0000") {
            return true;
        }
        rest = escape.get(1..).unwrap_or_default();
    }
    false
}

/// The path of the first string that holds U+0000; only computed for the error.
fn path_of_nul(json: &str) -> String {
    fn find(value: &Value, path: &mut Vec<String>) -> bool {
        let found = |step: String, holds: bool, value: &Value, path: &mut Vec<String>| {
            path.push(step);
            if holds || find(value, path) {
                return true;
            }
            path.pop();
            false
        };
        match value {
            Value::String(text) => text.contains('\0'),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .any(|(n, item)| found(format!("[{n}]"), false, item, path)),
            Value::Object(fields) => fields.iter().any(|(name, field)| {
                found(
                    name.replace('\0', "\u{fffd}"),
                    name.contains('\0'),
                    field,
                    path,
                )
            }),
            _ => false,
        }
    }
    let mut path = Vec::new();
    if let Ok(value) = serde_json::from_str(json) {
        find(&value, &mut path);
    }
    path.join(".").replace(".[", "[")
}
