//! Configuring a relay.

use std::{
    collections::HashSet,
    fmt,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{
    Relay, Served, Setup,
    config::Config,
    connection::{Connection, call},
    died::{Died, OnDeadLetter},
    limit::Limiter,
};
use uuid::Uuid;

use crate::{
    Error, Outbox, Retention, Router,
    lifecycle::Retry,
    meter,
    router::Entry,
    store::{self, DatabasePool, ListenerAddress, Route, Store},
};

/// Configures a [`Relay`]; made by [`Relay::builder`].
#[must_use = "call `.build().await`"]
pub struct RelayBuilder<S: 'static, G = NeedsState> {
    pool: Arc<dyn DatabasePool>,
    router: Router<S>,
    outbox: Outbox,
    config: Config,
    listener: Option<ListenerAddress>,
    on_dead_letter: Option<OnDeadLetter>,
    state: G,
}

/// The builder has no state yet; a router without one needs none.
#[derive(Debug)]
pub struct NeedsState(());

/// The builder has the router's state.
#[derive(Debug)]
pub struct HasState<S>(Arc<S>);

/// What a builder knows of the state: all that the router's handlers need.
#[diagnostic::on_unimplemented(
    message = "the relay was not given its state `{S}`",
    label = "the handlers of its router take parts of it",
    note = "give it before `.build()`: `Relay::builder(&pool, &ROUTER).state(state).build()`"
)]
pub trait StateOf<S> {
    /// The state.
    #[doc(hidden)]
    fn into_state(self) -> Arc<S>;
}

#[diagnostic::do_not_recommend]
impl StateOf<()> for NeedsState {
    fn into_state(self) -> Arc<()> {
        Arc::new(())
    }
}

impl<S> StateOf<S> for HasState<S> {
    fn into_state(self) -> Arc<S> {
        self.0
    }
}

impl<S: Send + Sync + 'static> Relay<S> {
    /// Configures a relay that serves `router` from the outbox in `pool`'s database.
    ///
    /// The relay opens connections of its own with the pool's connect options (so hooks of the pool,
    /// such as `after_connect`, do not run on them): up to three, and none of the pool's.
    pub fn builder<P: DatabasePool + Clone + 'static>(
        pool: &P,
        router: &Router<S>,
    ) -> RelayBuilder<S> {
        RelayBuilder {
            pool: Arc::new(pool.clone()),
            router: *router,
            outbox: Outbox::default(),
            config: Config::default(),
            listener: None,
            on_dead_letter: None,
            state: NeedsState(()),
        }
    }
}

impl<S: Send + Sync + 'static> RelayBuilder<S, NeedsState> {
    /// The state from which handlers take their `State<T>`; a `Router<()>` needs none.
    pub fn state(self, state: S) -> RelayBuilder<S, HasState<S>> {
        self.with(HasState(Arc::new(state))).0
    }
}

