//! Windows in which a message is delivered twice, or published twice: exactly what the README says of them,
//! and no more. Those of a crash, a pause and a stop stand with the tests of these.

use std::time::Duration;

use outbox::Fate;
use outbox_tests::{
    Call, Db, Gate, Lab, eventually,
    lab::{End, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};
use uuid::Uuid;

use crate::support::{delivered, row};

on_every_database! {
    all: [an_error_after_the_effect_runs_it_again, a_drain_that_is_cut_short_leaves_its_message],
    servers: [
        a_settle_that_is_cut_off_leaves_its_message,
        a_commit_whose_answer_is_lost_is_told_by_its_id,
    ]
}

async fn an_error_after_the_effect_runs_it_again(db: Db) {
    db.execute("CREATE TABLE effects (attempt integer)").await;
    let lab = Lab::new({
        let db = db.clone();
        move |call: Call| {
            let db = db.clone();
            async move {
                let attempt = call.delivery.attempt();
                db.execute(&format!("INSERT INTO effects VALUES ({attempt})"))
                    .await;
                match attempt {
                    1 => Err(outbox::HandlerError::retry("too late")),
                    2 => panic!("too late"),
                    // Longer than its timeout.
                    3 => std::future::pending().await,
                    _ => Ok(()),
                }
            }
        }
    });
    let id = db.publish(&Task::named("effective")).await.id;
    let relay = relay!(db, TASKS, lab; handler_timeout(millis(500))).spawn();
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(db.scalar("SELECT count(*) FROM effects").await, 4);
}

async fn a_drain_that_is_cut_short_leaves_its_message(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.delivery.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let id = db.publish(&Task::named("drained")).await.id;
    let relay = relay!(db, TASKS, lab; grace(Duration::ZERO), lease(secs(2)));
    let cut_short = tokio::time::timeout(millis(500), relay.drain()).await;
    cut_short.expect_err("its handler never returns");
    eventually(
        LONG,
        || async { lab.ends(id) },
        |ends| *ends == [End::Dropped],
    )
    .await;
    assert_eq!(row(&db, id).await.state, "processing");
    let next = relay!(db, TASKS, lab).spawn();
    delivered(&db, id).await;
    next.shutdown().await.expect("stops");
    assert_eq!(lab.starts(id), 2);
}

async fn a_settle_that_is_cut_off_leaves_its_message(db: Db) {
    let gate = Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |call: Call| {
            let gate = gate.clone();
            async move {
                if call.delivery.attempt() == 1 {
                    gate.pass().await;
                }
                Ok(())
            }
        }
    });
    let (far, proxy) = db.behind_a_proxy().await;
    let cut_off = relay!(far, TASKS, lab; lease(secs(2)), store_timeout(millis(500))).spawn();
    let id = db.publish(&Task::named("unheard")).await.id;
    lab.started(1).await;
    proxy.refuse();
    gate.open();
    eventually(
        LONG,
        || async { lab.ends(id) },
        |ends| *ends == [End::Returned],
    )
    .await;
    let other = relay!(db, TASKS, lab).spawn();
    delivered(&db, id).await;
    assert_eq!(lab.ends(id), [End::Returned, End::Returned]);
    eventually(
        LONG,
        || async { cut_off.counts().lease_lost },
        |lost| *lost == 1,
    )
    .await;
    proxy.admit();
    let counts = cut_off.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counts.lease_lost), (0, 1));
    other.shutdown().await.expect("stops");
}

async fn a_commit_whose_answer_is_lost_is_told_by_its_id(db: Db) {
    let (far, proxy) = db.behind_a_proxy().await;
    let order = Uuid::now_v7();
    let task = Task::named("ordered");
    let publication = task.publication().id(order).to(&db.outbox());
    let mut tx = far.begin().await;
    publication
        .clone()
        .publish(&mut tx)
        .await
        .expect("publishes");
    proxy.mute();
    let unheard = tokio::time::timeout(millis(500), tx.commit()).await;
    unheard.expect_err("nobody answers");
    eventually(LONG, || db.row(order), Option::is_some).await;

    // The publisher does not know that, and publishes again.
    let mut tx = db.begin().await;
    let again = within(LONG, publication.publish(&mut tx)).await;
    tx.commit().await;
    let fate = again.expect("publishes").fate;
    assert!(
        matches!(fate, Fate::Duplicate { id, .. } if id == order),
        "{fate:?}"
    );
    assert_eq!(db.count("1 = 1").await, 1);
}
