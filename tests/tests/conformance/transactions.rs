//! A message exists if and only if the caller's transaction committed.

use std::future::Future;

use outbox::Fate;
use outbox_tests::{
    Db, Lab, each,
    lab::{Errand, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, within},
};
use sqlx::{Connection as _, MySql, Postgres, Sqlite, Transaction};

on_every_database! {
    all: [
        the_future_can_be_spawned,
        an_adapters_transaction_can_be_joined,
        a_commit_makes_the_message_and_a_rollback_unmakes_it,
        a_savepoint_takes_its_message_back,
        an_invalid_message_leaves_the_transaction_usable,
        publishing_takes_no_second_connection,
        a_publish_that_gets_no_answer_times_out,
    ],
    // The short forms publish to the default outbox, which knows of no pooler.
    unpooled: [without_a_transaction_nothing_is_sent, every_way_to_pass_a_transaction_works],
    // Neither MySQL nor MariaDB has anything that a commit could fail on.
    postgres: [a_commit_that_fails_leaves_no_message],
    sqlite: [a_commit_that_fails_leaves_no_message],
}

async fn without_a_transaction_nothing_is_sent(db: Db) {
    each!(db, pool => {
        let mut connection = pool.acquire().await.expect("a connection");
        let error = Task::named("alone").publish(&mut *connection).await.expect_err("no transaction is open");
        assert!(error.is_not_in_transaction(), "{error}");

        let mut tx = connection.begin().await.expect("begins");
        Task::named("in a transaction").publish(&mut *tx).await.expect("the bare connection is in a transaction");
        tx.commit().await.expect("commits");
    });
    assert_eq!(
        db.count("1 = 1").await,
        1,
        "the first attempt wrote nothing"
    );
}

