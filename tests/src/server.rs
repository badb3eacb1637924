//! A server of a test's own, which it may stop and start.

use std::process::Command;

use crate::Db;

/// A private server; stopped and removed when dropped.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Postgres,
    Mariadb,
}

impl Server {
    /// Creates a server of this database's kind and starts it.
    ///
    /// # Panics
    ///
    /// If that fails, and for SQLite.
    #[must_use]
    pub fn like(db: &Db) -> Self {
        match db {
            Db::Postgres(_) => Self::started(),
            Db::Mysql(_) => Self::mariadb(&[]),
            Db::Sqlite(_) => panic!("SQLite has no server"),
        }
    }

    /// Creates a MariaDB with these settings, such as `max-allowed-packet=1M`, and starts it.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn mariadb(settings: &[&'static str]) -> Self {
        Self::of(Kind::Mariadb, settings)
    }

    /// Creates a Postgres and starts it.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn started() -> Self {
        Self::started_with(&[])
    }

    /// The same with these settings, such as `max_prepared_transactions=1`.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn started_with(settings: &[&'static str]) -> Self {
        Self::of(Kind::Postgres, settings)
    }

    fn of(kind: Kind, settings: &[&'static str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("outbox-server")
            .tempdir()
            .expect("a temporary folder");
        let mut server = Self {
            kind,
            folder,
            port: 0,
            settings: settings.to_vec(),
        };
        server.start();
        server
    }

    /// Starts it again, on the port that it had.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn start(&mut self) {
        self.port = self.run("start").parse().expect("a port");
    }

    /// Stops it as a crash would.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn stop(&self) {
        self.run("stop");
    }

    /// The URL of a superuser's database, or on MariaDB of no database.
    #[must_use]
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Postgres => format!("postgres://postgres@127.0.0.1:{}/postgres", self.port),
            Kind::Mariadb => format!("mysql://root@127.0.0.1:{}", self.port),
        }
    }

    fn run(&self, what: &str) -> String {
        let script = match self.kind {
            Kind::Postgres => concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/server"),
            Kind::Mariadb => concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/mariadb"),
        };
        let output = Command::new(script)
            .arg(what)
            .arg(self.folder.path())
            .args(self.settings.iter().filter(|_| what == "start"))
            .output()
            .expect("the script runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script} {what}: {text}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
