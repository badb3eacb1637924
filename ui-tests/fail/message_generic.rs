// A message is one concrete type that owns its data.

#[outbox::message(topic = "generic")]
struct Generic<T> {
    inner: T,
}

#[outbox::message(topic = "counted")]
struct Counted<const N: usize>;

#[outbox::message(topic = "borrowing")]
struct Borrowing<'a> {
    inner: &'a str,
}

#[outbox::message(topic = "static")]
struct Static {
    inner: &'static str,
}

async fn publish(message: Generic<u32>, mut tx: sqlx::PgTransaction<'_>) {
    let _ = message.publish(&mut tx).await;
}

fn main() {}
