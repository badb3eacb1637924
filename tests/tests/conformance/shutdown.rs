//! Stopping: what runs may end, what has not started goes back as if it had never been claimed.

use std::time::Instant;

use outbox_tests::{
    Db, Gate, Lab, eventually,
    lab::{End, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered, row};

on_every_database! {
    all: [
        an_idle_relay_stops_at_once,
        a_running_handler_may_end_within_the_grace,
        a_handler_that_outlasts_the_grace_is_dropped_and_not_settled,
        rows_not_started_go_back_at_once_and_cost_no_attempt,
        what_a_suspect_row_had_before_comes_back_too,
        a_claim_under_way_at_the_stop_loses_nothing,
        run_until_ends_with_its_future,
        dropping_the_handle_stops_the_relay,
        nothing_is_claimed_after_the_stop,
    ],
    postgres: [a_claim_that_waits_for_a_lock_is_awaited_and_its_rows_go_back]
}

/// A lab whose handlers wait at a gate.
fn gated() -> (Gate, Lab) {
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
    (gate, lab)
}

async fn an_idle_relay_stops_at_once(db: Db) {
    let lab = Lab::content();
    let mut quickest = LONG;
    for _ in 0..5 {
        let id = db.publish(&Task::named("first")).await.id;
        let running = relay!(db, TASKS, lab; poll_interval(secs(60)), grace(secs(60))).spawn();
        // Its first poll finds this one; then it waits for the next poll.
        delivered(&db, id).await;
        let start = Instant::now();
        within(secs(10), running.shutdown()).await.expect("stops");
        quickest = quickest.min(start.elapsed());
    }
    // What others do on this machine may slow one stop down, but not five.
    assert!(
        quickest < millis(100),
        "the quickest stop took {quickest:?}"
    );
}

async fn a_running_handler_may_end_within_the_grace(db: Db) {
    let (gate, lab) = gated();
    let ids = db.publish_all(&Task::numbered(3)).await;
    let running = relay!(db, TASKS, lab; grace(secs(20))).spawn();
    lab.started(3).await;
    let start = Instant::now();
    let stopping = tokio::spawn(running.shutdown());
    // Long enough for a stop that drops them to have done so.
    tokio::time::sleep(millis(300)).await;
    gate.open();
    let counts = within(LONG, stopping)
        .await
        .expect("the task ends")
        .expect("stops");
    assert_eq!(
        (counts.delivered, counts.given_back, counts.lease_lost),
        (3, 0, 0),
        "{counts:?}"
    );
    assert!(
        start.elapsed() < secs(10),
        "it does not sit out the grace: {:?}",
        start.elapsed()
    );
    for id in ids {
        assert!(
            db.row(id).await.is_none(),
            "settled before the stop returned"
        );
        assert_eq!(lab.ends(id), [End::Returned]);
    }
}

async fn a_handler_that_outlasts_the_grace_is_dropped_and_not_settled(db: Db) {
    let lab = Lab::new(|call| async move {
        if call.delivery.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let id = db.publish(&Task::named("endless")).await.id;
    let running = relay!(db, TASKS, lab; grace(millis(500)), lease(secs(3))).spawn();
    let calls = lab.started(1).await;
    let start = Instant::now();
    let counts = within(LONG, running.shutdown()).await.expect("stops");
    let took = start.elapsed();
    assert!(
        (millis(450)..secs(3)).contains(&took),
        "stopping took {took:?}, the grace was 500 ms"
    );
    assert_eq!(
        (counts.delivered, counts.retried, counts.dead),
        (0, 0, 0),
        "{counts:?}"
    );
    assert!(
        calls[0].delivery.cancellation().is_cancelled(),
        "its token fired"
    );
    assert_eq!(lab.ends(id), [End::Dropped]);
    let left = row(&db, id).await;
    assert_eq!(
        (left.state.as_str(), left.attempts, left.errors.len()),
        ("processing", 1, 0),
        "not settled"
    );

    let next = relay!(db, TASKS, lab).spawn();
    delivered(&db, id).await;
    next.shutdown().await.expect("stops");
    assert_eq!(lab.calls()[1].delivery.attempt(), 2, "redelivered by lease");
}

async fn rows_not_started_go_back_at_once_and_cost_no_attempt(db: Db) {
    let (gate, lab) = gated();
    let ids = db.publish_all(&Task::numbered(6)).await;
    let running =
        relay!(db, TASKS, lab; concurrency(2), window(6), grace(secs(60)), lease(secs(600)))
            .spawn();
    lab.started(2).await;
    eventually(LONG, || db.count("state = 'processing'"), |held| *held == 6).await;
    let stopping = tokio::spawn(running.shutdown());

    // While two handlers still run, the four others are free for other relays.
    let back = "state = 'pending' AND attempts = 0 AND unsettled = 0";
    eventually(LONG, || db.count(back), |rows| *rows == 4).await;
    assert_eq!(db.count("state = 'processing' AND attempts = 1").await, 2);
    gate.open();
    let counts = within(LONG, stopping)
        .await
        .expect("the task ends")
        .expect("stops");
    assert_eq!(
        (counts.claimed, counts.delivered, counts.given_back),
        (6, 2, 4),
        "{counts:?}"
    );
    assert_eq!(lab.calls().len(), 2);

    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    all_delivered(&db).await;
    assert!(
        lab.calls().iter().all(|call| call.delivery.attempt() == 1),
        "no attempt was spent"
    );
    assert!(ids.iter().all(|id| lab.starts(*id) == 1));
}

async fn what_a_suspect_row_had_before_comes_back_too(db: Db) {
    let (gate, lab) = gated();
    db.publish(&Task::named("runs")).await;
    let running =
        relay!(db, TASKS, lab; concurrency(1), window(4), grace(secs(60)), lease(secs(600)))
            .spawn();
    lab.started(1).await;
    // Its last claim ended without a settle; it waits behind the one that runs.
    let (token, lapsed) = (db.uuid(uuid::Uuid::new_v4()), db.ago(secs(1)));
    let columns = [
        ("state", "'processing'"),
        ("attempts", "3"),
        ("unsettled", "1"),
        ("token", token.as_str()),
        ("leased_until", lapsed.as_str()),
    ];
    let suspect = crate::support::insert(&db, "suspect", &columns).await;
    crate::support::until(&db, suspect, |row| row.attempts == 4 && row.unsettled == 2).await;
    let stopping = tokio::spawn(running.shutdown());
    let back = crate::support::in_state(&db, suspect, "pending").await;
    assert_eq!(
        (back.attempts, back.unsettled),
        (3, 1),
        "as before the claim"
    );
    gate.open();
    within(LONG, stopping)
        .await
        .expect("the task ends")
        .expect("stops");

    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.delivered, lab.starts(suspect)),
        (1, 1),
        "and it can be claimed like any other"
    );
}

async fn a_claim_under_way_at_the_stop_loses_nothing(db: Db) {
    // Whenever the stop comes, before, during or after the claim, each row is either done or as before.
    let lab = Lab::content();
    for round in 0..10 {
        let ids = db.publish_all(&Task::numbered(30)).await;
        let running = relay!(db, TASKS, lab; concurrency(1), window(30), lease(secs(600))).spawn();
        tokio::time::sleep(millis(round * 2)).await;
        let counts = within(LONG, running.shutdown()).await.expect("stops");
        let left = db.rows("1 = 1").await;
        let as_before = left
            .iter()
            .all(|row| row.state == "pending" && row.attempts == 0 && row.unsettled == 0);
        assert!(as_before, "round {round}: {left:?}");
        assert_eq!(
            counts.claimed,
            counts.delivered + counts.given_back,
            "round {round}: {counts:?}"
        );
        assert_eq!(
            ids.len(),
            left.len() + usize::try_from(counts.delivered).expect("few"),
            "round {round}"
        );
        db.execute("DELETE FROM outbox").await;
    }
}

async fn a_claim_that_waits_for_a_lock_is_awaited_and_its_rows_go_back(db: Db) {
    let lab = Lab::content();
    let mut tx = db.begin().await;
    db.outbox()
        .publish_all(Task::numbered(5), &mut tx)
        .await
        .expect("publishes");
    // `now()` is the same for all five, so they are due together and claimed together.
    tx.execute("UPDATE outbox SET available_at = now() + interval '700 milliseconds'")
        .await;
    tx.commit().await;
    let (ask, running) = stoppable(relay!(db, TASKS, lab; grace(secs(60)), lease(secs(600))));
    // Reads go on, row locks and changes wait: the relay sees what is due, and its claim hangs.
    let mut blocker = db.begin().await;
    blocker.execute("LOCK TABLE outbox IN EXCLUSIVE MODE").await;
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.outbox'::regclass";
    eventually(LONG, || db.scalar(waiting), |waiting| *waiting > 0).await;
    ask.stop().await;
    blocker.rollback().await;

    let counts = within(LONG, running)
        .await
        .expect("the task ends")
        .expect("stops");
    assert_eq!(
        (counts.claimed, counts.given_back, counts.delivered),
        (5, 5, 0),
        "{counts:?}"
    );
    assert!(lab.calls().is_empty(), "nothing was started after the stop");
    assert_eq!(
        db.count("state = 'pending' AND attempts = 0 AND unsettled = 0")
            .await,
        5,
        "{:?}",
        db.rows("1 = 1").await
    );
}

/// Asks a relay to stop and knows when it has been heard.
struct Ask {
    stop: tokio::sync::oneshot::Sender<()>,
    heard: tokio::sync::oneshot::Receiver<()>,
}

type Running = tokio::task::JoinHandle<Result<outbox::Counts, outbox::Error>>;

fn stoppable(relay: outbox::Relay<Lab>) -> (Ask, Running) {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (hear, heard) = tokio::sync::oneshot::channel();
    let shutdown = async {
        // An error says that the test is over, which means stop as well.
        let _ = stopped.await;
        let _ = hear.send(());
    };
    (
        Ask { stop, heard },
        tokio::spawn(async move { relay.run_until(shutdown).await }),
    )
}

impl Ask {
    async fn stop(self) {
        self.stop.send(()).expect("the relay runs");
        self.heard.await.expect("the relay hears it");
    }
}

async fn run_until_ends_with_its_future(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab);
    let id = db.publish(&Task::named("one")).await.id;
    let counts = within(LONG, relay.run_until(delivered(&db, id)))
        .await
        .expect("runs");
    assert_eq!((counts.claimed, counts.delivered), (1, 1));
    // A relay can be run again.
    let id = db.publish(&Task::named("two")).await.id;
    within(LONG, relay.run_until(delivered(&db, id)))
        .await
        .expect("runs");
    assert_eq!(lab.calls().len(), 2);
}

