//! Many messages, many processes: each is handled once.

use std::{collections::HashMap, time::Duration};

use outbox_tests::{
    Db, Lab, eventually,
    lab::{TASK, TASKS, Task},
    on_every_database, relay, scaled,
    wait::{LONG, millis, secs},
    worker::{Settings, Workers},
};

use crate::support::delivered;

on_every_database! {
    all: [processes_share_the_work_without_duplicates],
    postgres: [processes_share_the_work_at_repeatable_read],
    // It counts what this database's statements read, the pooler's other clients' included.
    direct: [kept_rows_cost_relays_nothing, what_a_snapshot_keeps_is_walked_over_once]
}

async fn share(db: &Db) {
    let n = scaled(2_000, 10_000);
    let processes = match db {
        Db::Postgres(_) | Db::Mysql(_) => 8,
        Db::Sqlite(_) => 4,
    };
    db.publish_all(&Task::numbered(n)).await;
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), db);
    let settings = Settings {
        lease: secs(30),
        concurrency: 16,
        window: 64,
        ..Settings::default()
    };
    let running: Vec<_> = (0..processes).map(|_| workers.relay(&settings)).collect();
    eventually(LONG * 4, || db.count("1 = 1"), |left| *left == 0).await;
    drop(running);

    let starts = workers.starts();
    let mut runs = HashMap::new();
    for start in &starts {
        *runs.entry(start.id).or_insert(0) += 1;
    }
    assert_eq!(runs.len(), n, "every message was handled");
    let duplicates: Vec<_> = runs.iter().filter(|(_, runs)| **runs > 1).collect();
    assert!(
        duplicates.is_empty(),
        "without faults nothing runs twice: {duplicates:?}"
    );
    let took_part = starts
        .iter()
        .map(|start| start.process)
        .collect::<std::collections::HashSet<_>>()
        .len();
    assert!(
        took_part > 1,
        "the work was shared by {took_part} processes"
    );
}

async fn processes_share_the_work_without_duplicates(db: Db) {
    share(&db).await;
}

async fn processes_share_the_work_at_repeatable_read(db: Db) {
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    let name = inner.name();
    db.execute(&format!(
        "ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"
    ))
    .await;
    share(&db).await;
}

/// A query for the blocks that such statements have read in this database.
fn blocks_of(statements: &str) -> String {
    format!(
        "SELECT CAST(coalesce(sum(shared_blks_hit + shared_blks_read), 0) AS bigint) FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND ({statements})"
    )
}

async fn kept_rows_cost_relays_nothing(db: Db) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let read = blocks_of("query LIKE '%attempts + 1%' OR query LIKE '%LATERAL%'");
    // The blocks that probes and claims read for a hundred messages.
    let cost = async || {
        let before = db.scalar(&read).await;
        db.publish_all(&Task::numbered(100)).await;
        let drained = relay!(db, TASKS, Lab::content()).drain().await;
        assert_eq!(drained.expect("drains").delivered, 100);
        db.scalar(&read).await - before
    };
    let alone = cost().await;
    assert!(alone > 0, "its statements are recognised");
    let n = scaled(50_000, 1_000_000);
    for state in ["delivered", "dead"] {
        db.execute(&format!(
            "INSERT INTO outbox (topic, payload, state, settled_at) \
             SELECT '{TASK}', '{{}}', '{state}', now() FROM {}",
            db.numbers(n)
        ))
        .await;
    }
    db.execute("VACUUM ANALYZE outbox").await;
    let among_kept = cost().await;
    assert!(
        among_kept < alone * 2 + 500,
        "{alone} blocks alone, {among_kept} among {n} delivered and as many dead rows"
    );
}

async fn what_a_snapshot_keeps_is_walked_over_once(db: Db) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    // Whatever is deleted from now on has to stay for this one.
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let mut snapshot = inner.pool.begin_with(begin).await.expect("begins");
    let taken = sqlx::query("SELECT FROM outbox");
    taken.execute(&mut *snapshot).await.expect("reads");
    let probes = blocks_of("query LIKE '%LATERAL%'");
    // The blocks that probes read in a drain of so many messages.
    let drain = async |messages: usize, lease: Duration| {
        db.insert_tasks(TASK, messages).await;
        let before = db.scalar(&probes).await;
        let drained =
            relay!(db, TASKS, Lab::content(); window(256), poll_interval(secs(600)), lease(lease))
                .drain()
                .await;
        assert_eq!(drained.expect("drains").delivered, messages as u64);
        db.scalar(&probes).await - before
    };
    drain(10_000, secs(20)).await;
    // By the ends of their leases, those were claimed long ago.
    let one_look = drain(0, secs(60)).await;
    let due = format!(
        "SELECT available_at FROM outbox WHERE topic = '{TASK}' AND version = 1 AND state = 'pending' \
         AND unsettled = 0 ORDER BY available_at LIMIT 1"
    );
    db.execute(&due).await;
    let due_alone = db
        .scalar(&blocks_of("query LIKE 'SELECT available_at%'"))
        .await;
    assert!(
        due_alone > 200,
        "{due_alone} blocks: the rows are still there"
    );
    assert!(
        one_look < due_alone * 5 / 4 + 20,
        "{due_alone} blocks for what was due, {one_look} for a look, which asks for leases, too"
    );
    // The claim that follows that of a whole window finds nothing.
    let two_looks = drain(256, secs(60)).await;
    assert!(
        two_looks < one_look * 5 / 4,
        "{one_look} blocks for one look, {two_looks} for one before 256 messages and one after"
    );

    // It looks again when the next one is due, and none of these looks is a poll.
    let mut delayed = Vec::new();
    for n in 1..=8 {
        let mut tx = db.begin().await;
        let task = Task::named("delayed");
        let task = task.publication().delay(millis(n * 200)).to(&db.outbox());
        delayed.push(task.publish(&mut tx).await.expect("publishes").id);
        tx.commit().await;
    }
    let before = db.scalar(&probes).await;
    let relay =
        relay!(db, TASKS, Lab::content(); poll_interval(secs(600)), lease(secs(60))).spawn();
    for id in delayed {
        delivered(&db, id).await;
    }
    relay.shutdown().await.expect("stops");
    let eight_looks = db.scalar(&probes).await - before;
    snapshot.rollback().await.expect("rolls back");
    assert!(
        eight_looks < one_look * 4,
        "{one_look} blocks for one look, {eight_looks} for those that found eight messages"
    );
}
