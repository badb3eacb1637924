//! `outbox cancel` and `outbox reschedule`.

use outbox::{Cancellation, MessageRef, Rescheduling};

use crate::{
    args::{Cancel, Reschedule, Which},
    database::{Database, Pool},
    failure::Failure,
    show::print,
};

/// Does something in a transaction, and commits it.
macro_rules! in_transaction {
    ($database:expr, $tx:ident => $body:expr) => {
        match &$database.pool {
            Pool::Mysql(pool) => {
                let mut $tx = pool.begin().await?;
                let outcome = $body.await?;
                $tx.commit().await?;
                outcome
            }
            Pool::Postgres(pool) => {
                let mut $tx = pool.begin().await?;
                let outcome = $body.await?;
                $tx.commit().await?;
                outcome
            }
            Pool::Sqlite(pool) => {
                let mut $tx = pool.begin_with("BEGIN IMMEDIATE").await?;
                let outcome = $body.await?;
                $tx.commit().await?;
                outcome
            }
        }
    };
}

pub(crate) async fn cancel(database: &Database, args: Cancel) -> Result<(), Failure> {
    let message = named(args.message);
    let outcome = in_transaction!(database, tx => database.outbox.cancel(message, &mut tx));
    let why = match outcome {
        Cancellation::Cancelled => return print("the message is cancelled"),
        Cancellation::Running => RUNNING,
        Cancellation::Delivered => DELIVERED,
        Cancellation::Dead => "the message is dead; `outbox dead discard` deletes it",
        _ => GONE,
    };
    Err(Failure::Nothing(why.to_owned()))
}

pub(crate) async fn reschedule(database: &Database, args: Reschedule) -> Result<(), Failure> {
    let (message, delay) = (named(args.message), args.when.r#in.unwrap_or_default());
    let outcome =
        in_transaction!(database, tx => database.outbox.reschedule(message, delay, &mut tx));
    let why = match outcome {
        Rescheduling::Rescheduled => return print("the message is rescheduled"),
        Rescheduling::Running => RUNNING,
        Rescheduling::Delivered => DELIVERED,
        Rescheduling::Dead => "the message is dead; `outbox dead redrive` makes it due",
        _ => GONE,
    };
    Err(Failure::Nothing(why.to_owned()))
}

const RUNNING: &str = "too late: a relay has the message, and its handler may be running";
const DELIVERED: &str = "too late: the message was delivered";
const GONE: &str = "there is no such message: it was delivered and deleted, or was never published";

fn named(which: Which) -> MessageRef {
    match (which.id, which.topic, which.dedup_key) {
        (Some(id), ..) => id.into(),
        (None, topic, key) => {
            // The command line requires both of them, or an id.
            MessageRef::dedup_key_of(topic.unwrap_or_default(), key.unwrap_or_default())
        }
    }
}
