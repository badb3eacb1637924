//! Publishing: a message becomes a row inside the transaction that the caller already has open.
//!
//! The order is always the same: validate and serialize, then enlist in the transaction, then one
//! INSERT per chunk. Nothing is sent to the database before every message of the call has passed
//! its checks, so a bad one never aborts the caller's transaction.

mod enlist;
mod envelope;
mod publication;

use std::{future::Future, pin::Pin, sync::Arc};

use uuid::Uuid;

pub(crate) use self::enlist::On;
pub(crate) use self::envelope::{Due, Envelope, check_json, to_micros};
pub use self::{
    enlist::{Enlist, Enlisted, Sqlx},
    publication::Publication,
};
use crate::{Error, Outbox, error::Kind, store};

/// The future of a publish: boxed, so that one mistake at the call prints one error, and `Send`.
pub type Publishing<'t, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 't>>;

/// What became of a published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The id given, or a new UUIDv7. On a [`Fate::Duplicate`] it was not written: the message that is
    /// there has the id in that variant.
    pub id: Uuid,
    /// Whether a row was written.
    pub fate: Fate,
}

/// Whether publishing wrote a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// A row was written; it becomes a message when the transaction commits.
    New,
    /// A message with this id, or with this topic and dedup key, is already there; nothing was written.
    Duplicate {
        /// The id of the message that is there.
        id: Uuid,
        /// What state it is in.
        state: crate::MessageState,
    },
}

/// What can be published: a message; an event, which publishes the message of its variant; a
/// [`Publication`], which is a message with options; and references, boxes and `Arc`s of these.
///
/// Implemented by [`#[outbox::message]`](macro@crate::message) and by
/// [`#[derive(outbox::Event)]`](derive@crate::Event), which also add these as methods of the type, so
/// that the trait need not be imported. With `methods = false` they don't, for types whose own methods
/// go by the same names.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox message",
    label = "can't be published: this type has no topic",
    note = "annotate the type with `#[outbox::message(topic = \"...\")]`, or, if it is an enum of messages, with `#[derive(outbox::Event)]`"
)]
pub trait Publish {
    /// A publication with options: delay, dedup key, headers, id, another outbox.
    fn publication(&self) -> Publication<'_>;

    /// Writes the message into the outbox as part of the transaction open on `tx`, with the default
    /// [`Outbox`].
    ///
    /// # Errors
    ///
    /// See [`Outbox::publish`].
    fn publish<'t, Via, T: Enlist<Via> + ?Sized>(&self, tx: &'t mut T) -> Publishing<'t, Published>
    where
        Self: Sized,
    {
        self.publication().publish(tx)
    }

    /// Writes many messages, in chunks of one statement each. The result is in the order of `messages`.
    ///
    /// # Errors
    ///
    /// See [`Outbox::publish`]. Nothing is sent to the database if one of them is invalid.
    fn publish_all<'t, 'm, Via, T: Enlist<Via> + ?Sized>(
        messages: impl IntoIterator<Item = &'m Self>,
        tx: &'t mut T,
    ) -> Publishing<'t, Vec<Published>>
    where
        Self: Sized + 'm,
    {
        Outbox::default().publish_all(messages, tx)
    }
}

#[diagnostic::do_not_recommend]
impl<P: Publish + ?Sized> Publish for &P {
    fn publication(&self) -> Publication<'_> {
        (**self).publication()
    }
}

#[diagnostic::do_not_recommend]
impl<P: Publish + ?Sized> Publish for Box<P> {
    fn publication(&self) -> Publication<'_> {
        (**self).publication()
    }
}

#[diagnostic::do_not_recommend]
impl<P: Publish + ?Sized> Publish for Arc<P> {
    fn publication(&self) -> Publication<'_> {
        (**self).publication()
    }
}

impl Outbox {
    /// Writes `message`, or the one that an event wraps, into this outbox as part of the transaction
    /// open on `tx`. The transaction is neither begun nor committed here, and no second connection is
    /// used.
    ///
    /// # Errors
    ///
    /// Before anything is sent to the database: [`Error::is_not_in_transaction`],
    /// [`Error::is_invalid`], [`Error::is_too_large`], [`Error::is_config`] for a delay of more than
    /// 100 years. After that, the transaction must be rolled
    /// back: [`Error::is_timeout`] past the publish timeout, [`Error::is_schema_mismatch`] without
    /// the table, [`Error::is_retryable`] where the same transaction may succeed when run again,
    /// [`Error::is_connection`]. In a transaction in which a statement failed before, Postgres refuses
    /// this one as well, with its own error as the source.
    pub fn publish<'t, Via, P: Publish + ?Sized, T: Enlist<Via> + ?Sized>(
        &self,
        message: &P,
        tx: &'t mut T,
    ) -> Publishing<'t, Published> {
        message.publication().to(self).publish(tx)
    }

    /// Writes many messages in chunks of one statement each: events, publications mixed in type and
    /// options, or messages of one type, by value or by reference. The result is in their order. All go
    /// to this outbox, whatever [`Publication::to`] says.
    ///
    /// # Errors
    ///
    /// See [`publish`](Self::publish). Nothing is sent to the database if one of them is invalid.
    pub fn publish_all<'t, Via, P: Publish, T: Enlist<Via> + ?Sized>(
        &self,
        messages: impl IntoIterator<Item = P>,
        tx: &'t mut T,
    ) -> Publishing<'t, Vec<Published>> {
        let envelopes = messages
            .into_iter()
            .map(|message| message.publication().seal(self))
            .collect();
        write(self.clone(), envelopes, tx.enlist())
    }
}

/// Writes sealed envelopes on an enlisted connection.
fn write<'t>(
    outbox: Outbox,
    envelopes: Result<Vec<Envelope>, Error>,
    enlisted: Result<Enlisted<'t>, Error>,
) -> Publishing<'t, Vec<Published>> {
    Box::pin(async move {
        let (envelopes, Enlisted(on)) = (envelopes?, enlisted?);
        answered(
            &outbox,
            "publishing",
            store::insert(&outbox, on, &envelopes),
        )
        .await
    })
}

/// Waits for the database no longer than the publish timeout.
pub(crate) async fn answered<T>(
    outbox: &Outbox,
    doing: &'static str,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let after = outbox.settings().publish_timeout;
    tokio::time::timeout(after, answer)
        .await
        .unwrap_or_else(|_| Err(Error::new(Kind::PublishTimeout { doing, after })))
}
