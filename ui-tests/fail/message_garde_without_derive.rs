// A rule that would not run is an error.

#[outbox::message(topic = "no-derive")]
struct NoDerive {
    #[garde(range(min = 1))]
    amount: i64,
}

#[derive(garde::Validate)]
#[outbox::message(topic = "derive-above")]
struct DeriveAbove {
    #[garde(range(min = 1))]
    amount: i64,
}

struct Context;

#[outbox::message(topic = "context")]
#[derive(garde::Validate)]
#[garde(context(Context))]
struct WithContext {
    #[garde(range(min = 1))]
    amount: i64,
}

fn main() {}
