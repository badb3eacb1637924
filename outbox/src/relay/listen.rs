//! Hearing of commits before the next poll.
//!
//! Polling is the truth: whatever goes wrong here costs at most a poll. A listener that can't be
//! trusted any more is thrown away, and after each new one the relay looks for itself, since what was
//! sent in between was heard by nobody.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Run,
    backoff::Backoff,
    connection::{Connection, call, within},
    health::Doing,
    lookout::{self, Bell},
};
use crate::{
    Error, meter,
    store::{Ear, Ears, Heard},
};

/// How long a listener in the wrong place is left alone: that will not change soon.
const WRONG_PLACE: Duration = Duration::from_secs(60);

/// Listens until the relay stops.
pub(super) async fn run<S: Send + Sync + 'static>(
    run: Arc<Run<S>>,
    ears: Arc<dyn Ears>,
    done: CancellationToken,
) {
    let config = &run.setup.config;
    let listening = Listening {
        ears: &*ears,
        heartbeat: config.heartbeat(),
        timeout: config.store_timeout,
        run: &run,
    };
    let _ = done.run_until_cancelled(listening.serve()).await;
}

struct Listening<'a, S: 'static> {
    ears: &'a dyn Ears,
    heartbeat: Duration,
    timeout: Duration,
    run: &'a Arc<Run<S>>,
}

/// Why a listener ended.
enum Ended {
    /// It never heard its own test.
    Deaf,
    /// A pooler shares out what it would listen on.
    Pooled,
    Lost(Option<Error>),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages wait for the next poll, since ")?;
        match self {
            Self::Deaf => f.write_str(
                "the listener does not hear what is notified in the relay's database; \
                 give `listener(..)` the direct address of that database",
            ),
            Self::Pooled => f.write_str(
                "there is a pooler where the listener would listen; \
                 give `listener(..)` the direct address of the relay's database",
            ),
            Self::Lost(Some(error)) => write!(f, "the listener was lost: {error}"),
            Self::Lost(None) => f.write_str("the listener's connection was lost"),
        }
    }
}

impl<S: Send + Sync + 'static> Listening<'_, S> {
    async fn serve(&self) {
        let (mut backoff, mut heard_before) = (Backoff::default(), false);
        let vitals = &self.run.setup.vitals;
        loop {
            let ended = match self.open().await {
                Ok(ear) => {
                    vitals.note(Doing::Listening, Ok::<_, Ended>(()));
                    if std::mem::replace(&mut heard_before, true) {
                        meter::listener_reconnected();
                    }
                    backoff.reset();
                    self.listen(ear).await
                }
                Err(ended) => ended,
            };
            vitals.note(Doing::Listening, Err(&ended));
            let pause = match ended {
                Ended::Deaf | Ended::Pooled => WRONG_PLACE,
                Ended::Lost(_) => backoff.next(),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// A listener that hears. The test is sent on another connection, as wakes are.
    async fn open(&self) -> Result<Box<dyn Ear>, Ended> {
        let lost = |error| Ended::Lost(Some(error));
        let open = self.ears.open(3 * self.heartbeat);
        let mut ear = self
            .answered("listening for messages", open)
            .await
            .map_err(lost)?
            .ok_or(Ended::Pooled)?;
        let test = Uuid::new_v4();
        let mut connection = Connection::new(Arc::clone(&self.run.setup.store), self.timeout);
        let sent = call!(connection, "testing the listener", |session| session
            .test_listeners(test));
        connection.close().await;
        sent.map_err(lost)?;
        let heard = async {
            loop {
                match ear.hear().await? {
                    Heard::Test(heard) if heard == test => return Ok(true),
                    Heard::Lost => return Ok(false),
                    Heard::Test(_) | Heard::Wake | Heard::Look => {}
                }
            }
        };
        match tokio::time::timeout(self.timeout, heard).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(Ended::Lost(None)),
            Ok(Err(error)) => return Err(lost(error)),
            Err(_) => return Err(Ended::Deaf),
        }
        // What was committed before it listened.
        self.run.wake.look();
        Ok(ear)
    }

    /// Ends with an error, the lookout's included: whoever can't tell publishers to wake must not keep others
    /// from it.
    async fn listen(&self, ear: Box<dyn Ear>) -> Ended {
        let (chosen, heard) = (Notify::new(), Bell::default());
        let lookout = async {
            chosen.notified().await;
            lookout::run(
                self.ears,
                self.heartbeat,
                self.timeout,
                &self.run.wake,
                &heard,
            )
            .await
        };
        tokio::select! {
            ended = self.hear(ear, &chosen, &heard) => ended,
            error = lookout => Ended::Lost(Some(error)),
        }
    }

    async fn hear(&self, mut ear: Box<dyn Ear>, chosen: &Notify, heard: &Bell) -> Ended {
        let mut beat_at = Instant::now();
        loop {
            // However much there is to hear: the server ends a session that is silent itself.
            if beat_at <= Instant::now() {
                match self.answered("asking the listener", ear.beat()).await {
                    Ok(true) => chosen.notify_one(),
                    Ok(false) => {}
                    Err(error) => return Ended::Lost(Some(error)),
                }
                beat_at = Instant::now() + self.heartbeat;
            }
            match tokio::time::timeout_at(beat_at.into(), ear.hear()).await {
                Ok(Ok(Heard::Wake)) => {
                    heard.ring();
                    self.run.wake.published();
                }
                Ok(Ok(Heard::Look)) => self.run.wake.look(),
                Ok(Ok(Heard::Test(_))) | Err(_) => {}
                Ok(Ok(Heard::Lost)) => return Ended::Lost(None),
                Ok(Err(error)) => return Ended::Lost(Some(error)),
            }
        }
    }

    async fn answered<T>(
        &self,
        doing: &'static str,
        operation: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        within(self.timeout, doing, operation).await
    }
}
