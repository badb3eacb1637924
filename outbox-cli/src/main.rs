//! The operator's command: what is stuck in an outbox, why, and how it goes on.

mod args;
mod bulk;
mod commands;
mod database;
mod failure;
mod secrets;
mod show;
mod url;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Args, failure::Failure};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return failure::misread(&error),
    };
    match commands::run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads along has read enough.
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            failure.code().into()
        }
    }
}
