//! What has settled does not stay for ever, unless it is told to.

use std::time::Duration;

use outbox::{Bulk, Purge, Retention};
use outbox_tests::{
    Db, Lab, each, eventually,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};
use uuid::Uuid;

use crate::support::{in_state, insert, row};

on_every_database! {
    all: [
        a_purge_takes_what_is_old_enough,
        a_purge_needs_to_know_what,
        a_dry_run_counts_what_a_purge_would_take,
        a_purge_can_be_limited,
        waiting_and_running_rows_are_never_purged,
        notes_on_discarded_messages_can_be_purged,
        delivered_rows_stay_as_long_as_the_retention_says,
        dead_letters_stay_unless_the_retention_says_so,
        one_relay_at_a_time_purges,
        the_duty_of_a_relay_that_died_is_taken_over,
        a_stop_does_not_wait_for_a_purge,
    ],
    servers: [
        a_redriven_row_survives_a_purge_that_waited,
        a_row_that_somebody_has_locked_is_left,
    ],
}

fn purge(db: &Db) -> Purge {
    each!(db, pool => db.outbox().purge(pool))
}

async fn purged(bulk: Bulk) -> u64 {
    within(LONG, async { bulk.await }).await.expect("purges")
}

/// Inserts a row of this state that settled so long ago.
async fn settled(db: &Db, state: &str, ago: Duration, columns: &[(&str, &str)]) -> Uuid {
    let (state, ago) = (format!("'{state}'"), db.ago(ago));
    let mut all = vec![("state", &*state), ("settled_at", &*ago)];
    all.extend(columns);
    insert(db, "task", &all).await
}

async fn a_purge_takes_what_is_old_enough(db: Db) {
    let young = settled(&db, "delivered", secs(100), &[]).await;
    let dead = settled(&db, "dead", secs(5_000), &[]).await;
    // More than one chunk, in more than one route.
    for n in 0..1_100 {
        let topic = format!("'t{}'", n % 3);
        settled(&db, "delivered", secs(1_000 + n), &[("topic", &topic)]).await;
    }
    // Published long ago, and settled just now: rows age from the moment they settle.
    let created = db.ago(secs(9_000));
    let late = settled(&db, "delivered", secs(1), &[("created_at", &created)]).await;

    let first = purge(&db).delivered(secs(500)).topic("t1").run();
    assert_eq!(purged(first).await, 367);
    let rest = purge(&db).delivered(secs(500)).run();
    assert_eq!(purged(rest).await, 733);
    let left = db.rows("1 = 1").await;
    let mut left: Vec<_> = left.into_iter().map(|row| row.id).collect();
    left.sort();
    let mut expected = vec![young, dead, late];
    expected.sort();
    assert_eq!(left, expected);

    assert_eq!(purged(purge(&db).dead(secs(6_000)).run()).await, 0);
    assert_eq!(purged(purge(&db).dead(secs(4_000)).run()).await, 1);
    assert_eq!(purged(purge(&db).delivered(Duration::ZERO).run()).await, 2);
    assert_eq!(db.count("1 = 1").await, 0);
}

async fn a_purge_needs_to_know_what(db: Db) {
    settled(&db, "delivered", secs(100), &[]).await;
    let error = within(LONG, async { purge(&db).topic("lab.task").run().await })
        .await
        .expect_err("nothing is chosen");
    assert!(error.is_config(), "{error}");
    assert!(error.to_string().contains(".delivered(age)"), "{error}");
    assert_eq!(db.count("1 = 1").await, 1);
}

async fn a_dry_run_counts_what_a_purge_would_take(db: Db) {
    for n in 0..20 {
        settled(&db, "delivered", secs(100 * n), &[]).await;
        settled(&db, "dead", secs(100 * n), &[]).await;
    }
    let before = db.rows("1 = 1").await;
    let choice = || purge(&db).delivered(secs(950)).dead(secs(1_750));
    assert_eq!(purged(choice().run().dry_run(true)).await, 10 + 2);
    assert_eq!(purged(choice().run().dry_run(true).limit(5)).await, 5);
    assert_eq!(db.rows("1 = 1").await, before);
    assert_eq!(purged(choice().run()).await, 12);
}

