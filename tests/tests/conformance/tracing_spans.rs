//! What is said through `tracing`: one span per delivery, and never what a message carries.

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Lab, eventually,
    lab::{TASK, TASKS, Task},
    on_every_database, relay,
    trace::{Record, records, watch},
    wait::LONG,
};
use uuid::Uuid;

use crate::support::{delivered, in_state};

on_every_database![
    each_delivery_has_a_span_of_its_own,
    neither_payload_nor_headers_are_told,
];

fn deliveries(id: Uuid) -> Vec<Record> {
    let mut all = records(id);
    all.retain(|record| record.name == "outbox.delivery");
    all
}

async fn publish(db: &Db, id: Uuid, name: &str) {
    let task = Task::named(name);
    let mut tx = db.begin().await;
    let publication = task.publication().id(id).header("tenant", "secret-header");
    publication
        .to(&db.outbox())
        .publish(&mut tx)
        .await
        .expect("publishes");
    tx.commit().await;
}

async fn each_delivery_has_a_span_of_its_own(db: Db) {
    let id = Uuid::now_v7();
    watch(id);
    let lab = Lab::new(|call: Call| async move {
        tracing::info!("the handler says so");
        match call.delivery.attempt() {
            1 => Err(HandlerError::retry("again")),
            _ => Ok(()),
        }
    });
    let relay = relay!(db, TASKS, lab).spawn();
    publish(&db, id, "task").await;
    delivered(&db, id).await;
    relay.shutdown().await.expect("stops");

    let spans = deliveries(id);
    let told: Vec<_> = spans
        .iter()
        .map(|span| ["topic", "handler", "attempt"].map(|field| span.fields[field].as_str()))
        .collect();
    assert_eq!(told, [[TASK, "run_task", "1"], [TASK, "run_task", "2"]]);
    assert!(spans.iter().all(|span| span.closed), "none stays open");
    let inside: Vec<_> = records(id)
        .into_iter()
        .filter(|record| {
            record
                .fields
                .get("message")
                .is_some_and(|text| text == "the handler says so")
        })
        .collect();
    assert_eq!(inside.len(), 2, "what a handler says stands in its span");
    assert!(
        inside
            .iter()
            .all(|event| event.fields["inside"] == id.to_string())
    );
}

async fn neither_payload_nor_headers_are_told(db: Db) {
    let id = Uuid::now_v7();
    watch(id);
    let lab = Lab::new(|_: Call| async { Err::<(), _>(HandlerError::cancel("refused")) });
    let relay = relay!(db, TASKS, lab).spawn();
    publish(&db, id, "secret-payload").await;
    in_state(&db, id, "dead").await;
    // A dead letter is told of once it stands in the table.
    let dead = |all: &Vec<Record>| {
        all.iter()
            .any(|record| format!("{record:?}").contains("dead letter"))
    };
    let told = eventually(LONG, || async { records(id) }, dead).await;
    relay.shutdown().await.expect("stops");
    let text = format!("{told:?}");
    assert!(text.contains("refused"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}
