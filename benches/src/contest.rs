//! What a contestant is told and what it answers.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// What a contestant does in one process, on a database of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The database.
    pub url: String,
    /// What to do there.
    pub work: Work,
}

/// What a contestant may be told to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Create the tables.
    Setup,
    /// Queue so many messages, which nobody times.
    Fill(u64),
    /// Deliver so many messages that are queued.
    Drain(u64),
    /// Commit orders with a message each, for so many seconds and from so many producers.
    Publish(u64, usize),
    /// Write so many transactions of a thousand messages each.
    Bulk(u64),
    /// Commit so many messages one by one, and take the time to their handlers.
    Latency(u64),
    /// Deliver whatever comes, for so many seconds.
    Serve(u64),
    /// The same, for messages that never come.
    Idle(u64),
}

impl Job {
    /// Reads `JOB URL [ARGUMENTS]`.
    ///
    /// # Errors
    ///
    /// If that is something else.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (job, url) = (
            words.next().ok_or("which job?")?,
            words.next().ok_or("on which database?")?,
        );
        let mut number =
            || -> Result<u64, Box<dyn Error>> { Ok(words.next().ok_or("how many?")?.parse()?) };
        let work = match &*job {
            "setup" => Work::Setup,
            "fill" => Work::Fill(number()?),
            "drain" => Work::Drain(number()?),
            "publish" => Work::Publish(number()?, usize::try_from(number()?)?),
            "bulk" => Work::Bulk(number()?),
            "latency" => Work::Latency(number()?),
            "serve" => Work::Serve(number()?),
            "idle" => Work::Idle(number()?),
            job => return Err(format!("there is no job `{job}`").into()),
        };
        Ok(Self { url, work })
    }
}

/// Times a drain, and the processor time that this process takes meanwhile.
#[derive(Debug)]
pub struct Stopwatch {
    began: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            cpu: cpu_time("self"),
        }
    }

    /// The answer of a contestant that has handled so many messages.
    #[must_use]
    pub fn stop(&self, messages: u64) -> Value {
        json!({
            "messages": messages,
            "seconds": self.began.elapsed().as_secs_f64(),
            "cpu_seconds": (cpu_time("self") - self.cpu).as_secs_f64(),
            "peak_memory_mib": peak_memory(),
        })
    }
}

/// How much time of a processor a process has used so far, the children that it has waited for included.
/// `process` is a number, or `self`.
#[must_use]
pub fn cpu_time(process: &str) -> Duration {
    // Ticks are hundredths of a second; see proc(5).
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// The most memory that this process has had, in MiB.
#[must_use]
pub fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1_024.0
}
