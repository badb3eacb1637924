//! Random sequences of publishes, deliveries, crashes, lapses, redrives, purges and cancels, on the real
//! stores: after each step the rows are what the protocol's one pure function says.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use outbox::{Cancellation, Fate, HandlerError};
use outbox_model::row::{After, End, Event, Row, Rules, State};
use outbox_tests::{
    Call, Db, Gate, Lab, each,
    lab::{TASKS, Task},
    on_every_database, relay, scaled,
    wait::{LONG, secs, within},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use uuid::Uuid;

on_every_database![the_stores_do_what_the_reference_says];

/// One step. Messages are named by the order of their publishing; one that is not there is no step.
#[derive(Debug, Clone)]
enum Step {
    Publish {
        commits: bool,
        key: Option<u8>,
    },
    /// All that is due is delivered, by handlers that end like this in turn.
    Drain(Vec<Ended>),
    /// A relay claims all that is due, and its process dies while the handlers run.
    Crash,
    /// A relay holds one message for too long, and another one takes it over.
    Overtake(Ended),
    /// All leases run out.
    Lapse,
    /// All backoffs are over.
    MakeDue,
    Redrive(usize),
    RedriveAll,
    Discard(usize),
    PurgeDead,
    Cancel(usize),
}

#[derive(Debug, Clone, Copy)]
struct Ended(End);

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        1 => Just(Ended(End::Delivered)),
        4 => Just(Ended(End::Failed)),
        1 => Just(Ended(End::Cancelled)),
    ];
    let of_one = prop_oneof![
        2 => (0..4_usize).prop_map(Step::Redrive),
        1 => (0..4_usize).prop_map(Step::Discard),
        1 => (0..4_usize).prop_map(Step::Cancel),
    ];
    prop_oneof![
        3 => (prop::bool::weighted(0.8), prop::option::of(0..2_u8))
            .prop_map(|(commits, key)| Step::Publish { commits, key }),
        3 => prop::collection::vec(end.clone(), 1..4).prop_map(Step::Drain),
        3 => Just(Step::Crash),
        2 => end.prop_map(Step::Overtake),
        3 => Just(Step::Lapse),
        2 => Just(Step::MakeDue),
        4 => of_one,
        1 => Just(Step::RedriveAll),
        1 => Just(Step::PurgeDead),
    ]
}

async fn the_stores_do_what_the_reference_says(db: Db) {
    let runtime = tokio::runtime::Handle::current();
    let steps = (1..4_u32, prop::collection::vec(step(), 1..14));
    let search = move || {
        let mut runner = TestRunner::new(Config {
            cases: u32::try_from(scaled(150, 2_000)).expect("a small number"),
            failure_persistence: None,
            max_shrink_iters: 200,
            ..Config::default()
        });
        runner.run(&steps, |(max_attempts, steps)| {
            let db = db.clone();
            runtime.block_on(async move {
                db.execute("DELETE FROM outbox").await;
                let mut story = Story::new(db, max_attempts);
                for step in steps {
                    story.step(&step).await?;
                    story.compare(&step).await?;
                }
                Ok(())
            })
        })
    };
    let found = tokio::task::spawn_blocking(search).await.expect("a search");
    if let Err(difference) = found {
        panic!("{difference}");
    }
}

/// More than there are messages.
const WINDOW: usize = 64;

/// The real database beside what the reference says of it.
struct Story {
    db: Db,
    rules: Rules,
    messages: Vec<Message>,
    tokens: u64,
}

struct Message {
    id: Uuid,
    key: Option<u8>,
    row: Option<Row>,
    due: bool,
}

