//! Hearing of commits: LISTEN on a connection of its own, NOTIFY by those who publish.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use uuid::Uuid;

use super::{
    super::{Ear, Ears, Heard, Table},
    Query,
};
use crate::{Error, Outbox, error::Doing as _};

/// The channel of a table's wakes: its own, since a notification goes to all who listen. Two tables
/// whose hashes clash wake each other's relays, which then find nothing.
pub(super) fn channel(table: &Table) -> String {
    let schema = table.schema().unwrap_or(super::DEFAULT_SCHEMA);
    let name = format!("{schema}.{}", table.name());
    // FNV-1a.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("outbox_{hash:08x}")
}

/// A statement that makes rows claimable and returns their ids, and the same with a wake for relays.
#[derive(Debug)]
pub(super) struct Waking {
    silent: Arc<str>,
    waking: Arc<str>,
}

impl Waking {
    /// One NOTIFY per statement, and none if it changed nothing: the join looks at `woken` for a row
    /// only.
    pub(super) fn new(silent: Arc<str>, channel: &str) -> Self {
        let waking = format!(
            "WITH changed AS ({silent}), woken AS (SELECT pg_notify('{channel}', ''))\n\
             SELECT changed.id FROM changed LEFT JOIN woken ON true"
        );
        Self {
            silent,
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
        .bind(channel(&outbox.settings().table))
        .bind(payload)
}

/// The payload by which a listener recognises its own test.
pub(super) fn test_payload(test: Uuid) -> String {
    format!("test {test}")
}

const DOING: &str = "listening for messages";

/// Where to listen.
pub(super) struct Listening {
    pub(super) options: PgConnectOptions,
    pub(super) channel: String,
}

impl Ears for Listening {
    fn open(&self, silence: Duration) -> BoxFuture<'_, Result<Option<Box<dyn Ear>>, Error>> {
        Box::pin(async move {
            // Should this side be stopped or cut off, the server itself ends the session.
            let silence = silence.as_millis().max(1).to_string();
            // A LISTEN through a pooler stays with the pooler's session: nobody hears it, and what is
            // notified bursts in on whoever uses that session then. A pooler refuses settings of a
            // session, or forgets them.
            let mark = Uuid::new_v4().to_string();
            let options = self.options.clone().application_name("outbox listener");
            let options = options.options([
                ("idle_session_timeout", &silence),
                ("tcp_user_timeout", &silence),
                (MARK, &mark),
            ]);
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
            listener.listen(&self.channel).await.doing(DOING)?;
            let hearing = Hearing {
                listener,
                _pool: pool,
            };
            Ok(Some(Box::new(hearing) as Box<dyn Ear>))
        })
    }
}

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
    /// The listener's connection belongs to it.
    _pool: PgPool,
}

impl Ear for Hearing {
    fn hear(&mut self) -> BoxFuture<'_, Result<Heard, Error>> {
        Box::pin(async move {
            loop {
                match self.listener.try_recv().await.doing(DOING)? {
                    None => return Ok(Heard::Lost),
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

    fn beat(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            sqlx::query("SELECT 1")
                .persistent(false)
                .execute(&mut self.listener)
                .await
                .doing(DOING)?;
            Ok(())
        })
    }
}
