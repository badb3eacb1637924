//! How fast the outbox is, beside what others offer and what Postgres allows: `benches/speed` builds and starts
//! all that this needs. In each round every contestant does the same work on a database of its own, one after
//! the other; what is printed are medians, spreads and ratios.

mod chapters;
mod contestants;
mod pressure;
mod stage;

use std::error::Error;

use crate::{chapters::Chapter, contestants::Contestants, stage::Stage};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut rounds = 3;
    let mut chapters = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--rounds" => rounds = arguments.next().ok_or("how many rounds?")?.parse()?,
            name => chapters.push(Chapter::named(name)?),
        }
    }
    if chapters.is_empty() {
        chapters = Chapter::ALL.to_vec();
    }
    let contestants = Contestants::find()?;
    let mut stage = Stage::open().await?;
    for chapter in chapters {
        chapter.run(&mut stage, &contestants, rounds).await?;
    }
    Ok(())
}
