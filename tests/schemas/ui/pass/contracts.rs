//! Messages of another team's schema.
#![deny(warnings)]
#![forbid(unsafe_code)]

use outbox::schema::JsonSchema;
use uuid::Uuid;

#[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
#[schemars(crate = "outbox::schema::schemars")]
pub struct Line {
    pub sku: String,
}

/// Needs little of it.
#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
pub struct Counted {
    pub quantity: u64,
    #[serde(default)]
    pub tags: Vec<String>,
}

/// With names of its own.
#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
#[serde(rename_all = "lowercase")]
pub struct Renamed {
    #[serde(rename = "customer")]
    pub buyer: String,
    #[serde(alias = "lines")]
    pub rows: Box<[Line]>,
    pub quantity: f64,
    #[serde(skip)]
    pub seen: bool,
    pub note: Option<Note>,
    pub tags: Option<Vec<String>>,
}

/// A type that the library knows nothing of.
#[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
#[schemars(crate = "outbox::schema::schemars")]
#[serde(transparent)]
pub struct Note(String);

/// All of it.
#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = publisher)]
pub struct Published {
    #[outbox(key)]
    pub customer: Uuid,
    pub lines: Vec<Line>,
    pub quantity: u32,
}

/// Both.
#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json")]
pub struct Whole {
    #[outbox(key)]
    pub customer: Uuid,
    pub lines: Vec<Line>,
    pub quantity: u32,
    pub note: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Without a schema at all: its type has none.
#[outbox::message(topic = "blobs.stored", schema = false)]
pub struct Blob {
    pub bytes: Opaque,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Opaque(Vec<u8>);

fn main() {
    // Inside of a function, too.
    #[outbox::message(topic = "orders.counted")]
    struct Inside {
        _count: u32,
    }
    assert!(outbox::schema::Schema::of::<Inside>().is_some());
    assert!(outbox::schema::Schema::of::<Blob>().is_none());
}
