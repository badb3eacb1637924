//! The relays: processes of the conformance suite's worker.

use std::{error::Error, sync::Arc, time::Duration};

use outbox_tests::{
    log::{Entry, now},
    wait::secs,
    worker::{Settings, Worker, Workers},
};

use crate::memory::Memory;

/// Long enough that no living relay loses a lease without a fault, even on a loaded machine.
pub(crate) const LEASE: Duration = secs(3);

/// By this name the server knows the relays' connections. A listener has one of its own.
pub(crate) const CONNECTION: &str = "soak-relay";

const RELAYS: usize = 4;

/// So many relays at any time. The first one is never replaced, so that its memory can be watched.
pub(crate) struct Relays {
    workers: Workers,
    running: Vec<Worker>,
    memory: Arc<Memory>,
    pub(crate) restarted: usize,
}

impl Relays {
    pub(crate) fn start(url: String, memory: Arc<Memory>) -> Result<Self, Box<dyn Error>> {
        let binary = std::env::current_exe()?.with_file_name("worker");
        if !binary.exists() {
            return Err(format!("{} is missing; use benches/soak", binary.display()).into());
        }
        let url = format!("{url}&application_name={CONNECTION}");
        let mut relays = Self {
            workers: Workers::at(&binary.display().to_string(), url),
            running: Vec::new(),
            memory,
            restarted: 0,
        };
        for _ in 0..RELAYS {
            let relay = relays.one_more();
            relays.running.push(relay);
        }
        Ok(relays)
    }

    fn one_more(&self) -> Worker {
        let relay = self.workers.relay(&Settings {
            lease: LEASE,
            // Faults take attempts from the innocent.
            max_attempts: 1_000,
            poll_interval: secs(1),
            store_timeout: secs(3),
            listener: true,
            ..Settings::default()
        });
        self.memory.watch(relay.process());
        relay
    }

    pub(crate) fn all(&self) -> &[Worker] {
        &self.running
    }

    /// The process that is never killed.
    pub(crate) fn steady(&self) -> u32 {
        self.running[0].process()
    }

    /// The positions of those that may be killed.
    pub(crate) fn mortal(&self) -> std::ops::Range<usize> {
        1..self.running.len()
    }

    /// Kills one and starts another in its place; when the one was dead.
    pub(crate) fn kill(&mut self, position: usize) -> u64 {
        self.running.remove(position).kill();
        let dead = now();
        let relay = self.one_more();
        self.running.insert(position, relay);
        self.restarted += 1;
        dead
    }

    /// How many have ended without being killed.
    pub(crate) fn ended(&mut self) -> usize {
        let running = self.running.iter_mut();
        running.map(|relay| usize::from(!relay.runs())).sum()
    }

    /// What the handlers of all of them logged.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.workers.entries()
    }
}
