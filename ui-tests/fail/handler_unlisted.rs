// rustc's own words about a private handler that no router lists.

// trybuild allows it on the command line.
#![deny(dead_code)]

#[outbox::message(topic = "a")]
pub struct A;

#[outbox::handler]
async fn forgotten(_: A) {}

mod inner {
    #[outbox::handler]
    pub(crate) async fn forgotten_as_well(_: super::A) {}

    // A module's own router is as good as its handlers: who does not join it is told so.
    #[outbox::handler]
    pub(crate) async fn listed(_: super::A) {}

    pub(crate) static ROUTES: outbox::Router = outbox::router![listed];
}

// A test that calls it does not make it listed, but is a use to rustc.
#[outbox::handler]
async fn called(_: A) {}

pub async fn calls() {
    called(A).await;
}

fn main() {}
