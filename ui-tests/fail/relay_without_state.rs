// A router with a state needs one before its relay can be built.

use outbox::{FromRef, Relay, Router, State};

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[derive(Clone)]
struct Mailer;

#[derive(Clone, FromRef)]
struct App {
    mailer: Mailer,
}

#[outbox::handler]
async fn bill(_: OrderPlaced, State(_): State<Mailer>) {}

static ROUTER: Router<App> = outbox::router![bill];

async fn forgotten(pool: sqlx::PgPool) -> Result<(), outbox::Error> {
    let relay = Relay::builder(&pool, &ROUTER).concurrency(8).build().await?;
    relay.drain().await?;
    Ok(())
}

async fn of_another_type(pool: sqlx::PgPool) -> Result<(), outbox::Error> {
    Relay::builder(&pool, &ROUTER).state(Mailer).build().await?.drain().await?;
    Ok(())
}

async fn no_pool(pool: String) -> Result<(), outbox::Error> {
    Relay::builder(&pool, &ROUTER).state(App { mailer: Mailer }).build().await?;
    Ok(())
}

fn main() {}
