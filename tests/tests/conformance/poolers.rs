//! Postgres through a pooler in transaction mode. The rest of the suite runs through it as well; here is
//! what it takes, and what goes wrong without.

use outbox::{Health, Outbox};
use outbox_tests::{
    Db, Lab, eventually,
    lab::{TASKS, Task},
    on_every_database, relay, try_relay,
    wait::LONG,
};

use crate::support::{all_delivered, delivered};

on_every_database! {
    all: [],
    postgres: [
        a_session_may_change_with_each_transaction,
        a_transaction_is_the_longest_that_a_statement_lives,
    ],
    direct: [
        without_the_pooler_mode_statements_get_mixed_up,
        a_listener_through_a_pooler_does_not_listen,
        a_relay_that_is_not_told_of_its_pooler_does_not_start,
    ]
}

/// How many statements the sessions of the database hold prepared: asked on each of the connections
/// that the pooler has to it, one after the other.
async fn prepared(db: &Db) -> i64 {
    let mut prepared = 0;
    for _ in 0..20 {
        let mut tx = db.begin().await;
        prepared += tx
            .scalar("SELECT count(*) FROM pg_prepared_statements")
            .await;
        tx.commit().await;
    }
    prepared
}

async fn a_transaction_is_the_longest_that_a_statement_lives(db: Db) {
    let id = db.publish(&Task::named("by a configured outbox")).await.id;
    let relay = relay!(db, TASKS, Lab::content()).spawn();
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
    // Directly, statements are kept for the next time.
    assert_eq!(prepared(&db).await > 0, !db.pooled());
}

async fn a_session_may_change_with_each_transaction(db: Db) {
    // As many sessions as there are transactions at once; from then on they take turns.
    let mut held = Vec::new();
    for _ in 0..outbox_tests::db::POOL {
        held.push(db.begin().await);
    }
    let mut sessions = Vec::new();
    for mut tx in held {
        sessions.push(tx.scalar("SELECT pg_backend_pid()::bigint").await);
        tx.commit().await;
    }
    sessions.dedup();
    assert_eq!(sessions.len(), outbox_tests::db::POOL as usize);

    let relay = relay!(db, TASKS, Lab::content()).spawn();
    for _ in 0..10 {
        db.publish_all(&Task::numbered(10)).await;
    }
    all_delivered(&db).await;
    assert_eq!(relay.health(), Health::Live);
    let counts = relay.shutdown().await.expect("stops");
    assert_eq!((counts.delivered, counts.lease_lost), (100, 0));
}

async fn without_the_pooler_mode_statements_get_mixed_up(direct: Db) {
    let db = direct.through_the_pooler();
    // Clients, one after the other, on whichever session is free: each counts the statements that it
    // prepares for itself, and calls them by their numbers.
    let publish = async |outbox: &Outbox| {
        let client = db.another_pool(1).await;
        let mut tx = client.begin().await;
        let published = Task::named("mixed up")
            .publication()
            .to(outbox)
            .publish(&mut tx)
            .await;
        tx.rollback().await;
        published
    };
    let unaware = Outbox::default();
    publish(&unaware).await.expect("nobody was there before");
    let mut text = String::new();
    for _ in 0..20 {
        if let Err(error) = publish(&unaware).await {
            text = error.to_string();
            break;
        }
    }
    assert!(
        text.contains("prepared statement") && text.contains("already exists"),
        "{text}"
    );
    assert!(
        text.contains("`Outbox::builder().pooler(true)`"),
        "what to do about it: {text}"
    );
    for _ in 0..2 {
        publish(&db.outbox()).await.expect("told of the pooler");
    }
}

async fn a_listener_through_a_pooler_does_not_listen(direct: Db) {
    let db = direct.through_the_pooler();
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    let pooler = (*inner.pool.connect_options()).clone();
    let relay = relay!(db, TASKS, Lab::content(); listener(pooler)).spawn();
    let id = db.publish(&Task::named("polled")).await.id;
    delivered(&db, id).await;
    let degraded = |health: &Health| matches!(health, Health::Degraded(_));
    let health = eventually(LONG, || async { relay.health() }, degraded).await;
    assert!(
        format!("{health:?}").contains("there is a pooler where the listener would listen"),
        "{health:?}"
    );
    assert_eq!(
        direct
            .scalar(
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
            .await,
        0,
        "a LISTEN would stay with a session that others use"
    );
    relay.shutdown().await.expect("stops");
}

async fn a_relay_that_is_not_told_of_its_pooler_does_not_start(direct: Db) {
    let db = direct.through_the_pooler();
    let refused = try_relay!(db, TASKS, Lab::content(); outbox(&Outbox::default()));
    let error = refused.expect_err("its sessions are the pooler's");
    assert!(error.is_config(), "{error}");
    assert!(
        error
            .to_string()
            .contains("`Outbox::builder().pooler(true)`"),
        "what to do about it: {error}"
    );
}
