//! Defaults of a role or a database that a relay must not depend on, and connections of its own.

use std::time::Duration;

use outbox_tests::{
    Call, Db, Gate, Lab, each, eventually,
    lab::{TASKS, Task},
    on_every_database, relay, try_relay,
    wait::{LONG, secs, within},
};

use crate::support::{all_delivered, delivered, in_state};

on_every_database! {
    all: [the_pool_belongs_to_the_handlers, the_relay_holds_none_of_the_pools_connections],
    servers: [handlers_run_outside_the_relays_transactions],
    // A pooler has one role, and sessions that the publishers and the relay share.
    direct: [
        defaults_of_the_database_do_not_reach_the_relay,
        timeouts_of_the_role_do_not_reach_the_relay,
        no_statement_is_compiled,
        a_relay_needs_no_right_to_change_the_schema,
        the_rights_that_the_documentation_lists_are_enough,
    ]
}

async fn the_pool_belongs_to_the_handlers(db: Db) {
    db.execute("CREATE TABLE effects (id integer PRIMARY KEY)")
        .await;
    let small = db.another_pool(2).await;
    let lab = Lab::new({
        let small = small.clone();
        move |call: Call| {
            let small = small.clone();
            async move {
                small
                    .execute(&format!("INSERT INTO effects VALUES ({})", call.number))
                    .await;
                Ok(())
            }
        }
    });
    db.publish_all(&Task::numbered(100)).await;
    let running = relay!(small, TASKS, lab; concurrency(50)).spawn();
    all_delivered(&db).await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(db.scalar("SELECT count(*) FROM effects").await, 100);
    assert_eq!((counts.delivered, counts.lease_lost), (100, 0));
}

async fn the_relay_holds_none_of_the_pools_connections(db: Db) {
    let small = db.another_pool(2).await;
    let lab = Lab::content();
    let running = relay!(small, TASKS, lab).spawn();
    each!(small, pool => {
        // The application uses up its own pool; the relay goes on.
        let one = within(LONG, pool.acquire()).await.expect("a connection");
        let two = within(LONG, pool.acquire()).await.expect("another one");
        let id = db.publish(&Task::named("meanwhile")).await.id;
        delivered(&db, id).await;
        drop((one, two));
    });
    running.shutdown().await.expect("stops");
}

/// Sets defaults for all sessions that connect from now on.
async fn set_defaults(db: &Db, settings: &[(&str, &str)]) {
    let Db::Postgres(inner) = db else {
        unreachable!("this test is for Postgres")
    };
    for (name, value) in settings {
        db.execute(&format!(
            "ALTER DATABASE {} SET {name} = '{value}'",
            inner.name()
        ))
        .await;
    }
}

/// Renewing them may take long where each change of a row lingers.
const LEASE: Duration = secs(3);

/// Delivers, retries, gives up, and takes over on a database whose sessions have these defaults.
async fn all_steps_work(db: &Db) {
    let lab = Lab::new(|call: Call| async move {
        match (call.name.as_str(), call.delivery.attempt()) {
            ("retried", 1) => Err(outbox::HandlerError::retry("again")),
            ("dead", _) => Err(outbox::HandlerError::cancel("no")),
            ("long", _) => {
                tokio::time::sleep(LEASE * 5 / 2).await;
                Ok(())
            }
            _ => Ok(()),
        }
    });
    // The test's own sessions are as before, those that the relay opens are not.
    let fresh = db.another_pool(3).await;
    let ids = db
        .publish_all(&["delivered", "retried", "dead", "long"].map(Task::named))
        .await;
    let columns = [
        ("state", "'processing'"),
        ("unsettled", "1"),
        ("attempts", "1"),
        ("leased_until", "now()"),
    ];
    let lapsed = crate::support::insert(db, "lapsed", &columns).await;
    let running = relay!(fresh, TASKS, lab; lease(LEASE), store_timeout(secs(20))).spawn();
    in_state(db, ids[2], "dead").await;
    for id in [ids[0], ids[1], ids[3], lapsed] {
        delivered(db, id).await;
    }
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(
        (
            counts.delivered,
            counts.retried,
            counts.dead,
            counts.lease_lost
        ),
        (4, 1, 1, 0),
        "{counts:?}"
    );
    assert_eq!(lab.starts(ids[3]), 1, "its lease was renewed");
}

