//! A connection of a relay's own.
//!
//! Directly, a session is told once how it is to behave, and each statement is a transaction by itself: one
//! round trip. Through a pooler no session stays the same, so that each transaction is told again.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Transaction,
    postgres::{PgConnectOptions, PgRow},
};
use uuid::Uuid;

use super::{
    super::{
        Claim, Claimed, LeaseId, Limits, Mark, Probe, Renewed, Route, Session, Settlement,
        TakenOver,
        operate::{Old, Settled},
        session,
    },
    Query, claim, listen, purge, register, settle,
};
use crate::{Error, Outbox, error::Doing as _, lifecycle::Retry};

pub(super) struct Connected {
    pub(super) outbox: Outbox,
    connection: PgConnection,
    begin: Arc<str>,
}

/// What would be the default of a role or a database is made for interactive use, or for statements that look
/// at many rows. Ours find few by an index: another plan is a mistake of the statistics, which lag behind a
/// table that is empty now and full in a second; and none is worth to be planned again each time, or to be
/// compiled.
const PLANS: [(&str, &str); 5] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_sort", "off"),
    ("jit", "off"),
];

/// By this a session shows that it was told.
const MARK: (&str, &str) = ("outbox.session", "direct");

impl Connected {
    pub(super) async fn open(
        outbox: &Outbox,
        options: &PgConnectOptions,
        limits: Limits,
    ) -> Result<Self, Error> {
        let millis = |limit: Duration| limit.as_millis().max(1).to_string();
        let limits = [
            ("statement_timeout", millis(limits.statement)),
            ("lock_timeout", millis(limits.lock)),
            (
                "idle_in_transaction_session_timeout",
                millis(limits.statement),
            ),
        ];
        let settings = PLANS.map(|(name, value)| (name, value.to_owned()));
        let settings = settings.into_iter().chain(limits);
        if outbox.settings().pooler {
            let begin = settings.fold(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE".to_owned(),
                |begin, (name, value)| format!("{begin}; SET LOCAL {name} = {value}"),
            );
            return Ok(Self {
                outbox: outbox.clone(),
                connection: options.connect().await.doing(CONNECTING)?,
                begin: begin.into(),
            });
        }
        let isolation = [
            ("default_transaction_isolation", "read committed"),
            ("default_transaction_read_only", "off"),
            MARK,
        ];
        let options = options.clone().options(isolation).options(settings);
        let mut connection = match options.connect().await {
            Err(error) if listen::refuses_settings(&error) => return Err(pooled()),
            connected => connected.doing(CONNECTING)?,
        };
        let mark: Option<String> =
            sqlx::query_scalar("SELECT current_setting('outbox.session', true)")
                .persistent(false)
                .fetch_one(&mut connection)
                .await
                .doing(CONNECTING)?;
        if mark.as_deref() != Some(MARK.1) {
            return Err(pooled());
        }
        Ok(Self {
            outbox: outbox.clone(),
            connection,
            begin: "BEGIN".into(),
        })
    }

    /// Runs one statement as a transaction of its own.
    pub(super) async fn run(&mut self, statement: Query) -> Result<Vec<PgRow>, sqlx::Error> {
        if self.outbox.settings().pooler {
            return self.run_together(vec![statement]).await;
        }
        statement.fetch_all(&mut self.connection).await
    }

    /// Runs a statement that returns one row.
    pub(super) async fn run_for_one(&mut self, statement: Query) -> Result<PgRow, sqlx::Error> {
        self.run(statement)
            .await?
            .pop()
            .ok_or(sqlx::Error::RowNotFound)
    }

    /// Runs statements as one transaction; all that they return.
    pub(super) async fn run_all(
        &mut self,
        mut statements: Vec<Query>,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        match statements.pop() {
            None => Ok(Vec::new()),
            Some(statement) if statements.is_empty() => self.run(statement).await,
            Some(last) => {
                statements.push(last);
                self.run_together(statements).await
            }
        }
    }

    async fn run_together(&mut self, statements: Vec<Query>) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut tx = self.begin().await?;
        let mut rows = Vec::new();
        for statement in statements {
            rows.append(&mut statement.fetch_all(&mut *tx).await?);
        }
        tx.commit().await?;
        Ok(rows)
    }

    /// A transaction of more than one statement.
    pub(super) async fn begin(&mut self) -> Result<Transaction<'_, sqlx::Postgres>, sqlx::Error> {
        let begin = Arc::clone(&self.begin);
        self.connection.begin_with(AssertSqlSafe(begin)).await
    }
}

const CONNECTING: &str = "connecting the relay";

fn pooled() -> Error {
    Error::config(
        "there is a pooler between the relay and its database, in which no session stays the same: \
         build the outbox with `Outbox::builder().pooler(true)`, or give the relay a pool with the direct address",
    )
}

session!(Connected {
    fn probe<'a>(
        &'a mut self,
        routes: &'a [Route],
        marks: &'a [Mark],
        cutoff: Option<i64>,
    ) -> BoxFuture<'a, Result<Probe, Error>> {
        Box::pin(claim::probe(self, routes, marks, cutoff))
    }

    fn changed(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        // There is no watch interval; a listener tells.
        Box::pin(async { Ok(false) })
    }

    fn test_listeners(&mut self, test: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let notify = listen::notify(&self.outbox, listen::test_payload(test));
            self.run(notify).await.doing("testing the listener")?;
            Ok(())
        })
    }
});
