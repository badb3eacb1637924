// Which file, and what is done with the message.

#[outbox::message(topic = "orders.placed", schema = "contracts/missing.json")]
struct Missing {}

#[outbox::message(topic = "orders.shipped", schema = "contracts/orders.placed.v1.json", role = reader)]
struct OtherTopic {}

#[outbox::message(topic = "orders.placed", version = 2, from = none, schema = "contracts/orders.placed.v1.json", role = reader)]
struct OtherVersion {}

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = consumer)]
struct OtherRole {}

#[outbox::message(topic = "orders.placed", role = reader)]
struct NoSchema {}

#[outbox::message(topic = "orders.placed", schema = true)]
struct Switched {}

#[outbox::message(topic = "orders.placed", schema = "contracts/broken.json", role = reader)]
struct Broken {}

#[outbox::message(topic = "orders.placed", schema = "contracts/foreign.json", role = reader)]
struct Foreign {}

fn main() {}
