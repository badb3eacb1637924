//! Does one job of the contest on the outbox, or by hand, in a process of its own:
//! `contestant NAME JOB URL [ARGUMENTS]`. Prints its result as one line of JSON.

mod by_hand;
mod orders;
mod outbox;

use std::error::Error;

use outbox_benches::contest::Job;

use crate::by_hand::Message;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("which contestant?")?;
    let job = Job::parse(arguments)?;
    let done = match &*name {
        "orders-only" => by_hand::run(&job, Message::None).await?,
        "by-hand" => by_hand::run(&job, Message::Silent).await?,
        "by-hand-notifying" => by_hand::run(&job, Message::Notifying).await?,
        "outbox" => outbox::run(&job, outbox::Settings::BEST).await?,
        "outbox-default" => outbox::run(&job, outbox::Settings::DEFAULT).await?,
        "outbox-silent" => outbox::run(&job, outbox::Settings::SILENT).await?,
        name => return Err(format!("there is no contestant `{name}`").into()),
    };
    println!("{done}");
    Ok(())
}
