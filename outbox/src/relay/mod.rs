//! The relay: claim → dispatch → settle, with leases renewed beside it.
//!
//! Each run has one task per connection: [`claim`] fills the window with rows, [`dispatch`] runs
//! one task per row, [`settle`] writes the outcomes down in batches, and [`renew`] holds the leases
//! until then; [`listen`] hears of commits before the next poll, the [`lookout`] among all that listen lets
//! itself be woken, and [`retain`] removes what has settled long ago. Nothing else starts tasks.

mod backoff;
mod builder;
mod claim;
mod config;
mod connection;
mod counts;
mod died;
mod dispatch;
mod health;
mod hush;
mod limit;
mod listen;
mod lookout;
mod marks;
mod near;
mod renew;
mod retain;
mod round;
mod settle;
mod suspects;
#[cfg(feature = "testing")]
mod testing;
mod wake;
mod window;

use std::{
    fmt,
    future::Future,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc},
    task::{JoinError, JoinHandle},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub use self::{
    builder::{HasState, NeedsState, RelayBuilder, StateOf},
    counts::Counts,
    died::Died,
    health::{Health, Trouble},
};
use self::{
    config::Config,
    counts::Tally,
    died::OnDeadLetter,
    health::{Running, Vitals},
    hush::Hush,
    limit::Limiter,
    wake::Wake,
    window::Window,
};
use crate::{
    Error,
    lifecycle::Retry,
    router::Start,
    store::{Ears, Route, Settlement, Store},
};

/// Delivers committed messages to the handlers of a router. Cheap to clone.
///
/// Any number of relays may run anywhere, on the same table, without a leader.
#[must_use = "a relay does nothing until it is told to: `run_until`, `spawn` or `drain`"]
pub struct Relay<S: 'static = ()> {
    setup: Arc<Setup<S>>,
}

/// What all runs of a relay share.
struct Setup<S: 'static> {
    store: Arc<dyn Store>,
    routes: Vec<Route>,
    /// One per route, in the same order.
    served: Vec<Served<S>>,
    state: Arc<S>,
    config: Config,
    /// Where it hears of commits.
    ears: Option<Arc<dyn Ears>>,
    vitals: Arc<Vitals>,
    on_dead_letter: Option<OnDeadLetter>,
    /// Its tables are known to be those that this build can use.
    checked: AtomicBool,
}

/// A route with what its handler's attribute and the builder say about it.
struct Served<S> {
    route: Route,
    /// That of the route.
    version: u32,
    handler: &'static str,
    start: Start<S>,
    retry: Retry,
    timeout: Option<Duration>,
    /// Shared by the versions of one handler, and by all runs of the relay.
    limiter: Arc<Limiter>,
}

/// One run of a relay, from its start to its last settle.
struct Run<S: 'static> {
    /// Its name in the register of live relays.
    id: Uuid,
    setup: Arc<Setup<S>>,
    mode: Mode,
    window: Window,
    /// One permit per handler that may run.
    slots: Semaphore,
    outcomes: mpsc::UnboundedSender<Settlement>,
    tally: Arc<Tally>,
    /// Something may have been committed.
    wake: Wake,
    /// No more claims; what has not started goes back.
    stop: CancellationToken,
    /// The grace is over: running handlers are dropped.
    kill: CancellationToken,
    deliveries: TaskTracker,
    /// Lost leases in the log.
    losses: Hush,
    /// Tells that it runs, until it is dropped.
    _running: Running,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Until it is told to stop.
    Serve,
    /// Until nothing is left that was due when it began.
    Drain,
}

impl<S: Send + Sync + 'static> Relay<S> {
    /// Delivers until `shutdown` resolves; then claims nothing more, gives back what has not
    /// started, and waits up to the grace for the handlers that run. Their messages, if they don't
    /// finish, are delivered again once their leases lapse.
    ///
    /// While the database can't be reached it goes on trying. If this future is dropped, the relay
    /// stops in the background, in the same orderly way.
    ///
    /// # Errors
    ///
    /// None at present: what can be wrong was found by `build`.
    pub async fn run_until(
        &self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Counts, Error> {
        let stop = CancellationToken::new();
        let _stop_if_dropped = stop.clone().drop_guard();
        let mut run = self.start(Mode::Serve, stop.clone(), Arc::default());
        tokio::select! {
            () = shutdown => stop.cancel(),
            // It ends by itself only in a panic, which should not wait for the shutdown.
            ended = &mut run => return unwrapped(ended).await,
        }
        joined(run).await
    }

    /// Delivers in the background until the handle is told to shut down.
    pub fn spawn(&self) -> RelayHandle {
        let (stop, tally) = (CancellationToken::new(), Arc::default());
        let run = self.start(Mode::Serve, stop.clone(), Arc::clone(&tally));
        RelayHandle {
            stop,
            tally,
            vitals: Arc::clone(&self.setup.vitals),
            run: Some(run),
        }
    }

    /// Delivers everything that is due now, waits for what it started, and says what it did. Rows in
    /// backoff, rows leased to another relay or locked by another transaction, and rows that are
    /// published meanwhile stay.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`] or [`Error::is_timeout`] if the database can't be reached; what had
    /// been started was awaited.
    pub async fn drain(&self) -> Result<Counts, Error> {
        let stop = CancellationToken::new();
        let _stop_if_dropped = stop.clone().drop_guard();
        joined(self.start(Mode::Drain, stop, Arc::default())).await
    }

    /// How it is doing: live, degraded (what fails, since when, and why) or stopped. Asks nobody, so that a
    /// probe can call it as often as it likes.
    ///
    /// A relay whose database can't be reached is degraded, and goes on trying: that is no reason to
    /// restart it. All runs of this relay count, and those of its clones.
    #[must_use]
    pub fn health(&self) -> Health {
        self.setup.vitals.health()
    }

    fn start(
        &self,
        mode: Mode,
        stop: CancellationToken,
        tally: Arc<Tally>,
    ) -> JoinHandle<Result<Counts, Error>> {
        let (outcomes, settled) = mpsc::unbounded_channel();
        let run = Arc::new(Run {
            id: Uuid::now_v7(),
            setup: Arc::clone(&self.setup),
            mode,
            window: Window::new(self.setup.config.window()),
            slots: Semaphore::new(self.setup.config.concurrency),
            outcomes,
            tally,
            wake: Wake::default(),
            stop,
            kill: CancellationToken::new(),
            deliveries: TaskTracker::new(),
            losses: Hush::default(),
            _running: self.setup.vitals.begin(),
        });
        tokio::spawn(run.run(settled))
    }
}

