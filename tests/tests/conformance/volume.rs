//! Many messages, many processes: each is handled once.

use std::collections::HashMap;

use outbox_tests::{
    Db, Lab, eventually,
    lab::{TASK, TASKS, Task},
    on_every_database, relay, scaled,
    wait::{LONG, secs},
    worker::{Settings, Workers},
};

on_every_database! {
    all: [processes_share_the_work_without_duplicates],
    postgres: [processes_share_the_work_at_repeatable_read],
    // It counts what this database's statements read, the pooler's other clients' included.
    direct: [kept_rows_cost_relays_nothing]
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

async fn kept_rows_cost_relays_nothing(db: Db) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let read = "SELECT CAST(coalesce(sum(shared_blks_hit + shared_blks_read), 0) AS bigint) FROM pg_stat_statements \
                WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                AND (query LIKE '%attempts + 1%' OR query LIKE '%LATERAL%')";
    // The blocks that probes and claims read for a hundred messages.
    let cost = async || {
        let before = db.scalar(read).await;
        db.publish_all(&Task::numbered(100)).await;
        let drained = relay!(db, TASKS, Lab::content()).drain().await;
        assert_eq!(drained.expect("drains").delivered, 100);
        db.scalar(read).await - before
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
