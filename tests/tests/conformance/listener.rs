//! Hearing of commits before the next poll, and what may go wrong with it. The relays here poll so
//! rarely that a message which is delivered in time was heard of.

use std::collections::BTreeSet;

use outbox::{HandlerError, ListenerAddress};
use outbox_tests::{
    Call, Db, Lab, each, eventually,
    lab::{ERRANDS, Errand, TASKS, Task},
    on_every_database,
    proxy::Proxy,
    relay, try_relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{delivered, in_state, row, until};

on_every_database! {
    all: [an_address_that_is_none_is_refused_without_being_quoted],
    postgres: [
        a_commit_wakes_an_idle_relay,
        a_batch_and_a_delayed_message_wake_as_well,
        a_redriven_message_wakes_as_well,
        a_terminated_listener_is_replaced_each_time,
        a_busy_listener_is_not_taken_for_a_silent_one,
        a_message_committed_while_the_listener_is_away_is_found_when_it_is_back,
        a_listener_whose_connection_is_dead_is_replaced,
        a_deaf_listener_leaves_it_to_the_polls,
        nobody_is_woken_where_that_is_switched_off,
        a_stop_does_not_wait_for_the_listener,
    ]
}

/// Longer than any test waits.
const HARDLY_EVER: std::time::Duration = secs(600);

fn address(db: &Db) -> ListenerAddress {
    db.url().into()
}

/// The processes of the listeners in this database.
async fn listeners(db: &Db) -> Vec<i64> {
    db.scalars(
            "SELECT pid::bigint FROM pg_stat_activity \
             WHERE application_name = 'outbox listener' AND datname = current_database() AND query NOT LIKE 'UNLISTEN%'",
        )
        .await
}

/// Publishes a task, and waits until it is delivered.
async fn arrives(db: &Db, name: &str) {
    let id = db.publish(&Task::named(name)).await.id;
    delivered(db, id).await;
}

/// Waits until a relay hears, and has looked for itself after it began to listen: from here on it finds
/// only what it hears of.
async fn listens(db: &Db) {
    eventually(LONG, || listeners(db), |pids| pids.len() == 1).await;
    arrives(db, "heard").await;
    // It looks once more after what it has claimed.
    tokio::time::sleep(millis(200)).await;
}

async fn a_commit_wakes_an_idle_relay(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(address(&db))).spawn();
    for name in ["first", "second", "third"] {
        arrives(&db, name).await;
    }
    relay.shutdown().await.expect("stops");
}

async fn a_batch_and_a_delayed_message_wake_as_well(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(address(&db))).spawn();
    arrives(&db, "awake").await;
    for id in db.publish_all(&Task::numbered(10)).await {
        delivered(&db, id).await;
    }
    let task = Task::named("delayed");
    let mut tx = db.begin().await;
    let delayed = task
        .publication()
        .delay(millis(300))
        .to(&db.outbox())
        .publish(&mut tx)
        .await;
    tx.commit().await;
    delivered(&db, delayed.expect("publishes").id).await;
    relay.shutdown().await.expect("stops");
}

async fn a_redriven_message_wakes_as_well(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        match call.name.as_str() {
            "awake" => Ok(()),
            _ => Err(HandlerError::cancel("refused")),
        }
    });
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(address(&db))).spawn();
    arrives(&db, "awake").await;
    let id = db.publish(&Task::named("refused")).await.id;
    in_state(&db, id, "dead").await;
    let redriven = each!(db, pool => db.outbox().dead_letters(pool).redrive(id).await);
    assert!(redriven.expect("redrives"));
    until(&db, id, |row| row.state == "dead" && row.redrives == 1).await;
    relay.shutdown().await.expect("stops");
}

async fn a_terminated_listener_is_replaced_each_time(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(address(&db))).spawn();
    let mut seen = BTreeSet::new();
    for n in 0..20 {
        let here = eventually(
            LONG,
            || listeners(&db),
            |pids| pids.len() == 1 && !seen.contains(&pids[0]),
        )
        .await;
        seen.insert(here[0]);
        arrives(&db, &format!("heard {n}")).await;
        db.execute(&format!("SELECT pg_terminate_backend({})", here[0]))
            .await;
        arrives(&db, &format!("meanwhile {n}")).await;
    }
    assert_eq!(seen.len(), 20, "one listener after the other");
    relay.shutdown().await.expect("stops");
}

