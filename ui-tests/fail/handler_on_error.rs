// `on_error` takes the error by reference and gives a decision.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

fn decide(error: String) -> outbox::Decision {
    let _ = error;
    outbox::Decision::Retry
}

#[outbox::handler(on_error = decide)]
async fn bill(_: OrderPlaced) -> Result<(), String> {
    Ok(())
}

fn main() {}
