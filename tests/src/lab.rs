//! The messages of the suite, and a state that does in a handler what the test wants and keeps a
//! record of it. Each test has a state of its own, so parallel tests don't mix.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex},
    time::Instant,
};

use futures_util::future::BoxFuture;
use outbox::{Delivery, HandlerError, State};
use uuid::Uuid;

use crate::wait::{LONG, eventually};

/// The topic of [`Task`].
pub const TASK: &str = "lab.task";

/// The topic of [`Errand`].
pub const ERRAND: &str = "lab.errand";

/// What most tests publish.
#[outbox::message(topic = "lab.task")]
#[derive(Debug, Clone, PartialEq, Eq, garde::Validate)]
pub struct Task {
    /// What the test calls it; may not be empty.
    #[outbox(key)]
    #[garde(length(min = 1))]
    pub name: String,
    /// Whatever the test needs.
    #[garde(range(min = 0))]
    pub number: i64,
}

impl Task {
    /// A task of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            number: 0,
        }
    }

    /// Tasks numbered from 1.
    #[must_use]
    pub fn numbered(n: usize) -> Vec<Self> {
        (1..=n)
            .map(|number| Self {
                name: "task".to_owned(),
                number: number.try_into().expect("a small number"),
            })
            .collect()
    }
}

/// A message of another topic.
#[outbox::message(topic = "lab.errand")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// What the test calls it.
    pub name: String,
    /// Whatever the test needs.
    #[serde(default)]
    pub number: i64,
}

/// A message with something inside, for the paths of its fields.
#[outbox::message(topic = "lab.order")]
#[derive(Debug, Clone, PartialEq, Eq, garde::Validate)]
pub struct Order {
    /// One line per article.
    #[garde(dive)]
    pub lines: Vec<Line>,
}

/// A line of an [`Order`].
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
    garde::Validate,
)]
pub struct Line {
    /// The article.
    #[garde(skip)]
    pub article: String,
    /// How many.
    #[garde(range(min = 1))]
    pub quantity: u32,
}

/// Serves [`Task`] only.
pub static TASKS: outbox::Router<Lab> = outbox::router![run_task];

/// Serves [`Errand`] only.
pub static ERRANDS: outbox::Router<Lab> = outbox::router![run_errand];

/// Serves everything above.
pub static ALL: outbox::Router<Lab> = outbox::router![run_task, run_errand, run_order];

/// Does what the test said.
#[outbox::handler]
pub async fn run_task(
    task: Task,
    State(lab): State<Lab>,
    delivery: Delivery,
) -> Result<(), HandlerError> {
    lab.run(task.name, task.number, delivery).await
}

/// Does what the test said.
#[outbox::handler]
pub async fn run_errand(
    errand: Errand,
    State(lab): State<Lab>,
    delivery: Delivery,
) -> Result<(), HandlerError> {
    lab.run(errand.name, errand.number, delivery).await
}

/// Does what the test said.
#[outbox::handler]
pub async fn run_order(
    order: Order,
    State(lab): State<Lab>,
    delivery: Delivery,
) -> Result<(), HandlerError> {
    lab.run("order".to_owned(), order.lines.len().try_into()?, delivery)
        .await
}

/// The state of the suite's relays: what handlers do, and what they did.
#[derive(Clone)]
pub struct Lab(Arc<Inner>);

struct Inner {
    behaviour: Box<dyn Fn(Call) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>,
    log: Mutex<Log>,
    keeps_log: bool,
}

#[derive(Default)]
struct Log {
    calls: Vec<Call>,
    ends: Vec<(Uuid, End)>,
}

/// One start of a handler.
#[derive(Debug, Clone)]
pub struct Call {
    /// The message's name.
    pub name: String,
    /// The message's number.
    pub number: i64,
    /// The delivery, as the handler got it.
    pub delivery: Delivery,
    /// When the handler started.
    pub at: Instant,
}

/// How a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It returned.
    Returned,
    /// Its future was dropped before it returned, or it panicked.
    Dropped,
}

impl Lab {
    /// Handlers do what `behaviour` says.
    pub fn new<F>(behaviour: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self::with(behaviour, true)
    }

    /// Like [`new`](Self::new), without a record of the calls, which would grow as long as it lives.
    pub fn forgetful<F>(behaviour: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self::with(behaviour, false)
    }

    fn with<F>(behaviour: impl Fn(Call) -> F + Send + Sync + 'static, keeps_log: bool) -> Self
    where
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self(Arc::new(Inner {
            behaviour: Box::new(move |call| Box::pin(behaviour(call))),
            log: Mutex::default(),
            keeps_log,
        }))
    }

    /// Handlers succeed at once.
    #[must_use]
    pub fn content() -> Self {
        Self::new(|_| async { Ok(()) })
    }

    /// Does what the lab is for, as the handlers of this crate do.
    ///
    /// # Errors
    ///
    /// Those that its behaviour returns.
    pub async fn run(
        self,
        name: String,
        number: i64,
        delivery: Delivery,
    ) -> Result<(), HandlerError> {
        let call = Call {
            name,
            number,
            delivery,
            at: Instant::now(),
        };
        if !self.0.keeps_log {
            return (self.0.behaviour)(call).await;
        }
        let mut end = Ending {
            lab: self.clone(),
            id: call.delivery.id(),
            end: End::Dropped,
        };
        self.0
            .log
            .lock()
            .expect("the log is not poisoned")
            .calls
            .push(call.clone());
        let result = (self.0.behaviour)(call).await;
        end.end = End::Returned;
        result
    }

    /// All starts so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.0
            .log
            .lock()
            .expect("the log is not poisoned")
            .calls
            .clone()
    }

    /// How often handlers of this message were started.
    #[must_use]
    pub fn starts(&self, id: Uuid) -> usize {
        self.calls()
            .iter()
            .filter(|call| call.delivery.id() == id)
            .count()
    }

    /// How the handlers of this message ended, in that order.
    #[must_use]
    pub fn ends(&self, id: Uuid) -> Vec<End> {
        let log = self.0.log.lock().expect("the log is not poisoned");
        log.ends
            .iter()
            .filter(|(of, _)| *of == id)
            .map(|(_, end)| *end)
            .collect()
    }

    /// Waits until handlers were started so often.
    #[track_caller]
    pub fn started(&self, n: usize) -> impl Future<Output = Vec<Call>> + use<> {
        let lab = self.clone();
        eventually(
            LONG,
            move || {
                let lab = lab.clone();
                async move { lab.calls() }
            },
            move |calls: &Vec<Call>| calls.len() >= n,
        )
    }
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lab").field(&self.calls()).finish()
    }
}

/// Notes the end of a handler even if its future is dropped.
struct Ending {
    lab: Lab,
    id: Uuid,
    end: End,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.lab
            .0
            .log
            .lock()
            .expect("the log is not poisoned")
            .ends
            .push((self.id, self.end));
    }
}
