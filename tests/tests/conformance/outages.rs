//! The database goes away, or says nothing more: the relay waits, says so in few words, and goes on.

use std::time::Instant;

use outbox::{Health, Outbox, Relay};
use outbox_tests::{
    Call, Db, Gate, Lab, Server, each, eventually,
    lab::{End, TASKS, Task},
    on_every_database, relay, scaled, trace,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered};

on_every_database! {
    all: [a_hundred_lost_leases_fill_no_log],
    servers: [
        a_claim_that_gets_no_answer_is_given_up_and_its_rows_come_back,
        connections_that_are_reset_cost_no_delivery,
        a_relay_that_is_cut_off_drops_its_handlers_in_time,
        claims_stop_while_settles_wait,
        a_publish_into_the_void_times_out,
    ],
    // Each stops a server of its own.
    direct: [an_outage_is_survived, a_server_that_is_down_at_the_start_is_waited_for],
    mariadb: [an_outage_is_survived, a_server_that_is_down_at_the_start_is_waited_for]
}

/// Runs a relay, publishes, stops the server for a while and starts it again.
async fn outage(like: Db, length: std::time::Duration) {
    let mut server = Server::like(&like);
    let db = Db::on(&server).await;
    let lab = Lab::content();
    let relay = match db {
        Db::Postgres(_) => relay!(db, TASKS, lab; poll_interval(secs(1)), listener(db.url())),
        _ => relay!(db, TASKS, lab; poll_interval(secs(1))),
    };
    let handle = relay.spawn();
    let before = db.publish(&Task::named("before")).await.id;
    delivered(&db, before).await;
    // Due while nobody can deliver it.
    let mut tx = db.begin().await;
    let task = Task::named("meanwhile");
    let publication = task.publication().delay(length / 2);
    let meanwhile = publication.publish(&mut tx).await.expect("publishes").id;
    tx.commit().await;

    server.stop();
    tokio::time::sleep(length).await;
    assert!(matches!(relay.health(), Health::Degraded(_)));
    server.start();
    eventually(
        secs(5),
        || async { lab.starts(meanwhile) },
        |starts| *starts == 1,
    )
    .await;
    all_delivered(&db).await;
    eventually(
        LONG,
        || async { relay.health() },
        |health| *health == Health::Live,
    )
    .await;
    let counts = handle.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counts.lease_lost), (2, 0));
}

async fn an_outage_is_survived(db: Db) {
    let length = secs(scaled(4, 30) as u64);
    let start = Instant::now();
    let ((), said) = trace::listened(move || outage(db, length)).await;
    let lines = u64::try_from(said.len()).expect("few lines");
    assert!(lines > 0, "it says what is wrong");
    assert!(
        lines <= 2 * start.elapsed().as_secs().max(1),
        "less than two lines a second: {said:#?}"
    );
}

async fn a_server_that_is_down_at_the_start_is_waited_for(db: Db) {
    let mut server = Server::like(&db);
    let db = Db::on(&server).await;
    let id = db.publish(&Task::named("waits")).await.id;
    server.stop();
    let fresh = db.another_pool(2).await;
    let lab = Lab::content();
    let relay = each!(fresh, pool => {
        let relay = Relay::builder(pool, &TASKS).state(lab.clone()).build();
        within(LONG, relay).await.expect("a server may still come")
    });
    let handle = relay.spawn();
    let degraded = |health: &Health| matches!(health, Health::Degraded(_));
    eventually(LONG, || async { relay.health() }, degraded).await;
    server.start();
    eventually(secs(5), || async { lab.starts(id) }, |starts| *starts == 1).await;
    eventually(
        LONG,
        || async { relay.health() },
        |health| *health == Health::Live,
    )
    .await;
    handle.shutdown().await.expect("stops");
}

/// Holds the first run of these for ever; all others succeed.
fn held_once(name: &'static str) -> Lab {
    Lab::new(move |call: Call| async move {
        if call.name == name && call.delivery.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        Ok(())
    })
}

async fn a_claim_that_gets_no_answer_is_given_up_and_its_rows_come_back(db: Db) {
    let (far, proxy) = db.behind_a_proxy().await;
    let lab = Lab::content();
    let relay = relay!(far, TASKS, lab; lease(secs(2)), store_timeout(millis(500)));
    let handle = relay.spawn();
    let first = db.publish(&Task::named("first")).await.id;
    delivered(&db, first).await;

    // The server commits what it is asked to, and nobody hears of it.
    let accepted = proxy.accepted();
    proxy.mute();
    let id = db.publish(&Task::named("claimed unheard")).await.id;
    let degraded = |health: &Health| matches!(health, Health::Degraded(_));
    eventually(LONG, || async { relay.health() }, degraded).await;
    delivered(&db, id).await;
    assert!(proxy.accepted() > accepted, "on another connection");
    eventually(
        LONG,
        || async { relay.health() },
        |health| *health == Health::Live,
    )
    .await;
    let counts = handle.shutdown().await.expect("stops");
    assert_eq!(lab.starts(id), 1, "{counts:?}");
}

async fn connections_that_are_reset_cost_no_delivery(db: Db) {
    let (far, proxy) = db.behind_a_proxy().await;
    let gate = Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(())
            }
        }
    });
    db.publish_all(&Task::numbered(20)).await;
    let relay = relay!(far, TASKS, lab; lease(secs(10))).spawn();
    lab.started(20).await;
    // Between the claim and the settle, and again while they are settled.
    proxy.reset();
    gate.open();
    proxy.reset();
    all_delivered(&db).await;
    let counts = relay.shutdown().await.expect("stops");
    assert_eq!(
        (counts.delivered + counts.lease_lost, lab.calls().len()),
        (20, 20),
        "{counts:?}"
    );
}

