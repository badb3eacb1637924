//! Hearing of commits: LISTEN on a connection of its own, NOTIFY by those who publish.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use uuid::Uuid;

use super::{
    super::{Ear, Ears, Heard, Lookout, Table, is_retryable},
    Query,
};
use crate::{Error, Outbox, error::Doing as _};

/// What the transactions of one outbox tell each other by: a channel, which those who wait listen to, and two
/// advisory locks. Two tables whose hashes clash wake each other's relays, which then find nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signals {
    hash: u32,
}

/// The first half of the advisory locks' keys: "outb" and "outc".
const ARMED: i32 = 0x6f75_7462;
const LOOKOUT: i32 = 0x6f75_7463;

impl Signals {
    pub(super) fn of(table: &Table) -> Self {
        let schema = table.schema().unwrap_or(super::DEFAULT_SCHEMA);
        let name = format!("{schema}.{}", table.name());
        // FNV-1a.
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Self { hash }
    }

    fn channel(self) -> String {
        format!("outbox_{:08x}", self.hash)
    }

    /// Held by the lookout alone while somebody waits to be woken, and shared by the transactions of those who
    /// have published without a word.
    fn armed(self) -> String {
        format!("{ARMED}, {}", self.hash.cast_signed())
    }

    /// Runs a statement, and asks whether somebody waits to be woken.
    fn ask(self, statement: &str) -> String {
        let (channel, armed) = (self.channel(), self.armed());
        format!(
            "WITH changed AS ({statement}), woken AS (SELECT CASE \
                WHEN pg_try_advisory_xact_lock_shared({armed}) THEN NULL ELSE pg_notify('{channel}', '') END)"
        )
    }

    /// The question by itself, for a transaction that has published by plain SQL.
    pub(super) fn plain_sql(self) -> String {
        let (channel, armed) = (self.channel(), self.armed());
        format!(
            "-- In the same transaction: wakes relays that listen. Without it the message waits for their next poll.\n\
             SELECT CASE WHEN pg_try_advisory_xact_lock_shared({armed}) THEN NULL ELSE pg_notify('{channel}', '') END;\n"
        )
    }

    /// Held by the lookout's listener.
    fn lookout(self) -> String {
        format!("{LOOKOUT}, {}", self.hash.cast_signed())
    }
}

const WAKING: &str = "FROM changed LEFT JOIN woken ON true";

/// A statement that makes rows claimable and returns their ids, and the same with a wake for relays.
#[derive(Debug)]
pub(super) struct Waking {
    silent: Arc<str>,
    waking: Arc<str>,
}

impl Waking {
    /// At most one NOTIFY per statement, and none if it changed nothing: the join looks at `woken` for a row
    /// only. Where the shared lock is granted nobody waits, and whoever wants to will first wait for the end
    /// of this transaction.
    pub(super) fn new(silent: Arc<str>, signals: Signals) -> Self {
        let waking = format!("{} SELECT changed.id {WAKING}", signals.ask(&silent));
        Self {
            silent,
            waking: waking.into(),
        }
    }

    /// The same of a statement that returns nothing of use: the number of its rows.
    pub(super) fn counting(statement: &str, signals: Signals) -> Self {
        let waking = format!("{} SELECT count(*) {WAKING}", signals.ask(statement));
        let silent = format!("WITH changed AS ({statement}) SELECT count(*) FROM changed");
        Self {
            silent: silent.into(),
            waking: waking.into(),
        }
    }

    pub(super) fn of(&self, outbox: &Outbox) -> &Arc<str> {
        match outbox.settings().wake {
            true => &self.waking,
            false => &self.silent,
        }
    }
}

/// Notifies all who listen to this outbox, when its transaction commits.
pub(super) fn notify(outbox: &Outbox, payload: String) -> Query {
    let notify: Arc<str> = "SELECT pg_notify($1, $2)".into();
    super::query(outbox, &notify)
        .bind(Signals::of(&outbox.settings().table).channel())
        .bind(payload)
}

/// The payload by which a listener recognises its own test.
pub(super) fn test_payload(test: Uuid) -> String {
    format!("test {test}")
}

const DOING: &str = "listening for messages";

/// The payload that tells everybody to look.
const LOOK: &str = "look";

/// Where to listen.
pub(super) struct Listening {
    pub(super) options: PgConnectOptions,
    pub(super) signals: Signals,
}

impl Listening {
    /// Should this side be stopped or cut off, the server itself ends the session, and so gives back what it
    /// holds.
    fn ending(&self, silence: Duration, name: &str) -> PgConnectOptions {
        let silence = silence.as_millis().max(1).to_string();
        let options = self.options.clone().application_name(name);
        options.options([
            ("idle_session_timeout", &silence),
            ("tcp_user_timeout", &silence),
        ])
    }
}

