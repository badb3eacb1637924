//! A stale relay can't undo what a newer one did: each settle checks the token and the state.

use outbox::HandlerError;
use outbox_tests::{
    Db, Gate, Lab, Row,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};
use uuid::Uuid;

use crate::support::row;

on_every_database![
    a_settle_after_a_take_over_is_refused,
    a_failure_after_a_take_over_is_refused,
    a_settle_after_death_is_refused,
    a_failure_after_death_is_refused,
    a_settle_after_a_redrive_is_refused,
    a_stale_settle_does_not_delete_the_same_attempt_of_another,
    a_stale_settle_of_a_vanished_row_is_counted,
    tokens_differ_at_every_claim,
    a_renewal_after_a_take_over_ends_the_handler,
];

/// Holds a handler, changes its row by SQL as another relay or an operator would, lets the handler
/// end with `outcome`, and expects the row to stay as it was changed.
async fn stale(db: &Db, change: &str, outcome: fn() -> Result<(), HandlerError>) -> Option<Row> {
    let gate = Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                outcome()
            }
        }
    });
    let id = db.publish(&Task::named("contested")).await.id;
    // The lease is so long that no renewal can notice first: it is the settle that is tested.
    let relay = relay!(db, TASKS, lab; lease(secs(600)));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move {
        relay
            .run_until(async {
                // An error says that the sender is gone, which means stop as well.
                let _ = stopped.await;
            })
            .await
    });
    lab.started(1).await;
    db.execute(&format!(
        "UPDATE outbox SET {change} WHERE id = {}",
        db.uuid(id)
    ))
    .await;
    let before = db.row(id).await;
    // The relay is asked to stop first, so that it can't claim the row again afterwards.
    stop.send(()).expect("the relay runs");
    gate.open();
    let counts = within(LONG, running)
        .await
        .expect("the task ends")
        .expect("the relay stops");

    assert_eq!(counts.lease_lost, 1, "the loss is counted: {counts:?}");
    assert_eq!(
        (counts.delivered, counts.retried, counts.dead),
        (0, 0, 0),
        "no settle was accepted: {counts:?}"
    );
    let after = db.row(id).await;
    assert_eq!(after, before, "the row is untouched");
    after
}

fn success() -> Result<(), HandlerError> {
    Ok(())
}

fn failure() -> Result<(), HandlerError> {
    Err(HandlerError::retry("too late"))
}

fn give_up() -> Result<(), HandlerError> {
    Err(HandlerError::cancel("too late"))
}

/// What a newer claim by another relay does to a row.
fn taken_over(db: &Db, attempts: u32) -> String {
    format!(
        "token = {}, attempts = {attempts}, leased_until = {}",
        db.uuid(Uuid::new_v4()),
        db.ahead(secs(3600))
    )
}

async fn a_settle_after_a_take_over_is_refused(db: Db) {
    stale(&db, &taken_over(&db, 2), success).await;
}

async fn a_failure_after_a_take_over_is_refused(db: Db) {
    for outcome in [failure, give_up] {
        stale(&db, &taken_over(&db, 2), outcome).await;
    }
}

async fn a_settle_after_death_is_refused(db: Db) {
    // The token is left as it was: only the state tells.
    let dead = format!(
        "state = 'dead', unsettled = 0, leased_until = NULL, settled_at = {}",
        db.now()
    );
    let row = stale(&db, &dead, success).await.expect("it is still there");
    assert_eq!(row.state, "dead");
}

async fn a_failure_after_death_is_refused(db: Db) {
    let dead = format!(
        "state = 'dead', unsettled = 0, leased_until = NULL, settled_at = {}",
        db.now()
    );
    for outcome in [failure, give_up] {
        let row = stale(&db, &dead, outcome).await.expect("it is still there");
        assert_eq!((row.state.as_str(), row.errors.len()), ("dead", 0));
    }
}

async fn a_settle_after_a_redrive_is_refused(db: Db) {
    let redriven = format!(
        "state = 'pending', attempts = 0, unsettled = 0, redrives = 1, leased_until = NULL, available_at = {}",
        db.ahead(secs(3600))
    );
    let row = stale(&db, &redriven, success)
        .await
        .expect("it is still there");
    assert_eq!((row.state.as_str(), row.attempts), ("pending", 0));
}

async fn a_stale_settle_does_not_delete_the_same_attempt_of_another(db: Db) {
    // Claimed, lapsed, dead, redriven and claimed again: attempts stand at 1 once more, as they did
    // when the stale handler started. Only a token that never repeats tells the two claims apart.
    let row = stale(&db, &taken_over(&db, 1), success)
        .await
        .expect("it is still there");
    assert_eq!((row.state.as_str(), row.attempts), ("processing", 1));
}

async fn a_stale_settle_of_a_vanished_row_is_counted(db: Db) {
    // Purged or delivered by another relay in the meantime; its id is no longer in the table.
    let id = Uuid::now_v7();
    assert!(
        stale(&db, &format!("id = {}", db.uuid(id)), success)
            .await
            .is_none()
    );
    assert_eq!(
        row(&db, id).await.state,
        "processing",
        "whatever is there now is untouched"
    );
}

async fn tokens_differ_at_every_claim(db: Db) {
    let (sender, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let lab = Lab::new({
        let db = db.clone();
        move |call| {
            let (db, sender) = (db.clone(), sender.clone());
            async move {
                sender
                    .send(row(&db, call.delivery.id()).await.token)
                    .expect("the test listens");
                Err(HandlerError::retry("again"))
            }
        }
    });
    db.publish(&Task::named("often")).await;
    // A relay of its own for each attempt, as if the process had been restarted each time.
    let mut seen = Vec::new();
    for _ in 0..4 {
        let running = relay!(db, TASKS, lab).spawn();
        seen.push(
            within(LONG, tokens.recv())
                .await
                .expect("a claim")
                .expect("a claimed row has a token"),
        );
        running.shutdown().await.expect("stops");
    }
    let distinct: std::collections::HashSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

async fn a_renewal_after_a_take_over_ends_the_handler(db: Db) {
    let lab = Lab::new(|call| async move {
        call.delivery.cancellation().cancelled().await;
        std::future::pending().await
    });
    let id = db.publish(&Task::named("contested")).await.id;
    let running = relay!(db, TASKS, lab; lease(secs(2))).spawn();
    let calls = lab.started(1).await;
    db.execute(&format!(
        "UPDATE outbox SET {} WHERE id = {}",
        taken_over(&db, 2),
        db.uuid(id)
    ))
    .await;
    let before = row(&db, id).await;

    within(LONG, calls[0].delivery.cancellation().cancelled()).await;
    outbox_tests::eventually(LONG, || async { lab.ends(id).len() }, |ends| *ends == 1).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!((counts.lease_lost, counts.delivered), (1, 0), "{counts:?}");
    assert_eq!(row(&db, id).await, before, "the row is untouched");
}