async fn a_relay_that_is_cut_off_drops_its_handlers_in_time(db: Db) {
    let (far, proxy) = db.behind_a_proxy().await;
    let lab = held_once("cut off");
    let cut_off = relay!(far, TASKS, lab; lease(secs(2)), store_timeout(millis(500))).spawn();
    let id = db.publish(&Task::named("cut off")).await.id;
    let call = lab.started(1).await.remove(0);
    proxy.refuse();
    within(LONG, call.delivery.cancellation().cancelled()).await;
    assert!(Instant::now() >= call.delivery.lease_deadline());
    eventually(
        LONG,
        || async { lab.ends(id) },
        |ends| *ends == [End::Dropped],
    )
    .await;
    eventually(
        LONG,
        || async { cut_off.counts().lease_lost },
        |lost| *lost == 1,
    )
    .await;

    // Somebody else takes over; the one that was cut off undoes nothing when it is back.
    let other = relay!(db, TASKS, lab; lease(secs(2))).spawn();
    delivered(&db, id).await;
    proxy.admit();
    let later = db.publish(&Task::named("later")).await.id;
    eventually(LONG, || async { lab.starts(later) }, |starts| *starts > 0).await;
    all_delivered(&db).await;
    let counts = cut_off.shutdown().await.expect("stops");
    other.shutdown().await.expect("stops");
    assert_eq!((counts.lease_lost, counts.retried, counts.dead), (1, 0, 0));
    assert_eq!(lab.ends(id), [End::Dropped, End::Returned]);
}

async fn claims_stop_while_settles_wait(db: Db) {
    let window = 16;
    let lab = Lab::content();
    db.publish_all(&Task::numbered(200)).await;
    // Whoever wants to change a row of the table that was there waits, but for claims: those skip it.
    let relay = relay!(db, TASKS, lab; window(window), concurrency(4), lease(secs(600)), store_timeout(secs(20)));
    db.execute("CREATE TABLE gate (number integer PRIMARY KEY); INSERT INTO gate VALUES (1)")
        .await;
    db.execute(db.pick(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM number FROM gate FOR UPDATE; RETURN OLD; END $$; \
         CREATE TRIGGER wait BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION wait()",
        "CREATE TRIGGER wait BEFORE DELETE ON outbox FOR EACH ROW UPDATE gate SET number = 1",
        "of no use here",
    ))
    .await;
    let mut blocker = db.begin().await;
    blocker.execute("SELECT number FROM gate FOR UPDATE").await;
    let handle = relay.spawn();
    lab.started(window).await;
    // Time enough for many more claims.
    tokio::time::sleep(secs(1)).await;
    assert_eq!(handle.counts().claimed, window as u64);
    assert_eq!(lab.calls().len(), window);
    blocker.rollback().await;
    all_delivered(&db).await;
    handle.shutdown().await.expect("stops");
    assert_eq!(lab.calls().len(), 200, "each once");
}

async fn a_publish_into_the_void_times_out(db: Db) {
    let (far, proxy) = db.behind_a_proxy().await;
    let outbox: Outbox = db
        .outbox_builder()
        .publish_timeout(millis(300))
        .build()
        .expect("an outbox");
    db.execute("CREATE TABLE business (id integer PRIMARY KEY)")
        .await;
    let mut tx = far.begin().await;
    tx.execute("INSERT INTO business VALUES (1)").await;
    proxy.swallow();
    let published = within(secs(10), outbox.publish(&Task::named("lost"), &mut tx)).await;
    let error = published.expect_err("nobody answers");
    assert!(error.is_timeout(), "{error}");
    // What waits on the connection is not waited for.
    drop(tx);
    let mut next = within(LONG, far.begin()).await;
    outbox
        .publish(&Task::named("arrives"), &mut next)
        .await
        .expect("on another connection");
    within(LONG, next.commit()).await;
    proxy.cut();
    let business = "SELECT count(*) FROM business";
    assert_eq!(db.scalar(business).await, 0, "the business is rolled back");
    assert_eq!(db.count("1 = 1").await, 1, "and its message with it");
}

async fn a_hundred_lost_leases_fill_no_log(db: Db) {
    let ((), said) = trace::listened(move || async move {
        let db = db.reopened().await;
        let lab = held_once("task");
        db.publish_all(&Task::numbered(100)).await;
        let relay =
            relay!(db, TASKS, lab; concurrency(100), lease(secs(2)), max_attempts(100)).spawn();
        lab.started(100).await;
        // Another relay, or so it seems, has them all now.
        db.execute(&format!(
            "UPDATE outbox SET token = {}",
            db.uuid(uuid::Uuid::new_v4())
        ))
        .await;
        eventually(
            LONG,
            || async { relay.counts().lease_lost },
            |lost| *lost == 100,
        )
        .await;
        all_delivered(&db).await;
        relay.shutdown().await.expect("stops");
    })
    .await;
    let lost = said
        .iter()
        .filter(|text| text.starts_with("lease lost"))
        .count();
    assert_eq!(lost, 10, "{said:#?}");
    let more = said
        .iter()
        .filter(|text| text.starts_with("more lost leases are counted"));
    assert_eq!(more.count(), 1, "{said:#?}");
}
