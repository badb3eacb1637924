//! What a transaction has published.

use std::{collections::BTreeMap, ops::Deref, time::Duration};

use uuid::Uuid;

use crate::{
    Enlist, Enlisted, Error, Message, Outbox, Publishing,
    decode::decode,
    error::Kind,
    publish::{On, answered},
    store::testing::{Waiting, waiting},
};

/// A published message that nobody has delivered yet; see [`published`].
///
/// Derefs to the message and compares with it: `assert_eq!(published, [OrderPlaced { id: 7 }])`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Undelivered<M> {
    /// The message, decoded from its row.
    pub message: M,
    /// Its id.
    pub id: Uuid,
    /// Its ordering and partition key.
    pub key: Option<String>,
    /// Its headers, by name.
    pub headers: BTreeMap<String, String>,
    /// Its dedup key.
    pub dedup_key: Option<String>,
    /// How long after its publish it is due, to the millisecond; zero is at once. After a failed attempt,
    /// how long after its publish the next one is due.
    pub delay: Duration,
}

impl<M> Deref for Undelivered<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

impl<M: PartialEq> PartialEq<M> for Undelivered<M> {
    fn eq(&self, message: &M) -> bool {
        self.message == *message
    }
}

/// The messages of type `M` that the transaction sees and nobody has delivered yet, in the order in which
/// they were published: `testing::published::<OrderPlaced>(&mut tx).await?`. They are in the default
/// [`Outbox`]; [`published_to`] looks into another.
///
/// Those count that are pending or processing: due, delayed, in backoff or in a handler. Dead letters and
/// delivered rows that are kept do not. A message that another transaction has not committed is not seen,
/// and one that this transaction has published is, before its commit. Nothing is changed or locked.
///
/// `tx` is what a message can be published on. A transaction that joins by an adapter is handed over as
/// `&mut tx.enlist()?`.
///
/// # Errors
///
/// [`Error::is_invalid`] for a row that is no message of this type, with its id and the path of the field;
/// [`Error::is_not_in_transaction`]; [`Error::is_schema_mismatch`] without the table; [`Error::is_timeout`] past
/// the outbox's publish timeout, 30 s by default; [`Error::is_connection`].
pub fn published<'t, M: Message>(
    tx: &'t mut (impl Enlist + ?Sized),
) -> Publishing<'t, Vec<Undelivered<M>>> {
    published_to(&Outbox::default(), tx)
}

/// The same as [`published`], of messages in this outbox.
///
/// # Errors
///
/// See [`published`].
pub fn published_to<'t, M: Message>(
    outbox: &Outbox,
    tx: &'t mut (impl Enlist + ?Sized),
) -> Publishing<'t, Vec<Undelivered<M>>> {
    let (outbox, enlisted) = (outbox.clone(), tx.enlist());
    Box::pin(async move {
        let Enlisted(on) = enlisted?;
        let rows = waiting(&outbox, on, M::TOPIC, M::VERSION.into());
        let rows = answered(&outbox, "reading what was published", rows).await?;
        rows.into_iter().map(read).collect()
    })
}

fn read<M: Message>(row: Waiting) -> Result<Undelivered<M>, Error> {
    let unreadable = |reason: String| {
        Error::new(Kind::Undecodable {
            id: row.id,
            topic: M::TOPIC,
            reason,
        })
    };
    if row.unreadable {
        return Err(unreadable(
            "its keys, payload or headers are not UTF-8".to_owned(),
        ));
    }
    let headers = row.headers.as_deref().map(serde_json::from_str);
    Ok(Undelivered {
        message: decode(M::VERSION, &row.payload).map_err(|why| unreadable(why.to_string()))?,
        headers: headers.unwrap_or(Ok(BTreeMap::new())).map_err(|_| {
            // serde's text would quote a value.
            unreadable("headers are not a JSON object of strings".to_owned())
        })?,
        id: row.id,
        key: row.key,
        dedup_key: row.dedup_key,
        // The databases read their clocks for the due time and for the publish one after the other.
        delay: Duration::from_millis(u64::try_from((row.delay + 500) / 1_000).unwrap_or(0)),
    })
}

/// So that what an adapter has enlisted can be looked into.
#[diagnostic::do_not_recommend]
impl Enlist for Enlisted<'_> {
    fn enlist(&mut self) -> Result<Enlisted<'_>, Error> {
        match &mut self.0 {
            #[cfg(feature = "postgres")]
            On::Postgres(connection) => Ok(Enlisted(On::Postgres(connection))),
            #[cfg(feature = "mysql")]
            On::Mysql(connection) => Ok(Enlisted(On::Mysql(connection))),
            #[cfg(feature = "sqlite")]
            On::Sqlite(connection) => Ok(Enlisted(On::Sqlite(connection))),
            #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
            On::Nothing(_, never) => match *never {},
        }
    }
}
