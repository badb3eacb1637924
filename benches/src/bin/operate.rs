//! What an operator's work costs those who publish: the latency of a publish while nothing else is done,
//! while 100,000 dead letters are redriven, and while 2,000,000 delivered rows are purged.
//!
//! ```text
//! scripts/test --serve cargo run --release -p outbox-benches --bin operate [-- ROUNDS [DEAD DELIVERED]]
//! ```

use std::{
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use outbox_benches::{Latencies, Timings};
use outbox_tests::{
    Db, Lab, each,
    lab::{TASK, TASKS, Task},
    relay,
    wait::{millis, secs},
};

/// Messages per second, from so many publishers.
const RATE: u32 = 1_000;
const PUBLISHERS: u32 = 20;

/// How long nothing else is done, at least.
const QUIET: Duration = secs(20);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let (rounds, dead, delivered) = (number(3)?, number(100_000)?, number(2_000_000)?);
    let db = Db::postgres().await;
    let relay = relay!(db, TASKS, Lab::forgetful(|_| async { Ok(()) })).spawn();
    let recorder = Recorder::default();
    let publishers = publish(&db, &recorder);

    let (mut redrives, mut purges, mut quick) =
        (Ratios::default(), Ratios::default(), Ratios::default());
    for round in 1..=rounds {
        fill(&db, "dead", dead).await;
        fill(&db, "delivered", delivered).await;
        db.execute("VACUUM ANALYZE outbox").await;
        // What the filling left to be written.
        db.execute("CHECKPOINT").await;
        tokio::time::sleep(secs(5)).await;

        let quiet = recorder
            .during(async { tokio::time::sleep(QUIET).await })
            .await;
        println!("round {round}: quiet                       {quiet}");
        let letters = || each!(db, pool => db.outbox().dead_letters(pool));
        let redriven = recorder
            .during(async {
                let redriven = letters().redrive_all().await.expect("redrives");
                assert_eq!(redriven, dead as u64);
            })
            .await;
        println!("round {round}: redriving {dead:9}         {redriven}");
        redrives.push(&redriven, &quiet);
        while db.count("state = 'pending'").await > 100 {
            tokio::time::sleep(millis(100)).await;
        }
        let purged = recorder
            .during(async {
                let purge = each!(db, pool => db.outbox().purge(pool));
                let purged = purge.delivered(Duration::ZERO).run().await.expect("purges");
                assert_eq!(purged, delivered as u64);
            })
            .await;
        println!("round {round}: purging {delivered:11}         {purged}");
        purges.push(&purged, &quiet);
        let after = recorder
            .during(async { tokio::time::sleep(QUIET).await })
            .await;
        println!("round {round}: quiet again                 {after}");
        quick.push(&after, &quiet);
    }
    recorder.stop.store(true, Ordering::Relaxed);
    for publisher in publishers {
        publisher.await?;
    }
    relay.shutdown().await?;
    db.remove().await;
    println!(
        "p99 of a publish, in times of the quiet one of the same round; median (least to most):"
    );
    println!("  redriving {redrives}");
    println!("  purging   {purges}");
    println!("  quiet again, which should be 1: {quick}");
    Ok(())
}

async fn fill(db: &Db, state: &str, rows: usize) {
    db.execute(&format!(
        "INSERT INTO outbox (topic, payload, state, attempts, settled_at, errors) \
         SELECT '{TASK}', '{{\"name\":\"task\",\"number\":0}}', '{state}', 1, {}, \
             '[{{\"attempt\":1,\"at\":1700000000000,\"text\":\"connection refused\"}}]' FROM {}",
        db.ago(secs(3_600)),
        db.numbers(rows)
    ))
    .await;
}

/// Publishes in an even stream: begin, publish, commit.
fn publish(db: &Db, recorder: &Recorder) -> Vec<tokio::task::JoinHandle<()>> {
    let period = Duration::from_secs(1) * PUBLISHERS / RATE;
    (0..PUBLISHERS)
        .map(|n| {
            let (db, recorder) = (db.clone(), recorder.clone());
            tokio::spawn(async move {
                let db = db.another_pool(1).await;
                tokio::time::sleep(period * n / PUBLISHERS).await;
                let mut tick = tokio::time::interval(period);
                while !recorder.stop.load(Ordering::Relaxed) {
                    // A publish that was late is counted from when it was due.
                    let due = tick.tick().await;
                    db.publish(&Task::named("task")).await;
                    let took = due.elapsed();
                    recorder.latencies.lock().expect("not poisoned").push(took);
                }
            })
        })
        .collect()
}

#[derive(Clone, Default)]
struct Recorder {
    latencies: Arc<Mutex<Latencies>>,
    stop: Arc<AtomicBool>,
}

impl Recorder {
    /// The latencies of the publishes that end while this runs.
    async fn during(&self, work: impl Future<Output = ()>) -> Latencies {
        let take = || std::mem::take(&mut *self.latencies.lock().expect("not poisoned"));
        take();
        let began = Instant::now();
        work.await;
        take().over(began.elapsed())
    }
}

#[derive(Default)]
struct Ratios(Timings);

impl Ratios {
    fn push(&mut self, busy: &Latencies, quiet: &Latencies) {
        let ratio = busy.percentile(99.0).as_secs_f64() / quiet.percentile(99.0).as_secs_f64();
        self.0.push(Duration::from_secs_f64(ratio));
    }
}

impl std::fmt::Display for Ratios {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (least, most) = self.0.spread();
        write!(f, "{:.2} ({least:.2} to {most:.2})", self.0.median())
    }
}
