//! A message with its options, on its way into the outbox.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use uuid::Uuid;

use super::{Due, Enlist, Envelope, Publish, Published, Publishing, envelope::Addressed};
use crate::{Error, Message, Outbox, trace_context};

/// A message with options. Made by `message.publication()`; carries no message type, so that one
/// batch can mix them.
#[derive(Clone)]
#[must_use = "a publication does nothing until it is published"]
pub struct Publication<'m> {
    message: &'m dyn Seal,
    addressed: Addressed,
    outbox: Outbox,
}

/// A message with its type erased.
trait Seal: Sync {
    fn seal(&self, addressed: Addressed, limit: usize) -> Result<Envelope, Error>;
    fn topic(&self) -> &'static str;
}

impl<M: Message> Seal for M {
    fn seal(&self, addressed: Addressed, limit: usize) -> Result<Envelope, Error> {
        Envelope::seal(self, addressed, limit)
    }

    fn topic(&self) -> &'static str {
        M::TOPIC
    }
}

impl<'m> Publication<'m> {
    /// The message without options. `message.publication()` is the same, and reads better.
    pub fn new<M: Message>(message: &'m M) -> Self {
        let addressed = Addressed {
            id: None,
            key: None,
            dedup_key: None,
            headers: BTreeMap::new(),
            due: Due::In(Duration::ZERO),
        };
        Self {
            message,
            addressed,
            outbox: Outbox::default(),
        }
    }

    /// Delivers this long after the publish (not after the transaction's start) at the earliest, by
    /// the database's clock. At most 100 years.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.addressed.due = Due::In(delay);
        self
    }

    /// Delivers at this time at the earliest; a time in the past means at once. Takes a `SystemTime`
    /// and what turns into one, such as chrono's `DateTime`.
    pub fn at(mut self, time: impl Into<SystemTime>) -> Self {
        self.addressed.due = Due::At(time.into());
        self
    }

    /// Publishes only if no message of this topic with the same dedup key is in the table; otherwise
    /// the result is [`Fate::Duplicate`](crate::Fate::Duplicate). A delivered message that was deleted
    /// (the default) does not count; a dead one does. At most 1,024 bytes.
    pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
        self.addressed.dedup_key = Some(key.into());
        self
    }

    /// Attaches a header; a second one of the same name replaces the first. Headers do not count
    /// towards the payload's size limit.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.addressed.headers.insert(name.into(), value.into());
        self
    }

    /// Gives the message this id instead of a new UUIDv7: publishing the same id again is a
    /// [`Fate::Duplicate`](crate::Fate::Duplicate).
    pub fn id(mut self, id: Uuid) -> Self {
        self.addressed.id = Some(id);
        self
    }

    /// Replaces the key that the message's type gives it. At most 1,024 bytes.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.addressed.key = Some(key.into());
        self
    }

    /// Publishes to this outbox instead of the default one.
    pub fn to(mut self, outbox: &Outbox) -> Self {
        self.outbox = outbox.clone();
        self
    }

    /// Writes the message as part of the transaction open on `tx`.
    ///
    /// # Errors
    ///
    /// See [`Outbox::publish`].
    pub fn publish<'t, Via, T: Enlist<Via> + ?Sized>(
        self,
        tx: &'t mut T,
    ) -> Publishing<'t, Published> {
        let outbox = self.outbox.clone();
        let envelope = self.seal(&outbox).map(|envelope| vec![envelope]);
        let written = super::write(outbox, envelope, tx.enlist());
        Box::pin(async move {
            let mut written = written.await?;
            // One envelope in, one result out.
            Ok(written.swap_remove(0))
        })
    }

    pub(crate) fn seal(mut self, outbox: &Outbox) -> Result<Envelope, Error> {
        trace_context::inject(&mut self.addressed.headers);
        if outbox.settings().captured && self.addressed.due != Due::In(Duration::ZERO) {
            return Err(Error::config(
                "a message of an outbox with `captured(true)` can't be delayed: its reader takes it at once",
            ));
        }
        self.message
            .seal(self.addressed, outbox.settings().max_payload)
    }
}

impl Publish for Publication<'_> {
    fn publication(&self) -> Publication<'_> {
        self.clone()
    }
}

impl fmt::Debug for Publication<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication")
            .field("topic", &self.message.topic())
            .finish_non_exhaustive()
    }
}
