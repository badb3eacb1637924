// Each field of a state is found by its type.

use outbox::FromRef;

struct NotClone;

#[derive(Clone)]
struct Mailer;

#[derive(FromRef)]
struct Twice {
    first: Mailer,
    second: Mailer,
}

#[derive(FromRef)]
struct WithoutClone {
    inner: NotClone,
}

#[derive(FromRef)]
enum Enum {
    A,
}

#[derive(FromRef)]
struct Misspelt {
    #[from_ref(skipp)]
    mailer: Mailer,
}

fn main() {}
