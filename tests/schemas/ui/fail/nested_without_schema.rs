// A type within a message derives its schema itself.

#[derive(serde::Serialize, serde::Deserialize)]
struct Line {
    sku: String,
}

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced {
    lines: Vec<Line>,
}

fn main() {}
