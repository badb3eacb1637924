//! Dead letters: what was given up, why, and how it gets another chance.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use uuid::Uuid;

use super::bulk::{Bulk, Step, Work};
use crate::{
    Error, Invalid, Message, Outbox,
    error::Kind,
    publish::{Envelope, check_json},
    store::{
        self, DatabasePool, Store,
        operate::{Action, Chunk, Corrected, Cursor, Filter, Made, Page, ago, micros},
    },
    version::Lineage,
};

/// A message that was given up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The message's id.
    pub id: Uuid,
    /// Its topic.
    pub topic: String,
    /// The version of its payload.
    pub version: u32,
    /// Its key.
    pub key: Option<String>,
    /// How often it was claimed since it was published or last redriven.
    pub attempts: u32,
    /// How often it was redriven.
    pub redrives: u32,
    /// Its last ten failures, oldest first; the last one says why it is dead.
    pub errors: Vec<Failure>,
    /// When it was published.
    pub created_at: SystemTime,
    /// When it was given up.
    pub died_at: SystemTime,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Which attempt failed; the first is 1.
    pub attempt: u32,
    /// When, by the database's clock.
    pub at: SystemTime,
    /// What the handler, or the relay, said.
    pub text: String,
}

/// Reads the `errors` column; what is not in our form was written by somebody else and is left out.
pub(crate) fn failures(json: &str) -> Vec<Failure> {
    #[derive(Deserialize)]
    struct Stored {
        attempt: u32,
        at: u64,
        text: String,
    }
    let stored: Vec<serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
    let stored = stored
        .into_iter()
        .filter_map(|failure| serde_json::from_value::<Stored>(failure).ok());
    let failures = stored.map(|Stored { attempt, at, text }| Failure {
        attempt,
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(at),
        text,
    });
    failures.collect()
}

/// Reads the `headers` column.
pub(crate) fn headers(json: Option<&str>) -> BTreeMap<String, String> {
    json.and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default()
}

/// A dead letter with its contents; made by [`DeadLetters::inspect`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Inspected {
    /// The message.
    pub letter: DeadLetter,
    /// Its payload, as it stands in the table.
    pub payload: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
}

/// A dead letter that somebody decided not to deliver; made by [`DeadLetters::discarded`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Discarded {
    /// The message, as it was then.
    pub letter: DeadLetter,
    /// Why it was discarded.
    pub reason: String,
    /// When.
    pub discarded_at: SystemTime,
}

/// The dead letters of an outbox, or some of them; made by [`Outbox::dead_letters`].
#[must_use = "call `.list().await`, `.redrive(id).await` or `.redrive_all().await`"]
pub struct DeadLetters {
    store: Result<Arc<dyn Store>, Error>,
    max_payload: usize,
    filter: Filter,
    older_than: Option<Duration>,
    younger_than: Option<Duration>,
    after: Option<Cursor>,
    limit: Option<u32>,
}

/// How many entries a page has, unless it is told.
const PAGE: u32 = 100;

/// How many messages are redriven per second, unless it is told.
const REDRIVES: u32 = 2_000;

impl Outbox {
    /// The dead letters of this outbox: `outbox.dead_letters(&pool).list().await?` lists them,
    /// `outbox.dead_letters(&pool).redrive(letter.id).await?` gives one another chance, and
    /// `outbox.dead_letters(&pool).topic("orders.placed").redrive_all().await?` all of a topic.
    pub fn dead_letters(&self, pool: &impl DatabasePool) -> DeadLetters {
        DeadLetters {
            store: store::reach(self, pool),
            max_payload: self.settings().max_payload,
            filter: Filter::default(),
            older_than: None,
            younger_than: None,
            after: None,
            limit: None,
        }
    }
}

