//! A lease is held while a handler runs, and its handler ends with it.

use std::time::Instant;

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Lab, eventually,
    lab::{End, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered, in_state};

on_every_database! {
    all: [
        a_lease_is_renewed_while_the_handler_runs,
        waiting_rows_are_renewed_too,
        a_handler_ends_with_its_lease,
        a_late_renewal_does_not_bring_a_delivery_back,
        a_lease_says_how_long_it_holds,
        a_lease_is_held_until_its_settle_is_acknowledged,
    ],
    servers: [one_locked_row_does_not_hold_up_the_others, connections_that_break_cost_no_delivery]
}

async fn a_lease_is_renewed_while_the_handler_runs(db: Db) {
    let lab = Lab::new(|_| async {
        tokio::time::sleep(millis(3_500)).await;
        Ok(())
    });
    let id = db.publish(&Task::named("long")).await.id;
    let lease = secs(1);
    let one = relay!(db, TASKS, lab; lease(lease)).spawn();
    lab.started(1).await;
    // A second relay would take it over if the lease lapsed.
    let other = relay!(db, TASKS, lab; lease(lease)).spawn();
    delivered(&db, id).await;
    let counts = one.shutdown().await.expect("stops");
    let others = other.shutdown().await.expect("stops");
    assert_eq!(
        lab.starts(id),
        1,
        "one run, though it took more than three leases"
    );
    assert_eq!(
        (counts.delivered, counts.lease_lost, others.claimed),
        (1, 0, 0)
    );
}

async fn waiting_rows_are_renewed_too(db: Db) {
    // Four messages of 600 ms, one after the other: the last one waits for nearly two leases.
    let lab = Lab::new(|_| async {
        tokio::time::sleep(millis(600)).await;
        Ok(())
    });
    db.publish_all(&Task::numbered(4)).await;
    let one = relay!(db, TASKS, lab; lease(secs(1)), concurrency(1), window(8)).spawn();
    lab.started(1).await;
    let other = relay!(db, TASKS, lab; lease(secs(1)), concurrency(1), window(8)).spawn();
    all_delivered(&db).await;
    let counts = one.shutdown().await.expect("stops");
    let others = other.shutdown().await.expect("stops");
    assert_eq!(
        (counts.delivered, others.claimed, lab.calls().len()),
        (4, 0, 4)
    );
}

/// Keeps the relay from renewing: the row, or the one writer of SQLite, is locked.
async fn block_renewals(db: &Db) -> outbox_tests::Tx {
    let mut blocker = db.begin().await;
    if !matches!(db, Db::Sqlite(_)) {
        blocker.execute("SELECT 1 FROM outbox FOR UPDATE").await;
    }
    blocker
}

/// Waits for its cancellation at the first attempt, succeeds at the next.
async fn patient_once(call: Call) -> Result<(), HandlerError> {
    if call.delivery.attempt() == 1 {
        call.delivery.cancellation().cancelled().await;
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn a_handler_ends_with_its_lease(db: Db) {
    let lab = Lab::new(patient_once);
    let id = db.publish(&Task::named("blocked")).await.id;
    let running = relay!(db, TASKS, lab; lease(secs(1)), store_timeout(millis(500))).spawn();
    let calls = lab.started(1).await;
    let blocker = block_renewals(&db).await;

    let cancelled = calls[0].delivery.cancellation().clone();
    within(LONG, cancelled.cancelled()).await;
    let held = calls[0].at.elapsed();
    assert!(
        held < secs(4),
        "the token fired {held:?} after the start, the lease was 1 s"
    );
    assert!(
        Instant::now() >= calls[0].delivery.lease_deadline(),
        "and not before the deadline it was told"
    );
    eventually(
        LONG,
        || async { lab.ends(id) },
        |ends| *ends == [End::Dropped],
    )
    .await;
    blocker.rollback().await;

    delivered(&db, id).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(lab.ends(id), [End::Dropped, End::Returned]);
    assert_eq!(counts.delivered, 1, "one settle was accepted: {counts:?}");
    assert_eq!(counts.lease_lost, 1, "the loss is counted: {counts:?}");
    assert_eq!(
        lab.calls()[1].delivery.attempt(),
        2,
        "the lost run counts as an attempt"
    );
}

async fn a_late_renewal_does_not_bring_a_delivery_back(db: Db) {
    // The handler does not notice: it returns after its lease has lapsed, and nobody has taken over.
    let (release, released) = tokio::sync::watch::channel(false);
    let lab = Lab::new(move |call: Call| {
        let mut released = released.clone();
        async move {
            if call.delivery.attempt() == 1 {
                released.wait_for(|released| *released).await?;
            }
            Ok(())
        }
    });
    let id = db.publish(&Task::named("blocked")).await.id;
    let running = relay!(db, TASKS, lab; lease(secs(1)), store_timeout(millis(500))).spawn();
    let calls = lab.started(1).await;
    let blocker = block_renewals(&db).await;
    within(LONG, calls[0].delivery.cancellation().cancelled()).await;
    // Renewals go through again from here on, before the handler would have ended.
    blocker.rollback().await;
    release.send_replace(true);
    delivered(&db, id).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counts.lease_lost), (1, 1), "{counts:?}");
    assert_eq!(
        (lab.starts(id), lab.ends(id)[0]),
        (2, End::Dropped),
        "the first run was not settled"
    );
}

