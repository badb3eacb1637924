//! Hearing of commits before the next poll.
//!
//! Polling is the truth: whatever goes wrong here costs at most a poll. A listener that can't be
//! trusted any more is thrown away, and after each new one the relay looks for itself, since what was
//! sent in between was heard by nobody.
//!
//! Of all relays that listen one is the lookout, which tells publishers whether to wake: at most once in a
//! [`REST`], after which everybody looks for what was published in silence. So however much is published, few
//! of the transactions carry a NOTIFY, and a message that comes alone is heard of at once.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Run,
    backoff::Backoff,
    connection::{Connection, call, within},
    health::Doing,
};
use crate::{
    Error, meter,
    store::{Ear, Ears, Heard},
};

/// How long a listener in the wrong place is left alone: that will not change soon.
const WRONG_PLACE: Duration = Duration::from_secs(60);

/// After a wake publishers keep silent for so long.
const REST: Duration = Duration::from_millis(10);

/// The same at most, while so much is published that the wake comes at once, or while somebody's transaction
/// stays open that has published.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How often everybody is told to look, in place of asking for a wake, while so much is published.
const CALLS: usize = 4;

/// A wake that takes longer than this does not come at once.
const AT_ONCE: Duration = Duration::from_millis(5);

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
        tokio::select! {
            ended = self.hear(ear, &chosen, &heard) => ended,
            error = self.look_out(&chosen, &heard) => Ended::Lost(Some(error)),
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

    /// Once this relay is the lookout, asks for wakes, one at a time.
    async fn look_out(&self, chosen: &Notify, heard: &Bell) -> Error {
        chosen.notified().await;
        match self.ask_for_wakes(heard).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn ask_for_wakes(&self, heard: &Bell) -> Result<Infallible, Error> {
        const DOING: &str = "looking out for publishers";
        let open = self.ears.lookout(3 * self.heartbeat);
        let mut lookout = self.answered(DOING, open).await?;
        let mut rest = REST;
        loop {
            let busy = if self.answered(DOING, lookout.arm()).await? {
                heard.silence();
                // Publishers who were not asked have committed. If the next one comes at once, everybody looks
                // for its sake.
                self.run.wake.look();
                let at_once = tokio::time::timeout(AT_ONCE, heard.rung()).await.is_ok();
                if !at_once {
                    self.answered(DOING, lookout.call()).await?;
                    while tokio::time::timeout(self.heartbeat, heard.rung())
                        .await
                        .is_err()
                    {
                        self.answered(DOING, lookout.beat()).await?;
                    }
                }
                self.answered(DOING, lookout.disarm()).await?;
                at_once
            } else {
                self.answered(DOING, lookout.call()).await?;
                true
            };
            rest = match busy {
                true => (rest * 2).min(LONGEST_REST),
                false => REST,
            };
            tokio::time::sleep(rest).await;
            if rest == LONGEST_REST {
                // To ask now would cost many a commit, and tell nothing new.
                for _ in 0..CALLS {
                    self.answered(DOING, lookout.call()).await?;
                    tokio::time::sleep(rest).await;
                }
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

/// Rings once for any number of wakes.
#[derive(Default)]
struct Bell(Notify);

impl Bell {
    fn ring(&self) {
        self.0.notify_one();
    }

    async fn rung(&self) {
        self.0.notified().await;
    }

    fn silence(&self) {
        let _ = self.0.notified().now_or_never();
    }
}
