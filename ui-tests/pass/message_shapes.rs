// Structs, enums, units and tuples are messages; the derives they have are not added again.

use std::borrow::Cow;

use outbox::Message;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[outbox::message(topic = "named")]
#[derive(Debug, PartialEq)]
pub struct Named {
    #[outbox(key)]
    id: Uuid,
    // Names that the expansion could be tempted to use itself.
    tx: u8,
    row: u8,
    state: u8,
    delivery: u8,
    this: u8,
    self_: u8,
    topic: String,
    payload: String,
    r#type: u8,
}

#[outbox::message(topic = "tuple")]
#[derive(Debug, PartialEq)]
struct Tuple(u8, #[outbox(key)] Option<String>);

#[outbox::message(topic = "unit")]
#[derive(Debug, PartialEq)]
struct Unit;

#[outbox::message(topic = "enum")]
#[derive(Debug, PartialEq)]
enum Enum {
    Named {
        #[outbox(key)]
        id: i64,
        other: u8,
    },
    Tuple(u8, #[outbox(key = shout)] String),
    #[cfg(any())]
    Gone,
}

#[outbox::message(topic = "keyless.enum")]
#[derive(Debug, PartialEq)]
enum Keyless {
    Unit,
    Tuple(u8),
}

#[outbox::message(topic = "raw")]
#[derive(Debug, PartialEq)]
struct r#Raw {
    #[outbox(key)]
    r#type: Cow<'static, str>,
}

const TOPIC: &str = "constant.topic";

#[outbox::message(topic = TOPIC)]
#[derive(Debug, PartialEq)]
struct Constant;

#[outbox::message(topic = concat!("concat", ".topic"))]
#[derive(Debug, PartialEq)]
struct Concatenated;

// Both derives, one of them, and one under a condition.
#[outbox::message(topic = "derived.both")]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Both {
    amount_cents: i64,
}

#[outbox::message(topic = "derived.one")]
#[derive(Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind")]
enum One {
    A { id: u8 },
}

#[outbox::message(topic = "derived.cfg")]
#[cfg_attr(all(), derive(Debug, PartialEq, serde::Deserialize))]
#[cfg_attr(any(), derive(serde::Serialize))]
struct Conditional {
    #[cfg_attr(all(), outbox(key))]
    id: u8,
    #[cfg(any())]
    #[outbox(key)]
    gone: u8,
    #[serde(default, skip)]
    skipped: u8,
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[outbox::message(topic = "derived.above", serde = false)]
struct Above {
    id: u8,
}

#[outbox::message(topic = "inherent")]
#[derive(Debug, PartialEq)]
struct Inherent;

impl Inherent {
    // Not the topic that anything uses.
    #[allow(dead_code)]
    pub const TOPIC: &'static str = "other";
}

#[outbox::message(topic = "own.publish", methods = false, version = 1)]
#[derive(Debug, PartialEq)]
struct OwnPublish;

impl OwnPublish {
    fn publish(&self) -> &'static str {
        "own"
    }
}

fn shout(text: &str) -> String {
    text.to_uppercase()
}

#[track_caller]
fn round_trip<M: Message + PartialEq + std::fmt::Debug>(message: &M, json: &str, topic: &str, key: Option<&str>) {
    assert_eq!(serde_json::to_string(message).unwrap(), json);
    assert_eq!(serde_json::from_str::<M>(json).unwrap(), *message);
    assert_eq!(M::TOPIC, topic);
    assert_eq!(M::VERSION, 1);
    assert_eq!(M::key(message).as_deref(), key);
    assert_eq!(M::validate(message), Ok(()));
}

fn main() {
    let named = Named {
        id: Uuid::nil(),
        tx: 1,
        row: 5,
        state: 6,
        delivery: 7,
        this: 2,
        self_: 3,
        topic: "t".into(),
        payload: "p".into(),
        r#type: 4,
    };
    let json = r#"{"id":"00000000-0000-0000-0000-000000000000","tx":1,"row":5,"state":6,"delivery":7,"this":2,"self_":3,"topic":"t","payload":"p","type":4}"#;
    round_trip(&named, json, "named", Some("00000000-0000-0000-0000-000000000000"));
    round_trip(&Tuple(1, Some("k".into())), r#"[1,"k"]"#, "tuple", Some("k"));
    round_trip(&Tuple(1, None), "[1,null]", "tuple", None);
    round_trip(&Unit, "null", "unit", None);
    round_trip(&Enum::Named { id: -7, other: 1 }, r#"{"Named":{"id":-7,"other":1}}"#, "enum", Some("-7"));
    round_trip(&Enum::Tuple(1, "a".into()), r#"{"Tuple":[1,"a"]}"#, "enum", Some("A"));
    round_trip(&Keyless::Unit, r#""Unit""#, "keyless.enum", None);
    round_trip(&Keyless::Tuple(3), r#"{"Tuple":3}"#, "keyless.enum", None);
    round_trip(&Raw { r#type: "x".into() }, r#"{"type":"x"}"#, "raw", Some("x"));
    round_trip(&Constant, "null", "constant.topic", None);
    round_trip(&Concatenated, "null", "concat.topic", None);
    round_trip(&Both { amount_cents: 5 }, r#"{"amountCents":5}"#, "derived.both", None);
    round_trip(&One::A { id: 1 }, r#"{"kind":"A","id":1}"#, "derived.one", None);
    round_trip(&Conditional { id: 1, skipped: 0 }, r#"{"id":1}"#, "derived.cfg", Some("1"));
    round_trip(&Above { id: 1 }, r#"{"id":1}"#, "derived.above", None);
    round_trip(&Inherent, "null", "inherent", None);
    round_trip(&OwnPublish, "null", "own.publish", None);
    assert_eq!(OwnPublish.publish(), "own");
    let _ = outbox::Publish::publication(&OwnPublish);
}
