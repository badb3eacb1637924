//! Enums of messages: each event is published as the message of its variant.

use outbox::{Fate, Outbox, Publish};
use outbox_tests::{
    Db, Lab,
    lab::{ALL, ERRAND, Errand, TASK, Task},
    on_every_database, relay,
    wait::{LONG, within},
};

use crate::support::row;

on_every_database! {
    // The short forms publish to the default outbox, which knows of no pooler.
    unpooled: [
    an_event_is_published_as_the_message_of_its_variant,
    a_batch_of_events_keeps_its_order,
    one_invalid_message_stops_a_batch_of_events,
    an_event_takes_the_options_of_its_message,
    boxes_references_and_events_inside_events_are_published,
    ],
}

#[derive(Debug, Clone, outbox::Event)]
enum Chore {
    Task(Task),
    Errand { errand: Errand },
}

#[derive(outbox::Event)]
enum Household<'a> {
    Chore(Chore),
    Boxed(Box<Task>),
    Borrowed(&'a Errand),
}

fn task(name: &str) -> Chore {
    Chore::Task(Task::named(name))
}

fn errand(name: &str) -> Chore {
    Chore::Errand {
        errand: Errand {
            name: name.to_owned(),
            number: 7,
        },
    }
}

async fn an_event_is_published_as_the_message_of_its_variant(db: Db) {
    let mut tx = db.begin().await;
    let first = task("a").publish(&mut tx).await.expect("publishes");
    let second = Outbox::default().publish(&errand("b"), &mut tx).await;
    tx.commit().await;
    let (first, second) = (
        row(&db, first.id).await,
        row(&db, second.expect("publishes").id).await,
    );
    assert_eq!(
        (first.topic.as_str(), first.key.as_deref()),
        (TASK, Some("a"))
    );
    assert_eq!((second.topic.as_str(), second.key), (ERRAND, None));
    // The variant leaves no trace in the payload.
    let payload: Errand = serde_json::from_str(&second.payload).expect("an errand");
    assert_eq!(payload.name, "b");

    let lab = Lab::content();
    within(LONG, relay!(db, ALL, lab).drain())
        .await
        .expect("drains");
    let mut names: Vec<_> = lab.calls().into_iter().map(|call| call.name).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

async fn a_batch_of_events_keeps_its_order(db: Db) {
    let events = vec![task("a"), errand("b"), task("c")];
    let mut tx = db.begin().await;
    let by_reference = Chore::publish_all(&events, &mut tx).await;
    let by_value = Outbox::default().publish_all(events, &mut tx).await;
    tx.commit().await;
    for published in [by_reference, by_value] {
        let mut topics = Vec::new();
        for one in published.expect("publishes") {
            assert_eq!(one.fate, Fate::New);
            topics.push(row(&db, one.id).await.topic);
        }
        assert_eq!(topics, [TASK, ERRAND, TASK]);
    }
}

async fn one_invalid_message_stops_a_batch_of_events(db: Db) {
    let mut tx = db.begin().await;
    let refused = Outbox::default()
        .publish_all([errand("a"), task("")], &mut tx)
        .await;
    let error = refused.expect_err("a task has a name");
    assert!(error.is_invalid(), "{error}");
    // Nothing was sent, so that the transaction is as good as before.
    errand("b").publish(&mut tx).await.expect("publishes");
    tx.commit().await;
    assert_eq!(db.count("1 = 1").await, 1);
}

async fn an_event_takes_the_options_of_its_message(db: Db) {
    let mut tx = db.begin().await;
    let event = task("a");
    let publication = event.publication().dedup_key("once").key("k");
    let first = Outbox::default().publish(&publication, &mut tx).await;
    let second = publication.publish(&mut tx).await;
    tx.commit().await;
    let first = first.expect("publishes");
    assert_eq!(row(&db, first.id).await.key.as_deref(), Some("k"));
    let Fate::Duplicate { id, .. } = second.expect("publishes").fate else {
        panic!("the second has the dedup key of the first");
    };
    assert_eq!(id, first.id);
}

async fn boxes_references_and_events_inside_events_are_published(db: Db) {
    let (task_, errand_) = (
        Task::named("b"),
        Errand {
            name: "c".to_owned(),
            number: 0,
        },
    );
    let events: Vec<Box<dyn Publish + Send + Sync>> = vec![
        Box::new(Household::Chore(task("a"))),
        Box::new(Household::Boxed(Box::new(task_))),
        Box::new(errand_.clone()),
    ];
    let mut tx = db.begin().await;
    let published = Outbox::default().publish_all(&events, &mut tx).await;
    let borrowed = Household::Borrowed(&errand_).publish(&mut tx).await;
    tx.commit().await;
    let mut topics = Vec::new();
    for one in published.expect("publishes") {
        topics.push(row(&db, one.id).await.topic);
    }
    topics.push(row(&db, borrowed.expect("publishes").id).await.topic);
    assert_eq!(topics, [TASK, TASK, ERRAND, ERRAND]);
}
