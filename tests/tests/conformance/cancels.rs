//! Messages that still wait can be cancelled or put off, in the caller's own transaction.

use std::time::{Duration, SystemTime};

use outbox::{Cancellation, MessageRef, Rescheduling};
use outbox_tests::{
    Call, Db, Gate, Lab, eventually,
    lab::{Errand, TASK, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};
use uuid::Uuid;

use crate::support::{delivered, in_state, insert, row};

on_every_database! {
    all: [
        a_cancelled_message_is_never_handled,
        a_cancel_is_decided_by_its_transaction,
        a_message_is_cancelled_by_its_dedup_key,
        what_does_not_wait_is_not_cancelled,
        a_running_message_is_too_late_to_cancel,
        a_retry_can_be_cancelled,
        a_message_can_be_put_off_and_called_in,
        a_rescheduled_backoff_is_over_at_once,
        a_message_that_was_given_back_can_be_put_off,
        a_reschedule_has_its_limits,
        without_a_transaction_nothing_is_cancelled,
    ],
    servers: [no_relay_claims_what_is_being_cancelled, a_cancel_waits_for_a_claim_and_says_so],
    postgres: [
        at_repeatable_read_a_lost_race_can_be_run_again,
    ],
}

async fn cancel(db: &Db, message: impl Into<MessageRef>) -> Cancellation {
    let mut tx = db.begin().await;
    let outcome = db.outbox().cancel(message, &mut tx).await.expect("answers");
    tx.commit().await;
    outcome
}

async fn later(db: &Db, name: &str) -> Uuid {
    let mut tx = db.begin().await;
    let task = Task::named(name);
    let publication = outbox::Publish::publication(&task).delay(secs(3_600));
    let published = db.outbox().publish(&publication, &mut tx).await;
    tx.commit().await;
    published.expect("publishes").id
}

async fn a_cancelled_message_is_never_handled(db: Db) {
    let lab = Lab::content();
    let (due, delayed) = (
        db.publish(&Task::named("due")).await,
        later(&db, "later").await,
    );
    let other = db.publish(&Task::named("other")).await.id;
    assert_eq!(cancel(&db, &due).await, Cancellation::Cancelled);
    assert_eq!(cancel(&db, delayed).await, Cancellation::Cancelled);
    assert_eq!(
        cancel(&db, delayed).await,
        Cancellation::Gone,
        "once is enough"
    );
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    let calls = lab.calls();
    assert_eq!((calls.len(), calls[0].name.as_str()), (1, "other"));
    assert!(db.row(other).await.is_none());
    assert_eq!(db.count("1 = 1").await, 0);
}

async fn a_cancel_is_decided_by_its_transaction(db: Db) {
    let id = later(&db, "stays").await;
    let before = row(&db, id).await;
    let mut tx = db.begin().await;
    let outcome = db.outbox().cancel(id, &mut tx).await;
    assert_eq!(outcome.expect("answers"), Cancellation::Cancelled);
    let again = db.outbox().cancel(id, &mut tx).await;
    assert_eq!(
        again.expect("answers"),
        Cancellation::Gone,
        "as this transaction sees it"
    );
    tx.rollback().await;
    assert_eq!(row(&db, id).await, before);

    // Published and cancelled in one transaction: it never was.
    let mut tx = db.begin().await;
    let published = db.outbox().publish(&Task::named("never"), &mut tx).await;
    let published = published.expect("publishes");
    let outcome = db.outbox().cancel(&published, &mut tx).await;
    assert_eq!(outcome.expect("answers"), Cancellation::Cancelled);
    tx.commit().await;
    assert_eq!(db.count("1 = 1").await, 1);
}

async fn a_message_is_cancelled_by_its_dedup_key(db: Db) {
    let publish = async |key: &str| {
        let mut tx = db.begin().await;
        let task = Task::named("task");
        let publication = outbox::Publish::publication(&task)
            .delay(secs(3_600))
            .dedup_key(key);
        let published = db.outbox().publish(&publication, &mut tx).await;
        tx.commit().await;
        published.expect("publishes")
    };
    let kept = publish("inv-1").await;
    let gone = publish("inv-2").await;
    let wrong = MessageRef::dedup_key::<Errand>("inv-2");
    assert_eq!(
        cancel(&db, wrong).await,
        Cancellation::Gone,
        "a key of another topic"
    );
    let by_type = MessageRef::dedup_key::<Task>("inv-2");
    assert_eq!(cancel(&db, by_type).await, Cancellation::Cancelled);
    assert!(db.row(gone.id).await.is_none());
    assert!(db.row(kept.id).await.is_some());
    // The key is free again.
    let again = publish("inv-2").await;
    assert_eq!(again.fate, outbox::Fate::New);
    // A duplicate names the message that is there.
    let duplicate = publish("inv-1").await;
    assert_ne!(duplicate.id, kept.id);
    assert_eq!(cancel(&db, &duplicate).await, Cancellation::Cancelled);
    assert!(db.row(kept.id).await.is_none());
    let by_topic = MessageRef::dedup_key_of(TASK, "inv-2");
    assert_eq!(cancel(&db, by_topic).await, Cancellation::Cancelled);
}

async fn what_does_not_wait_is_not_cancelled(db: Db) {
    let cases = [
        ("processing", Cancellation::Running),
        ("delivered", Cancellation::Delivered),
        ("dead", Cancellation::Dead),
    ];
    for (state, outcome) in cases {
        let id = insert(&db, "task", &[("state", &format!("'{state}'"))]).await;
        let before = row(&db, id).await;
        assert_eq!(cancel(&db, id).await, outcome);
        assert_eq!(row(&db, id).await, before);
    }
    assert_eq!(cancel(&db, Uuid::now_v7()).await, Cancellation::Gone);
}

async fn a_running_message_is_too_late_to_cancel(db: Db) {
    let gate = Gate::closed();
    let held = gate.clone();
    let lab = Lab::new(move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            Ok(())
        }
    });
    let relay = relay!(db, TASKS, lab).spawn();
    let id = db.publish(&Task::named("runs")).await.id;
    lab.started(1).await;
    assert_eq!(cancel(&db, id).await, Cancellation::Running);
    gate.open();
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(cancel(&db, id).await, Cancellation::Gone);
}

