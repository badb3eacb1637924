//! Does the outbox keep its promises for as long as it runs? Publishers, four relays, a fault every
//! few seconds, and at the end an account of every message.
//!
//! ```text
//! benches/soak MINUTES
//! ```
//!
//! starts a Postgres for it and builds the relays' process, which must stand beside this program.

mod account;
mod faults;
mod memory;
mod publishers;
mod relays;
mod report;

use std::{
    error::Error,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use outbox_tests::{
    Db, Dice, Proxy,
    wait::{millis, secs},
};

use crate::{
    account::Account, faults::Injector, memory::Memory, publishers::Published, relays::Relays,
};

/// How long the relays may take, once nothing fails any more, for what is left.
const LONGEST_DRAIN: Duration = secs(180);

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let minutes: f64 = match std::env::args().nth(1) {
        Some(minutes) => minutes.parse()?,
        None => return Err("how many minutes? benches/soak MINUTES".into()),
    };
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut dice = Dice::cast();
    let db = Db::postgres().await;
    let (server, port) = db.server();
    let proxy = Proxy::to(server, port).await;
    let memory = Memory::watching();
    let relays = Relays::start(db.url_through(&proxy), Arc::clone(&memory))?;

    let enough = Arc::new(AtomicBool::new(false));
    let publishers = publishers::start(&db, &mut dice, &enough);
    let progress = tokio::spawn(tell_of_each_minute(db.clone()));
    let mut injector = Injector::new(relays, proxy, db.clone(), dice);
    while Instant::now() < end {
        injector.inject().await;
    }
    enough.store(true, Ordering::Relaxed);
    let mut published = Published::default();
    for publisher in publishers {
        published.add(publisher.await?);
    }
    let drained = drain(&db).await;
    progress.abort();

    let (mut relays, faults) = injector.end();
    let account = Account::of(&published, &relays.entries(), &faults);
    let last = Last {
        ended: relays.ended(),
        dead: db.count("state = 'dead'").await,
        left: db.count("state <> 'dead'").await,
        drained,
    };
    report::print(&account, &last, &faults, relays.restarted);
    report::print_memory(&memory.stop(), relays.steady());
    let good = account.is_good() && last.is_good();
    if !good {
        report::print_course(&faults);
    }
    db.remove().await;
    Ok(match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What is found at the end.
struct Last {
    /// Relays that ended by themselves.
    ended: usize,
    /// Dead letters.
    dead: i64,
    /// Messages that nobody delivered in time.
    left: i64,
    /// How long it took to deliver the rest.
    drained: Duration,
}

impl Last {
    fn is_good(&self) -> bool {
        (self.ended, self.dead, self.left) == (0, 0, 0)
    }
}

/// Waits until nothing is left to deliver; how long that took.
async fn drain(db: &Db) -> Duration {
    let start = Instant::now();
    while db.count("state <> 'dead'").await > 0 && start.elapsed() < LONGEST_DRAIN {
        tokio::time::sleep(millis(100)).await;
    }
    start.elapsed()
}

async fn tell_of_each_minute(db: Db) {
    let mut minutes = tokio::time::interval(secs(60));
    minutes.tick().await;
    for minute in 1.. {
        minutes.tick().await;
        let waiting = db.count("state <> 'dead'").await;
        eprintln!("after {minute} min: {waiting} messages are in the table");
    }
}
