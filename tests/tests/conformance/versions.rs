//! Messages of several versions in one table: lifted by the newer build, left alone by the older one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use outbox::{Delivery, State};
use outbox_tests::{
    Db, each, eventually, on_every_database, relay,
    wait::{LONG, secs, within},
    worker::Workers,
};

use crate::support::all_delivered;

on_every_database![
    each_version_is_lifted_to_the_newest,
    a_newer_version_waits_for_the_newer_build,
    an_older_payload_that_can_not_be_read_is_dead,
    a_dead_letter_is_corrected_in_the_newest_version,
    a_version_of_which_none_are_stored_is_not_read,
    two_builds_side_by_side_lose_nothing,
];

/// What a handler has seen.
type Seen = Arc<Mutex<Vec<String>>>;

#[derive(Clone, outbox::FromRef)]
struct Notes {
    seen: Seen,
}

mod first {
    use super::*;

    #[outbox::message(topic = "versions.parcel")]
    #[derive(Debug, garde::Validate)]
    pub(super) struct Parcel {
        #[garde(range(min = 1))]
        pub(super) grams: i64,
    }

    #[outbox::handler]
    pub(super) async fn parcel(it: Parcel, State(seen): State<Seen>) {
        seen.lock().expect("no panic").push(format!("{it:?}"));
    }

    pub(super) static ROUTER: outbox::Router<Notes> = outbox::router![parcel];
}

mod second {
    use super::*;

    #[outbox::message(topic = "versions.parcel", version = 2, from = first::Parcel)]
    #[derive(Debug)]
    pub(super) struct Parcel {
        pub(super) kilos: f64,
    }

    impl From<first::Parcel> for Parcel {
        fn from(old: first::Parcel) -> Self {
            Self {
                kilos: old.grams as f64 / 1_000.0,
            }
        }
    }
}

mod third {
    use super::*;

    #[outbox::message(topic = "versions.parcel", version = 3, from = second::Parcel)]
    #[derive(Debug, garde::Validate)]
    pub(super) struct Parcel {
        #[garde(range(max = 100.0))]
        pub(super) kilos: f64,
        #[garde(skip)]
        pub(super) country: String,
    }

    impl From<second::Parcel> for Parcel {
        fn from(old: second::Parcel) -> Self {
            Self {
                kilos: old.kilos,
                country: "unknown".to_owned(),
            }
        }
    }

    #[outbox::handler(max_attempts = 3)]
    pub(super) async fn parcel(it: Parcel, State(seen): State<Seen>, delivery: Delivery) {
        assert_eq!(delivery.attempt(), 1, "no attempt was burnt");
        seen.lock().expect("no panic").push(format!("{it:?}"));
    }

    pub(super) static ROUTER: outbox::Router<Notes> = outbox::router![
        parcel;
        requires first::Parcel, second::Parcel, Parcel
    ];
}

/// A build that says that no message of the versions before its own is stored.
mod fourth {
    use super::*;

    #[outbox::message(topic = "versions.parcel", version = 4, from = none)]
    #[derive(Debug)]
    pub(super) struct Parcel {}

    #[outbox::handler]
    pub(super) async fn parcel(it: Parcel, State(seen): State<Seen>) {
        seen.lock().expect("no panic").push(format!("{it:?}"));
    }

    pub(super) static ROUTER: outbox::Router<Notes> = outbox::router![parcel];
}

/// Delivers what is due by this router, and tells what its handler has seen.
async fn drained(db: &Db, router: &'static outbox::Router<Notes>) -> Vec<String> {
    let notes = Notes {
        seen: Seen::default(),
    };
    let seen = Arc::clone(&notes.seen);
    let relay = relay!(db, *router, notes);
    within(LONG, relay.drain()).await.expect("drains");
    let mut seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    seen.sort();
    seen
}

