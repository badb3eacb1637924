//! Carrying the publisher's trace to the delivery, in the message's headers. Without the feature
//! `opentelemetry` all of this does nothing.
//!
//! The names are those of the W3C, `traceparent` and `tracestate`, if the program has set OpenTelemetry's
//! propagator of that name; another propagator brings its own.

#![cfg_attr(
    not(feature = "opentelemetry"),
    expect(unused_variables, reason = "nobody traces")
)]

use std::collections::BTreeMap;

/// Adds the context of the current span, unless the publisher has set such headers itself.
pub(crate) fn inject(headers: &mut BTreeMap<String, String>) {
    #[cfg(feature = "opentelemetry")]
    {
        use tracing_opentelemetry::OpenTelemetrySpanExt as _;
        let context = tracing::Span::current().context();
        opentelemetry::global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&context, &mut carrier::Injecting(headers));
        });
    }
}

/// Makes a delivery's span a part of the trace that the headers tell of, if they do.
pub(crate) fn adopt(span: &tracing::Span, headers: &BTreeMap<String, String>) {
    #[cfg(feature = "opentelemetry")]
    {
        use opentelemetry::trace::TraceContextExt as _;
        use tracing_opentelemetry::OpenTelemetrySpanExt as _;
        let context = opentelemetry::global::get_text_map_propagator(|propagator| {
            propagator.extract(&carrier::Extracting(headers))
        });
        if context.span().span_context().is_valid() {
            // Refused only where no layer of OpenTelemetry's sees the span.
            let _ = span.set_parent(context);
        }
    }
}

#[cfg(feature = "opentelemetry")]
mod carrier {
    use std::collections::BTreeMap;

    use opentelemetry::propagation::{Extractor, Injector};

    pub(super) struct Injecting<'h>(pub(super) &'h mut BTreeMap<String, String>);

    impl Injector for Injecting<'_> {
        fn set(&mut self, name: &str, value: String) {
            // A propagator may bring names that say nothing, such as an empty `tracestate`.
            if !value.is_empty() {
                self.0.entry(name.to_owned()).or_insert(value);
            }
        }
    }

    pub(super) struct Extracting<'h>(pub(super) &'h BTreeMap<String, String>);

    impl Extractor for Extracting<'_> {
        fn get(&self, name: &str) -> Option<&str> {
            self.0.get(name).map(String::as_str)
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(String::as_str).collect()
        }
    }
}
