//! Runs one job of the benchmark against one peer: `peer NAME JOB URL [ARGUMENTS]`.

mod apalis;
mod database;
mod fang;
mod graphile;
mod handled;
mod jobs;
mod payload;
mod peer;
mod pgmq;
mod sqlxmq;
mod underway;

use std::env;

use anyhow::{Result, bail};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((name, job)) = arguments.split_first() else {
        bail!("usage: peer NAME JOB URL [ARGUMENTS]");
    };
    let answer = match name.as_str() {
        "apalis" => jobs::run::<apalis::Apalis>(job).await?,
        "fang" => jobs::run::<fang::Fang>(job).await?,
        "graphile" => jobs::run::<graphile::Graphile>(job).await?,
        "pgmq" => jobs::run::<pgmq::Pgmq>(job).await?,
        "sqlxmq" => jobs::run::<sqlxmq::Sqlxmq>(job).await?,
        "underway" => jobs::run::<underway::Underway>(job).await?,
        _ => bail!("no peer is called {name}"),
    };
    println!("{answer}");
    Ok(())
}
