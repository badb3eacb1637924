//! A recorder of metrics. It is one thread's, so that each test sees its own doings only: what is recorded runs on
//! one thread.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

/// What was counted, by name and labels: counters and gauges by their value, histograms by how many
/// values they have.
pub(crate) type Told = BTreeMap<String, f64>;

/// Runs a test where its metrics are recorded; what it made of them in the end.
pub(crate) async fn recorded<F: Future<Output = ()>>(
    test: impl FnOnce() -> F + Send + 'static,
) -> Told {
    let run = move || {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(test());
        });
        let mut told = Told::new();
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let mut name = key.key().name().to_owned();
            for label in key.key().labels() {
                name.push_str(&format!(" {}={}", label.key(), label.value()));
            }
            #[expect(clippy::cast_precision_loss, reason = "the tests count to thousands")]
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => {
                    assert!(values.iter().all(|value| value.into_inner() >= 0.0));
                    values.len() as f64
                }
            };
            told.insert(name, value);
        }
        told
    };
    tokio::task::spawn_blocking(run).await.expect("the test")
}
