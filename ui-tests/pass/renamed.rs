// The library under another name, and through a module of one's own.

#![deny(warnings)]

pub extern crate outbox as ob;
// Whatever an expansion would look for under the usual name is not there.
extern crate core as outbox;

mod facade {
    pub use ob;
}

#[ob::message(topic = "a", validate = check, crate = ::ob)]
#[derive(garde::Validate)]
pub struct A {
    #[outbox(key)]
    #[garde(range(min = 1))]
    id: u64,
}

fn check(_: &A) -> Result<(), String> {
    Ok(())
}

const TOPIC: &str = "b";

#[facade::ob::message(topic = TOPIC, crate = crate::facade::ob)]
pub struct B(#[outbox(key = u8::to_string)] u8);

#[derive(Clone, ob::FromRef)]
#[from_ref(crate = ::ob)]
pub struct App {
    number: u8,
}

#[ob::handler(topic = "a", timeout = "1s", backoff = "1s..2s", max_attempts = 2, concurrency = 4, rate = "1/h", crate = ::ob)]
pub async fn on_a(_: A, _: ob::State<u8>) {}

#[ob::handler(topic = TOPIC, on_error = decide, crate = crate::facade::ob)]
pub async fn on_b(_: B) -> Result<(), String> {
    Ok(())
}

fn decide(_: &String) -> ob::Decision {
    ob::Decision::Retry
}

static JOINED: ob::Router<App> = ob::router![crate = crate::facade::ob; on_b];
static ROUTER: ob::Router<App> = ob::router![crate = ::ob; on_a, ..JOINED; requires A, B];

// A macro of a facade, used where nobody else knows the library.
macro_rules! handled {
    ($message:ident, $topic:literal, $handler:ident) => {
        #[ob::message(topic = $topic, crate = $crate::facade::ob)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct $message;

        #[ob::handler(topic = $topic, crate = $crate::facade::ob)]
        pub async fn $handler(_: $message) {}
    };
}

macro_rules! routed {
    ($($handler:path),*) => { ob::router![crate = $crate::facade::ob; $($handler),*] };
}

handled!(C, "c", on_c);

static BY_MACRO: ob::Router = routed![self::on_c];

fn main() {
    let _ = BY_MACRO;
    let _ = (ROUTER, App { number: 1 }.number);
    let _ = outbox::mem::size_of::<u8>();
}
