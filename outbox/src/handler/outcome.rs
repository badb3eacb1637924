//! What a handler returns, and what the relay makes of it.

use std::{
    any::Any,
    error::Error as StdError,
    fmt::{self, Write as _},
    time::Duration,
};

type BoxError = Box<dyn StdError + Send + Sync>;

/// What is to become of a message whose handler failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Try again after the backoff, while attempts are left.
    Retry,
    /// Try again after this delay instead of the backoff, while attempts are left.
    RetryAfter(Duration),
    /// Don't try again: the message becomes a dead letter at once.
    Cancel,
}

/// How one delivery ended, as far as the handler is concerned.
#[derive(Debug)]
pub struct Outcome(pub(crate) Result<(), Failed>);

/// A failed attempt: what to do and the text to keep.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) decision: Decision,
    pub(crate) text: String,
}

impl Outcome {
    /// A failure whose decision an `on_error` function has taken.
    #[doc(hidden)]
    pub fn decided(decision: Decision, error: impl Into<BoxError>) -> Self {
        let error = error.into();
        // The carrier's own decision is older than the one that the user's function has just taken.
        Self(Err(Failed {
            decision,
            text: describe(&*error),
        }))
    }

    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = match (
            payload.downcast_ref::<&str>(),
            payload.downcast_ref::<String>(),
        ) {
            (Some(text), _) => format!("panicked: {text}"),
            (None, Some(text)) => format!("panicked: {text}"),
            (None, None) => "panicked with a value that is not a text".to_owned(),
        };
        Self(Err(Failed {
            decision: Decision::Retry,
            text,
        }))
    }
}

/// What a handler may return: `()` or `Result<(), E>`, where `E` is any error.
#[diagnostic::on_unimplemented(
    message = "a handler can't return `{Self}`",
    label = "neither `()` nor a `Result<(), E>` whose `E` is an error that crosses threads",
    note = "return `()` or `Result<(), E>` where `E` is a std error, `anyhow::Error`, a boxed error, a `String` or `outbox::HandlerError`",
    note = "`E` is `Send + Sync`, a boxed one is `Box<dyn Error + Send + Sync>`"
)]
pub trait IntoOutcome {
    /// What the relay makes of it.
    #[doc(hidden)]
    fn into_outcome(self) -> Outcome;
}

#[diagnostic::do_not_recommend]
impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome(Ok(()))
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> IntoOutcome for Result<(), E> {
    fn into_outcome(self) -> Outcome {
        Outcome(self.map_err(|error| Failed::new(&*error.into())))
    }
}

impl Failed {
    fn new(error: &(dyn StdError + Send + Sync + 'static)) -> Self {
        // A `HandlerError` may have travelled through `?` into a box, or into an error that wraps it.
        let mut next: Option<&(dyn StdError + 'static)> = Some(error);
        let mut decision = Decision::Retry;
        while let Some(error) = next {
            if let Some(carrier) = error.downcast_ref::<Carrier>() {
                decision = carrier.decision;
                break;
            }
            next = error.source();
        }
        Self {
            decision,
            text: describe(error),
        }
    }
}

/// The error and its causes in one line, each said once.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            // Writing into a `String` can't fail.
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

/// An error that says what is to become of the message.
///
/// Any std error turns into one by `?` and is then retried with backoff. It deliberately does not
/// implement `std::error::Error` itself, which is what makes that conversion possible.
///
/// `?` takes std errors only; for a `String`, a boxed error or `anyhow::Error` write
/// `.map_err(HandlerError::retry)?`, or let the handler return `Result<(), anyhow::Error>`.
#[must_use = "a decision counts only if the handler returns it: `return Err(..)`"]
pub struct HandlerError(Carrier);

/// What a [`HandlerError`] is inside a box, where its decision is found again by downcast.
struct Carrier {
    decision: Decision,
    error: BoxError,
}

impl HandlerError {
    /// Try again after the backoff, while attempts are left.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self(Carrier {
            decision: Decision::Retry,
            error: error.into(),
        })
    }

    /// Try again after `delay` instead of the backoff, while attempts are left.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self(Carrier {
            decision: Decision::RetryAfter(delay),
            error: error.into(),
        })
    }

    /// Don't try again: the message becomes a dead letter with this reason.
    pub fn cancel(reason: impl Into<BoxError>) -> Self {
        Self(Carrier {
            decision: Decision::Cancel,
            error: reason.into(),
        })
    }

    /// What is to become of the message.
    pub fn decision(&self) -> Decision {
        self.0.decision
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl From<HandlerError> for BoxError {
    fn from(error: HandlerError) -> Self {
        Box::new(error.0)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("decision", &self.0.decision)
            .field("error", &self.0.error)
            .finish()
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(f)
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Carrier {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// Gives an error its decision on the way out of a handler: `charge(..).await.or_cancel()?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Result` whose error a handler could return",
    label = "expected `Result<T, E>` of an error",
    note = "`E` may be a std error, `anyhow::Error`, a boxed error, a `String` or `outbox::HandlerError`"
)]
pub trait ResultExt<T> {
    /// On an error: don't try again, the message becomes a dead letter.
    fn or_cancel(self) -> Result<T, HandlerError>;

    /// On an error: try again after `delay` instead of the backoff.
    fn or_retry_after(self, delay: Duration) -> Result<T, HandlerError>;
}

impl<T, E: Into<BoxError>> ResultExt<T> for Result<T, E> {
    fn or_cancel(self) -> Result<T, HandlerError> {
        self.map_err(HandlerError::cancel)
    }

    fn or_retry_after(self, delay: Duration) -> Result<T, HandlerError> {
        self.map_err(|error| HandlerError::retry_after(delay, error))
    }
}
