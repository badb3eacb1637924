//! Publishing by plain SQL, from the databases' own command lines, as a program in any language would.

use std::process::Command;

use outbox_tests::{
    Call, Db, Lab, each, eventually,
    lab::{ALL, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, within},
};

use crate::support::all_delivered;

on_every_database! {
    unpooled: [
        the_documented_statements_publish,
        what_may_be_given_is_delivered_so,
        the_table_refuses_what_it_can_check,
        a_rollback_takes_it_back,
    ],
    direct: [
        the_documented_statements_wake_a_relay,
        without_wakes_there_is_nothing_to_wake,
    ],
}

/// The page that tells of them.
const PAGE: &str = include_str!("../../../outbox/docs/plain-sql.md");

/// Runs SQL with the database's own program; what it says if it fails.
fn run(db: &Db, sql: &str) -> Result<(), String> {
    let mut program = match db {
        Db::Postgres(_) => {
            let mut psql = Command::new("psql");
            psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"])
                .args(["--command", sql, &db.url()]);
            psql
        }
        Db::Mysql(db) => {
            let options = db.pool.connect_options();
            let mut mariadb = Command::new("mariadb");
            mariadb
                .args([
                    "--no-defaults",
                    "--protocol=tcp",
                    "--default-character-set=utf8mb4",
                ])
                .arg(format!("--host={}", options.get_host()))
                .arg(format!("--port={}", options.get_port()))
                .arg(format!("--user={}", options.get_username()))
                .args([
                    "--execute",
                    sql,
                    options.get_database().expect("a database"),
                ]);
            mariadb
        }
        Db::Sqlite(_) => {
            let address = db.address();
            let file = address.strip_prefix("sqlite://").expect("a file");
            let mut sqlite = Command::new("sqlite3");
            sqlite.args(["-bail", "-cmd", ".timeout 5000", file, sql]);
            sqlite
        }
    };
    let ran = program.output().expect("scripts/setup has installed it");
    match ran.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
    }
}

/// What the library says for this outbox.
fn told(db: &Db) -> String {
    each!(db, pool => db.outbox().plain_sql(pool)).expect("the statements")
}

async fn the_documented_statements_publish(db: Db) {
    let told = told(&db);
    assert!(
        PAGE.contains(&told),
        "outbox/docs/plain-sql.md does not have:\n{told}"
    );
    let business = "CREATE TABLE orders (id integer)";
    db.execute(business).await;
    let begin = db.pick("BEGIN", "BEGIN", "BEGIN IMMEDIATE");
    let sql = format!("{begin};\nINSERT INTO orders VALUES (42);\n{told}COMMIT;");
    run(&db, &sql).expect("runs");
    let rows = db.rows("state = 'pending'").await;
    let [row] = rows.as_slice() else {
        panic!("one row: {rows:?}");
    };
    assert_eq!(
        (row.topic.as_str(), row.version, row.attempts),
        ("orders.placed", 1, 0)
    );
    assert_eq!(row.payload.replace(' ', ""), r#"{"order":42}"#);
}

async fn what_may_be_given_is_delivered_so(db: Db) {
    let table = db.pick(r#""public"."outbox""#, "`outbox`", r#""main"."outbox""#);
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let (key, written, unless_there) = (
        db.pick("key", "`key`", "key"),
        db.uuid(id.parse().expect("a UUID")),
        db.pick(
            "ON CONFLICT DO NOTHING",
            "ON DUPLICATE KEY UPDATE attempts = attempts",
            "ON CONFLICT DO NOTHING",
        ),
    );
    let insert = format!(
        "INSERT INTO {table} (id, topic, version, {key}, payload, headers, dedup_key) \
         VALUES ({written}, 'lab.task', 1, 'k', \
         '{{\"name\": \"by hand\", \"number\": 7}}', '{{\"tenant\": \"a\"}}', 'once') {unless_there};"
    );
    run(&db, &insert).expect("the first time");
    run(&db, &insert).expect("and nothing happens the second time");
    assert_eq!(db.count("1 = 1").await, 1);

    let lab = Lab::content();
    let relay = relay!(db, ALL, lab);
    within(LONG, relay.drain()).await.expect("drains");
    let calls = lab.calls();
    let [call] = calls.as_slice() else {
        panic!("one call: {calls:?}");
    };
    let delivery = &call.delivery;
    assert_eq!((call.name.as_str(), call.number), ("by hand", 7));
    assert_eq!(delivery.id().to_string(), id);
    assert_eq!(delivery.key(), Some("k"));
    assert_eq!(
        delivery.headers().get("tenant").map(String::as_str),
        Some("a")
    );
    all_delivered(&db).await;
}

async fn the_table_refuses_what_it_can_check(db: Db) {
    let table = db.pick(r#""public"."outbox""#, "`outbox`", r#""main"."outbox""#);
    for (columns, values) in [
        ("topic, payload", "'lab.task', 'no json'"),
        ("topic, payload, headers", "'lab.task', '{}', '[1]'"),
        ("topic, payload, version", "'lab.task', '{}', 0"),
        (
            "topic, payload, id",
            "'lab.task', '{}', 'no uuid, and too long'",
        ),
        ("payload", "'{}'"),
        ("topic", "'lab.task'"),
    ] {
        let refused = run(
            &db,
            &format!("INSERT INTO {table} ({columns}) VALUES ({values})"),
        );
        assert!(refused.is_err(), "{columns}: {values}");
    }
    assert_eq!(db.count("1 = 1").await, 0);
}

async fn a_rollback_takes_it_back(db: Db) {
    let begin = db.pick("BEGIN", "BEGIN", "BEGIN IMMEDIATE");
    run(&db, &format!("{begin};\n{}ROLLBACK;", told(&db))).expect("runs");
    assert_eq!(db.count("1 = 1").await, 0);
}

async fn the_documented_statements_wake_a_relay(db: Db) {
    let lab = Lab::new(|_: Call| async { Ok(()) });
    // By its polls it would not find the message before the test has failed.
    let relay =
        relay!(db, TASKS, lab; poll_interval(LONG * 10), listener(db.url().as_str())).spawn();
    // Once this is handled without a poll, the relay listens.
    db.publish(&Task::named("first")).await;
    lab.started(1).await;
    let sql = told(&db)
        .replace("orders.placed", "lab.task")
        .replace(r#"{"order": 42}"#, r#"{"name": "by hand", "number": 1}"#);
    for n in 2..5 {
        run(&db, &format!("BEGIN;\n{sql}COMMIT;")).expect("runs");
        lab.started(n).await;
    }
    relay.shutdown().await.expect("stops");
    eventually(LONG, || db.count("1 = 1"), |left| *left == 0).await;
}

async fn without_wakes_there_is_nothing_to_wake(db: Db) {
    let silent = db.outbox_builder().wake(false).build().expect("an outbox");
    let told = each!(db, pool => silent.plain_sql(pool)).expect("the statements");
    assert!(!told.contains("notify"), "{told}");
    let other = db
        .outbox_builder()
        .table("msg.letters")
        .build()
        .expect("an outbox");
    let told = each!(db, pool => other.plain_sql(pool)).expect("the statements");
    assert!(told.contains(r#"INTO "msg"."letters""#), "{told}");
    assert!(!told.contains("1823455867"), "its own lock: {told}");
}
