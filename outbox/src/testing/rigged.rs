//! A store that loses leases when it is told to, and shows its relay one message only if it is told so.
//!
//! It changes rows as another relay would; what becomes of them is left to the real store.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::{
    Error,
    lifecycle::Retry,
    store::{
        Claim, Claimed, Ears, LeaseId, Limits, ListenerAddress, Mark, MigrationScript,
        MissingRights, Probe, Renewed, Route, Session, Settlement, Store, TakenOver, Version,
        operate::{Old, Operate, Settled},
        testing::Testing,
    },
};

/// The messages whose next lease is to be lost.
#[derive(Debug, Default)]
pub(super) struct Losses(Mutex<HashSet<Uuid>>);

impl Losses {
    pub(super) fn add(&self, id: Uuid) {
        self.ids().insert(id);
    }

    pub(super) fn forget(&self, id: Uuid) {
        self.ids().remove(&id);
    }

    pub(super) fn any(&self) -> bool {
        !self.ids().is_empty()
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
pub(super) struct Rigged {
    pub(super) store: Arc<dyn Store>,
    pub(super) losses: Arc<Losses>,
    pub(super) only: Option<Only>,
}

/// The only message that is there to be claimed.
pub(super) struct Only {
    pub(super) id: Uuid,
    /// Its route's position.
    pub(super) route: usize,
    /// A probe has told of it: each run of a relay gets it once.
    pub(super) told: AtomicBool,
}

impl Rigged {
    /// Loses the leases on these rows that are to be lost.
    async fn lose(&self, ids: impl Iterator<Item = Uuid>) -> Result<(), Error> {
        let lost: Vec<_> = {
            let losses = self.losses.ids();
            ids.filter(|id| losses.contains(id)).collect()
        };
        for &id in &lost {
            self.store.testing().lapse(id).await?;
            self.losses.forget(id);
        }
        if !lost.is_empty() {
            // Past the deadline that such a row has now, so that the next drain finds it lapsed.
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        Ok(())
    }
}

struct RiggedSession {
    rigged: Arc<Rigged>,
    session: Box<dyn Session>,
}

impl Store for Arc<Rigged> {
    fn migrate(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.store.migrate()
    }

    fn migration_scripts(&self) -> Vec<MigrationScript> {
        self.store.migration_scripts()
    }

    fn plain_sql(&self) -> String {
        self.store.plain_sql()
    }

    fn versions(&self) -> BoxFuture<'_, Result<Vec<Version>, Error>> {
        self.store.versions()
    }

    fn operator(&self) -> &dyn Operate {
        self.store.operator()
    }

    fn missing_rights(&self, purges: bool) -> BoxFuture<'_, Result<Option<MissingRights>, Error>> {
        self.store.missing_rights(purges)
    }

    fn open(&self, limits: Limits) -> BoxFuture<'_, Result<Box<dyn Session>, Error>> {
        Box::pin(async move {
            let session = RiggedSession {
                rigged: Arc::clone(self),
                session: self.store.open(limits).await?,
            };
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }

    fn ears(&self, address: &ListenerAddress) -> Result<Arc<dyn Ears>, Error> {
        self.store.ears(address)
    }

    fn watch_interval(&self) -> Option<Duration> {
        self.store.watch_interval()
    }

    fn testing(&self) -> &dyn Testing {
        self.store.testing()
    }
}

impl Session for RiggedSession {
    fn now(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
        self.session.now()
    }

    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        marks: &'a [Mark],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>> {
        let Some(only) = &self.rigged.only else {
            return self.session.probe(routes, marks, cutoff);
        };
        // As a lapsed one, whatever it is: `take_over` can do all that there is to do with it.
        let mut probe = Probe::default();
        if !only.told.swap(true, Ordering::Relaxed) {
            probe.leased.push((only.route, probe.now));
        }
        Box::pin(async { Ok(probe) })
    }

    fn claim<'a>(&'a mut self, claim: &'a Claim) -> BoxFuture<'a, Result<Vec<Claimed>, Error>> {
        self.session.claim(claim)
    }

    fn take_over<'a>(
        &'a mut self,
        claim: &'a Claim,
        retry: &'a Retry,
        alone: bool,
    ) -> BoxFuture<'a, Result<TakenOver, Error>> {
        match &self.rigged.only {
            None => self.session.take_over(claim, retry, alone),
            Some(only) => self.rigged.store.testing().take_one(claim, retry, only.id),
        }
    }

    fn renew<'a>(
        &'a mut self,
        leases: &'a [LeaseId],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Renewed, Error>> {
        Box::pin(async move {
            self.rigged.lose(leases.iter().map(|(id, _)| *id)).await?;
            self.session.renew(leases, lease).await
        })
    }

    fn settle<'a>(
        &'a mut self,
        batch: &'a [Settlement],
    ) -> BoxFuture<'a, Result<Vec<Uuid>, Error>> {
        Box::pin(async move {
            let ids = batch.iter().map(|settlement| settlement.lease.0);
            self.rigged.lose(ids).await?;
            self.session.settle(batch).await
        })
    }

    fn heartbeat<'a>(
        &'a mut self,
        relay: Uuid,
        routes: &'a [Route],
        forget: Duration,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.session.heartbeat(relay, routes, forget)
    }

    fn farewell(&mut self, relay: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        self.session.farewell(relay)
    }

    fn take_duty<'a>(
        &'a mut self,
        duty: &'static str,
        relay: Uuid,
        hold: Duration,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        self.session.take_duty(duty, relay, hold)
    }

    fn settled_routes(
        &mut self,
        settled: Settled,
    ) -> BoxFuture<'_, Result<Vec<(String, i32)>, Error>> {
        self.session.settled_routes(settled)
    }

    fn count_old<'a>(
        &'a mut self,
        old: &'a Old,
        limit: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        self.session.count_old(old, limit)
    }

    fn purge<'a>(&'a mut self, old: &'a Old, limit: u64) -> BoxFuture<'a, Result<u64, Error>> {
        self.session.purge(old, limit)
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.session.close()
    }

    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        self.session.changed()
    }

    fn test_listeners(&mut self, test: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        self.session.test_listeners(test)
    }
}
