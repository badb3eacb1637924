//! Publishers wake relays only while one waits: a NOTIFY in each transaction would make all commits of the
//! database wait for each other. The relays here poll so rarely that what is delivered in time was not polled.

use std::time::{Duration, Instant};

use outbox::Outbox;
use outbox_tests::{
    Db, Lab, Server, eventually,
    lab::{ERRANDS, Errand, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs},
    worker::{Settings, Workers},
};
use sqlx::{AssertSqlSafe, postgres::PgListener};

use crate::support::delivered;

on_every_database! {
    all: [],
    postgres: [
        nobody_is_woken_where_nobody_waits,
        a_burst_carries_few_wakes,
        what_was_published_in_silence_is_looked_for,
        what_comes_late_is_looked_for_however_long_looks_take,
        a_lookout_has_a_successor,
        publishers_are_asked_by_one_relay,
        a_lookout_that_stands_still_lets_publishers_go,
    ],
    direct: [a_transaction_can_be_prepared_where_nobody_is_woken]
}

const HARDLY_EVER: Duration = secs(600);

/// The lookouts that have asked to be woken.
const ARMED: &str = "SELECT count(*) FROM pg_locks \
    WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND classid = x'6f757462'::int \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

async fn armed(db: &Db) {
    eventually(LONG, || db.scalar(ARMED), |armed| *armed == 1).await;
}

/// Hears what relays hear.
struct Overheard(PgListener);

impl Overheard {
    async fn of(db: &Db) -> Self {
        // The lookout's lock and the channel are of one number.
        let number = "SELECT objid::bigint FROM pg_locks \
            WHERE locktype = 'advisory' AND classid = x'6f757462'::int AND granted \
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let channel = format!("outbox_{:08x}", db.scalar(number).await);
        let mut listener = PgListener::connect(&db.url()).await.expect("connects");
        listener.listen(&channel).await.expect("listens");
        Self(listener)
    }

    /// How many wakes there have been since the last time.
    async fn wakes(&mut self) -> usize {
        let mut wakes = 0;
        // What was sent before has arrived when this is answered.
        sqlx::query("SELECT 1")
            .execute(&mut self.0)
            .await
            .expect("answers");
        while let Some(heard) = self.0.next_buffered() {
            wakes += usize::from(heard.payload().is_empty());
        }
        wakes
    }
}

async fn nobody_is_woken_where_nobody_waits(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(db.url())).spawn();
    armed(&db).await;
    let mut overheard = Overheard::of(&db).await;
    let id = db.publish(&Task::named("awaited")).await.id;
    delivered(&db, id).await;
    assert!(overheard.wakes().await >= 1);

    relay.shutdown().await.expect("stops");
    eventually(LONG, || db.scalar(ARMED), |armed| *armed == 0).await;
    overheard.wakes().await;
    for n in 0..20 {
        db.publish(&Task::named(&format!("unawaited {n}"))).await;
    }
    assert_eq!(overheard.wakes().await, 0);
}

async fn a_burst_carries_few_wakes(db: Db) {
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(db.url())).spawn();
    armed(&db).await;
    let mut overheard = Overheard::of(&db).await;
    let began = Instant::now();
    for n in 0..300 {
        db.publish(&Task::named(&format!("one of many {n}"))).await;
    }
    let wakes = overheard.wakes().await;
    // A wake is followed by 10 ms of silence; until publishers are told of that, some may follow it.
    let most = began.elapsed().as_millis() as usize / 10 * 3 + 3;
    assert!(wakes <= most, "{wakes} wakes in {:?}", began.elapsed());
    crate::support::all_delivered(&db).await;
    relay.shutdown().await.expect("stops");
}

async fn what_was_published_in_silence_is_looked_for(db: Db) {
    let mut silent = db.begin().await;
    let task = Task::named("in silence");
    let errand = Errand {
        name: "in silence".to_owned(),
        number: 0,
    };
    let published = db.outbox().publish(&task, &mut silent).await;
    let task = published.expect("publishes").id;
    let published = db.outbox().publish(&errand, &mut silent).await;
    let errand = published.expect("publishes").id;
    let lab = Lab::content();
    let lookout = relay!(db, TASKS, lab; poll_interval(HARDLY_EVER), listener(db.url())).spawn();
    // It is heard of while the silent one is still open, which is not to be waited for.
    let other = db.publish(&Task::named("heard of")).await.id;
    delivered(&db, other).await;
    // This one has nobody but the lookout to tell it.
    let told = relay!(db, ERRANDS, lab; poll_interval(HARDLY_EVER), listener(db.url())).spawn();
    tokio::time::sleep(millis(1_500)).await;
    silent.commit().await;
    delivered(&db, task).await;
    delivered(&db, errand).await;
    lookout.shutdown().await.expect("stops");
    told.shutdown().await.expect("stops");
}

