// Hostile names in scope.

#![no_implicit_prelude]
#![deny(warnings, unused_qualifications)]
#![allow(dead_code, unused_macros, non_camel_case_types, non_snake_case)]

extern crate std as real_std;

mod core {}
mod std {}
mod serde {}
mod outbox {}
mod alloc {}

type Result<T> = ::core::marker::PhantomData<T>;
struct Option;
struct String;
struct Vec;
struct Box;
struct Some;
trait Iterator {}
trait Into {}
trait Clone {}
trait Send {}
fn Ok() {}
fn Err() {}
struct u32;
struct OutboxState;
struct OutboxPayload;

macro_rules! concat {
    ($($t:tt)*) => { compile_error!("not this one") };
}

#[::outbox::message(topic = "hygiene", validate = check)]
pub struct Message {
    #[outbox(key)]
    pub id: ::core::primitive::u64,
    pub text: ::std::string::String,
}

fn check(_: &Message) -> ::core::result::Result<(), ::std::string::String> {
    ::core::result::Result::Ok(())
}

#[::outbox::message(topic = "hygiene.enum")]
pub enum Enum {
    A(#[outbox(key = to_key)] ::core::primitive::u64),
}

fn to_key(id: &::core::primitive::u64) -> ::std::string::String {
    ::std::string::ToString::to_string(id)
}

#[derive(::core::clone::Clone, ::outbox::FromRef)]
pub struct App {
    text: ::std::string::String,
}

#[::outbox::handler(topic = "hygiene", timeout = "1s", max_attempts = 3, backoff = "1s..2s", concurrency = 4, rate = "100/s", on_error = decide)]
pub async fn handle(
    message: Message,
    ::outbox::State(text): ::outbox::State<::std::string::String>,
    _: ::outbox::Delivery,
) -> ::core::result::Result<(), ::std::string::String> {
    let _ = (message, text);
    ::core::result::Result::Ok(())
}

fn decide(_: &::std::string::String) -> ::outbox::Decision {
    ::outbox::Decision::Retry
}

#[::outbox::handler(crate = ::outbox)]
pub async fn handle_enum(_: Enum) {}

pub static JOINED: ::outbox::Router<App> = ::outbox::router![handle_enum];
pub static ROUTER: ::outbox::Router<App> = ::outbox::router![crate = ::outbox; handle, ..JOINED; requires Message, Enum];

fn main() {}
