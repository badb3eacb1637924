// garde's rules run first, then the message's own function.

#![deny(warnings)]

use garde::Validate;
#[allow(unused_imports)] // in scope, so that its functions could be taken for garde's
use outbox::Message as _;

#[outbox::message(topic = "payments.settled", validate = not_three)]
#[derive(Debug, Clone, garde::Validate)]
pub struct PaymentSettled {
    #[outbox(key)]
    #[garde(skip)]
    pub account: u64,
    #[garde(range(min = 1))]
    pub amount_cents: i64,
    #[garde(email)]
    pub receipt_to: String,
}

fn not_three(payment: &PaymentSettled) -> Result<(), String> {
    if payment.amount_cents == 3 { Err("three is not an amount".into()) } else { Ok(()) }
}

// A bare `Validate` is garde's where garde's rules stand.
#[outbox::message(topic = "bare")]
#[derive(Validate)]
struct Bare(#[garde(length(min = 2))] String);

// Another crate's derive of that name is not.
#[outbox::message(topic = "other")]
#[derive(not_garde::Validate)]
struct Other;

mod not_garde {
    pub use std::clone::Clone as Validate;
}

#[outbox::message(topic = "conditional")]
#[cfg_attr(all(), derive(garde::Validate))]
struct Conditional {
    #[cfg_attr(all(), garde(range(max = 3)))]
    #[cfg_attr(any(), garde(range(max = 9)))]
    amount: u8,
}

fn fields<M: outbox::Message>(message: &M) -> Vec<(String, String)> {
    match M::validate(message) {
        Ok(()) => Vec::new(),
        Err(invalid) => invalid.fields().map(|(path, reason)| (path.into(), reason.into())).collect(),
    }
}

fn main() {
    let good = PaymentSettled { account: 1, amount_cents: 1, receipt_to: "a@example.com".into() };
    assert_eq!(fields(&good), []);
    // garde's own method is not ambiguous beside ours.
    good.validate().unwrap();

    let both = PaymentSettled { amount_cents: 0, receipt_to: "nobody".into(), ..good.clone() };
    let paths: Vec<_> = fields(&both).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["amount_cents", "receipt_to"]);

    let three = PaymentSettled { amount_cents: 3, ..good };
    assert_eq!(fields(&three), [(String::new(), "three is not an amount".to_owned())]);

    assert_eq!(fields(&Bare("a".into()))[0].0, "[0]");
    assert_eq!(fields(&Other), []);
    let _ = Other.clone();
    assert_eq!(fields(&Conditional { amount: 4 })[0].0, "amount");
}
