// Each field of a state can be asked for, unless it is skipped.

#![deny(warnings)]

use std::sync::Arc;

use outbox::{FromRef, Router, State};

#[derive(Clone)]
pub struct Mailer;

#[derive(Clone, FromRef)]
pub struct App<T: Send + Sync> {
    mailer: Mailer,
    pool: Arc<String>,
    number: u8,
    #[from_ref(skip)]
    other_number: u8,
    #[from_ref(skip)]
    inner: T,
}

#[derive(Clone, FromRef)]
#[from_ref(crate = ::outbox)]
pub struct Tuple(Mailer, #[from_ref(skip)] pub u8);

#[derive(FromRef)]
struct Unit;

#[outbox::message(topic = "a")]
pub struct A;

#[outbox::handler]
pub async fn on_a(_: A, State(_): State<Mailer>, State(pool): State<Arc<String>>, number: State<u8>) {
    let _ = (pool.len(), number.0);
}

static ROUTER: Router<App<&'static str>> = outbox::router![on_a];

fn main() {
    let app = App { mailer: Mailer, pool: Arc::new("a".into()), number: 1, other_number: 2, inner: () };
    assert_eq!(u8::from_ref(&app), 1);
    let _ = (Mailer::from_ref(&Tuple(Mailer, 1)), app.mailer, app.other_number, app.inner, Unit, ROUTER);
}
