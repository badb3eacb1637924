// An attribute for traits on a free function: its own error is the only one.

#[outbox::message(topic = "a")]
struct A;

#[async_trait::async_trait]
#[outbox::handler]
async fn above(_: A) {}

#[outbox::handler]
#[async_trait::async_trait]
async fn below(_: A) {}

fn main() {}
