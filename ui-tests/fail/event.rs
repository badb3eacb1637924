// Each variant of an event wraps one message; what does not is shown at the variant.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

struct Plain;

#[derive(outbox::Event)]
enum WrapsPlain {
    Placed(OrderPlaced),
    Plain(Plain),
    Text { text: String },
}

#[derive(outbox::Event)]
enum WrapsTooMuch {
    Nothing,
    Empty(),
    Two(OrderPlaced, u64),
    Named { placed: OrderPlaced, at: u64 },
}

#[derive(outbox::Event)]
struct Struct(OrderPlaced);

#[outbox::message(topic = "both")]
#[derive(outbox::Event)]
enum Both {
    Placed(OrderPlaced),
}

#[derive(outbox::Event)]
#[outbox(method = false)]
enum Arguments {
    #[outbox(key)]
    Placed(#[outbox(key)] OrderPlaced),
}

async fn uses(event: WrapsTooMuch, events: Vec<WrapsPlain>, mut tx: sqlx::PgTransaction<'_>) {
    let _ = event.publish(&mut tx).await;
    let _ = outbox::Outbox::default().publish_all(events, &mut tx).await;
}

fn main() {}
