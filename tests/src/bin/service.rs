//! A process of one of the two builds: `service ROLE ADDRESS old|new LOG [COUNT [PUBLISHERS]]`.

use outbox::{Publish, Relay};
use outbox_tests::{
    Db,
    builds::{Book, new, old},
    each,
    wait::millis,
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    std::thread::spawn(end_with_the_test);
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [role, address, build, log, rest @ ..] = arguments.as_slice() else {
        panic!("service ROLE ADDRESS old|new LOG [COUNT [PUBLISHERS]]");
    };
    let db = Db::open(address).await;
    match role.as_str() {
        "publish" => {
            let count: u32 = rest[0].parse().expect("a number");
            let publishers: u32 = rest.get(1).map_or(1, |n| n.parse().expect("a number"));
            let all = (0..publishers).map(|_| publish_all(&db, build, count));
            futures_util::future::join_all(all).await;
        }
        "relay" => {
            let book = Book { log: log.into() };
            let router = match build.as_str() {
                "old" => &old::ROUTER,
                _ => &new::ROUTER,
            };
            let builder = each!(db, pool => Relay::builder(pool, router))
                .state(book)
                .outbox(&db.outbox())
                .poll_interval(millis(20));
            let relay = builder.build().await.expect("the settings are right");
            let runs = relay.run_until(std::future::pending()).await;
            runs.expect("the relay runs");
        }
        role => panic!("no role {role}"),
    }
}

async fn publish_all(db: &Db, build: &str, count: u32) {
    for number in 0..count {
        match build {
            "old" => publish_old(db, number).await,
            _ => publish_new(db, number).await,
        }
        tokio::time::sleep(millis(2)).await;
    }
}

async fn publish_old(db: &Db, number: u32) {
    let note = Some("an old field".to_owned());
    publish(db, &old::Ordered { number, price: 7 }).await;
    publish(db, &old::Mailed { number, note }).await;
}

async fn publish_new(db: &Db, number: u32) {
    let (currency, subject) = ("SEK".to_owned(), Some("a new field".to_owned()));
    let ordered = new::Ordered {
        number,
        cents: 750,
        currency,
    };
    publish(db, &ordered).await;
    let mailed = new::Mailed {
        number,
        subject,
        copies: 3,
    };
    publish(db, &mailed).await;
}

async fn publish(db: &Db, message: &impl Publish) {
    db.publish(message).await;
}

/// The test holds the other end of the standard input and never writes to it.
fn end_with_the_test() {
    // An error means the same as the end.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::process::exit(1);
}
