// rustc's own text: a handler of a dependency's name is listed by its path, `self::anyhow`.

#[outbox::message(topic = "a")]
pub struct A;

#[outbox::handler]
async fn anyhow(_: A) {}

static AMBIGUOUS: outbox::Router = outbox::router![anyhow];
static BY_ITS_PATH: outbox::Router = outbox::router![self::anyhow];

fn main() {
    let _ = (AMBIGUOUS, BY_ITS_PATH);
}
