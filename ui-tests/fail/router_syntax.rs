// What stands in a router.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::handler]
async fn bill(_: OrderPlaced) {}

#[outbox::message(topic = "orders.shipped")]
struct OrderShipped;

#[outbox::handler]
async fn ship(_: OrderShipped) {}

fn main() {
    let _: outbox::Router = outbox::router![bill ship];
    let _: outbox::Router = outbox::router![bill; require OrderPlaced];
    let _: outbox::Router = outbox::router![crate = "outbox"; bill];
    let _: outbox::Router = outbox::router![#[allow(unused)] bill];
    let _: outbox::Router = outbox::router![bill; requires ..ship];
    let _: outbox::Router = outbox::router![bill, requires OrderPlaced];
    let _: outbox::Router = outbox::router![bill()];
}