async fn a_retry_can_be_cancelled(db: Db) {
    let lab =
        Lab::new(|_| async { Err(outbox::HandlerError::retry_after(secs(3_600), "not yet")) });
    let relay = relay!(db, TASKS, lab).spawn();
    let id = db.publish(&Task::named("fails")).await.id;
    crate::support::until(&db, id, |row| row.state == "pending" && row.attempts == 1).await;
    assert_eq!(cancel(&db, id).await, Cancellation::Cancelled);
    assert!(db.row(id).await.is_none());
    relay.shutdown().await.expect("stops");
}

async fn reschedule(db: &Db, id: Uuid, delay: Duration) -> Rescheduling {
    let mut tx = db.begin().await;
    let outcome = db.outbox().reschedule(id, delay, &mut tx).await;
    tx.commit().await;
    outcome.expect("answers")
}

async fn a_message_can_be_put_off_and_called_in(db: Db) {
    let lab = Lab::content();
    let (put_off, called_in) = (
        insert(&db, "put off", &[]).await,
        later(&db, "called in").await,
    );
    assert_eq!(
        reschedule(&db, put_off, secs(3_600)).await,
        Rescheduling::Rescheduled
    );
    let relay = relay!(db, TASKS, lab).spawn();
    assert_eq!(
        reschedule(&db, called_in, Duration::ZERO).await,
        Rescheduling::Rescheduled
    );
    delivered(&db, called_in).await;
    let (row_now, created) = (row(&db, put_off).await, row(&db, put_off).await.created_at);
    let away = row_now.available_at - created;
    assert!((3_599_000..3_700_000).contains(&away), "{away} ms");
    assert_eq!(lab.calls().len(), 1);

    // A time in the past is now.
    let mut tx = db.begin().await;
    let past = SystemTime::now() - secs(9_000);
    let outcome = db.outbox().reschedule_at(put_off, past, &mut tx).await;
    assert_eq!(outcome.expect("answers"), Rescheduling::Rescheduled);
    tx.commit().await;
    delivered(&db, put_off).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(reschedule(&db, put_off, secs(1)).await, Rescheduling::Gone);
    let dead = insert(&db, "dead", &[("state", "'dead'")]).await;
    assert_eq!(reschedule(&db, dead, secs(1)).await, Rescheduling::Dead);
}