/// How long a stop waits, past the grace, for what was just dropped or is on its way.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl<S: Send + Sync + 'static> Run<S> {
    async fn run(
        self: Arc<Self>,
        outcomes: mpsc::UnboundedReceiver<Settlement>,
    ) -> Result<Counts, Error> {
        let done = CancellationToken::new();
        // If this task panics, the others must not go on holding its leases.
        let _done_at_the_end = done.clone().drop_guard();
        let settler = tokio::spawn(settle::run(Arc::clone(&self), outcomes, done.clone()));
        let renewer = tokio::spawn(renew::run(Arc::clone(&self), done.clone()));
        let listener = self.listener(done.clone());
        let near = self.near(done.clone());
        let purger = self.purger(done.clone());

        let claimed = claim::run(&self).await;
        // Whatever ended the claims, the rest is the same: wait for what was started.
        let emptied = async {
            while !self.window.is_empty() {
                self.window.left(|| !self.window.is_empty()).await;
            }
        };
        let in_time = match self.mode {
            Mode::Serve => tokio::time::timeout(self.setup.config.grace, emptied)
                .await
                .is_ok(),
            Mode::Drain => {
                tokio::select! {
                    () = emptied => true,
                    () = self.stopped_and_out_of_grace() => false,
                }
            }
        };
        if !in_time {
            tracing::warn!(
                "the grace is over: dropping handlers that still run; their messages will be delivered again"
            );
            self.kill.cancel();
        }
        self.deliveries.close();
        // A handler that blocks its thread can't be dropped, and a database that is out of reach can't
        // be told: neither may hold up the stop. What is not told now is delivered again.
        let last_words = async {
            self.deliveries.wait().await;
            self.window.settled().await;
        };
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
        done.cancel();
        for task in [Some(settler), Some(renewer), listener, near, purger]
            .into_iter()
            .flatten()
        {
            joined(task).await;
        }
        claimed?;
        Ok(self.tally.read())
    }

    /// A drain takes what is there, and need not hear of more.
    fn listener(self: &Arc<Self>, done: CancellationToken) -> Option<JoinHandle<()>> {
        let ears = self
            .setup
            .ears
            .as_ref()
            .filter(|_| self.mode == Mode::Serve)?;
        let listener = listen::run(Arc::clone(self), Arc::clone(ears), done);
        Some(tokio::spawn(listener))
    }

    fn near(self: &Arc<Self>, done: CancellationToken) -> Option<JoinHandle<()>> {
        let published = self
            .setup
            .store
            .published()
            .filter(|_| self.mode == Mode::Serve)?;
        Some(tokio::spawn(near::run(Arc::clone(self), published, done)))
    }

    fn purger(self: &Arc<Self>, done: CancellationToken) -> Option<JoinHandle<()>> {
        let purges = self.setup.config.retention.purges() && self.mode == Mode::Serve;
        purges.then(|| tokio::spawn(retain::run(Arc::clone(self), done)))
    }

    async fn stopped_and_out_of_grace(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.setup.config.grace).await;
    }
}

/// The result of a task of ours.
async fn joined<T>(task: JoinHandle<T>) -> T {
    unwrapped(task.await).await
}

/// No task of ours is ever aborted, so what else there is to report is a panic.
async fn unwrapped<T>(ended: Result<T, JoinError>) -> T {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, and this task with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// A relay that runs in the background; made by [`Relay::spawn`].
///
/// Dropping it stops the relay in the background, with a warning.
#[must_use = "dropping the handle stops the relay"]
pub struct RelayHandle {
    stop: CancellationToken,
    tally: Arc<Tally>,
    vitals: Arc<Vitals>,
    run: Option<JoinHandle<Result<Counts, Error>>>,
}

impl RelayHandle {
    /// Stops the relay as [`Relay::run_until`] does, and waits for it.
    ///
    /// # Errors
    ///
    /// See [`Relay::run_until`].
    pub async fn shutdown(mut self) -> Result<Counts, Error> {
        self.stop.cancel();
        match self.run.take() {
            Some(run) => joined(run).await,
            None => Ok(self.tally.read()),
        }
    }

    /// How the relay is doing; see [`Relay::health`].
    #[must_use]
    pub fn health(&self) -> Health {
        self.vitals.health()
    }

    /// What the relay has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.read()
    }
}

impl Drop for RelayHandle {
    fn drop(&mut self) {
        if self.run.is_some() {
            tracing::warn!(
                "a relay's handle was dropped: the relay stops; call `shutdown().await` to wait for it"
            );
            self.stop.cancel();
        }
    }
}

impl<S> Clone for Relay<S> {
    fn clone(&self) -> Self {
        Self {
            setup: Arc::clone(&self.setup),
        }
    }
}

impl<S> fmt::Debug for Relay<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("routes", &self.setup.routes)
            .field("config", &self.setup.config)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RelayHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayHandle")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
