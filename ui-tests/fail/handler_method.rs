// A handler is a free function.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

struct Billing;

impl Billing {
    #[outbox::handler]
    async fn bill(&self, _: OrderPlaced) {}
}

fn main() {}