async fn a_rescheduled_backoff_is_over_at_once(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        match call.delivery.attempt() {
            1 => Err(outbox::HandlerError::retry_after(secs(3_600), "not yet")),
            _ => Ok(()),
        }
    });
    let relay = relay!(db, TASKS, lab).spawn();
    let id = db.publish(&Task::named("fails once")).await.id;
    crate::support::until(&db, id, |row| row.state == "pending" && row.attempts == 1).await;
    reschedule(&db, id, Duration::ZERO).await;
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(lab.starts(id), 2, "its attempts stay");
}

async fn a_message_that_was_given_back_can_be_put_off(db: Db) {
    // A relay that died left it behind, and the next one stopped before it could start.
    let lapsed = db.ago(secs(1));
    let given_back = [
        ("unsettled", "1"),
        ("attempts", "1"),
        ("leased_until", &*lapsed),
    ];
    let id = insert(&db, "given back", &given_back).await;
    assert_eq!(
        reschedule(&db, id, secs(3_600)).await,
        Rescheduling::Rescheduled
    );
    let lab = Lab::content();
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(lab.calls().len(), 0, "it is not due");
    reschedule(&db, id, Duration::ZERO).await;
    within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(lab.calls().len(), 1);
}

async fn a_reschedule_has_its_limits(db: Db) {
    let id = insert(&db, "task", &[]).await;
    let before = row(&db, id).await;
    let mut tx = db.begin().await;
    let error = db.outbox().reschedule(id, Duration::MAX, &mut tx).await;
    let error = error.expect_err("more than a century");
    assert!(error.is_config(), "{error}");
    // The transaction is still good.
    let outcome = db.outbox().reschedule(id, secs(1), &mut tx).await;
    assert_eq!(outcome.expect("answers"), Rescheduling::Rescheduled);
    tx.rollback().await;
    assert_eq!(row(&db, id).await, before);
}

async fn without_a_transaction_nothing_is_cancelled(db: Db) {
    let id = insert(&db, "task", &[]).await;
    outbox_tests::each!(db, pool => {
        let mut connection = pool.acquire().await.expect("a connection");
        let error = db.outbox().cancel(id, &mut *connection).await;
        let error = error.expect_err("no transaction is open");
        assert!(error.is_not_in_transaction(), "{error}");
    });
    assert!(db.row(id).await.is_some());
}

async fn no_relay_claims_what_is_being_cancelled(db: Db) {
    let lab = Lab::content();
    let id = insert(&db, "task", &[]).await;
    let mut tx = db.begin().await;
    let outcome = db.outbox().cancel(id, &mut tx).await;
    assert_eq!(outcome.expect("answers"), Cancellation::Cancelled);
    let relay = relay!(db, TASKS, lab).spawn();
    let other = db.publish(&Task::named("other")).await.id;
    delivered(&db, other).await;
    tx.commit().await;
    let last = db.publish(&Task::named("last")).await.id;
    delivered(&db, last).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(lab.starts(id), 0);
}

async fn a_cancel_waits_for_a_claim_and_says_so(db: Db) {
    let id = insert(&db, "task", &[]).await;
    let mut claim = db.begin().await;
    claim
        .execute(&format!(
            "UPDATE outbox SET state = 'processing', attempts = 1, unsettled = 1, \
             leased_until = {} WHERE id = {}",
            db.ahead(secs(3_600)),
            db.uuid(id)
        ))
        .await;
    let cancelled = tokio::spawn({
        let db = db.clone();
        async move { cancel(&db, id).await }
    });
    let waits = db.lock_waits();
    eventually(LONG, || db.scalar(waits), |waiting| *waiting == 1).await;
    claim.commit().await;
    let outcome = within(LONG, cancelled).await.expect("no panic");
    assert_eq!(outcome, Cancellation::Running);
    in_state(&db, id, "processing").await;
}

async fn at_repeatable_read_a_lost_race_can_be_run_again(db: Db) {
    let id = insert(&db, "task", &[]).await;
    let mut tx = db.begin().await;
    tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .await;
    tx.scalar("SELECT count(*) FROM outbox").await;
    db.execute("UPDATE outbox SET attempts = attempts + 1")
        .await;
    let error = db.outbox().cancel(id, &mut tx).await;
    let error = error.expect_err("somebody was there first");
    assert!(error.is_retryable(), "{error}");
    tx.rollback().await;
    assert_eq!(cancel(&db, id).await, Cancellation::Cancelled);
}
