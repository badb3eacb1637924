// All forms of return values.

#![deny(warnings)]

use std::{error::Error, fmt, pin::Pin, time::Duration};

use outbox::{Decision, HandlerError, ResultExt as _, Router};

macro_rules! messages {
    ($($name:ident = $topic:literal),*) => {
        $(#[outbox::message(topic = $topic)] pub struct $name;)*
    };
}

messages!(A = "a", B = "b", C = "c", D = "d", E = "e", F = "f", G = "g", H = "h", I = "i", J = "j", K = "k");

#[derive(Debug)]
enum Failure {
    Temporary,
    Final,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failure")
    }
}

impl Error for Failure {}

fn decide(failure: &Failure) -> Decision {
    match failure {
        Failure::Temporary => Decision::RetryAfter(Duration::from_secs(1)),
        Failure::Final => Decision::Cancel,
    }
}

async fn call(n: u8) -> Result<u8, Failure> {
    match n {
        0 => Err(Failure::Temporary),
        1 => Err(Failure::Final),
        n => Ok(n),
    }
}

#[outbox::handler]
async fn nothing(_: A) {}

#[outbox::handler]
async fn unit(_: B) -> () {}

#[outbox::handler]
async fn any_how(_: C) -> anyhow::Result<()> {
    call(2).await?;
    Ok(())
}

#[outbox::handler]
async fn boxed(_: D) -> Result<(), Box<dyn Error + Send + Sync>> {
    call(2).await?;
    Ok(())
}

#[outbox::handler(on_error = decide)]
async fn own(_: E) -> Result<(), Failure> {
    call(2).await?;
    Ok(())
}

#[outbox::handler]
async fn text(_: F) -> Result<(), String> {
    if call(2).await.is_err() {
        return Err("early".into());
    }
    Ok(())
}

#[outbox::handler(timeout = none, max_attempts = 5, backoff = "1s..5m", concurrency = 4, rate = "100/s")]
async fn decided(_: G) -> Result<(), HandlerError> {
    call(2).await.or_cancel()?;
    call(2).await.or_retry_after(Duration::from_secs(5))?;
    if call(3).await? == 4 {
        return Err(HandlerError::cancel("four"));
    }
    Ok(())
}

type Alias = Result<(), HandlerError>;

#[outbox::handler(timeout = "250ms")]
async fn alias(_: H) -> Alias {
    Ok(())
}

#[outbox::handler]
async fn std_error(_: I) -> Result<(), Failure> {
    call(2).await.map(drop)
}

// Some attributes turn an `async fn` into a function that returns its future.
#[outbox::handler]
fn opaque_future(_: J) -> impl Future<Output = Result<(), Failure>> {
    async { call(2).await.map(drop) }
}

#[outbox::handler(on_error = decide)]
fn boxed_future(_: K) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> {
    Box::pin(async { call(2).await.map(drop) })
}

static ROUTER: Router = outbox::router![
    nothing, unit, any_how, boxed, own, text, decided, alias, std_error, opaque_future, boxed_future
];

fn main() {
    let _ = ROUTER;
}
