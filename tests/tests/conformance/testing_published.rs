//! The test kit: what a transaction has published.

use std::{collections::BTreeMap, time::Duration};

use outbox::{
    Enlist as _, Message,
    testing::{Undelivered, published, published_to},
};
use outbox_tests::{
    Db, Tx, each,
    lab::{Errand, Order, Task},
    on_every_database,
    wait::secs,
};
use uuid::Uuid;

use crate::support::insert;

on_every_database! {
    all: [
        a_transaction_tells_what_it_has_published,
        nothing_is_published_by_a_rollback,
        what_has_ended_is_published_no_more,
        a_row_that_is_no_message_is_named_with_its_field,
    ],
    unpooled: [a_transaction_of_sqlx_tells_by_the_short_form]
}

/// What the transaction has published of this type.
pub(crate) async fn seen<M: Message>(db: &Db, tx: &mut Tx) -> Vec<Undelivered<M>> {
    let mut enlisted = tx.enlist().expect("a transaction is open");
    published_to(&db.outbox(), &mut enlisted)
        .await
        .expect("its rows are messages")
}

/// What anybody sees.
pub(crate) async fn committed<M: Message>(db: &Db) -> Vec<Undelivered<M>> {
    let mut tx = db.begin().await;
    let seen = seen(db, &mut tx).await;
    tx.rollback().await;
    seen
}

pub(crate) fn errand(name: &str) -> Errand {
    Errand {
        name: name.to_owned(),
        number: 0,
    }
}

async fn a_transaction_tells_what_it_has_published(db: Db) {
    let outbox = db.outbox();
    let tasks = Task::numbered(20);
    let mut tx = db.begin().await;
    assert!(seen::<Task>(&db, &mut tx).await.is_empty());
    // Ids against the order of publishing.
    let mut ids: Vec<_> = tasks.iter().map(|_| Uuid::now_v7()).collect();
    ids.reverse();
    let publications = tasks.iter().zip(&ids);
    let publications = publications.map(|(task, id)| task.publication().id(*id));
    outbox
        .publish_all(publications, &mut tx)
        .await
        .expect("publishes");
    let later = Task::named("later");
    let options = later
        .publication()
        .delay(secs(90))
        .dedup_key("once")
        .header("tenant", "a")
        .key("other");
    let id = outbox
        .publish(&options, &mut tx)
        .await
        .expect("publishes")
        .id;
    outbox
        .publish(&errand("bread"), &mut tx)
        .await
        .expect("publishes");

    let found = seen::<Task>(&db, &mut tx).await;
    assert_eq!(found[..20], tasks[..], "in the order of publishing");
    assert_eq!(
        found[..20].iter().map(|one| one.id).collect::<Vec<_>>(),
        ids
    );
    let first = &found[0];
    assert_eq!(
        (first.number, first.delay),
        (1, Duration::ZERO),
        "it can be read as the message"
    );
    assert_eq!(
        (
            first.key.as_deref(),
            first.dedup_key.as_deref(),
            first.headers.len()
        ),
        (Some("task"), None, 0)
    );
    let [last] = &found[20..] else {
        panic!("one more: {found:?}")
    };
    assert_eq!((&last.message, last.id), (&later, id));
    assert_eq!(
        (last.delay, last.key.as_deref(), last.dedup_key.as_deref()),
        (secs(90), Some("other"), Some("once"))
    );
    assert_eq!(
        last.headers,
        BTreeMap::from([("tenant".to_owned(), "a".to_owned())])
    );
    assert_eq!(seen::<Errand>(&db, &mut tx).await, [errand("bread")]);
    assert!(seen::<Order>(&db, &mut tx).await.is_empty());

    tx.commit().await;
    assert_eq!(committed::<Errand>(&db).await, [errand("bread")]);
}

async fn nothing_is_published_by_a_rollback(db: Db) {
    let mut tx = db.begin().await;
    db.outbox()
        .publish(&errand("bread"), &mut tx)
        .await
        .expect("publishes");
    assert_eq!(seen::<Errand>(&db, &mut tx).await, [errand("bread")]);
    tx.rollback().await;
    assert!(committed::<Errand>(&db).await.is_empty());
}

async fn a_transaction_of_sqlx_tells_by_the_short_form(db: Db) {
    let bread = errand("bread");
    each!(db, pool => {
        let mut tx = pool.begin().await.expect("begins");
        bread.publish(&mut tx).await.expect("publishes");
        assert_eq!(published::<Errand>(&mut tx).await.expect("reads"), [errand("bread")]);
        assert_eq!(published::<Errand>(&mut *tx).await.expect("reads"), [errand("bread")]);
        tx.rollback().await.expect("rolls back");

        let mut connection = pool.acquire().await.expect("a connection");
        let error = published::<Errand>(&mut *connection).await.expect_err("no transaction is open");
        assert!(error.is_not_in_transaction(), "{error}");
    });
}

async fn what_has_ended_is_published_no_more(db: Db) {
    for state in ["delivered", "dead", "pending"] {
        insert(&db, state, &[("state", &format!("'{state}'"))]).await;
    }
    let lease = db.ahead(secs(60));
    let columns = [
        ("state", "'processing'"),
        ("unsettled", "1"),
        ("leased_until", &*lease),
    ];
    insert(&db, "processing", &columns).await;
    let future = [("version", "2")];
    insert(&db, "future", &future).await;
    assert_eq!(
        committed::<Task>(&db).await,
        [Task::named("pending"), Task::named("processing")]
    );
}

async fn a_row_that_is_no_message_is_named_with_its_field(db: Db) {
    let rows = [
        (
            r#"{"lines":[{"article":"secret","quantity":"many"}]}"#,
            "NULL",
            "`lines[0].quantity`",
        ),
        (
            r#"{"lines":[{"article":"secret","quantity":0}]}"#,
            "NULL",
            "`lines[0].quantity`",
        ),
        (r#"{"lines":[]}"#, r#"'{"tenant":7}'"#, "headers"),
    ];
    for (payload, headers, what) in rows {
        db.execute(&format!(
            "DELETE FROM outbox; \
             INSERT INTO outbox (topic, payload, headers) VALUES ('lab.order', '{payload}', {headers})"
        ))
        .await;
        let mut tx = db.begin().await;
        let mut enlisted = tx.enlist().expect("a transaction is open");
        let error = published_to::<Order>(&db.outbox(), &mut enlisted)
            .await
            .expect_err("it is no order");
        let id = db.rows("1 = 1").await[0].id.to_string();
        let text = error.to_string();
        assert!(error.is_invalid(), "{text}");
        assert!(
            text.contains(what) && text.contains("lab.order") && text.contains(&id),
            "{text}"
        );
        assert!(!text.contains("secret") && !text.contains("many"), "{text}");
        tx.rollback().await;
    }
}
