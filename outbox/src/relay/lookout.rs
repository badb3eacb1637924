//! Telling publishers whether anybody waits to be woken.
//!
//! A NOTIFY makes the commits of all transactions that carry one wait for each other. Of all relays that listen
//! one is the lookout: it asks for one wake, after which publishers keep silent for a while, and then everybody
//! looks for what was published in silence. So however much is published, few of the transactions carry a
//! NOTIFY, and a message that comes alone is heard of at once.

use std::{convert::Infallible, time::Duration};

use futures_util::FutureExt as _;
use tokio::sync::Notify;

use super::{connection::within, wake::Wake};
use crate::{
    Error,
    store::{Ears, Lookout},
};

/// After a wake publishers keep silent for so long.
const REST: Duration = Duration::from_millis(10);

/// The same at most, while so much is published that the wake comes at once, or while somebody's transaction
/// stays open that has published.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How often everybody is told to look, in place of asking for a wake, while so much is published.
const CALLS: usize = 4;

/// What was heard alone is claimed first. To tell publishers that nobody waits any more is no hurry then, and
/// would take a processor of the database from that claim.
const AFTER_CLAIM: Duration = Duration::from_millis(1);

/// A wake that takes longer than this does not come at once.
const AT_ONCE: Duration = Duration::from_millis(5);

/// Looks out until something goes wrong. `heard` rings for each wake that the lookout's relay hears.
pub(super) async fn run(
    ears: &dyn Ears,
    heartbeat: Duration,
    timeout: Duration,
    wake: &Wake,
    heard: &Bell,
) -> Error {
    let looking_out = LookingOut {
        heartbeat,
        timeout,
        wake,
        heard,
    };
    match looking_out.ask_for_wakes(ears).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

struct LookingOut<'a> {
    heartbeat: Duration,
    timeout: Duration,
    wake: &'a Wake,
    heard: &'a Bell,
}

impl LookingOut<'_> {
    async fn ask_for_wakes(&self, ears: &dyn Ears) -> Result<Infallible, Error> {
        let open = ears.lookout(3 * self.heartbeat);
        let mut lookout = self.answered(open).await?;
        let mut rest = REST;
        loop {
            rest = match self.ask_for_one(&mut *lookout).await? {
                true => (rest * 2).min(LONGEST_REST),
                false => REST,
            };
            tokio::time::sleep(rest).await;
            if rest == LONGEST_REST {
                // To ask now would cost many a commit, and tell nothing new.
                for _ in 0..CALLS {
                    self.answered(lookout.call()).await?;
                    tokio::time::sleep(rest).await;
                }
            }
        }
    }

    /// Asks for a wake and waits for it; true if much is being published.
    async fn ask_for_one(&self, lookout: &mut dyn Lookout) -> Result<bool, Error> {
        if !self.answered(lookout.arm()).await? {
            self.answered(lookout.call()).await?;
            return Ok(true);
        }
        self.heard.silence();
        // Publishers who were not asked have committed. If the next one comes at once, everybody looks for its
        // sake.
        self.wake.look();
        let at_once = tokio::time::timeout(AT_ONCE, self.heard.rung())
            .await
            .is_ok();
        if !at_once {
            self.answered(lookout.call()).await?;
            while tokio::time::timeout(self.heartbeat, self.heard.rung())
                .await
                .is_err()
            {
                self.answered(lookout.beat()).await?;
            }
            tokio::time::sleep(AFTER_CLAIM).await;
        }
        self.answered(lookout.disarm()).await?;
        Ok(at_once)
    }

    async fn answered<T>(
        &self,
        operation: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        within(self.timeout, "looking out for publishers", operation).await
    }
}

/// Rings once for any number of wakes.
#[derive(Debug, Default)]
pub(super) struct Bell(Notify);

impl Bell {
    pub(super) fn ring(&self) {
        self.0.notify_one();
    }

    async fn rung(&self) {
        self.0.notified().await;
    }

    /// Forgets that it rang.
    fn silence(&self) {
        let _ = self.0.notified().now_or_never();
    }
}