/// What is chosen. All of it has to hold; by default, all dead letters are chosen.
impl DeadLetters {
    /// Only those of this topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.filter.topic = Some(topic.into());
        self
    }

    /// Only those with this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.filter.key = Some(key.into());
        self
    }

    /// Only those whose last error contains this text, letter for letter.
    pub fn error_contains(mut self, text: impl Into<String>) -> Self {
        self.filter.error = Some(text.into());
        self
    }

    /// Only those that died this long ago or longer, by the database's clock.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Only those that died this long ago at most, by the database's clock.
    pub fn younger_than(mut self, age: Duration) -> Self {
        self.younger_than = Some(age);
        self
    }

    /// How many [`list`](Self::list) and [`discarded`](Self::discarded) return at most, by default 100; and
    /// how many [`redrive_all`](Self::redrive_all) and [`discard_all`](Self::discard_all) change, by default all.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Lists what comes after this one: give the last letter of a page to get the next page.
    pub fn after(mut self, letter: &DeadLetter) -> Self {
        self.after = Some((micros(letter.died_at), letter.id));
        self
    }

    /// As [`after`](Self::after), for a page of [`discarded`](Self::discarded).
    pub fn after_discarded(mut self, last: &Discarded) -> Self {
        self.after = Some((micros(last.discarded_at), last.letter.id));
        self
    }
}

/// What is done. An id that is given is taken whatever else was chosen.
impl DeadLetters {
    /// Lists dead letters, the latest first.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`]; [`Error::is_schema_mismatch`] without the table.
    pub async fn list(self) -> Result<Vec<DeadLetter>, Error> {
        let (store, page) = self.page().await?;
        store.operator().dead_letters(&page).await
    }

    /// A dead letter with its payload and headers; `None` if no dead message has this id.
    ///
    /// # Errors
    ///
    /// See [`list`](Self::list).
    pub async fn inspect(self, id: Uuid) -> Result<Option<Inspected>, Error> {
        self.store?.operator().inspect(id).await
    }

    /// Makes a dead message pending again, due at once, with all its attempts; its errors stay.
    /// Returns false, and changes nothing, if no dead message has this id.
    ///
    /// # Errors
    ///
    /// See [`list`](Self::list).
    pub async fn redrive(self, id: Uuid) -> Result<bool, Error> {
        self.store?.operator().redrive(id, None).await
    }

    /// As [`redrive`](Self::redrive), with this message in place of the one that died: for a payload that
    /// its handler could not take. Its id, key and headers stay, and so do its errors. The row gets
    /// the message's version. Returns false if no dead message of this id is of the message's topic and version,
    /// or of an earlier version that it is made of.
    ///
    /// # Errors
    ///
    /// Before anything is sent to the database: [`Error::is_invalid`], [`Error::is_too_large`]. After
    /// that, see [`list`](Self::list).
    pub async fn redrive_with<M: Message>(self, id: Uuid, message: &M) -> Result<bool, Error> {
        let (payload, version) = Envelope::contents(message, self.max_payload)?;
        let corrected = Corrected {
            payload,
            made: Some(Made {
                topic: M::TOPIC,
                version,
                // Versions are small, or no row could have this one.
                oldest: i32::try_from(Lineage::of::<M>().oldest()).unwrap_or(version),
            }),
        };
        self.store?.operator().redrive(id, Some(&corrected)).await
    }

    /// As [`redrive_with`](Self::redrive_with), for whoever has no more than the text: it has to be JSON
    /// within the outbox's limit of size. Whether it is a message of its topic the relay finds out; if it is
    /// not, it is a dead letter again, with the path of the wrong field.
    ///
    /// # Errors
    ///
    /// See [`redrive_with`](Self::redrive_with).
    pub async fn redrive_with_json(self, id: Uuid, json: &str) -> Result<bool, Error> {
        check_json(json, self.max_payload)
            .map_err(|reason| Error::new(Kind::Correction(Invalid::new("payload", reason))))?;
        let corrected = Corrected {
            payload: json.to_owned(),
            made: None,
        };
        self.store?.operator().redrive(id, Some(&corrected)).await
    }

