// What a handler returns.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::handler]
async fn number(_: OrderPlaced) -> u32 {
    1
}

struct NotAnError;

#[outbox::handler]
async fn not_an_error(_: OrderPlaced) -> Result<(), NotAnError> {
    Ok(())
}

#[outbox::handler]
async fn not_send(_: OrderPlaced) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

#[outbox::handler]
async fn in_the_body(_: OrderPlaced) -> Result<(), String> {
    Ok(1)
}

fn main() {}
