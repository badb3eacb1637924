//! The grammar of topics: lowercase ASCII letters, digits, `-`, `_` and `.`, 1 to 255 bytes.
//!
//! This file is compiled into both crates (`outbox/src/topic.rs` links here), so that a topic
//! written as a literal, which the macro checks, and one given as a constant's path, which a
//! `const fn` checks, can't drift apart.

/// The longest topic, in bytes.
pub(crate) const MAX_TOPIC: usize = 255;

/// Why a text is not a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Empty,
    /// Its length in bytes.
    TooLong(usize),
    /// The first offending byte's position.
    Character(usize),
}

/// Checks a topic against the grammar.
pub(crate) const fn check(topic: &str) -> Result<(), Malformed> {
    let bytes = topic.as_bytes();
    if bytes.is_empty() {
        return Err(Malformed::Empty);
    }
    if bytes.len() > MAX_TOPIC {
        return Err(Malformed::TooLong(bytes.len()));
    }
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => at += 1,
            _ => return Err(Malformed::Character(at)),
        }
    }
    Ok(())
}