    /// Redrives all that is chosen, the oldest first, 2,000 a second unless it is told another pace, as far as it
    /// is dead when this begins: what dies again meanwhile stays dead.
    pub fn redrive_all(self) -> Bulk {
        self.sweep(Action::Redrive).per_second(REDRIVES)
    }

    /// Deletes a dead message, and writes down why in the list of [`discarded`](Self::discarded) messages, with
    /// its errors and without its payload. Returns false, and changes nothing, if no dead message has this id.
    ///
    /// # Errors
    ///
    /// See [`list`](Self::list).
    pub async fn discard(self, id: Uuid, reason: &str) -> Result<bool, Error> {
        self.store?.operator().discard(id, &told(reason)).await
    }

    /// Discards all that is chosen, as far as it is dead when this begins, the oldest first.
    pub fn discard_all(self, reason: &str) -> Bulk {
        let reason = told(reason);
        self.sweep(Action::Discard(reason))
    }

    /// Lists what was discarded, the latest first. Of the choice, only the topic counts.
    ///
    /// # Errors
    ///
    /// See [`list`](Self::list).
    pub async fn discarded(self) -> Result<Vec<Discarded>, Error> {
        let (store, page) = self.page().await?;
        store.operator().discarded(&page).await
    }

    async fn page(self) -> Result<(Arc<dyn Store>, Page), Error> {
        let (after, limit) = (self.after, self.limit.unwrap_or(PAGE));
        let store = self.store?;
        let mut filter = self.filter;
        if self.older_than.is_some() || self.younger_than.is_some() {
            let now = store.operator().now().await?;
            filter.aged(now, self.older_than, self.younger_than);
        }
        let page = Page {
            filter,
            after,
            limit,
        };
        Ok((store, page))
    }

    fn sweep(self, action: Action) -> Bulk {
        let limit = self.limit.map(u64::from);
        let sweep = self.store.map(|store| {
            let sweep = Sweep {
                store,
                filter: self.filter,
                ages: (self.older_than, self.younger_than),
                action,
                begun: false,
                after: None,
            };
            Box::new(sweep) as Box<dyn Work>
        });
        Bulk::new(sweep, limit)
    }
}

/// A reason as every database can store it.
fn told(reason: &str) -> String {
    reason.replace('\0', "\u{fffd}")
}

impl Filter {
    fn aged(&mut self, now: i64, older_than: Option<Duration>, younger_than: Option<Duration>) {
        self.until = older_than.map(|age| ago(now, age));
        self.since = younger_than.map(|age| ago(now, age));
    }
}

/// Goes through dead letters from the oldest to the latest.
struct Sweep {
    store: Arc<dyn Store>,
    filter: Filter,
    ages: (Option<Duration>, Option<Duration>),
    action: Action,
    begun: bool,
    after: Option<Cursor>,
}

impl Sweep {
    /// Settles, once, which time ages count from. What dies after it is not for this sweep.
    async fn begin(&mut self) -> Result<(), Error> {
        if !self.begun {
            let now = self.store.operator().now().await?;
            self.filter.aged(now, self.ages.0, self.ages.1);
            self.filter.until = Some(self.filter.until.unwrap_or(now));
            self.begun = true;
        }
        Ok(())
    }
}

impl Work for Sweep {
    fn count(&mut self, limit: Option<u64>) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            self.begin().await?;
            self.store.operator().count_dead(&self.filter, limit).await
        })
    }

    fn step(&mut self, limit: u64) -> BoxFuture<'_, Result<Step, Error>> {
        Box::pin(async move {
            self.begin().await?;
            let chunk = Chunk {
                after: self.after,
                limit,
            };
            let swept = self
                .store
                .operator()
                .sweep(&self.filter, &self.action, chunk)
                .await?;
            self.after = swept.next;
            Ok(Step {
                changed: swept.changed,
                over: swept.next.is_none(),
            })
        })
    }
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters")
            .field("filter", &self.filter)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Payloads and the values of headers stand in no log.
impl fmt::Debug for Inspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspected")
            .field("letter", &self.letter)
            .field("bytes", &self.payload.len())
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}
