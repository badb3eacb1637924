//! The jobs; each returns the JSON that the process prints.

use std::fmt::Display;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::handled;
use crate::payload::Payload;
use crate::peer::{Aim, Peer, Producer, Worker};

pub async fn run<P: Peer>(job: &[String]) -> Result<Value> {
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    match job[..] {
        ["setup", url] => setup::<P>(url).await,
        ["fill", url, count] => fill::<P>(url, number(count)?).await,
        ["drain", url, count] => drain::<P>(url, number(count)?).await,
        ["publish", url, seconds, producers] => {
            publish::<P>(url, number(seconds)?, number(producers)?).await
        }
        ["latency", url, count] => latency::<P>(url, number(count)?).await,
        _ => bail!(
            "jobs: setup URL | fill URL N | drain URL N | publish URL SECONDS PRODUCERS | \
             latency URL N"
        ),
    }
}

fn number<T: FromStr>(text: &str) -> Result<T>
where
    T::Err: Display,
{
    text.parse()
        .map_err(|error| anyhow::anyhow!("{text}: {error}"))
}

async fn setup<P: Peer>(url: &str) -> Result<Value> {
    P::setup(url).await?;
    Ok(json!({}))
}

async fn fill<P: Peer>(url: &str, count: i64) -> Result<Value> {
    let payloads: Vec<Payload> = (1..=count).map(Payload::new).collect();
    P::fill(url, &payloads).await?;
    Ok(json!({}))
}

async fn drain<P: Peer>(url: &str, count: usize) -> Result<Value> {
    handled::set_goal(count);
    let mut worker = P::worker(url, Aim::Throughput).await?;

    let start = Instant::now();
    let cpu_start = cpu_time();
    worker.start().await?;
    handled::goal_reached().await?;
    worker.stop().await?;
    let cpu = cpu_time() - cpu_start;
    let elapsed = start.elapsed();

    let waiting = P::waiting(url).await?;
    ensure!(waiting == 0, "{waiting} messages are left");
    Ok(json!({
        "messages": count,
        "seconds": elapsed.as_secs_f64(),
        "cpu_seconds": cpu.as_secs_f64(),
    }))
}

async fn publish<P: Peer>(url: &str, seconds: f64, producers: usize) -> Result<Value> {
    if let Some(reason) = P::NOT_TRANSACTIONAL {
        return Ok(json!({ "unsupported": reason }));
    }
    let mut connected = Vec::new();
    for _ in 0..producers {
        connected.push(P::producer(url).await?);
    }

    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let mut tasks = JoinSet::new();
    for mut producer in connected {
        tasks.spawn(async move {
            let mut transactions = 0;
            while Instant::now() < end {
                producer.publish(&Payload::new(transactions)).await?;
                transactions += 1;
            }
            anyhow::Ok(transactions)
        });
    }
    let mut transactions = 0;
    while let Some(done) = tasks.join_next().await {
        transactions += done??;
    }
    let elapsed = start.elapsed();

    Ok(json!({ "transactions": transactions, "seconds": elapsed.as_secs_f64() }))
}

async fn latency<P: Peer>(url: &str, count: usize) -> Result<Value> {
    let mut worker = P::worker(url, Aim::Latency).await?;
    let mut producer = P::producer(url).await?;
    worker.start().await?;
    sleep(Duration::from_millis(500)).await;

    let (mut from_commit, mut from_answer) = (Vec::new(), Vec::new());
    for (i, message) in (1..=count).zip(1..) {
        let jitter = i as u64 * 1237 % 5000;
        sleep(Duration::from_micros(20_000 + jitter)).await;
        handled::set_goal(i);
        let commit = producer.publish(&Payload::new(message)).await?;
        let began = handled::goal_reached().await?;
        let millis = |since| began.duration_since(since).as_secs_f64() * 1000.0;
        from_commit.push(millis(commit.sent));
        from_answer.push(millis(commit.answered));
    }
    worker.stop().await?;

    let waiting = P::waiting(url).await?;
    ensure!(waiting == 0, "{waiting} messages are left");
    Ok(json!({ "from_commit_ms": from_commit, "from_answer_ms": from_answer }))
}

/// User and system CPU time of this process so far.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("not negative")
}