impl Story {
    fn new(db: Db, max_attempts: u32) -> Self {
        Self {
            db,
            rules: Rules {
                max_attempts,
                fault: None,
            },
            messages: Vec::new(),
            tokens: 0,
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Publish { commits, key } => self.publish(*commits, *key).await?,
            Step::Drain(ends) => self.drain(ends).await,
            Step::Crash => self.crash().await,
            Step::Overtake(Ended(end)) => self.overtake(*end).await?,
            Step::Lapse => {
                for n in 0..self.messages.len() {
                    self.lapse(n).await;
                }
            }
            Step::MakeDue => {
                let past = self.db.ago(secs(1));
                let due =
                    format!("UPDATE outbox SET available_at = {past} WHERE state = 'pending'");
                self.db.execute(&due).await;
                for message in &mut self.messages {
                    message.due = true;
                }
            }
            Step::Redrive(n) => self.redrive(*n).await?,
            Step::RedriveAll => self.redrive_all().await?,
            Step::Discard(n) => self.discard(*n).await?,
            Step::PurgeDead => self.purge_dead().await?,
            Step::Cancel(n) => self.cancel(*n).await?,
        }
        Ok(())
    }

    async fn publish(&mut self, commits: bool, key: Option<u8>) -> Result<(), TestCaseError> {
        let task = Task::named(&self.messages.len().to_string());
        let mut publication = task.publication().to(&self.db.outbox());
        if let Some(key) = key {
            publication = publication.dedup_key(key.to_string());
        }
        let mut tx = self.db.begin().await;
        let published = publication.publish(&mut tx).await.expect("publishes");
        if commits {
            tx.commit().await;
        } else {
            tx.rollback().await;
        }
        let taken = key.and_then(|key| {
            let there = |message: &&Message| message.row.is_some() && message.key == Some(key);
            self.messages.iter().find(there)
        });
        match (&published.fate, taken) {
            (Fate::New, None) => {}
            (Fate::Duplicate { id, .. }, Some(taken)) if *id == taken.id => {}
            (fate, taken) => {
                let taken = taken.map(|message| message.id);
                prop_assert!(false, "{fate:?}, where the key belongs to {taken:?}");
            }
        }
        if taken.is_none() {
            self.messages.push(Message {
                id: published.id,
                key,
                row: commits.then(Row::published),
                due: true,
            });
        }
        Ok(())
    }

    /// The messages that a relay would take now.
    fn takeable(&self) -> Vec<usize> {
        let takeable = |message: &Message| {
            message.row.is_some_and(|row| match row.state {
                State::Pending if row.unsettled == 0 => message.due,
                State::Dead => false,
                _ => row.lapsed,
            })
        };
        (0..self.messages.len())
            .filter(|&n| takeable(&self.messages[n]))
            .collect()
    }

    /// The reference's part of an event; whether it was done.
    fn happens(&mut self, n: usize, event: Event) -> bool {
        let message = &mut self.messages[n];
        let Some(after) = message.row.and_then(|row| row.after(event, &self.rules)) else {
            return false;
        };
        message.row = match after {
            After::Row(row) => Some(row),
            After::Gone => None,
        };
        true
    }

    /// A claim, or a take-over; the token, if the message runs now.
    fn taken(&mut self, n: usize) -> Option<u64> {
        self.tokens += 1;
        let token = self.tokens;
        let alone = true;
        let _ = self.happens(n, Event::Claim { token })
            || self.happens(n, Event::TakeOver { token, alone });
        let row = self.messages[n].row?;
        (row.state == State::Processing).then_some(token)
    }

    fn settled(&mut self, n: usize, token: u64, end: End) -> bool {
        // Its backoff takes an hour.
        self.messages[n].due = false;
        self.happens(n, Event::Settle { token, end })
    }

    async fn drain(&mut self, ends: &[Ended]) {
        let takeable = self.takeable();
        let mut script = HashMap::new();
        for (&n, Ended(end)) in takeable.iter().zip(ends.iter().cycle()) {
            script.insert(n.to_string(), *end);
            if let Some(token) = self.taken(n) {
                self.settled(n, token, *end);
            }
        }
        let relay = self.relay(scripted(script), WINDOW).await;
        within(LONG, relay.drain()).await.expect("drains");
    }

