//! What a message type says of itself: topic, version, key, rules.

use std::{borrow::Cow, fmt};

use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{Publish, decode::Undecodable, version::Lineage};

/// A type that can be published and handled.
///
/// Implemented by [`#[outbox::message]`](macro@crate::message). The functions take no receiver, so
/// that they can't clash with methods of the type itself, such as `garde::Validate::validate`.
///
/// Who implements it by hand implements [`Publish`] beside it, whose `publication` is
/// [`Publication::new(self)`](crate::Publication::new).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox message",
    label = "this type has no topic",
    note = "annotate the type with `#[outbox::message(topic = \"...\")]`, above its derives",
    note = "a handler takes its message first; what else it needs, such as `State` and `Delivery`, stands after it"
)]
pub trait Message: Publish + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Where the message goes: 1 to 255 bytes of lowercase ASCII letters, digits, `-`, `_`, `.`.
    const TOPIC: &'static str;

    /// The version of the payload's shape, 1 and up.
    const VERSION: u32;

    /// The type's path, by which a router tells two messages of one topic apart; empty where it is
    /// not known, as in an impl that the attribute did not write.
    #[doc(hidden)]
    const PATH: &'static str = "";

    /// The earlier versions that this build still reads.
    #[doc(hidden)]
    const EARLIER: Option<&'static Lineage> = None;

    /// The ordering and partition key, if the message has one: at most 1,024 bytes.
    fn key(this: &Self) -> Option<Cow<'_, str>>;

    /// Holds the message against its rules.
    ///
    /// Called at publish, before any SQL, and in the relay, before the handler.
    fn validate(this: &Self) -> Result<(), Invalid>;

    /// The names of the fields that the key is made of; empty without a key.
    #[cfg(feature = "schema")]
    #[doc(hidden)]
    const KEY: &'static str = "";

    /// False for a message of another team's that a program only handles: `role = reader`.
    #[doc(hidden)]
    const IS_PUBLISHED: bool = true;

    /// The JSON Schema that this generator makes of it.
    #[cfg(feature = "schema")]
    #[doc(hidden)]
    fn json_schema(_: schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }

    /// Makes a message of a payload of one of the earlier versions.
    #[doc(hidden)]
    fn from_earlier(version: u32, _payload: &str) -> Result<Self, Undecodable> {
        Err(Undecodable::of_version(version))
    }
}

/// A value that can serve as a message's key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the key of a message",
    label = "not a string, an integer or a `Uuid`",
    note = "name a function that makes the key: `#[outbox(key = path::to_fn)]`, `fn(&Field) -> String`"
)]
pub trait Key {
    /// The key's text; `None` for a message without one.
    fn key(&self) -> Option<Cow<'_, str>>;
}

impl Key for str {
    fn key(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl Key for String {
    fn key(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl Key for Cow<'_, str> {
    fn key(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl<K: Key + ?Sized> Key for &K {
    fn key(&self) -> Option<Cow<'_, str>> {
        (**self).key()
    }
}

impl<K: Key + ?Sized> Key for Box<K> {
    fn key(&self) -> Option<Cow<'_, str>> {
        (**self).key()
    }
}

impl<K: Key> Key for Option<K> {
    fn key(&self) -> Option<Cow<'_, str>> {
        self.as_ref().and_then(Key::key)
    }
}

macro_rules! key_by_display {
    ($($type:ty),*) => {$(
        impl Key for $type {
            fn key(&self) -> Option<Cow<'_, str>> {
                Some(Cow::Owned(self.to_string()))
            }
        }
    )*};
}

key_by_display!(
    i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, Uuid
);

/// What a message's rules found: one entry per broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    fields: Vec<(String, String)>,
}

impl Invalid {
    /// One broken rule. `path` names the field (`lines[2].quantity`); it is empty where the rule
    /// concerns the whole message. Don't put the field's value into `reason`: it is logged and stored.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            fields: vec![(path.into(), reason.into())],
        }
    }

    /// The broken rules as (path of the field, reason).
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields
            .iter()
            .map(|(path, reason)| (path.as_str(), reason.as_str()))
    }

    #[cfg(feature = "garde")]
    pub(crate) fn from_garde(report: &garde::Report) -> Self {
        let fields = report
            .iter()
            .map(|(path, error)| (path.to_string(), error.to_string()));
        Self {
            fields: fields.collect(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (path, reason)) in self.fields().enumerate() {
            if n > 0 {
                f.write_str("; ")?;
            }
            if path.is_empty() {
                f.write_str(reason)?;
            } else {
                write!(f, "`{path}`: {reason}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}
