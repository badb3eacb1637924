// What is only read may lack fields, and so has no `publish`.

#[outbox::message(topic = "orders.placed", schema = "contracts/orders.placed.v1.json", role = reader)]
struct OrderPlaced {
    quantity: u32,
}

async fn publish(mut tx: sqlx::SqliteTransaction<'_>) {
    let _ = OrderPlaced { quantity: 1 }.publish(&mut tx).await;
}

fn main() {
    let _ = publish;
}
