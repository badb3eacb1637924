//! `outbox pause` and `outbox resume`.

use crate::{
    args::{Pause, Resume},
    database::{Database, each},
    failure::Failure,
    show::print,
};

pub(crate) async fn pause(database: &Database, args: &Pause) -> Result<(), Failure> {
    let (topic, reason) = (&args.topic, args.reason.as_deref());
    let paused = each!(database, pool => database.outbox.pause(pool, topic, reason).await);
    match paused? {
        true => print(&format!(
            "{topic} is paused; `outbox resume {topic}` ends it"
        )),
        false => Err(Failure::Nothing(format!(
            "{topic} was paused already; `outbox stats` shows since when and why"
        ))),
    }
}

pub(crate) async fn resume(database: &Database, args: &Resume) -> Result<(), Failure> {
    let topic = &args.topic;
    let resumed = each!(database, pool => database.outbox.resume(pool, topic).await);
    match resumed? {
        true => print(&format!("{topic} is resumed")),
        false => Err(Failure::Nothing(format!("{topic} was not paused"))),
    }
}
