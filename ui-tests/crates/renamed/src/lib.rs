//! A crate that knows `outbox` by another name, has no prelude, and calls its own things by all the
//! names that an expansion could be tempted to use.

#![no_implicit_prelude]
#![allow(
    dead_code,
    unused_macros,
    non_camel_case_types,
    non_snake_case,
    missing_docs,
    reason = "hostile names"
)]

mod core {}
mod std {}
mod alloc {}
mod serde {}
mod outbox {}
mod tokio {}

type Result<T> = ::core::marker::PhantomData<T>;
struct Option;
struct String;
struct Vec;
struct Box;
struct Cow;
struct Some;
struct None;
// Neither `str` nor `u64`, which serde's derives mean without a path.
struct u32;
struct Duration;
struct Self_;
struct OutboxState;
struct OutboxPayload;
struct OutboxHandler0;
trait Iterator {}
trait IntoIterator {}
trait Into {}
trait From {}
trait Clone {}
trait Copy {}
trait Send {}
trait Sized {}
trait Future {}
trait Message {}
trait Publish {}
trait Handler {}
fn Ok() {}
fn Err() {}
fn drop() {}

macro_rules! concat {
    ($($t:tt)*) => {
        ::core::compile_error!("not this one")
    };
}

macro_rules! module_path {
    ($($t:tt)*) => {
        ::core::compile_error!("not this one")
    };
}

macro_rules! file {
    ($($t:tt)*) => {
        ::core::compile_error!("not this one")
    };
}

macro_rules! line {
    ($($t:tt)*) => {
        ::core::compile_error!("not this one")
    };
}

macro_rules! unreachable {
    ($($t:tt)*) => {
        ::core::compile_error!("not this one")
    };
}

#[::ob::message(topic = "named", validate = check, crate = ::ob)]
pub struct Named {
    #[outbox(key)]
    pub id: ::core::primitive::u64,
    pub text: ::std::string::String,
}

fn check(named: &Named) -> ::core::result::Result<(), ::std::string::String> {
    match named.id {
        0 => ::core::result::Result::Err(::std::format!("no id {}", named.id)),
        _ => ::core::result::Result::Ok(()),
    }
}

#[::ob::message(topic = TOPIC, crate = ::ob)]
pub enum Enum {
    A(#[outbox(key = to_key)] ::core::primitive::u64),
}

const TOPIC: &::core::primitive::str = "enum";

fn to_key(id: &::core::primitive::u64) -> ::std::string::String {
    ::std::string::ToString::to_string(id)
}

#[derive(::ob::Event)]
#[outbox(crate = ::ob)]
pub enum Event {
    Named(Named),
    Enum { inner: Enum },
}

#[derive(::core::clone::Clone, ::ob::FromRef)]
#[from_ref(crate = ::ob)]
pub struct App {
    text: ::std::string::String,
}

#[::ob::handler(
    topic = "named", timeout = "1s", max_attempts = 3, backoff = "1s..2s", on_error = decide, crate = ::ob
)]
pub async fn on_named(
    message: Named,
    ::ob::State(text): ::ob::State<::std::string::String>,
    _: ::ob::Delivery,
) -> ::core::result::Result<(), ::std::string::String> {
    let _ = (message, text);
    ::core::result::Result::Ok(())
}

fn decide(_: &::std::string::String) -> ::ob::Decision {
    ::ob::Decision::Retry
}

#[::ob::handler(crate = ::ob)]
pub async fn on_enum(_: Enum) {}

pub static JOINED: ::ob::Router<App> = ::ob::router![crate = ::ob; on_enum];
pub static ROUTER: ::ob::Router<App> =
    ::ob::router![crate = ::ob; on_named, ..JOINED; requires Named, Enum];

#[::core::prelude::v1::test]
fn the_messages_are_what_they_say() {
    use ::ob::Message as _;
    ::core::assert_eq!((Named::TOPIC, Enum::TOPIC), ("named", "enum"));
    let event = Event::Enum { inner: Enum::A(7) };
    let publication = ::std::format!("{:?}", event.publication());
    ::core::assert!(::core::primitive::str::contains(&publication, "enum"));
    let named = Named {
        id: 0,
        text: ::std::string::String::new(),
    };
    ::core::assert!(Named::validate(&named).is_err(), "its own rule runs");
}

/// Constants and unit structs by the names of variables: a pattern would compare instead of bind.
mod patterns {
    #![allow(non_upper_case_globals, reason = "hostile names")]

    const outbox: () = ();
    const message: () = ();
    const this: () = ();
    const found: () = ();
    struct state;
    struct row;
    struct delivery;
    static id: () = ();
    static topic: () = ();
    static error: () = ();

    #[::ob::message(topic = "patterns", methods = false, crate = ::ob)]
    enum Message {
        A(#[outbox(key)] ::core::primitive::u64),
    }

    #[derive(::ob::Event)]
    #[outbox(crate = ::ob)]
    enum Event {
        Message(Message),
    }

    #[derive(::core::clone::Clone, ::ob::FromRef)]
    #[from_ref(crate = ::ob)]
    struct App(::core::primitive::u8);

    #[::ob::handler(crate = ::ob)]
    async fn handle(_: Message, _: ::ob::State<::core::primitive::u8>) {}

    static ROUTER: ::ob::Router<App> = ::ob::router![crate = ::ob; handle];
}
