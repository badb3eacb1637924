//! What goes wrong, and when it did.

use std::fmt;

use outbox_tests::{Db, Dice, Proxy, log::now, wait::millis};

use crate::relays::{CONNECTION, LEASE, Relays};

/// One thing that went wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// When a process that was hit had ceased to do anything, or the connections began to fail.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The process that was hit; none if all may have been.
    pub(crate) process: Option<u32>,
}

/// What hits one process stands first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A relay gets SIGKILL, and another takes its place.
    Kill,
    /// A relay stands still for longer than a lease.
    Pause,
    /// The server ends a few of the relays' sessions.
    Terminate,
    /// All connections of the relays are closed.
    Cut,
    /// Nothing passes on them any more, and nobody is told.
    Swallow,
    /// They are closed, and for some time no new ones are let through.
    Refuse,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Kill,
        Self::Pause,
        Self::Terminate,
        Self::Cut,
        Self::Swallow,
        Self::Refuse,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "killed",
            Self::Pause => "paused",
            Self::Terminate => "session terminated",
            Self::Cut => "connections cut",
            Self::Swallow => "connections swallowed",
            Self::Refuse => "connections refused",
        })
    }
}

/// Does one thing at a time.
pub(crate) struct Injector {
    relays: Relays,
    proxy: Proxy,
    db: Db,
    dice: Dice,
    /// The kinds that are still to come before each of them comes again.
    bag: Vec<Kind>,
    faults: Vec<Fault>,
}

impl Injector {
    pub(crate) fn new(relays: Relays, proxy: Proxy, db: Db, dice: Dice) -> Self {
        Self {
            relays,
            proxy,
            db,
            dice,
            bag: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Waits a few seconds, then lets something go wrong until it is over.
    pub(crate) async fn inject(&mut self) {
        self.sleep(2_000, 5_000).await;
        if self.bag.is_empty() {
            self.bag.extend(Kind::ALL);
        }
        let kind = self.bag.swap_remove(self.dice.index(self.bag.len()));
        let (from, process) = match kind {
            Kind::Kill => self.kill(),
            Kind::Pause => self.pause().await,
            Kind::Terminate => self.terminate().await,
            Kind::Cut => {
                let from = now();
                self.proxy.cut();
                (from, None)
            }
            Kind::Swallow => {
                let from = now();
                self.proxy.swallow();
                self.sleep(1_000, 6_000).await;
                // The server keeps a session for each, until it hears of the end.
                self.proxy.close_swallowed();
                (from, None)
            }
            Kind::Refuse => {
                let from = now();
                self.proxy.refuse();
                self.sleep(1_000, 3_000).await;
                self.proxy.admit();
                (from, None)
            }
        };
        self.faults.push(Fault {
            kind,
            from,
            until: now(),
            process,
        });
    }

    fn kill(&mut self) -> (u64, Option<u32>) {
        let mortal = self.relays.mortal();
        let position = mortal.start + self.dice.index(mortal.len());
        let process = self.relays.all()[position].process();
        let from = self.relays.kill(position);
        (from, Some(process))
    }

    async fn pause(&mut self) -> (u64, Option<u32>) {
        let position = self.dice.index(self.relays.all().len());
        let more = millis(self.dice.between(500, 3_000));
        let relay = &self.relays.all()[position];
        relay.pause();
        let from = now();
        tokio::time::sleep(LEASE + more).await;
        relay.resume();
        (from, Some(relay.process()))
    }

    async fn terminate(&mut self) -> (u64, Option<u32>) {
        let sessions = self.dice.between(1, 6);
        let from = now();
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM (
                 SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                     AND application_name IN ('{CONNECTION}', 'outbox listener')
                 ORDER BY random() LIMIT {sessions}
             ) AS victims"
        );
        self.db.scalar(&sql).await;
        (from, None)
    }

    async fn sleep(&mut self, least: u64, most: u64) {
        tokio::time::sleep(millis(self.dice.between(least, most))).await;
    }

    /// The relays, and all that went wrong with them.
    pub(crate) fn end(self) -> (Relays, Vec<Fault>) {
        (self.relays, self.faults)
    }
}
