//! The spans that the log lines of actors are in.
//!
//! Each line that an actor logs is in a span `actor` with the fields `instance` and `actor`, so
//! that the lines of two services in one process can be told apart. The span lasts as long as the
//! handling of one message: what collects the events of a span until its end keeps nothing for
//! longer. The span of a call is a child of its caller's, and so its lines have the id of the
//! client's request too. The caller's span is entered as well, because a layer that leaves the
//! spans of actors out looks for the next one among those that are entered. When no subscriber
//! wants the spans, one atomic read is made for each.

use tracing::Span;

/// The target of the spans, by which a subscriber can leave them out.
pub const ACTOR_SPANS: &str = "selfsame_actors::actor";

/// A message with the span of its caller.
///
/// A notification carries no span, because the work that it starts serves many requests.
pub(crate) struct Traced<M> {
    caller: Span,
    message: M,
}

impl<M> Traced<M> {
    /// The message of a call, with the caller's span.
    pub fn call(message: M) -> Self {
        Self { caller: Span::current(), message }
    }

    /// The message alone.
    pub fn into_message(self) -> M {
        self.message
    }

    /// The message, the span that an actor handles it in, and the caller's.
    pub fn open(self, actor: &str) -> Opened<M> {
        Opened { span: actor_span(&self.caller, actor), caller: self.caller, message: self.message }
    }
}

/// A message that its actor handles.
pub(crate) struct Opened<M> {
    /// What the actor does for the message happens in this span.
    pub span: Span,
    /// The span of the caller; one without effect for a notification.
    pub caller: Span,
    pub message: M,
}

impl<M> From<M> for Traced<M> {
    /// A notification.
    fn from(message: M) -> Self {
        Self { caller: Span::none(), message }
    }
}

/// A span for what an actor does, below `parent` if that has an effect. `name` is the actor's name
/// in the actor registry, which begins with that of its instance. The span has the level of errors,
/// as that of the client's request, so that every line has it.
pub(crate) fn actor_span(parent: &Span, name: &str) -> Span {
    // The fields are made only when a subscriber wants the span.
    tracing::error_span!(
        target: ACTOR_SPANS,
        parent: parent,
        "actor",
        instance = split(name).0,
        actor = split(name).1
    )
}

/// The name of an actor's instance, and its name in that.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}
