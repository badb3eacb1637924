//! Two transactions that publish the same dedup keys at once. SQLite has one writer, and so no such race.

use outbox::Fate;
use outbox_tests::{
    Db,
    lab::Task,
    on_every_database,
    wait::{LONG, within},
};
use sqlx::AssertSqlSafe;

on_every_database! {
    all: [],
    servers: [the_winner_of_a_dedup_key_decides, two_keys_in_opposite_order_are_no_hang],
    postgres: [a_lost_race_is_retryable_at_repeatable_read],
    mariadb: [a_duplicate_is_told_at_repeatable_read_as_well]
}

async fn a_lost_race_is_retryable_at_repeatable_read(db: Db) {
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    let begin = AssertSqlSafe("BEGIN ISOLATION LEVEL REPEATABLE READ".to_owned());
    let mut loser = inner.pool.begin_with(begin).await.expect("begins");
    // The snapshot is taken here, before the winner's commit.
    sqlx::query("SELECT count(*) FROM outbox")
        .execute(&mut *loser)
        .await
        .expect("reads");
    let mut winner = db.begin().await;
    Task::named("first")
        .publication()
        .dedup_key("once")
        .to(&db.outbox())
        .publish(&mut winner)
        .await
        .expect("publishes");
    winner.commit().await;

    let second = Task::named("second");
    let error = second
        .publication()
        .dedup_key("once")
        .to(&db.outbox())
        .publish(&mut loser)
        .await
        .expect_err("the race is lost");
    assert!(error.is_retryable(), "{error}");
    loser.rollback().await.expect("rolls back");
    assert_eq!(db.count("dedup_key = 'once'").await, 1);
}

/// What takes a lock there reads what is, and not what the snapshot has.
async fn a_duplicate_is_told_at_repeatable_read_as_well(db: Db) {
    let mut later = db.begin().await;
    later
        .execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .await;
    // The snapshot is taken here, before the first one's commit.
    assert_eq!(later.scalar("SELECT count(*) FROM outbox").await, 0);
    let task = Task::named("first");
    let publication = task.publication().dedup_key("once").to(&db.outbox());
    let mut first = db.begin().await;
    let published = publication.clone().publish(&mut first).await;
    let id = published.expect("publishes").id;
    first.commit().await;

    let again = publication.publish(&mut later).await.expect("publishes");
    later.commit().await;
    let state = outbox::MessageState::Pending;
    assert_eq!(again.fate, Fate::Duplicate { id, state });
    assert_eq!(db.count("dedup_key = 'once'").await, 1);
}

async fn the_winner_of_a_dedup_key_decides(db: Db) {
    for (key, commits) in [("wins", true), ("gives up", false)] {
        let mut first = db.begin().await;
        let task = Task::named("first");
        let winner = task
            .publication()
            .dedup_key(key)
            .to(&db.outbox())
            .publish(&mut first)
            .await
            .expect("publishes");

        let waiting = tokio::spawn({
            let db = db.clone();
            async move {
                let mut second = db.begin().await;
                let task = Task::named("second");
                let published = task
                    .publication()
                    .dedup_key(key)
                    .to(&db.outbox())
                    .publish(&mut second)
                    .await;
                second.commit().await;
                published
            }
        });
        let blocked = db.lock_waits();
        outbox_tests::eventually(LONG, || db.scalar(blocked), |waiting| *waiting > 0).await;
        if commits {
            first.commit().await;
        } else {
            first.rollback().await;
        }

        let loser = within(LONG, waiting)
            .await
            .expect("the task ends")
            .expect("publishes");
        if commits {
            let state = outbox::MessageState::Pending;
            assert_eq!(
                loser.fate,
                Fate::Duplicate {
                    id: winner.id,
                    state
                }
            );
        } else {
            assert_eq!(loser.fate, Fate::New);
        }
        assert_eq!(
            db.rows(&format!("dedup_key = '{key}'")).await.len(),
            1,
            "exactly one row"
        );
    }
}

async fn two_keys_in_opposite_order_are_no_hang(db: Db) {
    let task = Task::named("crossed");
    let with_key = |key: &str| task.publication().dedup_key(key).to(&db.outbox());
    let (mut first, mut second) = (db.begin().await, db.begin().await);
    with_key("a").publish(&mut first).await.expect("publishes");
    with_key("b").publish(&mut second).await.expect("publishes");
    // Each now waits for the other, until the server picks one to fail.
    let (one, other) = within(LONG, async {
        tokio::join!(
            with_key("b").publish(&mut first),
            with_key("a").publish(&mut second)
        )
    })
    .await;
    let (won, mut lost) = match (one, other) {
        (Ok(_), Err(error)) => (first, Some((second, error))),
        (Err(error), Ok(_)) => (second, Some((first, error))),
        both => panic!("one of two: {both:?}"),
    };
    let (lost, error) = lost.take().expect("the other");
    assert!(error.is_retryable(), "{error}");
    lost.rollback().await;
    won.commit().await;
    assert_eq!(db.count("dedup_key IN ('a', 'b')").await, 2);
}
