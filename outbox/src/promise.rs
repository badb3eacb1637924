//! What a router promises, checked while it compiles.
//!
//! Everything here runs in `const _` items of the expansion of [`router!`](crate::router!). Topics
//! are compared by a hash first and found by open addressing: comparing the texts of some hundred
//! topics pairwise takes so long that the compiler refuses it.

#[cfg(feature = "schema")]
use crate::schema::catalogue::Described;
use crate::{
    Message, Router,
    handler::Handler,
    text::Text,
    topic,
    version::{Lineage, Successor},
};

/// What the checks know of a handler; free of the state's type.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    pub(crate) topic: &'static str,
    /// The message, and the earlier versions of it.
    pub(crate) lineage: Lineage,
    pub(crate) name: &'static str,
    /// Where it stands, as `file:line`.
    pub(crate) at: &'static str,
    /// The message's schema, for a catalogue.
    #[cfg(feature = "schema")]
    pub(crate) described: Option<Described>,
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
        Self {
            topic: <P::Message as Message>::TOPIC,
            lineage: Lineage::of::<P::Message>(),
            name,
            at,
            #[cfg(feature = "schema")]
            described: Some(Described::of::<P::Message>()),
        }
    }

    /// The promise of a handler that did not compile. Its topic is one that no message has.
    #[must_use]
    pub const fn unknown(name: &'static str, topic: &'static str) -> Self {
        Self {
            topic,
            lineage: Lineage::unknown(),
            name,
            at: "",
            #[cfg(feature = "schema")]
            described: None,
        }
    }

    /// The path of its message; empty if that is not known.
    const fn message(&self) -> &'static str {
        self.lineage.path
    }
}

/// A message that a router has to have a handler for.
#[derive(Debug, Clone, Copy)]
pub struct Required {
    topic: &'static str,
    version: u32,
    path: &'static str,
}

impl Required {
    /// The message `M`.
    #[must_use]
    pub const fn of<M: Message>() -> Self {
        Self {
            topic: M::TOPIC,
            version: M::VERSION,
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
        if promise.message().is_empty() || required.path.is_empty() {
            return;
        }
        let served = promise.lineage.path_of(required.version);
        if let Some(path) = served
            && same(path, required.path)
        {
            return;
        }
        // If a handler of the message is there as well, the topic has two, which has been reported.
        if self.takes(required.path) {
            return;
        }
        let text = Text::new()
            .and("topic \"")
            .and(required.topic)
            .and("\" is served by ")
            .and_handler(promise)
            .and("\nwhich takes `")
            .and(promise.message())
            .and("`");
        let Some(path) = served else {
            let repair = if required.version > promise.lineage.version {
                "have it take that one"
            } else {
                "name that one by `from`"
            };
            text.and(" and can't read version ")
                .and_number(required.version as usize)
                .and(", `")
                .and(required.path)
                .and("`; ")
                .and(repair)
                .panic();
        };
        if required.version != promise.lineage.version {
            text.and(" and, as version ")
                .and_number(required.version as usize)
                .and(", `")
                .and(path)
                .and("`, not `")
                .and(required.path)
                .and("`; each version of a topic is one message")
                .panic();
        }
        text.and(", not `")
            .and(required.path)
            .and("`; give each message a topic of its own")
            .panic();
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
                if same(promises[number].message(), message) {
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

/// Panics unless the message that `M` names by `from` is the previous version of the same topic.
#[track_caller]
pub const fn succeeds<M: Successor>(earlier: &str) {
    let (topic, of_earlier) = (M::TOPIC, <M::Earlier as Message>::TOPIC);
    if !same(topic, of_earlier) {
        Text::new()
            .and("`")
            .and(earlier)
            .and("` has topic \"")
            .and(of_earlier)
            .and("\", not \"")
            .and(topic)
            .and("\"; `from` names the previous version of the same topic")
            .panic();
    }
    let (version, of_earlier) = (
        M::VERSION as usize,
        <M::Earlier as Message>::VERSION as usize,
    );
    if of_earlier >= version {
        Text::new()
            .and("`")
            .and(earlier)
            .and("` is version ")
            .and_number(of_earlier)
            .and(", and this is version ")
            .and_number(version)
            .and("; `from` names the previous version")
            .panic();
    }
    if of_earlier + 1 < version {
        Text::new()
            .and("`")
            .and(earlier)
            .and("` is version ")
            .and_number(of_earlier)
            .and(": stored messages of version ")
            .and_number(of_earlier + 1)
            .and(" could not be read; name version ")
            .and_number(version - 1)
            .and(", which in turn comes from an earlier one")
            .panic();
    }
}

impl Text {
    const fn and_advice(self, first: Promise, second: Promise) -> Self {
        let versions = (first.lineage.version, second.lineage.version);
        if same(first.name, second.name)
            && same(first.at, second.at)
            && same(first.message(), second.message())
        {
            return self.and(
                "\nboth are the same handler, by two ways into this router: list it, or join its router",
            );
        }
        let known = !first.message().is_empty() && !second.message().is_empty();
        if known && versions.0 != versions.1 {
            return self
                .and("\nthey take its versions ")
                .and_number(versions.0 as usize)
                .and(" and ")
                .and_number(versions.1 as usize)
                .and(
                    ": keep the one of the newest, which gets the earlier ones as well by `from`",
                );
        }
        if known && !same(first.message(), second.message()) {
            return self
                .and("\nthey take different messages, `")
                .and(first.message())
                .and("` and `")
                .and(second.message())
                .and("`: give each a topic of its own");
        }
        self
    }

    const fn and_handler(self, promise: Promise) -> Self {
        self.and("`").and(promise.name).and("` at ").and(promise.at)
    }
}
