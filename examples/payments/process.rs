//! A relay in a process of its own, as a service would run it: this program with another argument.

use std::{
    io,
    process::{Child, Command, Stdio},
};

/// A running relay. It stops by itself when this program ends, whose end of the pipe it watches.
pub(crate) struct RelayProcess(Child);

impl RelayProcess {
    pub(crate) fn start() -> io::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg("relay")
            .stdin(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    /// SIGKILL: it has no chance to put anything in order.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Lets it finish what it has begun.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        // `wait` closes the pipe first.
        let status = self.0.wait()?;
        anyhow::ensure!(status.success(), "the relay failed: {status}");
        Ok(())
    }
}