async fn each_version_is_lifted_to_the_newest(db: Db) {
    db.publish(&first::Parcel { grams: 1_500 }).await;
    db.publish(&second::Parcel { kilos: 2.5 }).await;
    let (kilos, country) = (3.5, "SE".to_owned());
    db.publish(&third::Parcel { kilos, country }).await;
    let versions = db
        .scalars(&format!(
            "SELECT {} FROM outbox ORDER BY outbox.version",
            db.as_number("version")
        ))
        .await;
    assert_eq!(versions, [1, 2, 3], "each is written as what it is");

    let seen = drained(&db, &third::ROUTER).await;
    let expected = [
        r#"Parcel { kilos: 1.5, country: "unknown" }"#,
        r#"Parcel { kilos: 2.5, country: "unknown" }"#,
        r#"Parcel { kilos: 3.5, country: "SE" }"#,
    ];
    assert_eq!(seen, expected);
    all_delivered(&db).await;
}

async fn a_newer_version_waits_for_the_newer_build(db: Db) {
    let old = db.publish(&first::Parcel { grams: 1_500 }).await;
    let (kilos, country) = (3.5, "SE".to_owned());
    let new = db.publish(&third::Parcel { kilos, country }).await;
    let notes = Notes {
        seen: Seen::default(),
    };
    let relay = relay!(db, first::ROUTER, notes).spawn();
    eventually(LONG, || db.count("1 = 1"), |left| *left == 1).await;
    assert_eq!(db.row(old.id).await, None, "the old build delivers its own");
    let waiting = db.row(new.id).await.expect("it waits");
    assert_eq!((waiting.state.as_str(), waiting.attempts), ("pending", 0));

    let stats = each!(db, pool => db.outbox().stats(pool).await).expect("the statistics");
    let route = stats.routes.iter().find(|route| route.version == 3);
    let route = route.expect("it is named");
    assert!(route.unrouted, "no live relay serves it: {route:?}");
    assert_eq!((route.topic.as_str(), route.due), ("versions.parcel", 1));
    relay.shutdown().await.expect("stops");

    let seen = drained(&db, &third::ROUTER).await;
    assert_eq!(seen, [r#"Parcel { kilos: 3.5, country: "SE" }"#]);
    all_delivered(&db).await;
}

async fn an_older_payload_that_can_not_be_read_is_dead(db: Db) {
    for payload in [r#"{"grams": 0}"#, r#"{"kilos": 1}"#, r#"{"grams": 100001}"#] {
        db.execute(&format!(
            "INSERT INTO outbox (topic, payload) VALUES ('versions.parcel', '{payload}')"
        ))
        .await;
    }
    let seen = drained(&db, &third::ROUTER).await;
    assert!(seen.is_empty(), "{seen:?}");
    let mut errors: Vec<_> = db
        .rows("state = 'dead'")
        .await
        .into_iter()
        .map(|row| (row.attempts, row.texts()[0].to_owned()))
        .collect();
    errors.sort();
    let expected = [
        // By today's rules, though not by those of its time.
        "payload of version 1 is invalid as version 3: `kilos`: greater than 100",
        "payload can't be decoded: missing field `grams`",
        "payload is invalid: `grams`: lower than 1",
    ];
    let mut expected: Vec<_> = expected.map(|text| (1, text.to_owned())).into();
    expected.sort();
    assert_eq!(errors, expected);
}

async fn a_dead_letter_is_corrected_in_the_newest_version(db: Db) {
    db.execute(r#"INSERT INTO outbox (topic, payload) VALUES ('versions.parcel', '{"grams": 0}')"#)
        .await;
    drained(&db, &third::ROUTER).await;
    let dead = db.rows("state = 'dead'").await;
    let [dead] = dead.as_slice() else {
        panic!("one dead letter: {dead:?}");
    };
    let letters = || each!(db, pool => db.outbox().dead_letters(pool));
    let wrong = letters().redrive_with(dead.id, &fourth::Parcel {}).await;
    assert!(!wrong.expect("runs"), "which is not made of version 1");
    let (kilos, country) = (0.5, "NO".to_owned());
    let corrected = third::Parcel { kilos, country };
    let redriven = letters().redrive_with(dead.id, &corrected).await;
    assert!(redriven.expect("runs"), "a later version of its message");
    let row = db.row(dead.id).await.expect("it is there");
    assert_eq!((row.state.as_str(), row.version), ("pending", 3));
    let seen = drained(&db, &third::ROUTER).await;
    assert_eq!(seen, [r#"Parcel { kilos: 0.5, country: "NO" }"#]);
    all_delivered(&db).await;
}

async fn a_version_of_which_none_are_stored_is_not_read(db: Db) {
    let old = db.publish(&first::Parcel { grams: 1_500 }).await;
    db.publish(&fourth::Parcel {}).await;
    let seen = drained(&db, &fourth::ROUTER).await;
    assert_eq!(seen, ["Parcel"]);
    let row = db.row(old.id).await.expect("it waits for who can read it");
    assert_eq!((row.state.as_str(), row.attempts), ("pending", 0));
}

/// How many messages of each kind each build publishes.
const EACH: u32 = 100;

async fn two_builds_side_by_side_lose_nothing(db: Db) {
    let workers = Workers::new(env!("CARGO_BIN_EXE_service"), &db);
    let start = |role: &str, build: &str| {
        let log = workers.log().display().to_string();
        let arguments = [build.to_owned(), log, EACH.to_string()];
        workers.start(role, &arguments)
    };
    // The deploy begins: the old build runs, and the new one comes.
    let old_relays = [start("relay", "old"), start("relay", "old")];
    let mut publishers = [start("publish", "old"), start("publish", "new")];
    let new_relays = [start("relay", "new")];
    for publisher in &mut publishers {
        let status = publisher.ended(LONG).await;
        assert!(status.success(), "{status}");
    }
    // It ends: the old build goes.
    let old_processes: Vec<_> = old_relays.iter().map(|relay| relay.process()).collect();
    eventually(LONG, || db.count("1 = 1"), |left| *left == 0).await;
    drop(old_relays);
    let mut late = start("publish", "old");
    assert!(late.ended(LONG).await.success());
    eventually(secs(30), || db.count("1 = 1"), |left| *left == 0).await;
    drop(new_relays);

    let entries = workers.starts();
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for entry in &entries {
        assert_eq!(entry.attempt, 1, "an attempt was burnt: {entry:?}");
        let by_old = old_processes.contains(&entry.process);
        assert_eq!(entry.name.starts_with("old: "), by_old);
        let lifted = entry.name.contains("cents: 700, currency: \"EUR\"");
        let written_so = entry.name.contains("cents: 750, currency: \"SEK\"");
        let ordered = entry.name.contains("Ordered");
        let kind = match (ordered, by_old) {
            (true, true) => "version 1 by the old build",
            (true, false) if lifted => "version 1 by the new build",
            (true, false) if written_so => "version 2 by the new build",
            (true, false) => panic!("neither lifted nor written so: {entry:?}"),
            (false, true) => "mail by the old build",
            (false, false) => "mail by the new build",
        };
        *seen.entry(kind).or_default() += 1;
    }
    let of = |kind: &str| seen.get(kind).copied().unwrap_or(0);
    let first = of("version 1 by the old build") + of("version 1 by the new build");
    assert_eq!(first, 2 * EACH, "{seen:?}");
    assert!(
        of("version 1 by the new build") >= EACH,
        "the late ones: {seen:?}"
    );
    assert_eq!(of("version 2 by the new build"), EACH, "{seen:?}");
    let mails = of("mail by the old build") + of("mail by the new build");
    assert_eq!(mails, 3 * EACH, "{seen:?}");
    assert!(of("mail by the old build") > 0, "{seen:?}");
    assert!(of("mail by the new build") > 0, "{seen:?}");
}
