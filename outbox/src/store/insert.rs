//! Writing envelopes in chunks, and finding out which of them were there already; the same for
//! every database.

use std::collections::{HashMap, HashSet};

use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::{Error, Fate, MessageState, Published, error::Kind, meter, publish::Envelope};

/// The database's part of it.
pub(super) trait Writer: Send {
    /// How many bytes of texts one statement may take, where all together have so many.
    fn chunk_bytes(&mut self, all: usize) -> BoxFuture<'_, Result<usize, Error>> {
        let _ = all;
        Box::pin(async { Ok(CHUNK_BYTES) })
    }

    /// One INSERT that skips rows whose id or dedup key is taken; returns the ids that were written.
    fn insert<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<HashSet<Uuid>, Error>>;

    /// One INSERT of rows that can have no like; returns how many were written.
    fn insert_fresh<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<usize, Error>> {
        let inserted = self.insert(chunk);
        Box::pin(async { Ok(inserted.await?.len()) })
    }

    /// The rows that have the ids or the dedup keys of these envelopes.
    fn existing<'a>(
        &'a mut self,
        chunk: &'a [&'a Envelope],
    ) -> BoxFuture<'a, Result<Vec<Existing>, Error>>;
}

/// A row that was there already.
#[derive(Debug)]
pub(super) struct Existing {
    pub(super) id: Uuid,
    pub(super) topic: String,
    pub(super) dedup_key: Option<String>,
    pub(super) state: MessageState,
}

/// One statement takes at most this many rows, and about this many bytes of texts.
const CHUNK_ROWS: usize = 1_000;
pub(super) const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// How often a row that was in the way, and gone when looked for, is tried again.
const ROUNDS: usize = 5;

pub(super) async fn insert(
    writer: &mut dyn Writer,
    envelopes: &[Envelope],
) -> Result<Vec<Published>, Error> {
    let mut published = Vec::with_capacity(envelopes.len());
    let mut rest = envelopes;
    let all = envelopes.iter().map(Envelope::bytes).sum();
    let most = writer.chunk_bytes(all).await?;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(CHUNK_ROWS).take_while(|envelope| {
            bytes += envelope.bytes();
            bytes <= most
        });
        // A payload that is larger than a chunk goes alone.
        let (chunk, later) = rest.split_at(fits.count().max(1));
        match chunk.iter().all(|envelope| envelope.fresh) {
            true => insert_fresh(writer, chunk, &mut published).await?,
            false => insert_chunk(writer, chunk, &mut published).await?,
        }
        rest = later;
    }
    Ok(published)
}

/// Looking for duplicates costs the database a quarter of an INSERT, and here are none.
async fn insert_fresh(
    writer: &mut dyn Writer,
    chunk: &[Envelope],
    published: &mut Vec<Published>,
) -> Result<(), Error> {
    let rows: Vec<&Envelope> = chunk.iter().collect();
    if writer.insert_fresh(&rows).await? != rows.len() {
        return Err(Error::new(Kind::Skipped));
    }
    for envelope in chunk {
        meter::published(envelope.topic);
        published.push(Published {
            id: envelope.id,
            fate: Fate::New,
        });
    }
    Ok(())
}

async fn insert_chunk(
    writer: &mut dyn Writer,
    chunk: &[Envelope],
    published: &mut Vec<Published>,
) -> Result<(), Error> {
    let mut fates: HashMap<usize, Fate> = HashMap::new();
    let mut open: Vec<usize> = (0..chunk.len()).collect();
    let mut fruitless = 0;
    while !open.is_empty() {
        // An id that stands twice in one chunk is tried once at a time.
        let mut ids = HashSet::new();
        let first: Vec<usize> = open
            .iter()
            .copied()
            .filter(|&n| ids.insert(chunk[n].id))
            .collect();
        let rows: Vec<&Envelope> = first.iter().map(|&n| &chunk[n]).collect();
        let written = writer.insert(&rows).await?;
        let before = open.len();
        for n in first {
            if written.contains(&chunk[n].id) {
                fates.insert(n, Fate::New);
                meter::published(chunk[n].topic);
            }
        }
        open.retain(|n| !fates.contains_key(n));
        resolve(writer, chunk, &mut open, &mut fates).await?;
        // A row that was in the way may be gone when it is looked for; not again and again.
        fruitless = if open.len() < before {
            0
        } else {
            fruitless + 1
        };
        if fruitless == ROUNDS {
            return Err(Error::new(Kind::Skipped));
        }
    }
    published.extend(chunk.iter().enumerate().map(|(n, envelope)| Published {
        id: envelope.id,
        fate: fates.remove(&n).unwrap_or(Fate::New),
    }));
    Ok(())
}

/// Finds the rows that stood in the way of `open`, and takes those that were found off it.
async fn resolve(
    writer: &mut dyn Writer,
    chunk: &[Envelope],
    open: &mut Vec<usize>,
    fates: &mut HashMap<usize, Fate>,
) -> Result<(), Error> {
    if open.is_empty() {
        return Ok(());
    }
    let rows: Vec<&Envelope> = open.iter().map(|&n| &chunk[n]).collect();
    let existing = writer.existing(&rows).await?;
    let by_id: HashMap<Uuid, &Existing> = existing.iter().map(|row| (row.id, row)).collect();
    let by_key: HashMap<(&str, &str), &Existing> = existing
        .iter()
        .filter_map(|row| Some(((row.topic.as_str(), row.dedup_key.as_deref()?), row)))
        .collect();
    open.retain(|&n| {
        let envelope = &chunk[n];
        let key = envelope
            .dedup_key
            .as_deref()
            .map(|key| (envelope.topic, key));
        let found = by_id.get(&envelope.id).or_else(|| by_key.get(&key?));
        if let Some(row) = found {
            fates.insert(
                n,
                Fate::Duplicate {
                    id: row.id,
                    state: row.state,
                },
            );
        }
        found.is_none()
    });
    Ok(())
}
