//! What a router promises, checked while it compiles.
//!
//! Everything here runs in `const _` items of the expansion of [`router!`](crate::router!). Topics
//! are compared by a hash first and found by open addressing: comparing the texts of some hundred
//! topics pairwise takes so long that the compiler refuses it.

use crate::{Message, Router, handler::Handler, topic};

/// What the checks know of a handler; free of the state's type.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    pub(crate) topic: &'static str,
    pub(crate) version: u32,
    /// The message's path; see [`Message::PATH`].
    pub(crate) message: &'static str,
    pub(crate) name: &'static str,
    /// Where it stands, as `file:line`.
    pub(crate) at: &'static str,
}

/// The message a handler takes. The type that implements it is as private as the message may be.
pub trait Payload {
    /// The message.
    type Message: Message;
}

impl Promise {
    /// The promise of a handler of `P`'s message.
    #[must_use]
    pub const fn of<P: Payload>(name: &'static str, at: &'static str) -> Self {
        let (topic, version) = (
            <P::Message as Message>::TOPIC,
            <P::Message as Message>::VERSION,
        );
        Self {
            topic,
            version,
            message: <P::Message as Message>::PATH,
            name,
            at,
        }
    }

    /// The promise of a handler that did not compile. Its topic is one that no message has.
    #[must_use]
    pub const fn unknown(name: &'static str, topic: &'static str) -> Self {
        Self {
            topic,
            version: 1,
            message: "",
            name,
            at: "",
        }
    }
}

/// A message that a router has to have a handler for.
#[derive(Debug, Clone, Copy)]
pub struct Required {
    topic: &'static str,
    path: &'static str,
}

impl Required {
    /// The message `M`.
    #[must_use]
    pub const fn of<M: Message>() -> Self {
        Self {
            topic: M::TOPIC,
            path: M::PATH,
        }
    }
}

/// One entry of a router, or all of a router that it joins.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its place in the list, those left out by `#[cfg]` counted.
    place: usize,
    promises: Promises,
}

#[derive(Debug, Clone, Copy)]
enum Promises {
    One(Promise),
    Many(&'static [Promise]),
}

impl Part {
    /// The handler at this place.
    #[must_use]
    pub const fn handler(place: usize, promise: Promise) -> Self {
        Self {
            place,
            promises: Promises::One(promise),
        }
    }

    /// The router joined at this place.
    #[must_use]
    pub const fn joined<S>(place: usize, router: &'static Router<S>) -> Self {
        Self {
            place,
            promises: Promises::Many(router.promises),
        }
    }

    const fn promises(&self) -> &[Promise] {
        match &self.promises {
            Promises::One(promise) => std::slice::from_ref(promise),
            Promises::Many(promises) => promises,
        }
    }
}

/// How many handlers the parts have together.
#[must_use]
pub const fn count(parts: &[Part]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < parts.len() {
        count += parts[at].promises().len();
        at += 1;
    }
    count
}

/// All promises of all parts; `N` is their [`count`].
#[must_use]
pub const fn flatten<const N: usize>(parts: &[Part]) -> [Promise; N] {
    let mut all = [Promise::unknown("", ""); N];
    let (mut filled, mut at) = (0, 0);
    while at < parts.len() {
        let promises = parts[at].promises();
        let mut n = 0;
        while n < promises.len() {
            all[filled] = promises[n];
            filled += 1;
            n += 1;
        }
        at += 1;
    }
    all
}

/// How many slots a table of these parts needs: at least one is always free, so that a search ends.
#[must_use]
pub const fn slots(parts: &[Part]) -> usize {
    (count(parts) * 2 + 1).next_power_of_two()
}

/// Which handler serves which topic: a hash table with `N` slots, filled in the order of the parts.
#[derive(Debug)]
pub struct Table<const N: usize> {
    slots: [Option<Slot>; N],
    parts: &'static [Part],
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    key: u64,
    place: usize,
    /// Its number within its part.
    number: usize,
    promise: Promise,
}

impl<const N: usize> Table<N> {
    /// The table of these parts. Of two handlers for one topic the first is kept.
    #[must_use]
    pub const fn new(parts: &'static [Part]) -> Self {
        let mut slots = [None; N];
        let mut at = 0;
        while at < parts.len() {
            let promises = parts[at].promises();
            let mut number = 0;
            while number < promises.len() {
                let promise = promises[number];
                let key = key(promise.topic);
                let slot = find(&slots, key, promise.topic);
                if slots[slot].is_none() {
                    slots[slot] = Some(Slot {
                        key,
                        place: parts[at].place,
                        number,
                        promise,
                    });
                }
                number += 1;
            }
            at += 1;
        }
        Self { slots, parts }
    }

    /// Panics if a handler of the part at `place` serves a topic that has a handler already.
    #[track_caller]
    pub const fn check(&self, place: usize) {
        // No part stands later than its place, and earlier only by what `#[cfg]` left out.
        let mut at = if place < self.parts.len() {
            place
        } else {
            self.parts.len() - 1
        };
        while self.parts[at].place > place {
            at -= 1;
        }
        let promises = self.parts[at].promises();
        let mut number = 0;
        while number < promises.len() {
            let second = promises[number];
            if let Some(first) = self.get(second.topic)
                && !(first.place == place && first.number == number)
            {
                Text::new()
                    .and("topic \"")
                    .and(second.topic)
                    .and("\" already has a handler\n  first:  ")
                    .and_handler(first.promise)
                    .and("\n  second: ")
                    .and_handler(second)
                    .and_advice(first.promise, second)
                    .panic();
            }
            number += 1;
        }
    }

