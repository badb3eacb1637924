//! What a relay says of itself while the database is there, away, and back.

use std::time::SystemTime;

use outbox::{Health, Trouble};
use outbox_tests::{
    Db, Lab, eventually,
    lab::{TASKS, Task},
    on_every_database,
    proxy::Proxy,
    relay,
    wait::{LONG, secs},
};

use crate::support::delivered;

on_every_database! {
    all: [
        a_relay_is_live_while_it_runs,
        a_topic_that_cant_be_claimed_degrades_until_it_can,
    ],
    servers: [a_relay_without_its_database_is_degraded_until_it_is_back],
    postgres: [a_lost_listener_degrades_until_there_is_another]
}

/// Waits until it is degraded, and says by what.
async fn troubles(health: impl Fn() -> Health) -> Vec<Trouble> {
    let degraded = |health: &Health| matches!(health, Health::Degraded(_));
    match eventually(LONG, || async { health() }, degraded).await {
        Health::Degraded(troubles) => troubles,
        other => panic!("{other:?}"),
    }
}

async fn live(health: impl Fn() -> Health) {
    eventually(
        LONG,
        || async { health() },
        |health| *health == Health::Live,
    )
    .await;
}

async fn a_relay_is_live_while_it_runs(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab);
    assert_eq!(relay.health(), Health::Stopped, "not begun");
    let (first, second) = (relay.spawn(), relay.spawn());
    assert_eq!(
        (relay.health(), first.health()),
        (Health::Live, Health::Live)
    );
    first.shutdown().await.expect("stops");
    assert_eq!(relay.health(), Health::Live, "the second still runs");
    second.shutdown().await.expect("stops");
    assert_eq!(relay.clone().health(), Health::Stopped);
    relay.drain().await.expect("drains");
    assert_eq!(relay.health(), Health::Stopped);
}

async fn a_topic_that_cant_be_claimed_degrades_until_it_can(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab).spawn();
    db.refuse_updates("NEW.topic = 'lab.task'").await;
    let id = db.publish(&Task::named("refused")).await.id;
    let before = SystemTime::now();
    let found = troubles(|| relay.health()).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].doing, "claiming messages of topic `lab.task`");
    assert!(found[0].why.contains("cursed"), "{found:?}");
    assert!(found[0].since <= SystemTime::now() && found[0].since >= before - secs(60));
    let drop = db.pick(
        "DROP TRIGGER refuse ON outbox",
        "DROP TRIGGER refuse",
        "DROP TRIGGER refuse",
    );
    db.execute(drop).await;
    delivered(&db, id).await;
    live(|| relay.health()).await;
    relay.shutdown().await.expect("stops");
}

async fn a_relay_without_its_database_is_degraded_until_it_is_back(db: Db) {
    let (far, proxy) = db.behind_a_proxy().await;
    let relay = relay!(far, TASKS, Lab::content(); lease(secs(1)));
    let handle = relay.spawn();
    let id = db.publish(&Task::named("before")).await.id;
    delivered(&db, id).await;
    assert_eq!(relay.health(), Health::Live);

    proxy.refuse();
    let claiming = async || {
        let found = troubles(|| relay.health()).await;
        let mut claiming = found
            .into_iter()
            .filter(|trouble| trouble.doing == "claiming messages");
        claiming.next().map(|trouble| trouble.since)
    };
    // Something else may be in trouble before it.
    let since = eventually(LONG, &claiming, Option::is_some).await;
    let id = db.publish(&Task::named("meanwhile")).await.id;
    // It goes on to fail, and still knows since when.
    let tried = proxy.accepted();
    eventually(LONG, || async { proxy.accepted() }, |now| *now > tried + 3).await;
    assert_eq!(claiming().await, since);

    proxy.admit();
    delivered(&db, id).await;
    live(|| relay.health()).await;
    handle.shutdown().await.expect("stops");
    assert_eq!(relay.health(), Health::Stopped);
}

async fn a_lost_listener_degrades_until_there_is_another(db: Db) {
    let (lab, server) = (Lab::content(), db.server());
    let proxy = Proxy::to(server.0, server.1).await;
    let relay =
        relay!(db, TASKS, lab; poll_interval(secs(600)), listener(db.through(&proxy))).spawn();
    let id = db.publish(&Task::named("heard")).await.id;
    delivered(&db, id).await;
    proxy.refuse();
    let found = troubles(|| relay.health()).await;
    assert_eq!(found[0].doing, "listening for commits", "{found:?}");
    proxy.admit();
    live(|| relay.health()).await;
    relay.shutdown().await.expect("stops");
}
