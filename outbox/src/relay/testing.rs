//! A relay like another one, on another store: what the test kit delivers by.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Relay, Served, Setup};
use crate::store::{Route, Store};

impl<S: Send + Sync + 'static> Relay<S> {
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.setup.store
    }

    pub(crate) fn routes(&self) -> &[Route] {
        &self.setup.routes
    }

    /// The same relay on `store`, with a lease of at most so long. It does not listen.
    pub(crate) fn on(&self, store: Arc<dyn Store>, longest_lease: Duration) -> Self {
        let Setup {
            routes,
            served,
            state,
            config,
            vitals,
            on_dead_letter,
            checked,
            ..
        } = &*self.setup;
        let served = served.iter().map(|served| Served {
            limiter: Arc::clone(&served.limiter),
            ..*served
        });
        let mut config = config.clone();
        config.lease = config.lease.min(longest_lease);
        let setup = Setup {
            store,
            routes: routes.clone(),
            served: served.collect(),
            state: Arc::clone(state),
            config,
            ears: None,
            vitals: Arc::clone(vitals),
            on_dead_letter: on_dead_letter.clone(),
            checked: AtomicBool::new(checked.load(Ordering::Relaxed)),
        };
        Self {
            setup: Arc::new(setup),
        }
    }
}
