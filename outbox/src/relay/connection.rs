//! A connection of the relay's own, made anew whenever it can't be trusted any more.

use std::{future::Future, sync::Arc, time::Duration};

use crate::{
    Error,
    error::Kind,
    store::{Fault, Limits, Session, Store, fault},
};

/// One of the relay's connections. Each has a single user, so a slow statement of one kind holds up
/// no other kind.
pub(super) struct Connection {
    store: Arc<dyn Store>,
    session: Option<Box<dyn Session>>,
    /// How long one operation may take.
    limits: Limits,
}

impl Connection {
    pub(super) fn new(store: Arc<dyn Store>, limits: impl Into<Limits>) -> Self {
        Self {
            store,
            session: None,
            limits: limits.into(),
        }
    }

    /// Connects, if there is no connection. Safe to cancel.
    pub(super) async fn connect(&mut self) -> Result<(), Error> {
        let session = self.take().await?;
        self.session = Some(session);
        Ok(())
    }

    /// Takes the session for one operation, connecting if need be. If the operation is dropped
    /// halfway, so is the session, and with it the connection.
    pub(super) async fn take(&mut self) -> Result<Box<dyn Session>, Error> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => {
                let open = self.store.open(self.limits);
                within(self.limits.statement, "connecting the relay", open).await
            }
        }
    }

    /// Waits for an operation on the session that was taken.
    pub(super) async fn finish<T>(
        &mut self,
        doing: &'static str,
        operation: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        within(self.limits.statement, doing, operation).await
    }

    /// Puts the session back, unless the operation's result says that it can't be trusted: one that
    /// timed out may still get its answer, which nobody must take for the next one's.
    pub(super) fn put_back<T>(&mut self, session: Box<dyn Session>, result: &Result<T, Error>) {
        let broken = result
            .as_ref()
            .is_err_and(|error| fault(error) == Fault::Connection);
        if !broken {
            self.session = Some(session);
        }
    }

    pub(super) async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            let close = async {
                session.close().await;
                Ok(())
            };
            let _ = within(
                self.limits.statement,
                "closing the relay's connection",
                close,
            )
            .await;
        }
    }
}

/// Runs one operation of a session on a [`Connection`]: `call!(connection, "claiming", |s| s.claim(&c))`.
macro_rules! call {
    ($connection:expr, $doing:literal, |$session:ident| $operation:expr) => {{
        let connection: &mut Connection = &mut $connection;
        match connection.take().await {
            Err(error) => Err(error),
            Ok(mut $session) => {
                let result = connection.finish($doing, $operation).await;
                connection.put_back($session, &result);
                result
            }
        }
    }};
}
pub(super) use call;

/// Waits for an operation, so long and no longer.
pub(super) async fn within<T>(
    timeout: Duration,
    doing: &'static str,
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(timeout, operation)
        .await
        .unwrap_or_else(|_| {
            Err(Error::new(Kind::Timeout {
                doing,
                after: timeout,
            }))
        })
}
