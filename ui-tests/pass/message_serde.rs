// serde's attributes mean what they always mean.

use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    article: String,
}

#[outbox::message(topic = "serde.struct")]
#[derive(Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Order {
    order_lines: Vec<Line>,
    #[serde(default)]
    note: Option<String>,
    #[serde(rename = "total", alias = "sum")]
    total_cents: i64,
    #[serde(skip)]
    cached: u8,
}

#[outbox::message(topic = "serde.flatten")]
#[derive(Debug, PartialEq)]
struct Flattened {
    id: u8,
    #[serde(flatten)]
    line: Line,
}

#[outbox::message(topic = "serde.tagged")]
#[derive(Debug, PartialEq)]
#[serde(tag = "type", content = "of")]
enum Tagged {
    Number(i64),
    Text(String),
}

#[outbox::message(topic = "serde.untagged")]
#[derive(Debug, PartialEq)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
}

// The crate's own `serde(crate = ..)` is left alone.
#[outbox::message(topic = "serde.crate")]
#[derive(Debug, PartialEq)]
#[serde(crate = "::serde")]
struct Crate {
    id: u8,
}

fn round_trip<M: outbox::Message + PartialEq + std::fmt::Debug>(message: M, json: &str) {
    assert_eq!(serde_json::to_string(&message).unwrap(), json);
    assert_eq!(serde_json::from_str::<M>(json).unwrap(), message);
}

fn main() {
    let line = || Line { article: "a".into() };
    round_trip(
        Order { order_lines: vec![line()], note: None, total_cents: 3, cached: 0 },
        r#"{"orderLines":[{"article":"a"}],"note":null,"total":3}"#,
    );
    round_trip(Flattened { id: 1, line: line() }, r#"{"id":1,"article":"a"}"#);
    round_trip(Tagged::Number(1), r#"{"type":"Number","of":1}"#);
    round_trip(Tagged::Text("a".into()), r#"{"type":"Text","of":"a"}"#);
    round_trip(Untagged::Number(1), "1");
    round_trip(Untagged::Text("a".into()), r#""a""#);
    round_trip(Crate { id: 1 }, r#"{"id":1}"#);
}
