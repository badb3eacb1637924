use outbox::{Delivery, Relay, State};
use sqlx::SqlitePool;

#[outbox::message(topic = "payments.settled")]
#[derive(Debug, garde::Validate)]
pub struct PaymentSettled {
    #[outbox(key)]
    #[garde(skip)]
    pub account_id: i64,
    #[garde(range(min = 1))]
    pub amount_cents: i64,
}

#[derive(Clone, outbox::FromRef)]
pub struct App {
    mailer: Mailer,
}

#[outbox::handler]
pub async fn send_receipt(
    payment: PaymentSettled,
    State(mailer): State<Mailer>,
    delivery: Delivery,
) -> Result<(), outbox::HandlerError> {
    // The id is the same at every attempt: an idempotency key.
    mailer
        .send(payment.account_id, payment.amount_cents, delivery.id())
        .await?;
    Ok(())
}

static ROUTER: outbox::Router<App> = outbox::router![send_receipt; requires PaymentSettled];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePool::connect("sqlite://bank.db?mode=rwc").await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS accounts (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)",
    )
    .execute(&pool)
    .await?;
    outbox::migrate(&pool).await?;

    let relay = Relay::builder(&pool, &ROUTER)
        .state(App { mailer: Mailer })
        .build()
        .await?
        .spawn();

    // One commit decides both: the business row and the message.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO accounts (id, cents) VALUES (7, 1999) ON CONFLICT DO UPDATE SET cents = cents + 1999")
        .execute(&mut *tx)
        .await?;
    PaymentSettled {
        account_id: 7,
        amount_cents: 1999,
    }
    .publish(&mut tx)
    .await?;
    tx.commit().await?;

    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let counts = relay.shutdown().await?;
    println!("delivered: {}", counts.delivered);
    Ok(())
}

#[derive(Clone)]
pub struct Mailer;

impl Mailer {
    async fn send(&self, account: i64, cents: i64, id: uuid::Uuid) -> std::io::Result<()> {
        println!("receipt for account {account}: {cents} cents (message {id})");
        Ok(())
    }
}