#[async_trait::async_trait]
trait Business: Sync {
    async fn settle(&self, tx: &mut Transaction<'_, Postgres>) -> Result<(), outbox::Error>;
    async fn settle_elsewhere(&self, tx: &mut Transaction<'_, MySql>) -> Result<(), outbox::Error>;
    async fn settle_small(&self, tx: &mut Transaction<'_, Sqlite>) -> Result<(), outbox::Error>;
}

struct Shop;

#[async_trait::async_trait]
impl Business for Shop {
    async fn settle(&self, tx: &mut Transaction<'_, Postgres>) -> Result<(), outbox::Error> {
        Task::named("passed on").publish(tx).await?;
        Task::named("passed on again").publish(tx).await?;
        Ok(())
    }

    async fn settle_elsewhere(&self, tx: &mut Transaction<'_, MySql>) -> Result<(), outbox::Error> {
        Task::named("passed on").publish(tx).await?;
        Task::named("passed on again").publish(tx).await?;
        Ok(())
    }

    async fn settle_small(&self, tx: &mut Transaction<'_, Sqlite>) -> Result<(), outbox::Error> {
        Task::named("passed on").publish(tx).await?;
        Task::named("passed on again").publish(tx).await?;
        Ok(())
    }
}

async fn every_way_to_pass_a_transaction_works(db: Db) {
    each!(db, pool => {
        let mut tx = pool.begin().await.expect("begins");
        Task::named("by the transaction").publish(&mut tx).await.expect("publishes");
        Task::named("by its connection").publish(&mut *tx).await.expect("publishes");
        Task::named("with options").publication().header("a", "b").publish(&mut tx).await.expect("publishes");
        Task::publish_all(&[Task::named("many")], &mut tx).await.expect("publishes");
        outbox::Outbox::default().publish(&Task::named("by the outbox"), &mut tx).await.expect("publishes");
        tx.commit().await.expect("commits");
    });
    match &db {
        Db::Postgres(db) => {
            let mut tx = db.pool.begin().await.expect("begins");
            Shop.settle(&mut tx).await.expect("publishes");
            tx.commit().await.expect("commits");
        }
        Db::Mysql(db) => {
            let mut tx = db.pool.begin().await.expect("begins");
            Shop.settle_elsewhere(&mut tx).await.expect("publishes");
            tx.commit().await.expect("commits");
        }
        Db::Sqlite(db) => {
            let mut tx = db.pool.begin().await.expect("begins");
            Shop.settle_small(&mut tx).await.expect("publishes");
            tx.commit().await.expect("commits");
        }
    }
    assert_eq!(db.count("state = 'pending'").await, 7);
}

/// What web frameworks ask of a handler.
fn servable<F: Future<Output = ()> + Send + 'static>(
    handler: impl Fn(Db) -> F,
) -> impl Fn(Db) -> F {
    handler
}

async fn the_future_can_be_spawned(db: Db) {
    let handler = servable(|db: Db| async move {
        let message = Task::named("from a spawned task");
        each!(db, pool => {
            let mut tx = pool.begin().await.expect("begins");
            db.outbox().publish(&message, &mut tx).await.expect("publishes");
            tx.commit().await.expect("commits");
        });
    });
    tokio::spawn(handler(db.clone()))
        .await
        .expect("the task ends");
    assert_eq!(db.count("state = 'pending'").await, 1);
}

async fn an_adapters_transaction_can_be_joined(db: Db) {
    // `Tx` is not sqlx's type: this crate's `impl Enlist<Adapter> for Tx` makes it one to publish on.
    let mut tx = db.begin().await;
    let one = db
        .outbox()
        .publish(&Task::named("by an adapter"), &mut tx)
        .await
        .expect("publishes");
    let many = db
        .outbox()
        .publish_all(Task::numbered(2), &mut tx)
        .await
        .expect("publishes");
    let (task, errand) = (
        Task::named("mixed"),
        Errand {
            name: "mixed".to_owned(),
            number: 1,
        },
    );
    let mixed = [task.publication(), errand.publication()];
    let mixed = db
        .outbox()
        .publish_all(mixed, &mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
    assert_eq!(one.fate, Fate::New);
    assert_eq!((many.len(), mixed.len()), (2, 2));
    assert_eq!(db.count("topic = 'lab.task'").await, 4);
    assert_eq!(db.count("topic = 'lab.errand'").await, 1);
}

async fn a_commit_makes_the_message_and_a_rollback_unmakes_it(db: Db) {
    let mut tx = db.begin().await;
    let kept = Task::named("kept")
        .publication()
        .dedup_key("k")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.rollback().await;
    assert!(
        db.row(kept.id).await.is_none(),
        "rolled back with its transaction"
    );

    let mut tx = db.begin().await;
    let kept = Task::named("kept")
        .publication()
        .dedup_key("k")
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    assert_eq!(
        kept.fate,
        Fate::New,
        "the key of a message that was rolled back is free"
    );
    tx.commit().await;
    assert!(db.row(kept.id).await.is_some());
}

async fn a_savepoint_takes_its_message_back(db: Db) {
    db.execute("CREATE TABLE business (id integer PRIMARY KEY)")
        .await;
    each!(db, pool => {
        let mut tx = pool.begin().await.expect("begins");
        let mut savepoint = tx.begin().await.expect("a savepoint");
        sqlx::query("INSERT INTO business VALUES (1)").execute(&mut *savepoint).await.expect("inserts");
        db.outbox().publish(&Task::named("in the savepoint"), &mut savepoint).await.expect("publishes");
        savepoint.rollback().await.expect("rolls back");
        sqlx::query("INSERT INTO business VALUES (2)").execute(&mut *tx).await.expect("inserts");
        tx.commit().await.expect("commits");
    });
    assert_eq!(
        (
            db.scalar(&format!("SELECT {} FROM business", db.as_number("max(id)")))
                .await,
            db.count("1 = 1").await
        ),
        (2, 0)
    );
    let lab = Lab::content();
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(
        (counts.claimed, lab.calls().len()),
        (0, 0),
        "there is nothing to deliver"
    );
}

async fn a_commit_that_fails_leaves_no_message(db: Db) {
    db.execute("CREATE TABLE parent (id integer PRIMARY KEY)")
        .await;
    db.execute(
        "CREATE TABLE child (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let mut tx = db.begin().await;
    db.outbox()
        .publish(&Task::named("of an orphan"), &mut tx)
        .await
        .expect("publishes");
    tx.execute("INSERT INTO child VALUES (1)").await;
    tx.try_commit().await.expect_err("the child has no parent");
    assert_eq!(db.count("1 = 1").await, 0);
}

async fn an_invalid_message_leaves_the_transaction_usable(db: Db) {
    db.execute("CREATE TABLE business (id integer PRIMARY KEY)")
        .await;
    let mut tx = db.begin().await;
    tx.execute("INSERT INTO business VALUES (1)").await;
    let bad = Task {
        name: String::new(),
        number: -1,
    };

    let error = db
        .outbox()
        .publish(&bad, &mut tx)
        .await
        .expect_err("the name is empty and the number negative");
    assert!(error.is_invalid(), "{error}");
    let fields: Vec<_> = error
        .invalid()
        .expect("the rules")
        .fields()
        .map(|(path, _)| path.to_owned())
        .collect();
    assert_eq!(fields, ["name", "number"], "each broken rule is named");

    let error = db
        .outbox()
        .publish_all(&[Task::named("good"), bad], &mut tx)
        .await
        .expect_err("one of two is invalid");
    assert!(error.is_invalid(), "{error}");

    tx.execute("INSERT INTO business VALUES (2)").await;
    tx.commit().await;
    assert_eq!(db.scalar("SELECT count(*) FROM business").await, 2);
    assert_eq!(
        db.count("1 = 1").await,
        0,
        "the good neighbour of a bad message is not written either"
    );
}

async fn publishing_takes_no_second_connection(db: Db) {
    let single = db.another_pool(1).await;
    let mut tx = single.begin().await;
    let published = within(LONG, db.outbox().publish_all(Task::numbered(50), &mut tx))
        .await
        .expect("publishes");
    within(LONG, tx.commit()).await;
    assert_eq!(published.len(), 50);
    assert_eq!(single.count("1 = 1").await, 50);
}

async fn a_publish_that_gets_no_answer_times_out(db: Db) {
    let outbox = db
        .outbox_builder()
        .publish_timeout(outbox_tests::wait::millis(300))
        .build()
        .expect("the outbox's settings are right");
    // Somebody else keeps the table (or the file) to himself.
    let mut blocker = db.begin().await;
    blocker
        .execute(db.pick(
            "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE",
            "SELECT 1 FROM outbox FOR UPDATE",
            "DELETE FROM outbox",
        ))
        .await;

    each!(db, pool => {
        let mut tx = pool.begin().await.expect("begins");
        let error = within(LONG, outbox.publish(&Task::named("late"), &mut tx)).await.expect_err("nobody answers");
        assert!(error.is_timeout(), "{error}");
        assert!(error.to_string().contains("roll the transaction back"), "the text says what to do: {error}");
        blocker.rollback().await;
        within(LONG, tx.rollback()).await.expect("rolls back");
    });
    assert_eq!(db.count("1 = 1").await, 0);
    db.publish(&Task::named("afterwards")).await;
}
