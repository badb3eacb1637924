// Two mistakes in one item are both shown, and its uses add none.

use outbox::Router;

#[outbox::message(topic = "Orders", methodz = false)]
struct OrderPlaced {
    #[outbox(key)]
    order: u64,
    #[outbox(keey)]
    line: u64,
}

#[outbox::handler]
async fn bill(_: OrderPlaced) {}

static ROUTER: Router = outbox::router![bill; requires OrderPlaced];

async fn publish(order: OrderPlaced, mut tx: sqlx::PgTransaction<'_>) {
    let _ = order.publish(&mut tx).await;
}

fn main() {
    let _ = ROUTER;
}
