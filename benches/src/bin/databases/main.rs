//! How fast the outbox is on MariaDB and on SQLite, beside a loop that is written by hand for the same table.
//!
//! ```text
//! cargo run --release -p outbox-benches --bin databases [-- ROUNDS [DATABASE...]]
//! ```

mod mariadb;
mod sqlite;

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use outbox::{DatabasePool, Relay, State};
use outbox_benches::table::{Figures, number, print};

/// In the drain.
const MESSAGES: u64 = 20_000;
/// Each with an order and a message.
const TRANSACTIONS: u64 = 2_000;

type Failure = Box<dyn Error>;

#[outbox::message(topic = "orders.placed")]
#[derive(Debug, Clone)]
struct OrderPlaced {
    order_id: u64,
    note: String,
}

impl OrderPlaced {
    fn new(order_id: u64) -> Self {
        Self {
            order_id,
            note: "a teapot, three times; please ring twice, the bell is broken".to_owned(),
        }
    }

    /// As whoever writes the row by hand makes it.
    fn json(&self) -> String {
        serde_json::json!({"order_id": self.order_id, "note": self.note}).to_string()
    }
}

#[outbox::handler]
async fn count(_order: OrderPlaced, State(handled): State<Arc<AtomicU64>>) {
    handled.fetch_add(1, Ordering::Relaxed);
}

static ROUTER: outbox::Router<Arc<AtomicU64>> = outbox::router![count];

/// What was done in a second: transactions published, messages drained.
type Rates = [f64; 2];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let mut databases: Vec<_> = arguments.collect();
    if databases.is_empty() {
        databases = ["mariadb", "sqlite"].map(str::to_owned).into();
    }
    for database in databases {
        let mut figures: [[Figures; 2]; 2] = Default::default();
        for _ in 0..rounds {
            for (by_hand, figures) in [true, false].into_iter().zip(&mut figures) {
                let rates = match database.as_str() {
                    "mariadb" => mariadb::round(by_hand).await?,
                    "sqlite" => sqlite::round(by_hand).await?,
                    other => return Err(format!("there is no `{other}` here").into()),
                };
                for (figures, rate) in figures.iter_mut().zip(rates) {
                    figures.push(rate);
                }
            }
        }
        table(&database, &figures);
    }
    Ok(())
}

fn table(database: &str, [by_hand, outbox]: &[[Figures; 2]; 2]) {
    let what = [
        "publish: an order and a message in each transaction",
        "drain of 20,000",
    ];
    let rows: Vec<_> = what
        .iter()
        .enumerate()
        .map(|(n, what)| {
            let ratio = outbox[n].median() / by_hand[n].median();
            vec![
                (*what).to_owned(),
                by_hand[n].spread(0),
                outbox[n].spread(0),
                number(ratio, 2),
            ]
        })
        .collect();
    print(
        &format!("{database}, a second"),
        &["", "by hand", "outbox", "× by hand"],
        &rows,
    );
}

/// Drains by a relay.
async fn drained(pool: &(impl DatabasePool + Clone + 'static)) -> Result<u64, Failure> {
    let handled = Arc::new(AtomicU64::new(0));
    let relay = Relay::builder(pool, &ROUTER)
        .state(Arc::clone(&handled))
        .window(2_000);
    relay.build().await?.drain().await?;
    Ok(handled.load(Ordering::Relaxed))
}

fn complete(handled: u64) -> Result<(), Failure> {
    match handled {
        MESSAGES => Ok(()),
        _ => Err(format!("{handled} of {MESSAGES} messages were handled").into()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn per_second(count: u64, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64()
}
