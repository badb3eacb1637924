//! Many messages, many processes: each is handled once.

use std::collections::HashMap;

use outbox_tests::{
    Db, eventually,
    lab::Task,
    on_every_database, scaled,
    wait::{LONG, secs},
    worker::{Settings, Workers},
};

on_every_database! {
    all: [processes_share_the_work_without_duplicates],
    postgres: [processes_share_the_work_at_repeatable_read]
}

async fn share(db: &Db) {
    let n = scaled(2_000, 10_000);
    let processes = match db {
        Db::Postgres(_) => 8,
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
