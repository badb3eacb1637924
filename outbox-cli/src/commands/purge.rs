//! `outbox purge`.

use crate::{
    args::Purge,
    bulk::{self, Verb},
    database::{Database, each},
    failure::Failure,
};

pub(crate) async fn purge(database: &Database, args: &Purge) -> Result<(), Failure> {
    const VERB: Verb = Verb {
        does: "purge",
        done: "purged",
        next: None,
    };
    bulk::run(&VERB, &args.how, || {
        let mut purge = each!(database, pool => database.outbox.purge(pool));
        if let Some(age) = args.what.delivered {
            purge = purge.delivered(age);
        }
        if let Some(age) = args.what.dead {
            purge = purge.dead(age);
        }
        if let Some(age) = args.what.discarded {
            purge = purge.discarded(age);
        }
        if let Some(topic) = &args.topic {
            purge = purge.topic(topic);
        }
        purge.run()
    })
    .await
}
