//! `outbox stats`.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use outbox::{Paused, RouteStats, Stats};
use serde_json::json;

use crate::{
    args,
    database::{Database, each},
    failure::Failure,
    show::{age, ago, print, print_json, safe, short, table, time, word},
};

pub(crate) async fn stats(database: &Database, args: &args::Stats) -> Result<(), Failure> {
    loop {
        let query = each!(database, pool => database.outbox.stats(pool));
        let query = if args.exact { query.exact() } else { query };
        let stats = query.await?;
        if args.watch.is_some() && !args.json && io::stdout().is_terminal() {
            // Clears the terminal.
            print("\u{1b}[2J\u{1b}[H")?;
        }
        if args.json {
            print_json(&as_json(&stats))?;
        } else {
            print(&for_people(&stats))?;
        }
        let Some(seconds) = args.watch else {
            return Ok(());
        };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

fn for_people(stats: &Stats) -> String {
    if stats.routes.is_empty() && stats.relays.is_empty() && stats.paused.is_empty() {
        return "the outbox is empty, and no relay was seen within 30 s\n".to_owned();
    }
    let count = |count| counted(count, stats.limit);
    let mut text = String::new();
    if !stats.routes.is_empty() {
        let header = [
            "TOPIC",
            "VERSION",
            "DUE",
            "SCHEDULED",
            "PROCESSING",
            "DELIVERED",
            "DEAD",
            "OLDEST DUE",
            "",
        ];
        let rows = stats.routes.iter().map(|route| {
            vec![
                route.topic.clone(),
                route.version.to_string(),
                count(route.due),
                count(route.scheduled),
                count(route.processing),
                count(route.delivered),
                count(route.dead),
                route.oldest_due.map_or_else(|| "-".to_owned(), age),
                notes(route, &stats.paused),
            ]
        });
        text.push_str(&table(&header, rows));
        text.push('\n');
    }
    if stats.relays.is_empty() {
        text.push_str("no relay was seen within 30 s\n");
    } else {
        let rows = stats.relays.iter().map(|relay| {
            let mut topics: Vec<_> = relay.routes.iter().map(|(topic, _)| &**topic).collect();
            topics.dedup();
            vec![
                relay.id.to_string(),
                ago(relay.started_at),
                age(relay.seen),
                topics.join(" "),
            ]
        });
        text.push_str(&table(&["RELAY", "RUNS FOR", "SEEN", "TOPICS"], rows));
    }
    if !stats.paused.is_empty() {
        let rows = stats.paused.iter().map(|paused| {
            let reason = paused.reason.clone().unwrap_or_default();
            vec![paused.topic.clone(), ago(paused.paused_at), reason]
        });
        text.push('\n');
        text.push_str(&table(&["PAUSED", "FOR", "WHY"], rows));
    }
    for (n, hint) in hints(stats).iter().enumerate() {
        if n == 0 {
            text.push('\n');
        }
        text.push_str(&format!("{}\n", safe(hint)));
    }
    text
}

/// What to do about what is stuck.
fn hints(stats: &Stats) -> Vec<String> {
    let topics = |stuck: fn(&RouteStats) -> bool| {
        let routes = stats.routes.iter().filter(move |route| stuck(route));
        let mut topics: Vec<_> = routes.map(|route| word(&route.topic)).collect();
        topics.dedup();
        topics
    };
    let mut hints = Vec::new();
    for topic in topics(|route| route.dead > 0) {
        hints.push(format!(
            "why messages of {topic} are dead: outbox dead reasons --topic {topic}"
        ));
    }
    // A pause has its reason, which comes before its end.
    for paused in &stats.paused {
        let mut routes = stats.routes.iter();
        if routes.any(|route| route.topic == paused.topic && route.pending() > 0) {
            let topic = word(&paused.topic);
            let reason = paused.reason.as_deref().map(short);
            let reason = reason.as_deref().unwrap_or("nobody said why");
            hints.push(format!(
                "{topic} is paused ({reason}): once that is settled, outbox resume {topic}"
            ));
        }
    }
    for topic in topics(|route| route.unrouted) {
        hints.push(format!(
            "for messages of {topic}: start a relay whose router has their handler"
        ));
    }
    hints
}

/// A count, and whether there may be more.
fn counted(count: u64, limit: Option<u64>) -> String {
    match limit {
        Some(limit) if count >= limit => format!("{limit}+"),
        _ => count.to_string(),
    }
}

fn notes(route: &RouteStats, paused: &[Paused]) -> String {
    let mut notes = Vec::new();
    if route.paused {
        let pause = paused.iter().find(|pause| pause.topic == route.topic);
        notes.push(match pause.and_then(|pause| pause.reason.as_deref()) {
            Some(reason) => format!("paused: {}", short(reason)),
            None => "paused".to_owned(),
        });
    }
    if route.unrouted {
        notes.push("unrouted: no live relay serves it".to_owned());
    }
    notes.join("; ")
}

fn as_json(stats: &Stats) -> serde_json::Value {
    let routes = stats.routes.iter().map(|route| {
        json!({
            "topic": route.topic,
            "version": route.version,
            "due": route.due,
            "scheduled": route.scheduled,
            "processing": route.processing,
            "delivered": route.delivered,
            "dead": route.dead,
            "oldest_due_seconds": route.oldest_due.map(|age| age.as_secs_f64()),
            "unrouted": route.unrouted,
            "paused": route.paused,
        })
    });
    let relays = stats.relays.iter().map(|relay| {
        let routes = relay.routes.iter();
        let routes: Vec<_> = routes
            .map(|(topic, version)| json!({"topic": topic, "version": version}))
            .collect();
        json!({
            "id": relay.id,
            "started_at": time(relay.started_at),
            "seen_seconds_ago": relay.seen.as_secs_f64(),
            "routes": routes,
        })
    });
    let paused = stats.paused.iter().map(|paused| {
        json!({
            "topic": paused.topic,
            "reason": paused.reason,
            "paused_at": time(paused.paused_at),
        })
    });
    json!({
        "routes": routes.collect::<Vec<_>>(),
        "relays": relays.collect::<Vec<_>>(),
        "paused": paused.collect::<Vec<_>>(),
        "counted_up_to": stats.limit,
    })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn a_count_at_the_limit_says_that_there_may_be_more() {
        assert_eq!(counted(99_999, Some(100_000)), "99999");
        assert_eq!(counted(100_000, Some(100_000)), "100000+");
        assert_eq!(counted(1_234_567, None), "1234567");
    }
}
