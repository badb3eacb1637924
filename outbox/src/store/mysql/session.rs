//! A connection of a relay's own.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, MySqlConnection, Transaction,
    mysql::MySqlConnectOptions,
};
use uuid::Uuid;

use super::{
    super::{
        Claim, Claimed, LeaseId, Limits, Probe, Renewed, Route, Session, Settlement, TakenOver,
        operate::{Old, Settled},
    },
    claim, purge, register, settle,
    version::Server,
};
use crate::{Error, Outbox, error::Doing as _, lifecycle::Retry};

pub(super) struct Connected {
    pub(super) outbox: Outbox,
    connection: MySqlConnection,
    /// How long an operation tries again that meets rows which others have locked.
    pub(super) patience: Duration,
}

const CONNECTING: &str = "connecting the relay";

impl Connected {
    pub(super) async fn open(
        outbox: &Outbox,
        options: &MySqlConnectOptions,
        limits: Limits,
    ) -> Result<Self, Error> {
        let mut connection = options.connect().await.doing(CONNECTING)?;
        let server = Server::of(&mut connection).await?;
        sqlx::raw_sql(AssertSqlSafe(server.settings(limits)))
            .execute(&mut connection)
            .await
            .doing(CONNECTING)?;
        Ok(Self {
            outbox: outbox.clone(),
            connection,
            patience: limits.lock,
        })
    }

    pub(super) fn connection(&mut self) -> &mut MySqlConnection {
        &mut self.connection
    }

    pub(super) async fn begin(&mut self) -> Result<Transaction<'_, sqlx::MySql>, sqlx::Error> {
        self.connection.begin().await
    }
}

impl Session for Connected {
    fn now(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
        Box::pin(claim::now(self))
    }

    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        _: &'a [Option<i64>],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>> {
        Box::pin(claim::probe(self, routes, cutoff))
    }

    fn claim<'a>(&'a mut self, claim: &'a Claim) -> BoxFuture<'a, Result<Vec<Claimed>, Error>> {
        Box::pin(claim::claim(self, claim))
    }

    fn take_over<'a>(
        &'a mut self,
        claim: &'a Claim,
        retry: &'a Retry,
        alone: bool,
    ) -> BoxFuture<'a, Result<TakenOver, Error>> {
        Box::pin(claim::take_over(self, claim, retry, alone))
    }

    fn renew<'a>(
        &'a mut self,
        leases: &'a [LeaseId],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Renewed, Error>> {
        Box::pin(settle::renew(self, leases, lease))
    }

    fn settle<'a>(
        &'a mut self,
        batch: &'a [Settlement],
    ) -> BoxFuture<'a, Result<Vec<Uuid>, Error>> {
        Box::pin(settle::settle(self, batch))
    }

    fn heartbeat<'a>(
        &'a mut self,
        relay: Uuid,
        routes: &'a [Route],
        forget: Duration,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(register::heartbeat(self, relay, routes, forget))
    }

    fn farewell(&mut self, relay: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(register::farewell(self, relay))
    }

    fn take_duty<'a>(
        &'a mut self,
        duty: &'static str,
        relay: Uuid,
        hold: Duration,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(purge::take_duty(self, duty, relay, hold))
    }

    fn settled_routes(
        &mut self,
        settled: Settled,
    ) -> BoxFuture<'_, Result<Vec<(String, i32)>, Error>> {
        Box::pin(purge::routes(self, settled))
    }

    fn count_old<'a>(
        &'a mut self,
        old: &'a Old,
        limit: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(purge::count(self, old, limit))
    }

    fn purge<'a>(&'a mut self, old: &'a Old, limit: u64) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(purge::purge(self, old, limit))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Whether the other side still listens makes no difference any more.
            let _ = self.connection.close().await;
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        // There is no watch interval.
        Box::pin(async { Ok(false) })
    }

    fn test_listeners(&mut self, _: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        // There are none.
        Box::pin(async { Ok(()) })
    }
}