async fn a_purge_can_be_limited(db: Db) {
    for n in 0..20 {
        settled(&db, "delivered", secs(100 * n), &[]).await;
    }
    assert_eq!(
        purged(purge(&db).delivered(secs(1)).run().limit(3)).await,
        3
    );
    let left = db.rows("1 = 1").await;
    assert_eq!(left.len(), 17);
    let oldest = left.iter().filter_map(|row| row.settled_at).min();
    let newest = left.iter().filter_map(|row| row.settled_at).max();
    let apart = newest.expect("some") - oldest.expect("some");
    assert!(
        (1_590_000..1_630_000).contains(&apart),
        "the oldest go first: {apart} ms apart"
    );
}

async fn waiting_and_running_rows_are_never_purged(db: Db) {
    let (long_ago, lease) = (db.ago(secs(9_000)), db.ago(secs(1)));
    let token = db.uuid(Uuid::new_v4());
    let waiting = [("created_at", &*long_ago), ("settled_at", &*long_ago)];
    insert(&db, "waits", &waiting).await;
    let running = [
        ("created_at", &*long_ago),
        ("settled_at", &*long_ago),
        ("state", "'processing'"),
        ("attempts", "1"),
        ("unsettled", "1"),
        ("token", &*token),
        ("leased_until", &*lease),
    ];
    insert(&db, "runs", &running).await;
    let all = purge(&db)
        .delivered(secs(1))
        .dead(secs(1))
        .discarded(secs(1));
    assert_eq!(purged(all.run()).await, 0);
    assert_eq!(db.count("1 = 1").await, 2);
}

async fn notes_on_discarded_messages_can_be_purged(db: Db) {
    for n in 0..3 {
        let id = settled(&db, "dead", secs(10), &[]).await;
        let letters = each!(db, pool => db.outbox().dead_letters(pool));
        assert!(letters.discard(id, "no use").await.expect("discards"));
        if n < 2 {
            db.execute(&format!(
                "UPDATE outbox_discarded SET discarded_at = {} WHERE id = {}",
                db.ago(secs(100)),
                db.uuid(id)
            ))
            .await;
        }
    }
    assert_eq!(
        purged(purge(&db).discarded(secs(50)).run().dry_run(true)).await,
        2
    );
    assert_eq!(purged(purge(&db).discarded(secs(50)).run()).await, 2);
    assert_eq!(db.scalar("SELECT count(*) FROM outbox_discarded").await, 1);
}

async fn delivered_rows_stay_as_long_as_the_retention_says(db: Db) {
    let lab = Lab::content();
    let old = settled(&db, "delivered", secs(3_000), &[]).await;
    let dead = settled(&db, "dead", secs(300_000), &[]).await;
    let relay = relay!(db, TASKS, lab; retention(Retention::new().delivered(secs(20)))).spawn();
    let id = db.publish(&Task::named("kept")).await.id;
    in_state(&db, id, "delivered").await;
    eventually(LONG, || db.row(old), Option::is_none).await;
    // Had it not been kept for its age, it would have gone with the other.
    assert_eq!(row(&db, id).await.state, "delivered");
    db.execute(&format!(
        "UPDATE outbox SET settled_at = {} WHERE id = {}",
        db.ago(secs(21)),
        db.uuid(id)
    ))
    .await;
    eventually(LONG, || db.row(id), Option::is_none).await;
    relay.shutdown().await.expect("stops");
    assert_eq!(row(&db, dead).await.state, "dead", "nobody said so");
}

async fn dead_letters_stay_unless_the_retention_says_so(db: Db) {
    let retention = Retention::new().dead(secs(1)).discarded(secs(1));
    let delivered = settled(&db, "delivered", secs(3_000), &[]).await;
    let dead = settled(&db, "dead", secs(3_000), &[]).await;
    let relay = relay!(db, TASKS, Lab::content(); retention(retention)).spawn();
    eventually(LONG, || db.row(dead), Option::is_none).await;
    let id = db.publish(&Task::named("deleted at once")).await.id;
    crate::support::delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    assert!(db.row(delivered).await.is_some(), "nobody said so");
}