    /// Panics if no handler serves this topic, which is that of `message`; or one that takes another
    /// message of the same topic.
    #[track_caller]
    pub const fn require(&self, required: Required, message: &str) {
        let Some(Slot { promise, .. }) = self.get(required.topic) else {
            // A handler that did not compile may be the one; its own error is enough.
            if self.has_unknown() {
                return;
            }
            Text::new()
                .and("no handler for topic \"")
                .and(required.topic)
                .and("\" (message `")
                .and(message)
                .and("`) in this router")
                .panic();
        };
        let known = !promise.message.is_empty() && !required.path.is_empty();
        // If a handler of the message is there as well, the topic has two, which has been reported.
        if known && !same(promise.message, required.path) && !self.takes(required.path) {
            Text::new()
                .and("topic \"")
                .and(required.topic)
                .and("\" is served by ")
                .and_handler(promise)
                .and("\nwhich takes `")
                .and(promise.message)
                .and("`, not `")
                .and(required.path)
                .and("`; give each message a topic of its own")
                .panic();
        }
    }

    const fn has_unknown(&self) -> bool {
        self.takes("")
    }

    /// Whether one of the handlers takes the message of this path; those that did not compile have none.
    const fn takes(&self, message: &str) -> bool {
        let mut at = 0;
        while at < self.parts.len() {
            let promises = self.parts[at].promises();
            let mut number = 0;
            while number < promises.len() {
                if same(promises[number].message, message) {
                    return true;
                }
                number += 1;
            }
            at += 1;
        }
        false
    }

    const fn get(&self, topic: &str) -> Option<Slot> {
        self.slots[find(&self.slots, key(topic), topic)]
    }
}

/// The slot of this topic, or the free one where it belongs.
const fn find<const N: usize>(slots: &[Option<Slot>; N], key: u64, topic: &str) -> usize {
    let mut at = (key % N as u64) as usize;
    while let Some(slot) = &slots[at] {
        if slot.key == key && same(slot.promise.topic, topic) {
            break;
        }
        at = (at + 1) % N;
    }
    at
}

/// FNV-1a.
const fn key(topic: &str) -> u64 {
    let bytes = topic.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Panics unless the handler's topic is the one that its attribute declares.
#[track_caller]
pub const fn declared<H: Handler>(message: &str, topic: &str) {
    let promise = H::PROMISE;
    if !same(promise.topic, topic) {
        Text::new()
            .and("handler `")
            .and(promise.name)
            .and("` is declared for topic \"")
            .and(topic)
            .and("\"\nbut its message `")
            .and(message)
            .and("` has topic \"")
            .and(promise.topic)
            .and("\"")
            .panic();
    }
}

/// Panics unless the message's topic is one. A literal is checked by the macro; this is for constants.
#[track_caller]
pub const fn well_formed<M: Message>() {
    let topic = M::TOPIC;
    let wrong = match topic::check(topic) {
        Ok(()) => return,
        Err(topic::Malformed::Empty) => Text::new().and("empty topic"),
        Err(topic::Malformed::TooLong(bytes)) => Text::new()
            .and("topic of ")
            .and_number(bytes)
            .and(" bytes, at most 255 are allowed"),
        Err(topic::Malformed::Character(at)) => Text::new()
            .and("invalid character '")
            .and_character(topic, at)
            .and("' at byte ")
            .and_number(at)
            .and(" in topic \"")
            .and(topic)
            .and("\""),
    };
    wrong
        .and("; topics are lowercase ASCII letters, digits, `-`, `_` and `.`")
        .panic()
}

/// A text put together in a `const`.
struct Text {
    bytes: [u8; Self::CAPACITY],
    length: usize,
}

impl Text {
    /// Enough for two topics and two places; what is longer is cut.
    const CAPACITY: usize = 2048;

    const fn new() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            length: 0,
        }
    }

    const fn and(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() && self.length < Self::CAPACITY {
            self.bytes[self.length] = bytes[at];
            self.length += 1;
            at += 1;
        }
        self
    }

    /// The character that starts at this byte.
    const fn and_character(self, text: &str, at: usize) -> Self {
        let mut end = at + 1;
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let (text, _) = text.split_at(end);
        let (_, character) = text.split_at(at);
        self.and(character)
    }

    const fn and_number(self, number: usize) -> Self {
        const DIGITS: &str = "0123456789";
        let rest = if number < 10 {
            self
        } else {
            self.and_number(number / 10)
        };
        rest.and_character(DIGITS, number % 10)
    }

    const fn and_advice(self, first: Promise, second: Promise) -> Self {
        if same(first.name, second.name)
            && same(first.at, second.at)
            && same(first.message, second.message)
        {
            return self.and(
                "\nboth are the same handler, by two ways into this router: list it, or join its router",
            );
        }
        let known = !first.message.is_empty() && !second.message.is_empty();
        if known && !same(first.message, second.message) {
            return self
                .and("\nthey take different messages, `")
                .and(first.message)
                .and("` and `")
                .and(second.message)
                .and("`: give each a topic of its own");
        }
        self
    }

    const fn and_handler(self, promise: Promise) -> Self {
        self.and("`").and(promise.name).and("` at ").and(promise.at)
    }

    #[track_caller]
    const fn panic(&self) -> ! {
        let (text, _) = self.bytes.split_at(self.length);
        match std::str::from_utf8(text) {
            Ok(text) => panic!("{}", text),
            // Only a text that was cut within a character.
            Err(_) => panic!("a promise of this router is broken"),
        }
    }
}
