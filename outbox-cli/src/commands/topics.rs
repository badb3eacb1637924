//! What the statistics know of topics: help for whoever mistyped one.

use outbox::Stats;

use crate::{
    database::{Database, each},
    failure::Failure,
    show::word,
};

pub(super) async fn stats(database: &Database) -> Result<Stats, Failure> {
    Ok(each!(database, pool => database.outbox.stats(pool)).await?)
}

/// Whether a topic has rows, or a live relay that serves it.
pub(super) fn is_known(stats: &Stats, topic: &str) -> bool {
    let served = stats.relays.iter().flat_map(|relay| &relay.routes);
    let served = served.map(|(topic, _)| topic);
    let mut known = stats.routes.iter().map(|route| &route.topic).chain(served);
    known.any(|known| known == topic)
}

/// The topics with dead letters, if this is none of them.
pub(super) fn dead_but_not(stats: &Stats, topic: &str) -> Option<String> {
    let dead = stats.routes.iter().filter(|route| route.dead > 0);
    let mut dead: Vec<_> = dead.map(|route| &*route.topic).collect();
    // One may be there in several versions.
    dead.dedup();
    (!dead.contains(&topic)).then(|| listed(dead))
}

/// The paused topics.
pub(super) fn paused(stats: &Stats) -> String {
    listed(stats.paused.iter().map(|paused| &*paused.topic))
}

/// `a, b`, or `none`.
fn listed<'t>(topics: impl IntoIterator<Item = &'t str>) -> String {
    let topics: Vec<_> = topics.into_iter().map(word).collect();
    match topics.is_empty() {
        true => "none".to_owned(),
        false => topics.join(", "),
    }
}
