// What the macros write holds under `forbid`, where an `allow` of ours would be an error. serde's
// derives do not, so the messages implement its traits by hand.

#![deny(warnings)]
#![forbid(unsafe_code, nonstandard_style, non_camel_case_types, deprecated, unused_qualifications)]
#![forbid(missing_docs, unreachable_pub, dead_code)]

//! Documented.

use outbox::{Delivery, FromRef, Router, State};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[outbox::message(topic = "a", serde = false)]
struct A {
    #[outbox(key)]
    id: u64,
}

impl Serialize for A {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for A {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|id| Self { id })
    }
}

#[derive(Clone, FromRef)]
struct App {
    number: u64,
}

#[outbox::handler(topic = "a", timeout = "1s")]
async fn on_a(a: A, State(number): State<u64>, delivery: Delivery) -> Result<(), String> {
    if a.id == number { Err(delivery.topic().to_owned()) } else { Ok(()) }
}

static ROUTER: Router<App> = outbox::router![on_a; requires A];

fn main() {
    let _ = ROUTER;
    let _ = u64::from_ref(&App { number: 1 });
}
