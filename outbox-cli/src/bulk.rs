//! Changes of many messages: counted first, asked about, and told of while they go on.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressStyle};
use outbox::Bulk;

use crate::{
    args::How,
    failure::Failure,
    show::{messages, print, tell},
};

/// What a change does, in words: `redrive`, `redriven`.
pub(crate) struct Verb {
    pub(crate) does: &'static str,
    pub(crate) done: &'static str,
    /// What comes of it.
    pub(crate) next: Option<&'static str>,
}

impl Verb {
    /// Says to how many messages it was done, and what comes of it.
    pub(crate) fn told(&self, count: u64) -> Result<(), Failure> {
        print(&format!("{} {}", messages(count), self.done))?;
        if let Some(next) = self.next {
            tell(next);
        }
        Ok(())
    }
}

/// Makes a change. `bulk` is called for the count, and again for the change.
pub(crate) async fn run(verb: &Verb, how: &How, bulk: impl Fn() -> Bulk) -> Result<(), Failure> {
    let bulk = || match how.limit {
        Some(limit) => bulk().limit(limit),
        None => bulk(),
    };
    let count = bulk().dry_run(true).await?;
    if count == 0 {
        return Err(Failure::Nothing(format!(
            "there is nothing to {}: no message matches",
            verb.does
        )));
    }
    if how.dry_run {
        return print(&format!("{} would be {}", messages(count), verb.done));
    }
    confirm(verb, count, how.yes)?;

    let bar = ProgressBar::new(count);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    let done = Arc::new(AtomicU64::new(0));
    let bulk = bulk().on_progress({
        let (bar, done) = (bar.clone(), Arc::clone(&done));
        move |changed| {
            done.store(changed, Ordering::Relaxed);
            bar.set_position(changed);
        }
    });
    let bulk = match how.per_second {
        Some(rate) => bulk.per_second(rate),
        None => bulk,
    };
    let changed = bulk.await;
    bar.finish_and_clear();
    match changed {
        Ok(changed) => verb.told(changed),
        Err(error) => Err(interrupted(error, done.load(Ordering::Relaxed), verb)),
    }
}

/// Says how far a change came.
pub(crate) fn interrupted(error: outbox::Error, done: u64, verb: &Verb) -> Failure {
    match error.into() {
        Failure::Failed(text) => Failure::Failed(format!(
            "{text}; at least {} {} before that, nothing is half done, and the same command goes on with the rest",
            messages(done),
            verb.done
        )),
        other => other,
    }
}

/// Asks whether so many messages may be changed.
pub(crate) fn confirm(verb: &Verb, count: u64, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::Usage(format!(
            "this would {} {}, and there is no terminal to ask on; add --yes if that is right",
            verb.does,
            messages(count)
        )));
    }
    let mut err = io::stderr();
    write!(err, "{} {}? [y/N] ", verb.does, messages(count))?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Usage("nothing was done".to_owned())),
    }
}