async fn a_busy_listener_is_not_taken_for_a_silent_one(db: Db) {
    let lab = Lab::content();
    // Three heartbeats, after which the server ends a silent session, are a second.
    let relay = relay!(db, TASKS, lab;
        poll_interval(HARDLY_EVER), lease(secs(1)), listener(address(&db)))
    .spawn();
    arrives(&db, "heard").await;
    let here = eventually(LONG, || listeners(&db), |pids| pids.len() == 1).await;
    let begun = std::time::Instant::now();
    let mut n = 0;
    while begun.elapsed() < secs(4) {
        arrives(&db, &format!("busy {n}")).await;
        n += 1;
    }
    assert_eq!(
        listeners(&db).await,
        here,
        "the same session after {n} messages"
    );
    relay.shutdown().await.expect("stops");
}

async fn a_message_committed_while_the_listener_is_away_is_found_when_it_is_back(db: Db) {
    let (lab, server) = (Lab::content(), db.server());
    let proxy = Proxy::to(server.0, server.1).await;
    // The lookout of both; what it looks for itself is not what the other one needs.
    let lookout = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(db.url())).spawn();
    listens(&db).await;
    let relay =
        relay!(db, ERRANDS, lab; poll_interval(HARDLY_EVER), listener(db.through(&proxy))).spawn();
    let errand = |name: &str| Errand {
        name: name.to_owned(),
        number: 0,
    };
    let heard = db.publish(&errand("heard")).await.id;
    delivered(&db, heard).await;
    let before = proxy.accepted();
    proxy.refuse();
    // It tries to come back, in vain.
    eventually(
        LONG,
        || async { proxy.accepted() },
        |accepted| *accepted > before,
    )
    .await;
    let id = db.publish(&errand("unheard")).await.id;
    // By then the lookout has told all that listen.
    tokio::time::sleep(millis(500)).await;
    assert_eq!(row(&db, id).await.state, "pending");
    proxy.admit();
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    lookout.shutdown().await.expect("stops");
}

async fn a_listener_whose_connection_is_dead_is_replaced(db: Db) {
    let (lab, server) = (Lab::content(), db.server());
    let proxy = Proxy::to(server.0, server.1).await;
    let relay = relay!(db, TASKS, lab;
        poll_interval(HARDLY_EVER), lease(secs(1)), store_timeout(millis(500)), listener(db.through(&proxy)))
    .spawn();
    listens(&db).await;
    let before = proxy.accepted();
    // Neither side is told.
    proxy.swallow();
    let id = db.publish(&Task::named("swallowed")).await.id;
    delivered(&db, id).await;
    assert!(proxy.accepted() > before, "by a new listener");
    // The server itself drops the session of one that is cut off.
    eventually(LONG, || listeners(&db), |pids| pids.len() == 1).await;
    relay.shutdown().await.expect("stops");
}

async fn a_deaf_listener_leaves_it_to_the_polls(db: Db) {
    let (lab, elsewhere) = (Lab::content(), db.empty().await);
    // It listens in a database in which nobody notifies, as it would through a pooler.
    let relay = relay!(db, TASKS, lab;
        poll_interval(millis(50)), store_timeout(millis(500)), listener(address(&elsewhere)))
    .spawn();
    eventually(LONG, || listeners(&elsewhere), |pids| pids.len() == 1).await;
    // That it is deaf is noticed, and it is given up.
    eventually(LONG, || listeners(&elsewhere), Vec::is_empty).await;
    arrives(&db, "polled").await;
    relay.shutdown().await.expect("stops");
    elsewhere.remove().await;
}

async fn nobody_is_woken_where_that_is_switched_off(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(address(&db))).spawn();
    listens(&db).await;
    let silent = db.outbox_builder().wake(false).build().expect("an outbox");
    // The relay may just be looking for itself, but not each time.
    let mut asleep = None;
    for _ in 0..3 {
        let id = db.publish_to(&silent, &Task::named("silent")).await.id;
        // Long enough for a wake, which takes milliseconds; the next poll is ten minutes away.
        tokio::time::sleep(millis(500)).await;
        if db.count("state = 'pending'").await == 1 {
            asleep = Some(id);
            break;
        }
    }
    let id = asleep.expect("nobody was woken");
    arrives(&db, "loud again").await;
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
}

async fn a_stop_does_not_wait_for_the_listener(db: Db) {
    let (lab, server) = (Lab::content(), db.server());
    let proxy = Proxy::to(server.0, server.1).await;
    let relay =
        relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(db.through(&proxy))).spawn();
    listens(&db).await;
    proxy.swallow();
    within(secs(5), relay.shutdown()).await.expect("stops");
}

async fn an_address_that_is_none_is_refused_without_being_quoted(db: Db) {
    let lab = Lab::content();
    let error = try_relay!(db, TASKS, lab; listener("mysql://me:secret@host/db"))
        .expect_err("no address of Postgres");
    assert!(error.is_config(), "{error}");
    assert!(
        !format!("{error:?} {error}").contains("secret"),
        "{error:?}"
    );
}
