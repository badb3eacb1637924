//! What is compared, and how it is printed.

use std::{collections::BTreeMap, error::Error, iter, time::Duration};

use outbox_benches::table::{Figures, number, print};
use serde_json::Value;

use crate::{
    contestants::{Contestants, answer},
    stage::{Account, Scene, Stage},
};

/// One comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chapter {
    Drain,
    Backlog,
    Pressure,
    Publish,
    Bulk,
    Wake,
    Latency,
    Idle,
}

/// How many messages each drains: all take about as long.
const DRAINS: [(&str, u64); 10] = [
    ("by-hand", 100_000),
    ("outbox", 100_000),
    ("outbox-default", 100_000),
    ("pgmq", 100_000),
    ("graphile", 100_000),
    ("apalis", 50_000),
    ("graphile-worker", 50_000),
    ("pg-boss", 50_000),
    ("sqlxmq", 10_000),
    ("underway", 1_000),
];

const PUBLISHERS: [&str; 10] = [
    "orders-only",
    "by-hand",
    "outbox-silent",
    "outbox",
    "pgmq",
    "graphile",
    "apalis",
    "sqlxmq",
    "underway",
    "pg-boss",
];

const LISTENERS: [&str; 8] = [
    "by-hand-notifying",
    "outbox",
    "graphile",
    "sqlxmq",
    "apalis",
    "pgmq",
    "graphile-worker",
    "underway",
];

impl Chapter {
    pub(crate) const ALL: [Self; 8] = [
        Self::Drain,
        Self::Backlog,
        Self::Pressure,
        Self::Publish,
        Self::Bulk,
        Self::Wake,
        Self::Latency,
        Self::Idle,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Backlog => "backlog",
            Self::Pressure => "pressure",
            Self::Publish => "publish",
            Self::Bulk => "bulk",
            Self::Wake => "wake",
            Self::Latency => "latency",
            Self::Idle => "idle",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, Box<dyn Error>> {
        let named = Self::ALL.into_iter().find(|chapter| chapter.name() == name);
        named.ok_or_else(|| format!("there is no chapter `{name}`").into())
    }

    pub(crate) async fn run(
        self,
        stage: &mut Stage,
        contestants: &Contestants,
        rounds: usize,
    ) -> Result<(), Box<dyn Error>> {
        let mut play = Play {
            stage,
            contestants,
            rounds,
        };
        match self {
            Self::Drain => play.drain().await,
            Self::Backlog => play.backlog().await,
            Self::Pressure => play.pressure().await,
            Self::Publish => play.publish().await,
            Self::Bulk => play.bulk().await,
            Self::Wake => play.wake().await,
            Self::Latency => play.latency().await,
            Self::Idle => play.idle().await,
        }
    }
}

pub(crate) struct Play<'a> {
    pub(crate) stage: &'a mut Stage,
    contestants: &'a Contestants,
    pub(crate) rounds: usize,
}

/// One drain, per message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drained {
    pub(crate) rate: f64,
    worker_micros: f64,
    server_micros: f64,
    statements: f64,
    transactions: f64,
    wal_bytes: f64,
    peak_memory: f64,
}

#[derive(Debug, Default, Clone)]
struct Drains {
    rate: Figures,
    worker_micros: Figures,
    server_micros: Figures,
    statements: Figures,
    transactions: Figures,
    wal_bytes: Figures,
}

impl Drains {
    fn push(&mut self, drained: Drained) {
        self.rate.push(drained.rate);
        self.worker_micros.push(drained.worker_micros);
        self.server_micros.push(drained.server_micros);
        self.statements.push(drained.statements);
        self.transactions.push(drained.transactions);
        self.wal_bytes.push(drained.wal_bytes);
    }
}

/// Foreign rows, older than all others, which nobody here serves.
const FOREIGN: &str = "INSERT INTO outbox (topic, payload, created_at, available_at) \
    SELECT 'orders.foreign', '{\"order_id\": 1}', now() - interval '1 hour', now() - interval '1 hour' \
    FROM generate_series(1, 100000)";