    fn relay(&self, lab: Lab, window: usize) -> impl Future<Output = outbox::Relay<Lab>> + use<> {
        let (db, max_attempts) = (self.db.clone(), self.rules.max_attempts);
        async move {
            relay!(db, TASKS, lab;
                max_attempts(max_attempts), backoff(secs(3600), secs(3600)), jitter(0.0), lease(secs(600)),
                window(window), concurrency(window))
        }
    }

    /// Where several messages wait for a run of their own, which comes first is not the reference's to
    /// say: then nothing happens.
    async fn crash(&mut self) {
        let takeable = self.takeable();
        let left = |n: &usize| self.messages[*n].row.is_some_and(|row| row.unsettled > 0);
        if takeable.len() > 1 && takeable.iter().any(left) {
            return;
        }
        let mut running = 0;
        for n in takeable {
            running += usize::from(self.taken(n).is_some());
        }
        if running == 0 {
            // What is given up at its claim, if anything, starts no handler to die in.
            self.relay(Lab::content(), WINDOW)
                .await
                .drain()
                .await
                .expect("drains");
            return;
        }
        let (db, max_attempts) = (self.db.clone(), self.rules.max_attempts);
        let crash = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let db = db.reopened().await;
                let lab = Lab::new(|_| std::future::pending());
                let relay = relay!(db, TASKS, lab; max_attempts(max_attempts), lease(secs(600)));
                let handle = relay.spawn();
                lab.started(running).await;
                std::mem::forget(handle);
            });
            // Tasks end where they stand, and connections with them.
            runtime.shutdown_background();
        };
        tokio::task::spawn_blocking(crash).await.expect("a crash");
    }

    async fn overtake(&mut self, end: End) -> Result<(), TestCaseError> {
        let [n] = self.takeable()[..] else {
            return Ok(());
        };
        let Some(stale) = self.taken(n) else {
            self.relay(Lab::content(), WINDOW)
                .await
                .drain()
                .await
                .expect("drains");
            return Ok(());
        };
        let gate = Gate::closed();
        let held = {
            let gate = gate.clone();
            Lab::new(move |_| {
                let gate = gate.clone();
                async move {
                    gate.pass().await;
                    Ok(())
                }
            })
        };
        // It has room for this one message only.
        let slow = self.relay(held.clone(), 1).await.spawn();
        held.started(1).await;
        self.lapse(n).await;
        let script = HashMap::from([(n.to_string(), end)]);
        if let Some(token) = self.taken(n) {
            self.settled(n, token, end);
        }
        within(LONG, self.relay(scripted(script), WINDOW).await.drain())
            .await
            .expect("drains");
        gate.open();
        let counts = within(LONG, slow.shutdown()).await.expect("stops");
        let accepted = self.settled(n, stale, End::Delivered);
        prop_assert!(!accepted, "the reference lets a stale settle through");
        prop_assert_eq!((counts.delivered, counts.lease_lost), (0, 1));
        Ok(())
    }

    async fn lapse(&mut self, n: usize) {
        let (id, past) = (self.db.uuid(self.messages[n].id), self.db.ago(secs(1)));
        self.db
            .execute(&format!(
                "UPDATE outbox SET leased_until = {past} WHERE id = {id} AND state = 'processing'"
            ))
            .await;
        self.happens(n, Event::Lapse);
    }

    async fn redrive(&mut self, n: usize) -> Result<(), TestCaseError> {
        let Some(id) = self.messages.get(n).map(|message| message.id) else {
            return Ok(());
        };
        let db = &self.db;
        let redriven = each!(db, pool => db.outbox().dead_letters(pool).redrive(id).await);
        let expected = self.happens(n, Event::Redrive);
        self.messages[n].due |= expected;
        prop_assert_eq!(redriven.expect("redrives"), expected);
        Ok(())
    }

    /// The reference's part of an event that befalls all messages; how many it changed.
    fn befalls_all(&mut self, event: Event) -> u64 {
        let mut changed = 0;
        for n in 0..self.messages.len() {
            if self.happens(n, event) {
                self.messages[n].due = true;
                changed += 1;
            }
        }
        changed
    }

    async fn redrive_all(&mut self) -> Result<(), TestCaseError> {
        let db = &self.db;
        let redriven = each!(db, pool => db.outbox().dead_letters(pool).redrive_all().await);
        prop_assert_eq!(
            redriven.expect("redrives"),
            self.befalls_all(Event::Redrive)
        );
        Ok(())
    }

    async fn purge_dead(&mut self) -> Result<(), TestCaseError> {
        let db = &self.db;
        let purge = each!(db, pool => db.outbox().purge(pool));
        let purged = purge.dead(Duration::ZERO).run().await;
        prop_assert_eq!(purged.expect("purges"), self.befalls_all(Event::Purge));
        Ok(())
    }

    async fn discard(&mut self, n: usize) -> Result<(), TestCaseError> {
        let Some(id) = self.messages.get(n).map(|message| message.id) else {
            return Ok(());
        };
        let db = &self.db;
        let discarded = each!(db, pool => db.outbox().dead_letters(pool).discard(id, "no").await);
        prop_assert_eq!(discarded.expect("discards"), self.happens(n, Event::Purge));
        Ok(())
    }

    async fn cancel(&mut self, n: usize) -> Result<(), TestCaseError> {
        let Some(id) = self.messages.get(n).map(|message| message.id) else {
            return Ok(());
        };
        let before = self.messages[n].row.map(|row| row.state);
        let mut tx = self.db.begin().await;
        let outcome = self.db.outbox().cancel(id, &mut tx).await.expect("answers");
        tx.commit().await;
        let expected = match before {
            None => Cancellation::Gone,
            Some(State::Pending) => Cancellation::Cancelled,
            Some(State::Processing) => Cancellation::Running,
            Some(State::Dead) => Cancellation::Dead,
        };
        prop_assert_eq!(outcome, expected);
        let cancelled = self.happens(n, Event::Cancel);
        prop_assert_eq!(outcome == Cancellation::Cancelled, cancelled);
        Ok(())
    }

    async fn compare(&self, step: &Step) -> Result<(), TestCaseError> {
        let mut rows = self.db.rows("1 = 1").await;
        for (n, message) in self.messages.iter().enumerate() {
            let found = rows.iter().position(|row| row.id == message.id);
            let found = found.map(|at| rows.swap_remove(at)).map(|row| {
                let state = match row.state.as_str() {
                    "pending" => State::Pending,
                    "processing" => State::Processing,
                    "dead" => State::Dead,
                    state => panic!("no row should be {state}"),
                };
                let held = row.token.is_some();
                let errors = row.errors.len();
                (
                    state,
                    row.attempts,
                    row.unsettled,
                    held,
                    row.redrives,
                    errors,
                )
            });
            let expected = message.row.map(|row| {
                (
                    row.state,
                    i64::from(row.attempts),
                    i64::from(row.unsettled),
                    row.token.is_some(),
                    i64::from(row.redrives),
                    row.failures as usize,
                )
            });
            prop_assert_eq!(
                found,
                expected,
                "state, attempts, unsettled, held, redrives, failures of message {} after {:?}",
                n,
                step
            );
        }
        prop_assert!(rows.is_empty(), "nobody published {rows:?}");
        Ok(())
    }
}

/// Handlers that end as the script says of their message's name.
fn scripted(script: HashMap<String, End>) -> Lab {
    let script = Arc::new(Mutex::new(script));
    Lab::new(move |call: Call| {
        let end = script
            .lock()
            .expect("not poisoned")
            .get(&call.name)
            .copied();
        async move {
            match end {
                Some(End::Delivered) => Ok(()),
                Some(End::Failed) => Err(HandlerError::retry("failed")),
                Some(End::Cancelled) => Err(HandlerError::cancel("cancelled")),
                None => panic!("{} was not to be delivered", call.name),
            }
        }
    })
}
