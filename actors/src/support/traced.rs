//! Messages that carry the span of the request that sent them.

use tracing::Span;

/// A message with the span that its actor handles it in.
///
/// A call carries the span of its caller, so that the actor's log events have the id of the
/// request. A notification carries no span, because the work that it starts serves many requests.
pub(crate) struct Traced<M> {
    pub span: Span,
    pub message: M,
}

#[cfg(feature = "cluster")]
impl<M: Send + 'static> ractor::Message for Traced<M> {}

impl<M> Traced<M> {
    /// The message of a call, with the caller's span.
    pub fn call(message: M) -> Self {
        Self { span: Span::current(), message }
    }
}

impl<M> From<M> for Traced<M> {
    /// A notification.
    fn from(message: M) -> Self {
        Self { span: Span::none(), message }
    }
}