/// Opens the test's own connections, so that later defaults don't reach them.
async fn warm(db: &Db) {
    each!(db, pool => {
        let mut held = Vec::new();
        for _ in 0..outbox_tests::db::POOL {
            held.push(pool.acquire().await.expect("a connection"));
        }
    });
}

async fn defaults_of_the_database_do_not_reach_the_relay(db: Db) {
    warm(&db).await;
    for isolation in ["repeatable read", "serializable"] {
        set_defaults(
            &db,
            &[
                ("default_transaction_isolation", isolation),
                ("default_transaction_read_only", "on"),
                ("default_transaction_deferrable", "on"),
                ("search_path", ""),
                ("timezone", "Asia/Kathmandu"),
                ("datestyle", "SQL, DMY"),
                ("intervalstyle", "sql_standard"),
            ],
        )
        .await;
        all_steps_work(&db).await;
    }
}

async fn timeouts_of_the_role_do_not_reach_the_relay(db: Db) {
    warm(&db).await;
    // Every change of a row takes longer than what the role is allowed.
    db.execute(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(0.2); RETURN coalesce(NEW, OLD); END $$; \
         CREATE TRIGGER linger BEFORE UPDATE OR DELETE ON outbox FOR EACH STATEMENT EXECUTE FUNCTION linger()",
    )
    .await;
    set_defaults(
        &db,
        &[
            ("statement_timeout", "100ms"),
            ("idle_in_transaction_session_timeout", "100ms"),
        ],
    )
    .await;
    all_steps_work(&db).await;
}

/// A server that compiles costly plans takes hundreds of milliseconds for it: here it compiles them all.
async fn no_statement_is_compiled(db: Db) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    set_defaults(&db, &[("jit_above_cost", "0")]).await;
    let costly = db.reopened().await;
    let compiled = "SELECT CAST(coalesce(sum(jit_functions), 0) AS bigint) FROM pg_stat_statements \
                    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                    AND query LIKE '%\"outbox%'";
    let sum = "SELECT CAST(sum(attempts) AS bigint) FROM public.\"outbox\"";
    db.publish_all(&Task::numbered(5)).await;
    costly.scalar(sum).await;
    let by_the_test = db.scalar(compiled).await;
    assert!(by_the_test > 0, "this server can compile");
    within(LONG, relay!(costly, TASKS, Lab::content()).drain())
        .await
        .expect("drains");
    each!(costly, pool => {
        let outbox = db.outbox();
        outbox.stats(pool).await.expect("counts");
        outbox.dead_letters(pool).list().await.expect("lists");
        outbox.dead_letters(pool).redrive_all().await.expect("redrives");
        outbox.purge(pool).dead(secs(1)).run().await.expect("purges");
    });
    assert_eq!(db.scalar(compiled).await, by_the_test);
}

async fn handlers_run_outside_the_relays_transactions(db: Db) {
    let gate = Gate::closed();
    let lab = Lab::new({
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(())
            }
        }
    });
    let id = db.publish(&Task::named("slow")).await.id;
    let running = relay!(db, TASKS, lab; poll_interval(secs(60)), lease(secs(600))).spawn();
    lab.started(1).await;
    let open = db.open_transactions();
    // What is locked, there, belongs to an open transaction.
    let locks = db.pick(
        "SELECT count(*) FROM pg_locks WHERE relation = 'public.outbox'::regclass AND pid <> pg_backend_pid()",
        open,
        open,
    );
    // The relay may still look for more, before it waits for its next poll.
    eventually(
        LONG,
        || async { (db.scalar(open).await, db.scalar(locks).await) },
        |held| *held == (0, 0),
    )
    .await;
    gate.open();
    delivered(&db, id).await;
    running.shutdown().await.expect("stops");
}

