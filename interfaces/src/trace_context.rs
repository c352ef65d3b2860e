//! The place of a request in a trace that other programs record, too (W3C Trace Context).
//!
//! Without the feature `otlp`, or without a collector in the configuration, the functions do
//! nothing: then a trace id of a proxy is only in the log.

use selfsame_protocol::trace_context::TraceParent;
use tracing::Span;

/// Makes a span a part of its caller's trace.
#[cfg(feature = "otlp")]
pub fn continue_trace(span: &Span, parent: TraceParent) {
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let flags = if parent.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace_id, span_id) = (TraceId::from_bytes(parent.trace_id), SpanId::from_bytes(parent.parent_id));
    let caller = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
    // It fails only for a span that no trace records.
    _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(caller));
}

/// See above.
#[cfg(not(feature = "otlp"))]
pub fn continue_trace(_: &Span, _: TraceParent) {}

/// The place in a trace that a request to another program begins from; `None` when nothing is
/// recorded.
#[cfg(feature = "otlp")]
pub fn current() -> Option<TraceParent> {
    of(&Span::current())
}

/// See above.
#[cfg(not(feature = "otlp"))]
pub fn current() -> Option<TraceParent> {
    None
}

/// The place of a span in its trace; `None` when nothing is recorded.
#[cfg(feature = "otlp")]
pub fn of(span: &Span) -> Option<TraceParent> {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = span.context();
    let recorded = context.span().span_context().clone();
    recorded.is_valid().then(|| TraceParent {
        trace_id: recorded.trace_id().to_bytes(),
        parent_id: recorded.span_id().to_bytes(),
        is_sampled: recorded.is_sampled(),
    })
}

/// See above.
#[cfg(not(feature = "otlp"))]
pub fn of(_: &Span) -> Option<TraceParent> {
    None
}
