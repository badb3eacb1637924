//! Publishing: a message becomes a row inside the transaction that the caller already has open.
//!
//! The order is always the same: validate and serialize, then enlist in the transaction, then one
//! INSERT per chunk. Nothing is sent to the database before every message of the call has passed
//! its checks, so a bad one never aborts the caller's transaction.

mod enlist;
mod envelope;
mod publication;

use std::{future::Future, pin::Pin};

use uuid::Uuid;

pub(crate) use self::enlist::On;
pub(crate) use self::envelope::{Due, Envelope, to_micros};
pub use self::{
    enlist::{Enlist, Enlisted, Sqlx},
    publication::Publication,
};
use crate::{Error, Message, Outbox, error::Kind, store};

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

/// Publishing as a trait, for message types whose own methods go by the same names
/// (`#[outbox::message(methods = false)]`). Implemented for every message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox message",
    label = "can't be published: this type has no topic",
    note = "annotate the type with `#[outbox::message(topic = \"...\")]`"
)]
pub trait Publish: Message + Sized {
    /// Writes the message into the outbox as part of the transaction open on `tx`, with the default
    /// [`Outbox`].
    ///
    /// # Errors
    ///
    /// See [`Outbox::publish`].
    fn publish<'t, Via, T: Enlist<Via> + ?Sized>(
        &self,
        tx: &'t mut T,
    ) -> Publishing<'t, Published> {
        self.publication().publish(tx)
    }

    /// A publication with options: delay, dedup key, headers, id, another outbox.
    fn publication(&self) -> Publication<'_> {
        Publication::new(self)
    }

    /// Writes many messages, in chunks of one statement each. The result is in the order of `messages`.
    ///
    /// # Errors
    ///
    /// See [`Outbox::publish`]. Nothing is sent to the database if one of them is invalid.
    fn publish_all<'t, 'm, Via, T: Enlist<Via> + ?Sized>(
        messages: impl IntoIterator<Item = &'m Self>,
        tx: &'t mut T,
    ) -> Publishing<'t, Vec<Published>> {
        Outbox::default().publish_all(messages.into_iter().map(Self::publication), tx)
    }
}

impl<M: Message> Publish for M {}

impl Outbox {
    /// Writes `message` into this outbox as part of the transaction open on `tx`. The transaction is
    /// neither begun nor committed here, and no second connection is used.
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
    pub fn publish<'t, Via, M: Message, T: Enlist<Via> + ?Sized>(
        &self,
        message: &M,
        tx: &'t mut T,
    ) -> Publishing<'t, Published> {
        Publication::new(message).to(self).publish(tx)
    }

    /// Writes many publications, mixed in type and options, in chunks of one statement each. The
    /// result is in their order. All go to this outbox, whatever [`Publication::to`] says.
    ///
    /// # Errors
    ///
    /// See [`publish`](Self::publish). Nothing is sent to the database if one of them is invalid.
    pub fn publish_all<'t, 'm, Via, T: Enlist<Via> + ?Sized>(
        &self,
        publications: impl IntoIterator<Item = Publication<'m>>,
        tx: &'t mut T,
    ) -> Publishing<'t, Vec<Published>> {
        let envelopes = publications
            .into_iter()
            .map(|publication| publication.seal(self))
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
        let after = outbox.settings().publish_timeout;
        tokio::time::timeout(after, store::insert(&outbox, on, &envelopes))
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(Kind::PublishTimeout {
                    doing: "publishing",
                    after,
                }))
            })
    })
}
