// Rules that would not run are an error, not a surprise.

#[outbox::message(topic = "payments.settled")]
#[derive(garde::Validate)]
struct PaymentSettled {
    #[garde(range(min = 1))]
    amount_cents: i64,
}

fn main() {}
