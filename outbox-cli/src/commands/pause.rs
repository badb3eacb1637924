//! `outbox pause` and `outbox resume`.

use super::topics;
use crate::{
    args::{Pause, Resume},
    database::{Database, each},
    failure::Failure,
    show::{print, tell},
};

pub(crate) async fn pause(database: &Database, args: &Pause) -> Result<(), Failure> {
    let (topic, reason) = (&args.topic, args.reason.as_deref());
    let paused = each!(database, pool => database.outbox.pause(pool, topic, reason).await);
    if !paused? {
        return Err(Failure::Nothing(format!(
            "{topic} was paused already; `outbox stats` shows since when and why"
        )));
    }
    print(&format!(
        "{topic} is paused; `outbox resume {topic}` ends it"
    ))?;
    // The pause is made: that nobody can say whether it is a known topic's does not undo it.
    if let Ok(stats) = topics::stats(database).await
        && !topics::is_known(&stats, topic)
    {
        tell(&format!(
            "nobody knows a topic {topic}: it has no messages, and no live relay serves it; is it spelled right?"
        ));
    }
    Ok(())
}

pub(crate) async fn resume(database: &Database, args: &Resume) -> Result<(), Failure> {
    let topic = &args.topic;
    let resumed = each!(database, pool => database.outbox.resume(pool, topic).await);
    if resumed? {
        return print(&format!("{topic} is resumed"));
    }
    let stats = topics::stats(database).await?;
    Err(Failure::Nothing(format!(
        "{topic} was not paused; paused topics: {}",
        topics::paused(&stats)
    )))
}
