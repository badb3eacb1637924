//! A Postgres server of a test's own, which it may stop and start.

use std::process::Command;

/// A private server; stopped and removed when dropped.
#[derive(Debug)]
pub struct Server {
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<&'static str>,
}

impl Server {
    /// Creates a server and starts it.
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
        let folder = tempfile::Builder::new()
            .prefix("outbox-server")
            .tempdir()
            .expect("a temporary folder");
        let mut server = Self {
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

    /// The URL of a superuser's database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn run(&self, what: &str) -> String {
        let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/server"))
            .arg(what)
            .arg(self.folder.path())
            .args(self.settings.iter().filter(|_| what == "start"))
            .output()
            .expect("scripts/server runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/server {what}: {text}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
