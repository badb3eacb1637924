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
        Claim, Claimed, LeaseId, Limits, Mark, Probe, Renewed, Route, Session, Settlement,
        TakenOver,
        operate::{Old, Settled},
        session,
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

session!(Connected {
    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        _: &'a [Mark],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>> {
        Box::pin(claim::probe(self, routes, cutoff))
    }

    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        // There is no watch interval.
        Box::pin(async { Ok(false) })
    }

    fn test_listeners(&mut self, _: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        // There are none.
        Box::pin(async { Ok(()) })
    }
});