async fn a_lease_says_how_long_it_holds(db: Db) {
    let lab = Lab::new(|call| async move {
        let first = call.delivery.lease_deadline();
        let left = first.saturating_duration_since(Instant::now());
        assert!(left <= secs(2), "{left:?} of a lease of 2 s");
        eventually(
            LONG,
            || async { call.delivery.lease_deadline() },
            |deadline| *deadline > first,
        )
        .await;
        Ok(())
    });
    let id = db.publish(&Task::named("curious")).await.id;
    let running = relay!(db, TASKS, lab; lease(secs(2))).spawn();
    delivered(&db, id).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counts.panicked), (1, 0));
}

async fn one_locked_row_does_not_hold_up_the_others(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.name == "locked" && call.delivery.attempt() == 1 {
            call.delivery.cancellation().cancelled().await;
        } else {
            tokio::time::sleep(millis(2_500)).await;
        }
        Ok(())
    });
    let others = db.publish_all(&Task::numbered(5)).await;
    let locked = db.publish(&Task::named("locked")).await.id;
    let running = relay!(db, TASKS, lab; lease(secs(1))).spawn();
    lab.started(6).await;
    let mut blocker = db.begin().await;
    blocker
        .execute(&format!(
            "SELECT 1 FROM outbox WHERE id = {} FOR UPDATE",
            db.uuid(locked)
        ))
        .await;
    for id in &others {
        delivered(&db, *id).await;
        assert_eq!(
            lab.starts(*id),
            1,
            "its lease was renewed in time, and its settle went through"
        );
    }
    blocker.rollback().await;
    delivered(&db, locked).await;
    running.shutdown().await.expect("stops");
}

async fn connections_that_break_cost_no_delivery(db: Db) {
    let gate = outbox_tests::Gate::closed();
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
    let id = db.publish(&Task::named("unlucky")).await.id;
    let running = relay!(db, TASKS, lab; lease(secs(10))).spawn();
    lab.started(1).await;
    assert!(
        db.end_other_sessions().await > 0,
        "the relay has connections of its own"
    );
    gate.open();
    delivered(&db, id).await;
    let later = db.publish(&Task::named("afterwards")).await.id;
    delivered(&db, later).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(
        (counts.delivered, counts.lease_lost, lab.calls().len()),
        (2, 0, 2),
        "{counts:?}"
    );
}

async fn a_lease_is_held_until_its_settle_is_acknowledged(db: Db) {
    // The handler succeeds at once, but its settle is refused for three leases.
    db.refuse_updates("NEW.state = 'delivered'").await;
    let id = db.publish(&Task::named("settled late")).await.id;
    let lab = Lab::content();
    let lease = millis(600);
    let running = relay!(db, TASKS, lab; lease(lease), keep_delivered(true)).spawn();
    lab.started(1).await;
    tokio::time::sleep(lease * 3).await;
    assert_eq!(
        running.counts().delivered,
        0,
        "the settle was refused so far"
    );
    db.execute(db.pick(
        "DROP TRIGGER refuse ON outbox",
        "DROP TRIGGER refuse",
        "DROP TRIGGER refuse",
    ))
    .await;
    in_state(&db, id, "delivered").await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(
        (lab.starts(id), counts.delivered, counts.lease_lost),
        (1, 1, 0)
    );
}