impl Play<'_> {
    pub(crate) async fn scene(&mut self, name: &str) -> Result<Scene, Box<dyn Error>> {
        let scene = self.stage.scene().await?;
        self.contestants.run(name, &["setup", &scene.url]).await?;
        Ok(scene)
    }

    pub(crate) async fn fill(
        &mut self,
        scene: &mut Scene,
        name: &str,
        messages: u64,
    ) -> Result<(), Box<dyn Error>> {
        self.contestants
            .run(name, &["fill", &scene.url, &messages.to_string()])
            .await?;
        Ok(())
    }

    pub(crate) async fn drained(
        &mut self,
        scene: &Scene,
        name: &str,
        messages: u64,
    ) -> Result<Drained, Box<dyn Error>> {
        let before = self.stage.account().await?;
        let done = self
            .contestants
            .run(name, &["drain", &scene.url, &messages.to_string()])
            .await?;
        let after = self.stage.account().await?;
        Ok(Drained::of(&done, before, after, messages))
    }

    /// A drain of so many, in a database of its own.
    pub(crate) async fn fresh(
        &mut self,
        name: &str,
        messages: u64,
        before: &str,
    ) -> Result<Drained, Box<dyn Error>> {
        let mut scene = self.scene(name).await?;
        if !before.is_empty() {
            scene.execute(before).await?;
        }
        self.fill(&mut scene, name, messages).await?;
        self.stage.settle(&mut scene).await?;
        self.drained(&scene, name, messages).await
    }

    /// Those of them that can be run here; the others are named.
    fn present(&self, names: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
        let (present, absent): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| self.contestants.has(name));
        for name in absent {
            println!("NOT RUN: {name}, since there is no Node.js");
        }
        present
    }

    async fn drain(&mut self) -> Result<(), Box<dyn Error>> {
        let names = self.present(DRAINS.map(|(name, _)| name));
        let mut drains: BTreeMap<&str, Drains> = BTreeMap::new();
        for _ in 0..self.rounds {
            for name in &names {
                let messages = DRAINS
                    .iter()
                    .find(|(of, _)| of == name)
                    .map_or(0, |(_, messages)| *messages);
                let drained = self.fresh(name, messages, "").await?;
                drains.entry(name).or_default().push(drained);
            }
        }
        let rate = |name: &str| {
            drains
                .get(name)
                .map_or(f64::NAN, |drains| drains.rate.median())
        };
        let rows: Vec<_> = names
            .iter()
            .filter_map(|name| Some((name, drains.get(name)?)))
            .map(|(name, drains)| {
                vec![
                    (*name).to_owned(),
                    drains.rate.spread(0),
                    number(drains.rate.median() / rate("by-hand"), 2),
                    number(drains.rate.median() / rate("graphile"), 2),
                    number(drains.worker_micros.median(), 1),
                    number(drains.server_micros.median(), 1),
                    number(drains.statements.median(), 4),
                    number(drains.transactions.median(), 4),
                    number(drains.wal_bytes.median(), 0),
                ]
            })
            .collect();
        print(
            "Drain",
            &[
                "",
                "messages/s",
                "× by hand",
                "× graphile",
                "worker µs",
                "Postgres µs",
                "statements",
                "transactions",
                "WAL bytes",
            ],
            &rows,
        );
        Ok(())
    }

    async fn backlog(&mut self) -> Result<(), Box<dyn Error>> {
        const CASES: [(&str, u64, &str); 4] = [
            ("20,000 messages", 20_000, ""),
            ("100,000 messages", 100_000, ""),
            (
                "100,000 behind 100,000 older foreign ones",
                100_000,
                FOREIGN,
            ),
            ("1,000,000 messages", 1_000_000, ""),
        ];
        let mut rates = vec![Figures::default(); CASES.len()];
        let mut memory = vec![Figures::default(); CASES.len()];
        for _ in 0..self.rounds {
            for (n, (_, messages, before)) in CASES.iter().enumerate() {
                let drained = self.fresh("outbox", *messages, before).await?;
                rates[n].push(drained.rate);
                memory[n].push(drained.peak_memory);
            }
        }
        let rows: Vec<_> = CASES
            .iter()
            .zip(rates.iter().zip(&memory))
            .map(|((case, ..), (rate, memory))| {
                vec![
                    (*case).to_owned(),
                    rate.spread(0),
                    number(rate.median() / rates[0].median(), 2),
                    number(rate.median() / rates[1].median(), 2),
                    memory.spread(1),
                ]
            })
            .collect();
        print(
            "Backlog",
            &[
                "outbox",
                "messages/s",
                "× 20,000",
                "× 100,000",
                "most memory, MiB",
            ],
            &rows,
        );
        Ok(())
    }

    async fn publish(&mut self) -> Result<(), Box<dyn Error>> {
        const SECONDS: &str = "4";
        let names = self.present(PUBLISHERS);
        for producers in ["1", "8"] {
            let mut rates: BTreeMap<&str, Figures> = BTreeMap::new();
            for _ in 0..self.rounds {
                for name in &names {
                    let mut scene = self.scene(name).await?;
                    self.stage.settle(&mut scene).await?;
                    let words = ["publish", &scene.url, SECONDS, producers];
                    let done = self.contestants.run(name, &words).await?;
                    rates
                        .entry(name)
                        .or_default()
                        .push(rate(&done, "transactions"));
                }
            }
            let by_hand = rates.get("by-hand").map_or(f64::NAN, Figures::median);
            let rows: Vec<_> = names
                .iter()
                .filter_map(|name| Some((name, rates.get(name)?)))
                .map(|(name, rate)| {
                    let times = by_hand / rate.median();
                    vec![(*name).to_owned(), rate.spread(0), number(times, 2)]
                })
                .collect();
            print(
                &format!(
                    "Publish: an order and a message in each transaction, {producers} at once"
                ),
                &["", "transactions/s", "time, × by hand"],
                &rows,
            );
        }
        Ok(())
    }

    async fn bulk(&mut self) -> Result<(), Box<dyn Error>> {
        const NAMES: [&str; 2] = ["by-hand", "outbox"];
        let mut rates: BTreeMap<&str, Figures> = BTreeMap::new();
        for _ in 0..self.rounds {
            for name in NAMES {
                let mut scene = self.scene(name).await?;
                self.stage.settle(&mut scene).await?;
                let done = self
                    .contestants
                    .run(name, &["bulk", &scene.url, "200"])
                    .await?;
                rates.entry(name).or_default().push(rate(&done, "messages"));
            }
        }
        let by_hand = rates.get("by-hand").map_or(f64::NAN, Figures::median);
        let rows: Vec<_> = rates
            .iter()
            .map(|(name, rate)| {
                vec![
                    (*name).to_owned(),
                    rate.spread(0),
                    number(by_hand / rate.median(), 2),
                ]
            })
            .collect();
        print(
            "Bulk: 1,000 messages in each transaction",
            &["", "messages/s", "time, × by hand"],
            &rows,
        );
        Ok(())
    }

    /// The commit rate of 32 publishers while relays deliver, woken or not.
    async fn wake(&mut self) -> Result<(), Box<dyn Error>> {
        const CASES: [(&str, usize); 3] = [
            ("none", 0),
            ("one", 1),
            ("four, of which three are idle", 4),
        ];
        const PUBLISHERS: [&str; 3] = ["outbox-silent", "outbox", "by-hand-notifying"];
        let mut rates: BTreeMap<(usize, &str), Figures> = BTreeMap::new();
        for _ in 0..self.rounds {
            for (_, relays) in CASES {
                for name in PUBLISHERS {
                    let mut scene = self.scene("outbox").await?;
                    self.stage.settle(&mut scene).await?;
                    let serving = (0..relays).map(|n| {
                        let job = if n == 0 { "serve" } else { "idle" };
                        self.contestants.start("outbox", &[job, &scene.url, "7"])
                    });
                    let serving: Vec<_> = serving.collect::<Result<_, _>>()?;
                    tokio::time::sleep(Duration::from_millis(1_500)).await;
                    let done = self
                        .contestants
                        .run(name, &["publish", &scene.url, "5", "32"])
                        .await?;
                    for relay in serving {
                        answer(relay).await?;
                    }
                    rates
                        .entry((relays, name))
                        .or_default()
                        .push(rate(&done, "transactions"));
                }
            }
        }
        let rows: Vec<_> = CASES
            .iter()
            .map(|(case, relays)| {
                let of = |name| rates.get(&(*relays, name)).cloned().unwrap_or_default();
                let [silent, woken, notifying] = PUBLISHERS.map(of);
                vec![
                    (*case).to_owned(),
                    silent.spread(0),
                    woken.spread(0),
                    number(woken.median() / silent.median(), 2),
                    notifying.spread(0),
                    number(notifying.median() / silent.median(), 2),
                ]
            })
            .collect();
        print(
            "Wake: commits of 32 publishers a second",
            &[
                "relays that listen",
                "no wake",
                "outbox",
                "× no wake",
                "NOTIFY in each",
                "× no wake",
            ],
            &rows,
        );
        Ok(())
    }

    async fn latency(&mut self) -> Result<(), Box<dyn Error>> {
        let names = self.present(LISTENERS);
        let mut figures: BTreeMap<&str, [[Figures; 2]; 2]> = BTreeMap::new();
        for _ in 0..self.rounds {
            for name in &names {
                let mut scene = self.scene(name).await?;
                self.stage.settle(&mut scene).await?;
                let done = self
                    .contestants
                    .run(name, &["latency", &scene.url, "200"])
                    .await?;
                let since = ["from_commit_ms", "from_answer_ms"];
                for (since, [middle, late]) in since.iter().zip(figures.entry(name).or_default()) {
                    let mut latencies: Vec<f64> = serde_json::from_value(done[since].clone())?;
                    latencies.sort_by(f64::total_cmp);
                    middle.push(latencies[latencies.len() / 2]);
                    late.push(latencies[latencies.len() * 99 / 100]);
                }
            }
        }
        let rows: Vec<_> = names
            .iter()
            .filter_map(|name| Some((name, figures.get(name)?)))
            .map(|(name, since)| {
                let figures = since.as_flattened().iter().map(|figure| figure.spread(2));
                iter::once((*name).to_owned()).chain(figures).collect()
            })
            .collect();
        print(
            "Latency: to the start of the handler, from just before COMMIT and from its answer, ms",
            &["", "COMMIT, p50", "p99", "answer, p50", "p99"],
            &rows,
        );
        Ok(())
    }

    async fn idle(&mut self) -> Result<(), Box<dyn Error>> {
        const SECONDS: u64 = 20;
        let mut scene = self.scene("outbox").await?;
        self.stage.settle(&mut scene).await?;
        let before = self.stage.account().await?;
        let words = ["idle", &scene.url, &SECONDS.to_string()];
        let done = self.contestants.run("outbox", &words).await?;
        let after = self.stage.account().await?;
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let per_second = |figure: f64| number(figure / SECONDS as f64, 2);
        let millis = done["cpu_seconds"].as_f64().unwrap_or(f64::NAN) * 1_000.0;
        print(
            "Idle: a relay that polls once a second and listens, per second",
            &["statements", "worker, ms of a processor"],
            &[vec![
                per_second(after.statements - before.statements),
                per_second(millis),
            ]],
        );
        Ok(())
    }
}

impl Drained {
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn of(done: &Value, before: Account, after: Account, messages: u64) -> Self {
        let messages = messages as f64;
        let figure = |name: &str| done[name].as_f64().unwrap_or(f64::NAN);
        Self {
            rate: messages / figure("seconds"),
            worker_micros: figure("cpu_seconds") * 1e6 / messages,
            server_micros: (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6 / messages,
            statements: (after.statements - before.statements) / messages,
            transactions: (after.transactions - before.transactions) / messages,
            wal_bytes: (after.wal_bytes - before.wal_bytes) / messages,
            peak_memory: figure("peak_memory_mib"),
        }
    }
}

fn rate(done: &Value, what: &str) -> f64 {
    let figure = |name: &str| done[name].as_f64().unwrap_or(f64::NAN);
    figure(what) / figure("seconds")
}
