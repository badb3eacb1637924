//! Topics that wait: no relay claims from them until they are resumed.

use std::time::SystemTime;

use crate::{
    Error, Outbox,
    store::{self, DatabasePool},
};

/// A topic from which no relay claims.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paused {
    /// The topic.
    pub topic: String,
    /// Why it was paused, if somebody said so.
    pub reason: Option<String>,
    /// Since when, by the database's clock.
    pub paused_at: SystemTime,
}

impl Outbox {
    /// Has no relay claim messages of this topic any more, in any version of it: each relay follows within
    /// one of its poll intervals. What a relay has claimed by then it delivers. Messages can be published
    /// all the same, and wait. Returns false if the topic was paused already, whose reason then stays.
    ///
    /// The topic need not have messages. Relays of builds before this feature don't know of pauses.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`] for a text that is no topic; [`Error::is_connection`];
    /// [`Error::is_schema_mismatch`] without the tables.
    pub async fn pause(
        &self,
        pool: &impl DatabasePool,
        topic: &str,
        reason: Option<&str>,
    ) -> Result<bool, Error> {
        Self::check_topic(topic)?;
        let reason = reason.map(|reason| reason.replace('\0', "\u{fffd}"));
        store::reach(self, pool)?
            .operator()
            .pause(topic, reason.as_deref())
            .await
    }

    /// Ends a pause: relays go on with the topic within a poll interval, and at once where they hear of
    /// commits. Returns false if the topic was not paused.
    ///
    /// # Errors
    ///
    /// See [`pause`](Self::pause).
    pub async fn resume(&self, pool: &impl DatabasePool, topic: &str) -> Result<bool, Error> {
        Self::check_topic(topic)?;
        store::reach(self, pool)?.operator().resume(topic).await
    }

    fn check_topic(topic: &str) -> Result<(), Error> {
        crate::topic::check(topic).map_err(|_| {
            Error::config(format!(
                "{topic:?} is not a topic: a topic has 1 to 255 lowercase ASCII letters, digits, `-`, `_` or `.`"
            ))
        })
    }
}
