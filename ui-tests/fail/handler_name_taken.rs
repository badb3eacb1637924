// The marker of a handler is a type of the function's name; `name = Audit` gives it another.

#[outbox::message(topic = "a")]
pub struct A;

#[outbox::message(topic = "b")]
pub struct B;

mod audit {}

#[outbox::handler]
async fn audit(_: A) {}

mod send_receipt {
    #[outbox::handler]
    pub async fn send_receipt(_: super::A) {}
}

pub use send_receipt::send_receipt;

#[outbox::handler]
async fn anyhow(_: B) -> anyhow::Result<()> {
    Ok(())
}

fn main() {}
