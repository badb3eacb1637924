// A message joins a transaction; a pool would commit it on its own.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

async fn on_the_method(order: OrderPlaced, mut pool: sqlx::PgPool) -> Result<(), outbox::Error> {
    order.publish(&mut pool).await?;
    Ok(())
}

async fn on_an_outbox(order: OrderPlaced, mut pool: sqlx::PgPool) -> Result<(), outbox::Error> {
    outbox::Outbox::default().publish(&order, &mut pool).await?;
    Ok(())
}

async fn shared(order: OrderPlaced, pool: sqlx::PgPool) -> Result<(), outbox::Error> {
    order.publish(&pool).await?;
    Ok(())
}

fn main() {}
