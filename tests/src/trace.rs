//! What the relay says through `tracing` about the messages of a test.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};
use uuid::Uuid;

/// A span that carries a watched id, or an event that does, or that stands inside such a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The span's name, or `event`.
    pub name: String,
    /// Its fields; an event's text is `message`.
    pub fields: BTreeMap<String, String>,
    /// For a span: whether it has ended.
    pub closed: bool,
}

/// Sets the process's subscriber, once.
fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Recorder);
        tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
    });
}

/// Records what is said about this message from now on.
pub fn watch(id: Uuid) {
    install();
    watched().ids.insert(id.to_string());
}

/// What was said about this message.
#[must_use]
pub fn records(id: Uuid) -> Vec<Record> {
    let watched = watched();
    let of = watched.records.get(&id.to_string());
    of.cloned().unwrap_or_default()
}

/// Runs a test on a thread of its own; what it returns, and what its relays said meanwhile,
/// from `INFO` upwards.
///
/// # Panics
///
/// If the test does.
pub async fn listened<T: Send + 'static, F: Future<Output = T>>(
    test: impl FnOnce() -> F + Send + 'static,
) -> (T, Vec<String>) {
    // Without it, what another thread says first is switched off for this one as well: while there is
    // one subscriber only, tracing asks that of the current thread, which has none.
    install();
    let run = move || {
        let said = Arc::new(Mutex::new(Vec::new()));
        let listener = tracing_subscriber::registry().with(Listener(Arc::clone(&said)));
        let returned = tracing::subscriber::with_default(listener, || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(test())
        });
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        (returned, said.clone())
    };
    tokio::task::spawn_blocking(run).await.expect("the test")
}

struct Listener(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if metadata.target().starts_with("outbox") && *metadata.level() <= Level::INFO {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let text = fields.0.remove("message").unwrap_or_default();
            let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            said.push(text);
        }
    }
}

#[derive(Debug)]
struct Watched {
    ids: BTreeSet<String>,
    records: BTreeMap<String, Vec<Record>>,
}

fn watched() -> MutexGuard<'static, Watched> {
    static WATCHED: Mutex<Watched> = Mutex::new(Watched {
        ids: BTreeSet::new(),
        records: BTreeMap::new(),
    });
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Recorder;

/// A span's watched id and its place in the records; stands in the span's extensions.
struct Place {
    id: String,
    at: usize,
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

fn add(id: &str, name: &str, fields: Fields) -> usize {
    let mut watched = watched();
    let records = watched.records.entry(id.to_owned()).or_default();
    records.push(Record {
        name: name.to_owned(),
        fields: fields.0,
        closed: false,
    });
    records.len() - 1
}

fn is_watched(id: Option<&String>) -> bool {
    id.is_some_and(|id| watched().ids.contains(id))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
        true
    }

    fn on_new_span(&self, attrs: &span::Attributes<'_>, span: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attrs.record(&mut fields);
        let id = fields.0.get("id").cloned();
        if let (true, Some(id), Some(span)) = (is_watched(id.as_ref()), id, context.span(span)) {
            let at = add(&id, attrs.metadata().name(), fields);
            span.extensions_mut().insert(Place { id, at });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let around = context.event_scope(event).and_then(|mut scope| {
            scope.find_map(|span| {
                span.extensions()
                    .get::<Place>()
                    .map(|place| place.id.clone())
            })
        });
        if let Some(id) = around {
            fields.0.insert("inside".to_owned(), id.clone());
            add(&id, "event", fields);
        } else if let Some(id) = fields.0.get("id").cloned()
            && is_watched(Some(&id))
        {
            add(&id, "event", fields);
        }
    }

    fn on_close(&self, span: span::Id, context: Context<'_, S>) {
        let Some(span) = context.span(&span) else {
            return;
        };
        if let Some(Place { id, at }) = span.extensions().get() {
            let mut watched = watched();
            if let Some(record) = watched.records.get_mut(id).and_then(|all| all.get_mut(*at)) {
                record.closed = true;
            }
        }
    }
}
