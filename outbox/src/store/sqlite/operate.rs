//! The operator's side: each thing in its own file.

use std::time::Duration;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::{
    super::{
        RouteCount,
        operate::{Action, Chunk, Corrected, Filter, Operate, Page, Swept},
    },
    Sqlite, dead_letters, register, stats,
};
use crate::{DeadLetter, Discarded, Error, Inspected, LiveRelay, Paused};

impl Operate for Sqlite {
    fn now(&self) -> BoxFuture<'_, Result<i64, Error>> {
        Box::pin(stats::now(self))
    }

    fn stats(&self, limit: Option<u64>) -> BoxFuture<'_, Result<Vec<RouteCount>, Error>> {
        Box::pin(stats::stats(self, limit))
    }

    fn relays(&self, alive: Duration) -> BoxFuture<'_, Result<Vec<LiveRelay>, Error>> {
        Box::pin(stats::relays(self, alive))
    }

    fn dead_letters<'a>(&'a self, page: &'a Page) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(dead_letters::list(self, page))
    }

    fn inspect(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Inspected>, Error>> {
        Box::pin(dead_letters::inspect(self, id))
    }

    fn count_dead<'a>(
        &'a self,
        filter: &'a Filter,
        limit: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(dead_letters::count_dead(self, filter, limit))
    }

    fn redrive<'a>(
        &'a self,
        id: Uuid,
        corrected: Option<&'a Corrected>,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(dead_letters::redrive(self, id, corrected))
    }

    fn discard<'a>(&'a self, id: Uuid, reason: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(dead_letters::discard(self, id, reason))
    }

    fn sweep<'a>(
        &'a self,
        filter: &'a Filter,
        action: &'a Action,
        chunk: Chunk,
    ) -> BoxFuture<'a, Result<Swept, Error>> {
        Box::pin(dead_letters::sweep(self, filter, action, chunk))
    }

    fn discarded<'a>(&'a self, page: &'a Page) -> BoxFuture<'a, Result<Vec<Discarded>, Error>> {
        Box::pin(dead_letters::discarded(self, page))
    }

    fn pause<'a>(
        &'a self,
        topic: &'a str,
        reason: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(register::pause(self, topic, reason))
    }

    fn resume<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(register::resume(self, topic))
    }

    fn paused(&self) -> BoxFuture<'_, Result<Vec<Paused>, Error>> {
        Box::pin(register::paused(self))
    }
}