impl<S: Send + Sync + 'static, G> RelayBuilder<S, G> {
    /// The outbox to serve. Default: `Outbox::default()`.
    pub fn outbox(mut self, outbox: &Outbox) -> Self {
        self.outbox = outbox.clone();
        self
    }

    /// How many handlers run at once, from 1 to 100,000. Default: 64.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.config.concurrency = handlers;
        self
    }

    /// How long an idle relay waits before it looks again. On SQLite it also notices commits within
    /// 20 ms; on MySQL and MariaDB see [`OutboxBuilder::wake`](crate::OutboxBuilder::wake). From 1 ms to 30 days. Default: 1 s.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.config.poll_interval = interval;
        self
    }

    /// How long a claimed row belongs to this relay without a renewal, and so how long its messages
    /// wait when the process dies. Renewed at half of it. From 100 ms to 30 days. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// How long one attempt may run, from 1 ms to 30 days. `#[outbox::handler(timeout = ..)]` wins.
    /// Default: 5 min.
    pub fn handler_timeout(mut self, timeout: Duration) -> Self {
        self.config.handler_timeout = timeout;
        self
    }

    /// How many attempts a message gets before it is a dead letter; a claim counts, whatever becomes
    /// of it. From 1 to 1,000,000. `#[outbox::handler(max_attempts = ..)]` wins.
    ///
    /// With 1, a process that dies leaves everything it had in flight as dead letters. Default: 10.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.config.retry.max_attempts = attempts;
        self
    }

    /// The delay after the first failed attempt, which doubles with each further one, and its cap.
    /// Both from 1 ms to 30 days, the base not above the cap. `#[outbox::handler(backoff = ..)]` wins.
    /// Default: 1 s and 300 s.
    pub fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        (self.config.retry.base, self.config.retry.cap) = (base, cap);
        self
    }

    /// Which part of a backoff is random, from 0.0 (none) to 1.0 (all of it). Default: 1.0.
    pub fn jitter(mut self, jitter: f64) -> Self {
        self.config.retry.jitter = jitter;
        self
    }

    /// How long a stop waits for running handlers before it drops them; from zero to 30 days.
    /// Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace;
        self
    }

    /// How many rows the relay holds at most, running or waiting: not fewer than `concurrency`, and at
    /// most 400,000. Default: 4 × concurrency, or 256 if that is more. Where handlers take less than a
    /// millisecond, larger claims cost less: 2,000 is faster by more than half.
    pub fn window(mut self, rows: usize) -> Self {
        self.config.window = Some(rows);
        self
    }

    /// Whether delivered rows stay in the table (state `delivered`) instead of being deleted, until
    /// somebody [purges](Outbox::purge) them. A [`retention`](Self::retention) of delivered rows keeps them
    /// as well. Default: false.
    pub fn keep_delivered(mut self, keep: bool) -> Self {
        self.config.keep_delivered = keep;
        self
    }

    /// How long delivered rows, dead letters and the notes on discarded ones stay in the table. Of the
    /// relays on a table one at a time purges: at least every minute, in chunks of 200 rows, resting
    /// between them three times as long as they took, on one more connection of its own. All relays of a table should
    /// be told the same: each purges by what it was told. Default: delivered rows are deleted at once, and
    /// all else stays.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.config.retention = retention;
        self
    }

    /// How long the relay waits for a claim, a settle or a renewal before it gives the connection up; on
    /// Postgres and MariaDB the server, too, gives such a transaction up after so long. Best well below the lease: what
    /// was claimed and not heard of, or settled and not acknowledged, is else out of its lease before
    /// anybody tries again. From 10 ms to 30 days. Default: 10 s.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.config.store_timeout = timeout;
        self
    }

    /// Where to listen for commits (LISTEN), so that messages are handled within milliseconds instead of
    /// at the next poll: a URL such as `postgres://user@host/database`, or `PgConnectOptions`. It has to
    /// be the database itself, not a pooler in front of it; a listener that hears nothing is noticed
    /// and logged. It holds one more connection, and one of all relays that listen holds another: it tells
    /// publishers whether anybody waits, so that few transactions carry a NOTIFY. Whatever happens to these,
    /// messages wait for no longer than a poll. After a third of the lease, at most 10 s, it is asked whether it still lives, and one
    /// that does not answer within `store_timeout` is replaced. Default: none, the relay only polls.
    ///
    /// Postgres only: on SQLite a relay notices commits by itself, MySQL and MariaDB have nothing to listen to, and
    /// `build` refuses a listener there, as it refuses an address that is none.
    pub fn listener(mut self, address: impl Into<ListenerAddress>) -> Self {
        self.listener = Some(address.into());
        self
    }

    /// Calls this for each message that the relay gives up, once it is a dead letter in the table: so that
    /// somebody is told. A message that is redriven and given up again is told of again. What another
    /// relay gives up, that one tells. If the process dies right after the database's acknowledgement,
    /// nobody is told; [`Outbox::dead_letters`] has it all the same.
    ///
    /// It runs on a task of the relay's: hand the work on, to a channel for example. A panic in it is
    /// logged. Default: none; each dead letter is logged as a warning.
    pub fn on_dead_letter(mut self, tell: impl Fn(&Died) + Send + Sync + 'static) -> Self {
        self.on_dead_letter = Some(OnDeadLetter::new(tell));
        self
    }

    /// The relay. Nothing is claimed before it is told to run.
    ///
    /// A router with a state needs [`state`](RelayBuilder::state) before; one without does not.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for a setting out of its range, for a listener's address that is none or not
    /// Postgres's, for a role that lacks rights on the tables, which it names, and for a MySQL or MariaDB that is too
    /// old; [`Error::is_schema_mismatch`] if the tables are missing, or not of a version that this build can use; [`Error::is_connection`] if the database refuses the relay, or its file can't be
    /// opened.
    ///
    /// A server that does not answer is no error: it may still be starting. The relay then checks the
    /// tables before its first claim, and is degraded until it can; that begins after at most the store
    /// timeout.
    // Boxed, so that one mistake at the call prints one error.
    pub fn build(self) -> Pin<Box<dyn Future<Output = Result<Relay<S>, Error>> + Send>>
    where
        G: StateOf<S>,
    {
        let (builder, state) = self.with(());
        Box::pin(builder.check(state.into_state()))
    }

    /// Exchanges the typestate.
    fn with<H>(self, state: H) -> (RelayBuilder<S, H>, G) {
        let Self {
            pool,
            router,
            outbox,
            config,
            listener,
            on_dead_letter,
            state: before,
        } = self;
        let builder = RelayBuilder {
            pool,
            router,
            outbox,
            config,
            listener,
            on_dead_letter,
            state,
        };
        (builder, before)
    }

    async fn check(self, state: Arc<S>) -> Result<Relay<S>, Error> {
        self.config.check()?;
        let entries = self.router.entries();
        let served: Vec<_> = entries
            .iter()
            .flat_map(|entry| self.serve(entry))
            .collect::<Result<_, _>>()?;
        if served.is_empty() {
            return Err(Error::config(
                "the router has no handler; list one: `outbox::router![my_handler]`",
            ));
        }
        let mut routes = HashSet::new();
        for Served { route, .. } in &served {
            if !routes.insert((route.topic, route.version)) {
                return Err(Error::config(format!(
                    "two handlers serve topic `{}`",
                    route.topic
                )));
            }
        }

        let store = store::reach(&self.outbox, &*self.pool)?;
        let ears = self
            .listener
            .as_ref()
            .map(|address| store.ears(address))
            .transpose()?;
        // Its own connection first: it knows at once when nobody listens, where a pool keeps trying.
        let written = self.try_writing(Arc::clone(&store)).await;
        let checked = match written {
            Err(error) if error.is_down() => {
                tracing::warn!("the relay's database does not answer yet: {error}");
                false
            }
            Err(error) if error.is_connection() => return Err(error),
            Err(error) if !error.is_schema_mismatch() => {
                self.check_rights(&*store).await?;
                return Err(error);
            }
            _ => {
                self.check_rights(&*store).await?;
                store::compatible(&store.versions().await?)?;
                true
            }
        };
        let routes = served.iter().map(|served| served.route).collect();
        let setup = Setup {
            store,
            routes,
            served,
            state,
            config: self.config,
            ears,
            vitals: Arc::default(),
            on_dead_letter: self.on_dead_letter,
            checked: AtomicBool::new(checked),
        };
        meter::describe();
        Ok(Relay {
            setup: Arc::new(setup),
        })
    }

    async fn check_rights(&self, store: &dyn Store) -> Result<(), Error> {
        let purges = self.config.retention.purges();
        match store.missing_rights(purges).await? {
            None => Ok(()),
            Some(rights) => Err(Error::config(format!(
                "the relay's role \"{}\" lacks rights: {}; have the owner of the tables run: {}",
                rights.role,
                rights.missing.join(", "),
                rights.grants
            ))),
        }
    }

    /// A relay that could never open its own connections, or never write, should not start.
    async fn try_writing(&self, store: Arc<dyn Store>) -> Result<(), Error> {
        let mut connection = Connection::new(store, self.config.store_timeout);
        let nobody = Uuid::nil();
        let result = call!(connection, "trying the relay's connection", |session| {
            session.farewell(nobody)
        });
        connection.close().await;
        result
    }

    fn serve(&self, entry: &'static Entry<S>) -> impl Iterator<Item = Result<Served<S>, Error>> {
        let policy = entry.policy;
        let (base, cap) = policy
            .backoff
            .unwrap_or((self.config.retry.base, self.config.retry.cap));
        let retry = Retry {
            max_attempts: policy
                .max_attempts
                .unwrap_or(self.config.retry.max_attempts),
            base,
            cap,
            jitter: self.config.retry.jitter,
        };
        let timeout = policy.timeout.unwrap_or(Some(self.config.handler_timeout));
        let limiter = Arc::new(Limiter::new(
            policy.concurrency,
            policy.rate,
            self.config.window(),
        ));
        let topic = entry.promise.topic;
        entry.versions().map(move |number| {
            let version = i32::try_from(number).map_err(|_| {
                Error::config(format!("version {number} of topic `{topic}` is too large"))
            })?;
            Ok(Served {
                route: Route { topic, version },
                version: number,
                handler: entry.promise.name,
                start: entry.start,
                retry,
                timeout,
                limiter: Arc::clone(&limiter),
            })
        })
    }
}

impl<S, G> fmt::Debug for RelayBuilder<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayBuilder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
