// A transaction of a database whose feature is off.

#[outbox::message(topic = "payments.settled")]
struct PaymentSettled;

async fn settle(mut tx: sqlx::SqliteTransaction<'_>) -> Result<(), outbox::Error> {
    PaymentSettled.publish(&mut tx).await?;
    Ok(())
}

async fn relay(pool: sqlx::SqlitePool, router: outbox::Router) -> Result<(), outbox::Error> {
    outbox::Relay::builder(&pool, &router).build().await?;
    Ok(())
}

fn main() {}