async fn a_relay_needs_no_right_to_change_the_schema(db: Db) {
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    let role = format!("{}_app", inner.name());
    db.execute(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT, UPDATE ON outbox, outbox_relays TO {role}; \
         GRANT SELECT ON outbox_history TO {role}"
    ))
    .await;
    let limited = db.as_role(&role);
    let error = try_relay!(limited, TASKS, Lab::content()).expect_err("it could never settle");
    assert!(error.is_config(), "{error}");
    let text = error.to_string();
    let (says, grants) = text.split_once("run: ").expect("what to do");
    assert!(
        says.contains(&format!(
            "\"{role}\" lacks rights: DELETE on \"public\".\"outbox\", DELETE on \
             \"public\".\"outbox_relays\", SELECT on \"public\".\"outbox_paused\";"
        )),
        "{says}"
    );
    db.execute(grants).await;
    let id = limited.publish(&Task::named("by the role")).await.id;
    let lab = Lab::content();
    let running = relay!(limited, TASKS, lab).spawn();
    delivered(&db, id).await;
    running.shutdown().await.expect("stops");
    each!(limited, pool => outbox::check(pool).await)
        .expect("the check needs no more rights either");
    db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

async fn the_rights_that_the_documentation_lists_are_enough(db: Db) {
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    let page = include_str!("../../../outbox/docs/migrations.md");
    let (_, rest) = page.split_once("```sql").expect("the GRANTs");
    let (grants, _) = rest.split_once("```").expect("their end");
    let role = |name: &str| format!("{}_{name}", inner.name());
    let mut sql = String::new();
    for name in ["app", "relay", "operator"] {
        sql.push_str(&format!("CREATE ROLE {} LOGIN;", role(name)));
    }
    // The operator's come on top of the relay's.
    sql.push_str(&format!("GRANT {} TO {};", role("relay"), role("operator")));
    for line in grants.lines() {
        let line = ["app", "relay", "operator"]
            .iter()
            .fold(line.to_owned(), |line, name| {
                line.replace(&format!("TO {name};"), &format!("TO {};", role(name)))
            });
        sql.push_str(&line);
        sql.push('\n');
    }
    db.execute(&sql).await;

    let id = db
        .as_role(&role("app"))
        .publish(&Task::named("ok"))
        .await
        .id;
    let bad = db
        .as_role(&role("app"))
        .publish(&Task::named("bad"))
        .await
        .id;
    let lab = Lab::new(|call: Call| async move {
        match call.name.as_str() {
            "bad" => Err(outbox::HandlerError::cancel("no use")),
            _ => Ok(()),
        }
    });
    let retention = outbox::Retention::new().discarded(secs(3_600));
    let relay = db.as_role(&role("relay"));
    let relay = relay!(relay, TASKS, lab; retention(retention)).spawn();
    delivered(&db, id).await;
    in_state(&db, bad, "dead").await;
    let duties = "SELECT count(*) FROM outbox_duties";
    eventually(LONG, || db.scalar(duties), |duties| *duties == 1).await;
    relay.shutdown().await.expect("stops");

    let operator = db.as_role(&role("operator"));
    each!(operator, pool => {
        let outbox = db.outbox();
        outbox.stats(pool).await.expect("counts");
        assert!(outbox.dead_letters(pool).redrive(bad).await.expect("redrives"));
        outbox.pause(pool, "lab.task", None).await.expect("pauses");
        outbox.resume(pool, "lab.task").await.expect("resumes");
        let dead = crate::support::insert(&db, "dead", &[("state", "'dead'")]).await;
        assert!(outbox.dead_letters(pool).discard(dead, "no").await.expect("discards"));
        outbox.purge(pool).dead(secs(1)).discarded(secs(1)).run().await.expect("purges");
    });
    for name in ["operator", "relay", "app"] {
        let role = role(name);
        db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
            .await;
    }
}
