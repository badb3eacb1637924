// A handler in an `impl` without `self`: rustc's own text, since the attribute can't see the `impl`.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

struct Billing;

impl Billing {
    #[outbox::handler]
    async fn bill(_: OrderPlaced) {}
}

fn main() {}
