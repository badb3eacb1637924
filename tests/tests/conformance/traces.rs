//! One trace from the publisher to the handler, by the W3C's headers. The subscriber is one thread's, so
//! everything here runs on one thread.

use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracerProvider};
use outbox_tests::{
    Call, Db, Lab,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, within},
};
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use uuid::Uuid;

use crate::support::row;

on_every_database![
    a_delivery_belongs_to_the_publishers_trace,
    headers_that_are_given_are_kept,
    without_a_trace_there_are_no_headers,
];

/// Runs a test under a subscriber that hands spans to OpenTelemetry.
async fn traced<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let run = move || {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(test());
        });
    };
    tokio::task::spawn_blocking(run).await.expect("the test");
}

/// The trace that the current span belongs to.
fn trace() -> String {
    let context = tracing::Span::current().context();
    context.span().span_context().trace_id().to_string()
}

async fn headers(db: &Db, id: Uuid) -> serde_json::Value {
    let headers = row(db, id).await.headers;
    headers.map_or(serde_json::Value::Null, |headers| {
        serde_json::from_str(&headers).expect("headers are JSON")
    })
}

/// A lab that writes down which trace each of its handlers is in.
fn tracing_lab() -> (Lab, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let lab = Lab::new({
        let seen = std::sync::Arc::clone(&seen);
        move |call: Call| {
            let seen = std::sync::Arc::clone(&seen);
            async move {
                seen.lock().expect("not poisoned").push(trace());
                match call.delivery.attempt() {
                    1 => Err(outbox::HandlerError::retry("again")),
                    _ => Ok(()),
                }
            }
        }
    });
    (lab, seen)
}

async fn a_delivery_belongs_to_the_publishers_trace(db: Db) {
    traced(move || async move {
        let db = db.reopened().await;
        let request = tracing::info_span!("request");
        let (id, expected) = async {
            let id = db.publish(&Task::named("traced")).await.id;
            (id, trace())
        }
        .instrument(request)
        .await;
        let headers = headers(&db, id).await;
        let traceparent = headers["traceparent"].as_str().expect("the W3C's header");
        assert!(
            traceparent.starts_with(&format!("00-{expected}-")),
            "{traceparent}"
        );

        let (lab, seen) = tracing_lab();
        // The relay's own surroundings are another trace.
        let relay = relay!(db, TASKS, lab);
        within(LONG, relay.drain().instrument(tracing::info_span!("relay")))
            .await
            .expect("drains");
        outbox_tests::eventually(
            LONG,
            || async {
                relay.drain().await.expect("drains");
                lab.calls().len()
            },
            |calls| *calls == 2,
        )
        .await;
        assert_eq!(
            *seen.lock().expect("not poisoned"),
            [expected.clone(), expected]
        );
    })
    .await;
}

async fn headers_that_are_given_are_kept(db: Db) {
    traced(move || async move {
        let db = db.reopened().await;
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let task = Task::named("traced elsewhere");
        let publication = task.publication().header("traceparent", given);
        let id = db
            .publish(&publication)
            .instrument(tracing::info_span!("request"))
            .await
            .id;
        assert_eq!(headers(&db, id).await["traceparent"], given);
        let (lab, seen) = tracing_lab();
        within(LONG, relay!(db, TASKS, lab).drain())
            .await
            .expect("drains");
        assert_eq!(
            *seen.lock().expect("not poisoned"),
            ["4bf92f3577b34da6a3ce929d0e0e4736"]
        );
    })
    .await;
}

async fn without_a_trace_there_are_no_headers(db: Db) {
    traced(move || async move {
        let db = db.reopened().await;
        let id = db.publish(&Task::named("plain")).await.id;
        assert_eq!(headers(&db, id).await, serde_json::Value::Null);
        // What is no trace is no reason to refuse a message.
        let task = Task::named("odd");
        let odd = task.publication().header("traceparent", "nonsense");
        let odd = db.publish(&odd).await.id;
        let (lab, _) = tracing_lab();
        within(LONG, relay!(db, TASKS, lab).drain())
            .await
            .expect("drains");
        assert_eq!((lab.starts(id), lab.starts(odd)), (1, 1));
    })
    .await;
}
