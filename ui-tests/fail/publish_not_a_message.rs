// What is no message can't be published, in a batch or alone.

use outbox::Outbox;

struct Plain;

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

async fn one(plain: Plain, mut tx: sqlx::PgTransaction<'_>) -> Result<(), outbox::Error> {
    Outbox::default().publish(&plain, &mut tx).await?;
    Ok(())
}

async fn many(plain: Vec<Plain>, mut tx: sqlx::PgTransaction<'_>) -> Result<(), outbox::Error> {
    Outbox::default().publish_all(&plain, &mut tx).await?;
    Ok(())
}

async fn mixed(a: OrderPlaced, b: Plain, mut tx: sqlx::PgTransaction<'_>) -> Result<(), outbox::Error> {
    Outbox::default().publish_all([a, b], &mut tx).await?;
    Ok(())
}

fn main() {}
