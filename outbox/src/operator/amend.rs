//! Messages that still wait: cancelled or put off, in the caller's transaction.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::{
    Enlist, Enlisted, Error, Fate, Message, MessageState, Outbox, Published, Publishing,
    publish::{Due, answered},
    store::{self, Amended, Amendment, Target},
};

/// Names a message that was published: by its id, or by its topic and dedup key.
///
/// A `Uuid` and a `&Published` turn into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRef(Target);

impl MessageRef {
    /// The message of type `M` that was published with this
    /// [dedup key](crate::Publication::dedup_key).
    pub fn dedup_key<M: Message>(key: impl Into<String>) -> Self {
        Self::dedup_key_of(M::TOPIC, key)
    }

    /// The message of this topic that was published with this dedup key.
    pub fn dedup_key_of(topic: impl Into<String>, key: impl Into<String>) -> Self {
        Self(Target::DedupKey {
            topic: topic.into(),
            key: key.into(),
        })
    }
}

impl From<Uuid> for MessageRef {
    fn from(id: Uuid) -> Self {
        Self(Target::Id(id))
    }
}

/// The message that is there: of a duplicate, the one that was there before.
impl From<&Published> for MessageRef {
    fn from(published: &Published) -> Self {
        match published.fate {
            Fate::New => published.id.into(),
            Fate::Duplicate { id, .. } => id.into(),
        }
    }
}

macro_rules! outcome {
    ($(#[$doc:meta])* $name:ident { $(#[$done_doc:meta])* $done:ident }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[$done_doc])*
            $done,
            /// Too late: a relay has it, and its handler may be running.
            Running,
            /// Too late: it was delivered, and its row is kept.
            Delivered,
            /// It is a dead letter; see [`Outbox::dead_letters`].
            Dead,
            /// There is no such message: it was delivered and deleted, or was never published.
            Gone,
        }

        impl From<Amended> for $name {
            fn from(amended: Amended) -> Self {
                match amended {
                    Amended::Done => Self::$done,
                    Amended::Not(None) => Self::Gone,
                    Amended::Not(Some(MessageState::Dead)) => Self::Dead,
                    Amended::Not(Some(MessageState::Delivered)) => Self::Delivered,
                    Amended::Not(Some(_)) => Self::Running,
                }
            }
        }
    };
}

outcome! {
    /// What became of a message that was to be cancelled.
    Cancellation {
        /// Nobody will handle it once the transaction has committed.
        Cancelled
    }
}

outcome! {
    /// What became of a message that was to be rescheduled.
    Rescheduling {
        /// It is due at the new time once the transaction has committed.
        Rescheduled
    }
}

impl Outbox {
    /// Deletes a message that still waits, whether it is due, delayed or in backoff, as part of the
    /// transaction open on `tx`. Until that commits no relay claims it, and if it rolls back the message is
    /// as it was. Waits for a claim that is under way, and then says [`Cancellation::Running`].
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn cancel(pool: &sqlx::PgPool, reminder: uuid::Uuid) -> Result<(), Box<dyn std::error::Error>> {
    /// use outbox::{Cancellation, Outbox};
    ///
    /// let mut tx = pool.begin().await?;
    /// // UPDATE invoices SET paid = true ...
    /// match Outbox::default().cancel(reminder, &mut tx).await? {
    ///     Cancellation::Cancelled | Cancellation::Gone => tx.commit().await?,
    ///     too_late => println!("the reminder is out: {too_late:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::is_not_in_transaction`] before anything is sent; after that, roll the transaction back:
    /// [`Error::is_timeout`] past the publish timeout, [`Error::is_retryable`] where the same transaction may
    /// succeed when run again (at REPEATABLE READ, when a relay got hold of it),
    /// [`Error::is_schema_mismatch`] without the table, [`Error::is_connection`].
    pub fn cancel<'t, Via, T: Enlist<Via> + ?Sized>(
        &self,
        message: impl Into<MessageRef>,
        tx: &'t mut T,
    ) -> Publishing<'t, Cancellation> {
        self.amend(message.into(), Amendment::Cancel, tx.enlist())
    }

    /// Makes a message that still waits due this long after now (not after the transaction's start), by the
    /// database's clock; at most 100 years. Zero makes it due at once, a backoff included. Its attempts
    /// stay. As part of the transaction open on `tx`, like [`cancel`](Self::cancel).
    ///
    /// # Errors
    ///
    /// See [`cancel`](Self::cancel); and [`Error::is_config`] for more than 100 years.
    pub fn reschedule<'t, Via, T: Enlist<Via> + ?Sized>(
        &self,
        message: impl Into<MessageRef>,
        delay: Duration,
        tx: &'t mut T,
    ) -> Publishing<'t, Rescheduling> {
        let amendment = Amendment::Reschedule(Due::In(delay));
        self.amend(message.into(), amendment, tx.enlist())
    }

    /// As [`reschedule`](Self::reschedule), with a time; one in the past means at once.
    ///
    /// # Errors
    ///
    /// See [`reschedule`](Self::reschedule).
    pub fn reschedule_at<'t, Via, T: Enlist<Via> + ?Sized>(
        &self,
        message: impl Into<MessageRef>,
        time: impl Into<SystemTime>,
        tx: &'t mut T,
    ) -> Publishing<'t, Rescheduling> {
        let amendment = Amendment::Reschedule(Due::At(time.into()));
        self.amend(message.into(), amendment, tx.enlist())
    }

    fn amend<'t, O: From<Amended> + 't>(
        &self,
        MessageRef(target): MessageRef,
        amendment: Amendment,
        enlisted: Result<Enlisted<'t>, Error>,
    ) -> Publishing<'t, O> {
        let outbox = self.clone();
        Box::pin(async move {
            if let Amendment::Reschedule(due) = amendment {
                due.check()?;
            }
            let Enlisted(on) = enlisted?;
            let amend = store::amend(&outbox, on, &target, amendment);
            answered(&outbox, amendment.doing(), amend)
                .await
                .map(O::from)
        })
    }
}
