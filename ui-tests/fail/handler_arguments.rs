// The attribute's arguments.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

mod misspelt {
    #[outbox::handler(timout = "30s", retries = 3)]
    async fn bill(_: super::OrderPlaced) {}
}

mod twice {
    #[outbox::handler(timeout = "30s", timeout = none)]
    async fn bill(_: super::OrderPlaced) {}
}

mod durations {
    #[outbox::handler(timeout = "30", backoff = "1s")]
    async fn nonsense(_: super::OrderPlaced) {}

    #[outbox::handler(timeout = "0s", backoff = "5m..1s")]
    async fn zero(_: super::OrderPlaced) {}

    #[outbox::handler(timeout = 30, backoff)]
    async fn number(_: super::OrderPlaced) {}
}

mod attempts {
    #[outbox::handler(max_attempts = 0)]
    async fn none(_: super::OrderPlaced) {}

    #[outbox::handler(max_attempts = "5")]
    async fn text(_: super::OrderPlaced) {}
}

mod limits {
    #[outbox::handler(concurrency = 0, rate = "0/s")]
    async fn nothing(_: super::OrderPlaced) {}

    #[outbox::handler(concurrency = "4", rate = 100)]
    async fn swapped(_: super::OrderPlaced) {}

    #[outbox::handler(rate = "100")]
    async fn without_a_unit(_: super::OrderPlaced) {}

    #[outbox::handler(rate = "100/ms")]
    async fn of_another_unit(_: super::OrderPlaced) {}

    #[outbox::handler(rate = "many/s")]
    async fn of_no_number(_: super::OrderPlaced) {}
}

mod crates {
    #[outbox::handler(crate = outbox)]
    async fn relative(_: super::OrderPlaced) {}

    #[outbox::handler(crate = "outbox")]
    async fn quoted(_: super::OrderPlaced) {}

    #[outbox::handler(crate = ::outbox, crate = ::outbox)]
    async fn twice(_: super::OrderPlaced) {}
}

mod names {
    #[outbox::handler(name = "Bill")]
    async fn quoted(_: super::OrderPlaced) {}

    #[outbox::handler(name = billing::Bill)]
    async fn path(_: super::OrderPlaced) {}

    #[outbox::handler(name = self)]
    async fn word(_: super::OrderPlaced) {}
}

mod errors {
    #[outbox::handler(on_error = decide)]
    async fn nothing_to_decide(_: super::OrderPlaced) {}

    #[outbox::handler(on_error = "decide")]
    async fn quoted(_: super::OrderPlaced) -> Result<(), String> {
        Ok(())
    }
}

mod syntax {
    #[outbox::handler(timeout = , max_attempts 5)]
    async fn bill(_: super::OrderPlaced) {}

    #[outbox::handler("orders.placed")]
    async fn ship(_: super::OrderPlaced) {}
}

fn main() {}