impl Ears for Listening {
    fn open(&self, silence: Duration) -> BoxFuture<'_, Result<Option<Box<dyn Ear>>, Error>> {
        Box::pin(async move {
            // A LISTEN through a pooler stays with the pooler's session: nobody hears it, and what is
            // notified bursts in on whoever uses that session then. A pooler refuses settings of a
            // session, or forgets them.
            let mark = Uuid::new_v4().to_string();
            let options = self.ending(silence, "outbox listener");
            let options = options.options([(MARK, &mark)]);
            // sqlx's listener takes a connection out of a pool; this one holds no other.
            let pool = PgPoolOptions::new()
                .max_connections(1)
                .max_lifetime(None)
                .idle_timeout(None)
                .connect_with(options)
                .await;
            let pool = match pool {
                Err(error) if refuses_settings(&error) => return Ok(None),
                connected => connected.doing(DOING)?,
            };
            let mut listener = PgListener::connect_with(&pool).await.doing(DOING)?;
            if marked(&mut listener).await.doing(DOING)?.as_deref() != Some(&*mark) {
                return Ok(None);
            }
            // What is sent while it reconnects is lost, so that a new one is made instead: the relay
            // has to look for itself after each LISTEN.
            listener.eager_reconnect(false);
            listener
                .listen(&self.signals.channel())
                .await
                .doing(DOING)?;
            let hearing = Hearing {
                listener,
                lookout: self.signals.lookout(),
                is_lookout: false,
                _pool: pool,
            };
            Ok(Some(Box::new(hearing) as Box<dyn Ear>))
        })
    }

    fn lookout(&self, silence: Duration) -> BoxFuture<'_, Result<Box<dyn Lookout>, Error>> {
        Box::pin(async move {
            let patience = PATIENCE.as_millis().to_string();
            let options = self
                .ending(silence, "outbox lookout")
                .options([("lock_timeout", patience)]);
            let lookout = LookingOut {
                connection: options.connect().await.doing(LOOKING_OUT)?,
                signals: self.signals,
            };
            Ok(Box::new(lookout) as Box<dyn Lookout>)
        })
    }
}

/// The longest wait for those who have published without a word. Those who publish meanwhile do wake, at the
/// cost of their commits.
const PATIENCE: Duration = Duration::from_millis(10);

/// A setting by which a session is known again.
const MARK: &str = "outbox.listener";

async fn marked(session: &mut PgListener) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("SELECT current_setting('outbox.listener', true)")
        .persistent(false)
        .fetch_one(session)
        .await
}

/// As PgBouncer does, with the code of a protocol violation.
pub(super) fn refuses_settings(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        error.code().as_deref() == Some("08P01") && error.message().contains("startup parameter")
    })
}

struct Hearing {
    listener: PgListener,
    /// The lock's key.
    lookout: String,
    is_lookout: bool,
    /// The listener's connection belongs to it.
    _pool: PgPool,
}

impl Ear for Hearing {
    fn hear(&mut self) -> BoxFuture<'_, Result<Heard, Error>> {
        Box::pin(async move {
            loop {
                match self.listener.try_recv().await.doing(DOING)? {
                    None => return Ok(Heard::Lost),
                    Some(note) if note.payload() == LOOK => return Ok(Heard::Look),
                    Some(note) => match note.payload().strip_prefix("test ") {
                        None => return Ok(Heard::Wake),
                        Some(test) => {
                            // Another relay's is not for us.
                            if let Ok(test) = test.parse() {
                                return Ok(Heard::Test(test));
                            }
                        }
                    },
                }
            }
        })
    }

    fn beat(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let beat = match self.is_lookout {
                true => "SELECT true".to_owned(),
                false => format!("SELECT pg_try_advisory_lock({})", self.lookout),
            };
            self.is_lookout = sqlx::query_scalar(AssertSqlSafe(beat))
                .persistent(false)
                .fetch_one(&mut self.listener)
                .await
                .doing(DOING)?;
            Ok(self.is_lookout)
        })
    }
}

const LOOKING_OUT: &str = "looking out for publishers";

struct LookingOut {
    connection: PgConnection,
    signals: Signals,
}

impl LookingOut {
    async fn run(&mut self, sql: String) -> Result<(), sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        query.execute(&mut self.connection).await?;
        Ok(())
    }
}

impl Lookout for LookingOut {
    fn arm(&mut self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let arm = format!("SELECT pg_advisory_lock({})", self.signals.armed());
            match self.run(arm).await {
                Ok(()) => Ok(true),
                Err(error) if is_retryable(&error) => Ok(false),
                Err(error) => Err(error).doing(LOOKING_OUT),
            }
        })
    }

    fn call(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let call = format!("SELECT pg_notify('{}', '{LOOK}')", self.signals.channel());
            self.run(call).await.doing(LOOKING_OUT)
        })
    }

    fn disarm(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let disarm = format!("SELECT pg_advisory_unlock({})", self.signals.armed());
            self.run(disarm).await.doing(LOOKING_OUT)
        })
    }

    fn beat(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.run("SELECT 1".to_owned()).await.doing(LOOKING_OUT) })
    }
}