async fn what_comes_late_is_looked_for_however_long_looks_take(db: Db) {
    let (slow, proxy) = db.behind_a_proxy().await;
    let lab = Lab::content();
    let relay = relay!(slow, TASKS, lab; poll_interval(HARDLY_EVER), listener(db.url())).spawn();
    armed(&db).await;
    let mut late = db.begin().await;
    let published = db.outbox().publish(&Task::named("late"), &mut late).await;
    let late_id = published.expect("publishes").id;
    // Looks allow for a transaction of a second.
    tokio::time::sleep(millis(1_200)).await;
    // From here on a look takes so long that it is not repeated for some seconds.
    proxy.delay(millis(150));
    let mut tx = db.begin().await;
    let task = Task::named("put off");
    let task = task.publication().delay(secs(3_600)).to(&db.outbox());
    let put_off = task.publish(&mut tx).await.expect("publishes").id;
    tx.commit().await;
    let mut tx = db.begin().await;
    let called_in = db
        .outbox()
        .reschedule(put_off, Duration::ZERO, &mut tx)
        .await;
    called_in.expect("reschedules");
    tx.commit().await;
    delivered(&db, put_off).await;
    late.commit().await;
    delivered(&db, late_id).await;
    relay.shutdown().await.expect("stops");
}

async fn a_lookout_has_a_successor(db: Db) {
    let first = relay!(db, TASKS, Lab::content(); poll_interval(HARDLY_EVER), lease(secs(1)), listener(db.url()));
    let first = first.spawn();
    armed(&db).await;
    let second = relay!(db, TASKS, Lab::content(); poll_interval(HARDLY_EVER), lease(secs(1)), listener(db.url()));
    let second = second.spawn();
    let id = db.publish(&Task::named("with two")).await.id;
    delivered(&db, id).await;
    first.shutdown().await.expect("stops");
    armed(&db).await;
    let id = db.publish(&Task::named("with the second")).await.id;
    delivered(&db, id).await;
    second.shutdown().await.expect("stops");
}

async fn publishers_are_asked_by_one_relay(db: Db) {
    let relay = async || {
        let relay =
            relay!(db, TASKS, Lab::content(); poll_interval(HARDLY_EVER), listener(db.url()));
        relay.spawn()
    };
    let relays = [relay().await, relay().await, relay().await];
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND application_name = 'outbox listener' AND query LIKE '%pg_try_advisory_lock%'";
    eventually(LONG, || db.scalar(asked), |asked| *asked == 3).await;
    let lookouts = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = x'6f757463'::int \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(db.scalar(lookouts).await, 1);
    for relay in relays {
        relay.shutdown().await.expect("stops");
    }
}

async fn a_lookout_that_stands_still_lets_publishers_go(db: Db) {
    let workers = Workers::new(env!("CARGO_BIN_EXE_worker"), &db);
    let worker = workers.relay(&Settings {
        listener: true,
        lease: secs(3),
        poll_interval: HARDLY_EVER,
        ..Settings::default()
    });
    armed(&db).await;
    let mut overheard = Overheard::of(&db).await;
    worker.pause();
    // Three heartbeats of a second each, after which the server ends its sessions.
    eventually(LONG, || db.scalar(ARMED), |armed| *armed == 0).await;
    overheard.wakes().await;
    let id = db.publish(&Task::named("meanwhile")).await.id;
    assert_eq!(overheard.wakes().await, 0, "nobody waits for it");
    worker.resume();
    delivered(&db, id).await;
    armed(&db).await;
}

async fn a_transaction_can_be_prepared_where_nobody_is_woken(_: Db) {
    let server = Server::started_with(&["max_prepared_transactions=2"]);
    let db = Db::on(&server).await;
    let relay =
        relay!(db, TASKS, Lab::content(); poll_interval(millis(200)), listener(db.url())).spawn();
    armed(&db).await;
    let silent = db.outbox_builder().wake(false).build().expect("an outbox");
    let prepare = async |outbox: &Outbox, name: &str| {
        let Db::Postgres(inner) = &db else {
            unreachable!("this test is for Postgres")
        };
        let mut tx = inner.pool.begin().await.expect("begins");
        let published = outbox.publish(&Task::named(name), &mut tx).await;
        let id = published.expect("publishes").id;
        let prepare = format!("PREPARE TRANSACTION '{name}'");
        let prepared = sqlx::query(AssertSqlSafe(prepare)).execute(&mut *tx).await;
        prepared.map(|_| id)
    };
    let refused = prepare(&db.outbox(), "loud")
        .await
        .expect_err("it carries a NOTIFY");
    assert!(refused.to_string().contains("NOTIFY"), "{refused}");
    let id = prepare(&silent, "silent").await.expect("prepares");
    db.execute("COMMIT PREPARED 'silent'").await;
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");
}
