//! The router: which handler serves which topic, decided at compile time.

use std::ops::RangeInclusive;

use crate::{
    handler::{Delivery, Handle, Policy, Raw, Started},
    promise::Promise,
};

/// The handlers of a relay whose state is `S`; made by [`router!`](crate::router!).
#[derive(Debug)]
pub struct Router<S: 'static = ()> {
    entries: &'static [Entry<S>],
    joined: &'static [Router<S>],
    /// Those of joined routers included.
    pub(crate) promises: &'static [Promise],
}

impl<S> Clone for Router<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Router<S> {}

/// One handler of a router.
#[derive(Debug)]
pub struct Entry<S: 'static> {
    pub(crate) promise: Promise,
    pub(crate) policy: Policy,
    pub(crate) start: Start<S>,
}

/// How a payload, of any version that the handler's message is made of, is turned into a running handler.
pub(crate) type Start<S> = fn(Raw<'_>, Delivery, &S) -> Started;

impl<S: 'static> Entry<S> {
    /// The entry of handler `H`.
    #[must_use]
    pub const fn of<H: Handle<S>>() -> Self {
        Self {
            promise: H::PROMISE,
            policy: H::POLICY,
            start: H::start,
        }
    }

    /// The versions of the topic that it serves.
    pub(crate) fn versions(&self) -> RangeInclusive<u32> {
        let lineage = &self.promise.lineage;
        lineage.oldest()..=lineage.version
    }
}

impl<S: 'static> Router<S> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        entries: &'static [Entry<S>],
        joined: &'static [Router<S>],
        promises: &'static [Promise],
    ) -> Self {
        Self {
            entries,
            joined,
            promises,
        }
    }

    /// All handlers, those of joined routers included.
    pub(crate) fn entries(&self) -> Vec<&'static Entry<S>> {
        let mut all: Vec<_> = self.entries.iter().collect();
        for router in self.joined {
            all.extend(router.entries());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::{Router, State};

    // The macros say `::outbox`, which has to be found inside of it as well.
    #[crate::message(topic = "inside.first")]
    struct First;

    #[crate::message(topic = "inside.second", crate = crate)]
    struct Second;

    #[crate::handler]
    async fn first(_: First, _: State<u8>) {}

    #[crate::handler]
    async fn second(_: Second) {}

    static JOINED: Router<u8> = crate::router![second];
    static ROUTER: Router<u8> = crate::router![..JOINED, first; requires First, Second];

    #[test]
    fn a_router_has_the_handlers_of_those_it_joins() {
        let mut names: Vec<_> = ROUTER
            .entries()
            .iter()
            .map(|entry| (entry.promise.topic, entry.promise.name))
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [("inside.first", "first"), ("inside.second", "second")]
        );
    }
}
