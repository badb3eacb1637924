//! The router: which handler serves which topic, decided at compile time.

use crate::{
    handler::{Delivery, Handle, Policy, Started},
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
    /// One per version of the payload; today there is one.
    pub(crate) versions: &'static [Version<S>],
}

/// How a payload of one version is turned into a running handler.
#[derive(Debug)]
pub(crate) struct Version<S: 'static> {
    pub(crate) version: u32,
    pub(crate) start: Start<S>,
}

pub(crate) type Start<S> = fn(&str, Delivery, &S) -> Started;

impl<S: 'static> Entry<S> {
    /// The entry of handler `H`.
    #[must_use]
    pub const fn of<H: Handle<S>>() -> Self {
        Self {
            promise: H::PROMISE,
            policy: H::POLICY,
            versions: const {
                &[Version {
                    version: H::PROMISE.version,
                    start: H::start,
                }]
            },
        }
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