async fn one_relay_at_a_time_purges(db: Db) {
    // It purges each second, and keeps the duty for three.
    let retention = Retention::new().delivered(secs(10));
    let holder = "SELECT count(DISTINCT holder) FROM outbox_duties WHERE name = 'purge'";
    let first = relay!(db, TASKS, Lab::content(); retention(retention)).spawn();
    eventually(LONG, || db.scalar(holder), |holders| *holders == 1).await;
    let first_holds = db.pick(
        "SELECT count(*) FROM outbox_duties WHERE holder::text IN (SELECT min(id::text) FROM outbox_relays)",
        "SELECT count(*) FROM outbox_duties WHERE holder IN (SELECT min(id) FROM outbox_relays)",
        "SELECT count(*) FROM outbox_duties WHERE holder IN (SELECT min(id) FROM outbox_relays)",
    );
    let second = relay!(db, TASKS, Lab::content(); retention(retention)).spawn();
    let relays = "SELECT count(*) FROM outbox_relays";
    eventually(LONG, || db.scalar(relays), |relays| *relays == 2).await;
    for _ in 0..8 {
        let old = settled(&db, "delivered", secs(100), &[]).await;
        eventually(LONG, || db.row(old), Option::is_none).await;
        assert_eq!(db.scalar(first_holds).await, 1, "it stays with the first");
    }
    first.shutdown().await.expect("stops");
    second.shutdown().await.expect("stops");
}

async fn the_duty_of_a_relay_that_died_is_taken_over(db: Db) {
    db.execute(&format!(
        "INSERT INTO outbox_duties (name, holder, held_until) VALUES ('purge', {}, {})",
        db.uuid(Uuid::new_v4()),
        db.ahead(secs(3_600))
    ))
    .await;
    let old = settled(&db, "delivered", secs(100), &[]).await;
    let retention = Retention::new().delivered(millis(500));
    let relay = relay!(db, TASKS, Lab::content(); retention(retention)).spawn();
    let id = db.publish(&Task::named("a while")).await.id;
    in_state(&db, id, "delivered").await;
    tokio::time::sleep(millis(300)).await;
    assert!(db.row(old).await.is_some(), "somebody else has the duty");
    let lapsed = db.ago(millis(1));
    db.execute(&format!("UPDATE outbox_duties SET held_until = {lapsed}"))
        .await;
    eventually(LONG, || db.row(old), Option::is_none).await;
    relay.shutdown().await.expect("stops");
}

async fn a_stop_does_not_wait_for_a_purge(db: Db) {
    db.execute(&format!(
        "INSERT INTO outbox (topic, payload, state, settled_at) SELECT 'lab.task', '{{}}', 'delivered', {} FROM {}",
        db.ago(secs(100)),
        db.numbers(20_000)
    ))
    .await;
    let retention = Retention::new().delivered(secs(1));
    let relay = relay!(db, TASKS, Lab::content(); retention(retention)).spawn();
    eventually(LONG, || db.count("1 = 1"), |left| *left < 20_000).await;
    within(secs(5), relay.shutdown()).await.expect("stops");
    let left = db.count("1 = 1").await;
    assert!(left > 0, "it was in the middle of it");
    assert_eq!(left % 200, 0, "each chunk whole, or not at all");
}

async fn a_redriven_row_survives_a_purge_that_waited(db: Db) {
    // The lock is taken by whoever redrives; the purge skips it, however long it takes.
    let id = settled(&db, "dead", secs(1_000), &[]).await;
    let mut tx = db.begin().await;
    tx.execute(&format!(
        "UPDATE outbox SET state = 'pending', settled_at = NULL WHERE id = {}",
        db.uuid(id)
    ))
    .await;
    assert_eq!(purged(purge(&db).dead(secs(1)).run()).await, 0);
    tx.commit().await;
    assert_eq!(purged(purge(&db).dead(secs(1)).run()).await, 0);
    assert_eq!(row(&db, id).await.state, "pending");
}

async fn a_row_that_somebody_has_locked_is_left(db: Db) {
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(settled(&db, "delivered", secs(100 + n), &[]).await);
    }
    let mut tx = db.begin().await;
    tx.execute(&format!(
        "SELECT 1 FROM outbox WHERE id = {} FOR UPDATE",
        db.uuid(ids[2])
    ))
    .await;
    assert_eq!(purged(purge(&db).delivered(secs(1)).run()).await, 4);
    tx.rollback().await;
    assert_eq!(purged(purge(&db).delivered(secs(1)).run()).await, 1);
}
