//! Limits of one handler: how many run at once, and how many start in a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use outbox::State;
use outbox_tests::{
    Call, Db, Gate, Lab, eventually,
    lab::{Errand, TASK, Task, run_errand},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{all_delivered, delivered, insert_lapsed};

on_every_database! {
    all: [
        no_more_run_at_once_than_the_limit_says,
        a_limited_topic_holds_up_no_other,
        a_limited_topic_does_not_fill_a_small_window,
        what_is_beyond_the_limit_is_for_other_relays,
        a_lapsed_message_keeps_to_the_limit,
        no_more_start_than_the_rate_allows,
        a_rate_is_not_waited_for_by_polling,
        a_stop_does_not_wait_for_the_rate,
        a_drain_keeps_to_the_limits_and_ends,
        a_suspect_behind_a_limit_runs_alone,
    ],
    postgres: [a_limit_is_not_waited_for_by_asking]
}

/// Two at once.
#[outbox::handler(concurrency = 2)]
async fn two_at_once(
    task: Task,
    State(lab): State<Lab>,
    delivery: outbox::Delivery,
) -> Result<(), outbox::HandlerError> {
    lab.run(task.name, task.number, delivery).await
}

/// Twenty in a second, and two to begin with.
#[outbox::handler(rate = "20/s")]
async fn twenty_a_second(
    task: Task,
    State(lab): State<Lab>,
    delivery: outbox::Delivery,
) -> Result<(), outbox::HandlerError> {
    lab.run(task.name, task.number, delivery).await
}

/// Five hundred in a second, and fifty to begin with.
#[outbox::handler(rate = "500/s")]
async fn five_hundred_a_second(
    task: Task,
    State(lab): State<Lab>,
    delivery: outbox::Delivery,
) -> Result<(), outbox::HandlerError> {
    lab.run(task.name, task.number, delivery).await
}

/// One in an hour, and so no second one.
#[outbox::handler(rate = "1/h", concurrency = 5)]
async fn one_an_hour(
    task: Task,
    State(lab): State<Lab>,
    delivery: outbox::Delivery,
) -> Result<(), outbox::HandlerError> {
    lab.run(task.name, task.number, delivery).await
}

static TWO_AT_ONCE: outbox::Router<Lab> = outbox::router![two_at_once, run_errand];
static TWENTY_A_SECOND: outbox::Router<Lab> = outbox::router![twenty_a_second, run_errand];
static FIVE_HUNDRED_A_SECOND: outbox::Router<Lab> = outbox::router![five_hundred_a_second];
static ONE_AN_HOUR: outbox::Router<Lab> = outbox::router![one_an_hour];

/// Handlers that count how many of them run, until the gate is open.
#[derive(Clone, Default)]
struct Counting {
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    gate: Gate,
}

impl Counting {
    fn lab(&self) -> Lab {
        let this = self.clone();
        Lab::new(move |call: Call| {
            let this = this.clone();
            async move {
                if call.delivery.topic() == TASK {
                    let now = this.running.fetch_add(1, Ordering::SeqCst) + 1;
                    this.most.fetch_max(now, Ordering::SeqCst);
                    this.gate.pass().await;
                    // So that they overlap, if they may.
                    tokio::time::sleep(millis(5)).await;
                    this.running.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(())
            }
        })
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

fn errand(n: usize) -> Errand {
    Errand {
        name: format!("errand {n}"),
        number: 0,
    }
}

async fn no_more_run_at_once_than_the_limit_says(db: Db) {
    let counting = Counting::default();
    counting.gate.open();
    db.publish_all(&Task::numbered(60)).await;
    let relay = relay!(db, TWO_AT_ONCE, counting.lab(); concurrency(16)).spawn();
    all_delivered(&db).await;
    let counts = relay.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counting.most()), (60, 2));
}

async fn a_limited_topic_holds_up_no_other(db: Db) {
    hold_up_no_other(db, 8).await;
}

async fn a_limited_topic_does_not_fill_a_small_window(db: Db) {
    // Twice what may run would be all of it.
    hold_up_no_other(db, 4).await;
}

async fn hold_up_no_other(db: Db, window: usize) {
    let counting = Counting::default();
    // A window of that size, and so many slots, would be full of tasks that wait.
    db.publish_all(&Task::numbered(50)).await;
    let relay = relay!(db, TWO_AT_ONCE, counting.lab(); concurrency(4), window(window)).spawn();
    eventually(
        LONG,
        || async { counting.running() },
        |running| *running == 2,
    )
    .await;
    for n in 0..20 {
        let id = db.publish(&errand(n)).await.id;
        delivered(&db, id).await;
    }
    assert_eq!(counting.most(), 2);
    counting.gate.open();
    all_delivered(&db).await;
    relay.shutdown().await.expect("stops");
}

async fn what_is_beyond_the_limit_is_for_other_relays(db: Db) {
    let (first, second) = (Counting::default(), Counting::default());
    db.publish_all(&Task::numbered(20)).await;
    let one = relay!(db, TWO_AT_ONCE, first.lab()).spawn();
    eventually(LONG, || async { first.running() }, |running| *running == 2).await;
    // It looks several times more, and takes no more than twice what it may run.
    tokio::time::sleep(millis(300)).await;
    let untouched = db.count("state = 'pending' AND attempts = 0").await;
    assert_eq!(untouched, 16);
    let other = relay!(db, TWO_AT_ONCE, second.lab()).spawn();
    eventually(LONG, || async { second.running() }, |running| *running == 2).await;
    first.gate.open();
    second.gate.open();
    all_delivered(&db).await;
    let counts = [one.shutdown().await, other.shutdown().await];
    let counts = counts.map(|counts| counts.expect("stops").delivered);
    assert!(counts.iter().all(|delivered| *delivered >= 2), "{counts:?}");
    assert_eq!((first.most(), second.most()), (2, 2));
}

async fn a_lapsed_message_keeps_to_the_limit(db: Db) {
    for n in 0..6 {
        insert_lapsed(&db, &format!("lapsed {n}")).await;
    }
    db.execute("UPDATE outbox SET attempts = 1, unsettled = 1")
        .await;
    let lapsed = db.pick(
        "leased_until < now()",
        "leased_until < UTC_TIMESTAMP(6)",
        "leased_until < (SELECT max(created_at) FROM outbox)",
    );
    db.publish_all(&Task::numbered(6)).await;
    let counting = Counting::default();
    let relay = relay!(db, TWO_AT_ONCE, counting.lab()).spawn();
    eventually(
        LONG,
        || async { counting.running() },
        |running| *running == 2,
    )
    .await;
    tokio::time::sleep(millis(300)).await;
    assert_eq!(
        db.count(&format!("unsettled > 0 AND NOT ({lapsed})")).await,
        4
    );
    assert_eq!(db.count(lapsed).await, 2);
    counting.gate.open();
    all_delivered(&db).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(counting.most(), 2);
}

/// When tasks started, the first first.
fn starts(lab: &Lab) -> Vec<Instant> {
    let calls = lab.calls();
    let tasks = calls.iter().filter(|call| call.delivery.topic() == TASK);
    let mut starts: Vec<_> = tasks.map(|call| call.at).collect();
    starts.sort();
    starts
}

/// Holds starts against twenty a second and a burst of two, from a time before the first one.
fn assert_spread(began: Instant, lab: &Lab, messages: u32) {
    let starts = starts(lab);
    assert_eq!(starts.len(), messages as usize);
    for (n, start) in (0..messages).zip(starts) {
        let least = millis(50) * n.saturating_sub(1);
        let after = start - began;
        assert!(
            after >= least,
            "the start number {} came after {after:?}",
            n + 1
        );
    }
}

async fn no_more_start_than_the_rate_allows(db: Db) {
    let (lab, began) = (Lab::content(), Instant::now());
    db.publish_all(&Task::numbered(25)).await;
    let relay = relay!(db, TWENTY_A_SECOND, lab).spawn();
    // Others are not kept to it.
    for n in 0..5 {
        let id = db.publish(&errand(n)).await.id;
        delivered(&db, id).await;
    }
    all_delivered(&db).await;
    relay.shutdown().await.expect("stops");
    assert_spread(began, &lab, 25);
}

async fn a_rate_is_not_waited_for_by_polling(db: Db) {
    let (lab, began) = (Lab::content(), Instant::now());
    db.publish_all(&Task::numbered(15)).await;
    // Were it to wait for its poll after each burst, this took minutes.
    let relay = relay!(db, TWENTY_A_SECOND, lab; poll_interval(secs(20))).spawn();
    within(secs(15), all_delivered(&db)).await;
    relay.shutdown().await.expect("stops");
    assert_spread(began, &lab, 15);
}

async fn a_stop_does_not_wait_for_the_rate(db: Db) {
    let lab = Lab::content();
    db.publish_all(&Task::numbered(5)).await;
    let relay = relay!(db, ONE_AN_HOUR, lab).spawn();
    eventually(LONG, || db.count("1 = 1"), |left| *left == 4).await;
    let began = Instant::now();
    let counts = within(LONG, relay.shutdown()).await.expect("stops");
    assert!(began.elapsed() < secs(5), "{:?}", began.elapsed());
    assert_eq!(counts.delivered, 1);
    assert_eq!(db.count("state = 'pending' AND attempts = 0").await, 4);
}

async fn a_drain_keeps_to_the_limits_and_ends(db: Db) {
    let counting = Counting::default();
    counting.gate.open();
    db.publish_all(&Task::numbered(20)).await;
    let drained = within(LONG, relay!(db, TWO_AT_ONCE, counting.lab()).drain()).await;
    assert_eq!(drained.expect("drains").delivered, 20);
    assert_eq!(counting.most(), 2);

    let lab = Lab::content();
    db.publish_all(&Task::numbered(10)).await;
    let began = Instant::now();
    let drained = within(LONG, relay!(db, TWENTY_A_SECOND, lab).drain()).await;
    assert_eq!(drained.expect("drains").delivered, 10);
    assert_spread(began, &lab, 10);
}

async fn a_suspect_behind_a_limit_runs_alone(db: Db) {
    // A backlog that keeps the handler at its limit for as long as the test waits.
    db.publish_all(&Task::numbered(2_000)).await;
    let running = Arc::new(AtomicUsize::new(0));
    let lab = Lab::new({
        let running = Arc::clone(&running);
        move |call: Call| {
            let running = Arc::clone(&running);
            async move {
                let others = running.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(millis(50)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                assert!(call.name != "suspect" || others == 0, "it has company");
                Ok(())
            }
        }
    });
    let relay = relay!(db, TWO_AT_ONCE, lab; lease(secs(1))).spawn();
    lab.started(3).await;
    let suspect = insert_lapsed(&db, "suspect").await;
    delivered(&db, suspect).await;
    let waiting = db.count("state = 'pending'").await;
    relay.shutdown().await.expect("stops");
    assert!(waiting > 0, "it did not wait for the backlog to end");
    assert_eq!(lab.starts(suspect), 1);
}

async fn a_limit_is_not_waited_for_by_asking(db: Db) {
    // `scripts/test` loads the module into its server; one of your own needs `shared_preload_libraries`.
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let statements = "SELECT CAST(coalesce(sum(calls), 0) AS bigint) FROM pg_stat_statements \
                      WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                      AND query LIKE '%outbox%'";
    // All slots are taken, and as many rows as the rate allows wait for one.
    let counting = Counting::default();
    db.publish_all(&Task::numbered(200)).await;
    let relay = relay!(
        db, FIVE_HUNDRED_A_SECOND, counting.lab();
        concurrency(4), window(256), poll_interval(secs(1))
    )
    .spawn();
    eventually(
        LONG,
        || db.count("state = 'processing'"),
        |held| *held == 54,
    )
    .await;
    let before = db.scalar(statements).await;
    tokio::time::sleep(secs(3)).await;
    let asked = db.scalar(statements).await - before;
    counting.gate.open();
    all_delivered(&db).await;
    relay.shutdown().await.expect("stops");
    // A poll in each second, and perhaps a heartbeat; not one for each start that the rate would allow.
    assert!(asked <= 20, "{asked} statements in three polls");
}
