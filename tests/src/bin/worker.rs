//! The child process of the conformance suite: `worker ROLE ADDRESS [ARGUMENT...]`.

use std::{path::PathBuf, str::FromStr, time::Duration};

use outbox::Relay;
use outbox_tests::{
    Call, Db, Lab, each,
    lab::{ALL, Task},
    log::{self, Entry},
    wait::millis,
    worker::{HOLD, POISON, Settings},
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    std::thread::spawn(end_with_the_test);
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("worker ROLE ADDRESS [ARGUMENT...]");
    let (role, address) = (next(), next());
    let db = Db::open(&address).await;
    match role.as_str() {
        "migrate" => each!(db, pool => db.outbox().migrate(pool).await).expect("migrates"),
        "publish" => {
            let task = Task::named(&next());
            let delay = millis(number(&next()));
            let mut tx = db.begin().await;
            task.publication()
                .to(&db.outbox())
                .delay(delay)
                .publish(&mut tx)
                .await
                .expect("publishes");
            tx.commit().await;
        }
        "relay" => {
            let log = PathBuf::from(next());
            let settings = serde_json::from_str(&next()).expect("settings are JSON");
            let relay = relay(&db, &db.url(), log, settings).await;
            relay
                .run_until(std::future::pending())
                .await
                .expect("the relay runs");
        }
        role => panic!("no role {role}"),
    }
}

async fn relay(db: &Db, url: &str, log: PathBuf, settings: Settings) -> Relay<Lab> {
    // What it would remember is in the log.
    let lab = Lab::forgetful(move |call| handle(call, log.clone()));
    let builder = each!(db, pool => Relay::builder(pool, &ALL))
        .state(lab)
        .outbox(&db.outbox())
        .poll_interval(settings.poll_interval)
        .store_timeout(settings.store_timeout)
        .lease(settings.lease)
        .max_attempts(settings.max_attempts)
        .concurrency(settings.concurrency)
        .window(settings.window)
        .backoff(millis(20), millis(50));
    let builder = match settings.listener {
        true => builder.listener(url),
        false => builder,
    };
    builder
        .build()
        .await
        .expect("the relay's settings are right")
}

/// The test holds the other end of the standard input and never writes to it.
fn end_with_the_test() {
    // An error means the same as the end.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::process::exit(1);
}

async fn handle(call: Call, file: PathBuf) -> Result<(), outbox::HandlerError> {
    let entry = |start| Entry {
        start,
        id: call.delivery.id(),
        attempt: call.delivery.attempt(),
        process: std::process::id(),
        at: log::now(),
        name: call.name.clone(),
    };
    entry(true).append(&file);
    match call.name.as_str() {
        POISON => {
            // Its neighbours of the same batch get the time to start, so that they are in flight.
            tokio::time::sleep(millis(20)).await;
            std::process::abort();
        }
        HOLD => std::future::pending().await,
        // A task's number is how long it takes.
        _ => tokio::time::sleep(Duration::from_millis(call.number.unsigned_abs())).await,
    }
    entry(false).append(&file);
    Ok(())
}

fn number<T: FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a number")
}