async fn dropping_the_handle_stops_the_relay(db: Db) {
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab).spawn();
    let id = db.publish(&Task::named("before")).await.id;
    delivered(&db, id).await;
    drop(running);
    // A relay that polls every 50 ms leaves nothing lying for ten polls.
    let left_alone = || async {
        let id = db.publish(&Task::named("after")).await.id;
        tokio::time::sleep(millis(500)).await;
        db.row(id).await.is_some()
    };
    eventually(LONG, left_alone, |left_alone| *left_alone).await;
}

async fn nothing_is_claimed_after_the_stop(db: Db) {
    let (gate, lab) = gated();
    db.publish(&Task::named("runs")).await;
    let (ask, running) = stoppable(relay!(db, TASKS, lab; grace(secs(60))));
    lab.started(1).await;
    ask.stop().await;
    let later = db.publish(&Task::named("later")).await.id;
    // Six polls later it is still there.
    tokio::time::sleep(millis(300)).await;
    let waiting = row(&db, later).await;
    assert_eq!((waiting.state.as_str(), waiting.attempts), ("pending", 0));
    gate.open();
    let counts = within(LONG, running)
        .await
        .expect("the task ends")
        .expect("stops");
    assert_eq!((counts.claimed, counts.delivered), (1, 1));
}
