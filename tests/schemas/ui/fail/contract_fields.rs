// Names, presence and kinds of fields against another team's schema.

use outbox::schema::JsonSchema;

#[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
#[schemars(crate = "outbox::schema::schemars")]
struct Line {
    sku: String,
}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
struct Misspelt {
    quantty: u32,
}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct RenamedAway {
    quantity: u32,
}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json")]
struct LacksFields {
    quantity: u32,
    lines: Vec<Line>,
}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = publisher)]
struct PublishesTooLittle {
    customer: String,
    quantity: Option<u32>,
    lines: Vec<Line>,
}

type Count = String;

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
struct OtherKind {
    quantity: Count,
    lines: std::collections::HashMap<String, Line>,
}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
struct NeverNull {
    note: String,
}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
struct NeverAbsent {
    tags: Vec<String>,
}

fn main() {}
