//! How the schema by which a message is read differs from the one by which it is written.
//!
//! This file is compiled into both crates (`outbox/src/schema/patch.rs` links here): the library writes such a
//! patch into a file, and the macro reads it.
//!
//! A merge patch as in RFC 7396: what is an object is patched part by part, anything else takes the place of
//! what was there, and `null` takes it away.

use serde_json::{Map, Value};

/// The patched value.
pub(crate) fn patched(mut value: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    if !value.is_object() {
        value = Value::Object(Map::new());
    }
    if let Value::Object(map) = &mut value {
        for (key, part) in patch {
            if part.is_null() {
                map.remove(key);
                continue;
            }
            let old = map.remove(key).unwrap_or(Value::Null);
            map.insert(key.clone(), patched(old, part));
        }
    }
    value
}
