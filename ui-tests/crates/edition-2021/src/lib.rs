//! A crate of the 2021 edition, in which `gen` is a name like any other.

#![deny(warnings)]
#![allow(
    non_camel_case_types,
    reason = "names that are keywords in other editions"
)]

use outbox::{Router, State};

/// A message by the name of a later keyword.
#[outbox::message(topic = "edition.gen")]
#[derive(Debug)]
pub struct gen {
    /// So is the key.
    #[outbox(key)]
    pub gen: u64,
}

/// An event of it.
#[derive(Debug, outbox::Event)]
pub enum Event {
    /// As its variant.
    gen(gen),
}

/// And its handler.
pub mod handlers {
    /// Takes it.
    #[outbox::handler(topic = "edition.gen")]
    pub async fn gen(message: super::gen, gen: super::State<super::App>) {
        let _ = (message.gen, gen);
    }

    /// The handlers of this module.
    pub static GEN: outbox::Router<super::App> = outbox::router![gen; requires super::gen];
}

/// A state with such a field.
#[derive(Debug, Clone, outbox::FromRef)]
pub struct App {
    /// Also.
    pub gen: u64,
}

/// All handlers.
pub static ROUTER: Router<App> = outbox::router![..handlers::GEN; requires gen];

#[cfg(test)]
mod tests {
    use outbox::{FromRef, Message};

    #[test]
    fn names_are_what_they_were() {
        let message = super::gen { gen: 7 };
        assert_eq!(super::gen::TOPIC, "edition.gen");
        assert_eq!(super::gen::key(&message).as_deref(), Some("7"));
        assert_eq!(u64::from_ref(&super::App { gen: 3 }), 3);
        let event = super::Event::gen(message);
        assert!(format!("{:?}", event.publication()).contains("edition.gen"));
        assert!(format!("{:?}", super::ROUTER).contains("gen"));
    }
}
