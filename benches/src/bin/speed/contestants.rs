//! The programs that take part.

use std::{error::Error, path::PathBuf, process::Stdio};

use serde_json::Value;
use tokio::process::{Child, Command};

/// Where the programs are.
pub(crate) struct Contestants {
    ours: PathBuf,
    peers: PathBuf,
    /// The script for Node.js, if there is one to run it.
    node: Option<PathBuf>,
}

/// Ours and the hand-written ones.
const OURS: [&str; 6] = [
    "by-hand",
    "by-hand-notifying",
    "orders-only",
    "outbox",
    "outbox-default",
    "outbox-silent",
];

/// Peers that run in Node.js.
const NODE: [&str; 2] = ["graphile-worker", "pg-boss"];

impl Contestants {
    /// `benches/speed` says where they are.
    pub(crate) fn find() -> Result<Self, Box<dyn Error>> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let missing = |name: &str| format!("{name} is not set: run this by benches/speed");
        Ok(Self {
            ours: path("SPEED_CONTESTANT").ok_or_else(|| missing("SPEED_CONTESTANT"))?,
            peers: path("SPEED_PEERS").ok_or_else(|| missing("SPEED_PEERS"))?,
            node: path("SPEED_NODE"),
        })
    }

    /// Whether it can be run here.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.node.is_some() || !NODE.contains(&name)
    }

    fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = match &self.node {
            _ if OURS.contains(&name) => Command::new(&self.ours),
            Some(script) if NODE.contains(&name) => {
                let mut node = Command::new("node");
                node.arg(script);
                node
            }
            _ => Command::new(&self.peers),
        };
        command
            .arg(name)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Starts one; `JOB URL [ARGUMENTS]`.
    pub(crate) fn start(&self, name: &str, words: &[&str]) -> Result<Child, Box<dyn Error>> {
        Ok(self.command(name, words).spawn()?)
    }

    /// Lets one do a job, and reads its answer.
    pub(crate) async fn run(&self, name: &str, words: &[&str]) -> Result<Value, Box<dyn Error>> {
        let child = self.start(name, words)?;
        answer(child)
            .await
            .map_err(|error| format!("{name} {}: {error}", words.join(" ")).into())
    }
}

/// Waits for the end of one, and reads its answer.
pub(crate) async fn answer(child: Child) -> Result<Value, Box<dyn Error>> {
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        return Err(format!("it failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
