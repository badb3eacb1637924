//! The configured handle of one outbox: where its table is and within which limits it is used.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

#[cfg(feature = "mysql")]
use tokio::sync::watch;

use crate::{
    Error,
    store::{Statements, Table},
};

/// One outbox: its table, limits and modes. Cheap to clone; holds no connection.
///
/// `Outbox::default()` is what the short forms use: table `public.outbox` on Postgres, `outbox`
/// elsewhere.
#[derive(Debug, Clone)]
pub struct Outbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    statements: Statements,
    /// Told of each publish in this process.
    #[cfg(feature = "mysql")]
    published: watch::Sender<()>,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) table: Table,
    pub(crate) max_payload: usize,
    pub(crate) publish_timeout: Duration,
    pub(crate) pooler: bool,
    pub(crate) wake: bool,
    /// None is what the database does by default.
    pub(crate) strict: Option<bool>,
    pub(crate) captured: bool,
}

impl Default for Outbox {
    fn default() -> Self {
        // Rendering the statements costs a few microseconds; the default's never change.
        static DEFAULT: LazyLock<Outbox> = LazyLock::new(|| Outbox::with(Settings::default()));
        DEFAULT.clone()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table: Table::default(),
            max_payload: 1024 * 1024,
            publish_timeout: Duration::from_secs(30),
            pooler: false,
            wake: true,
            strict: None,
            captured: false,
        }
    }
}

impl Outbox {
    /// Configures an outbox.
    pub fn builder() -> OutboxBuilder {
        OutboxBuilder {
            settings: Settings::default(),
            table: None,
        }
    }

    fn with(settings: Settings) -> Self {
        let statements = Statements::new(&settings);
        Self(Arc::new(Inner {
            settings,
            statements,
            #[cfg(feature = "mysql")]
            published: watch::Sender::new(()),
        }))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn published(&self) -> &watch::Sender<()> {
        &self.0.published
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.0.statements
    }
}

/// Configures an [`Outbox`].
#[derive(Debug, Clone)]
#[must_use = "call `.build()`"]
pub struct OutboxBuilder {
    settings: Settings,
    table: Option<String>,
}

impl OutboxBuilder {
    /// The table, as `table` or `schema.table`. Each name: letters of any script, digits, `_` and `-`, not starting
    /// with a digit; it is quoted in all SQL. The table's name has at most 50 bytes, since indexes
    /// and control tables are named after it. On MySQL and MariaDB a schema is a database. On SQLite a schema other
    /// than `main` is refused when the outbox is used. Default: `public.outbox` on Postgres, `outbox` elsewhere.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    /// The largest payload in bytes of JSON. Default: 1 MiB.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.settings.max_payload = bytes;
        self
    }

    /// How long a publish waits for the database. Default: 30 s.
    pub fn publish_timeout(mut self, timeout: Duration) -> Self {
        self.settings.publish_timeout = timeout;
        self
    }

    /// Postgres only. For connections through a pooler in transaction mode, such as PgBouncer: no
    /// prepared statement outlives its transaction. Default: false.
    pub fn pooler(mut self, pooler: bool) -> Self {
        self.settings.pooler = pooler;
        self
    }

    /// Whether relays may notice a commit before their next poll. On MySQL and MariaDB an idle one looks a few times in
    /// the second after each publish, if that was to a clone of the same [`Outbox`] in the same process: it sees the
    /// publish, though not the commit. On SQLite it looks every 20 ms whether the file has changed. On Postgres a
    /// publishing transaction asks by an advisory lock whether a relay that
    /// [listens](crate::RelayBuilder::listener) waits to be woken, and notifies it then.
    /// A transaction that has notified can't be prepared (two-phase commit), and one that is prepared
    /// keeps the lock. Default: true.
    pub fn wake(mut self, wake: bool) -> Self {
        self.settings.wake = wake;
        self
    }

    /// Asks the server at each publish whether a transaction is open, for code that ends
    /// transactions by plain SQL behind sqlx's back. It costs a round trip. SQLite has no such question.
    /// Default: false on Postgres; true on MySQL and MariaDB, where each `CREATE`, `ALTER` or `TRUNCATE` ends the
    /// transaction that it stands in.
    pub fn strict(mut self, strict: bool) -> Self {
        self.settings.strict = Some(strict);
        self
    }

    /// For messages that a reader of the database's stream of changes delivers, such as Debezium, and no relay: they
    /// are written as delivered, so that no relay claims them and nothing but their INSERT stands in the
    /// stream. A [retention](crate::Retention), or [`Outbox::purge`], removes them. They can't be delayed, and
    /// wake nobody. Default: false. The page [`change_data_capture`](crate::change_data_capture) has the rest.
    pub fn captured(mut self, captured: bool) -> Self {
        self.settings.captured = captured;
        self
    }

    /// The outbox.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for a table name that is no identifier and for limits of zero.
    pub fn build(mut self) -> Result<Outbox, Error> {
        if let Some(name) = &self.table {
            self.settings.table = Table::parse(name)?;
        }
        if self.settings.max_payload == 0 {
            return Err(Error::config(
                "`max_payload` is 0 bytes: no message fits; give at least 2",
            ));
        }
        if self.settings.publish_timeout.is_zero() {
            return Err(Error::config(
                "`publish_timeout` is zero: no publish could succeed; give at least 1 ms",
            ));
        }
        if self.settings.captured {
            // There is nobody to wake.
            self.settings.wake = false;
        }
        Ok(Outbox::with(self.settings))
    }
}
