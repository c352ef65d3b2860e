//! The events of an audience as server-sent events.
//!
//! Each event has its position as `id`, so that a client that connects again says where it was
//! (`Last-Event-ID`) and misses nothing that is still kept.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use hyper::header::HeaderName;
use selfsame_actors::{EventError, EventPage, EventsHandle};
use selfsame_protocol::events::record::EventPosition;
use selfsame_protocol::events::{Audience, EventKind};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::http::{HEARTBEAT, Rejection, Request, Response, Shutdown, StreamLife, event_stream};

/// The most events that are read at a time.
const PAGE: usize = 100;

/// The most streams of an audience at a time.
const MOST_STREAMS: usize = 16;

/// Where a client was that connects again (HTML, "The `Last-Event-ID` header").
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Why a stream is not begun.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The configuration records no events for streams.
    #[error("there are no streams of events; the operator can turn them on with streams = true in [events]")]
    Off,
    /// The audience has as many streams as it may have.
    #[error("there are {MOST_STREAMS} streams already; close one")]
    TooMany,
    /// A parameter of the request is wrong.
    #[error("{name}: {problem}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The request was rejected for a reason that all interfaces share.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The events cannot be read.
    #[error(transparent)]
    Events(#[from] EventError),
}

/// The streams that are open, by their audience.
type Open = Arc<Mutex<HashMap<Option<String>, usize>>>;

/// Begins streams of events, and counts them.
#[derive(Clone)]
pub struct EventStreams {
    handle: EventsHandle,
    open: Open,
}

/// A stream that is counted until this is dropped.
struct Permit {
    open: Open,
    app_id: Option<String>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.app_id) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.app_id);
            }
        }
    }
}

impl EventStreams {
    /// The streams of a service's events.
    pub fn new(handle: EventsHandle) -> Self {
        Self { handle, open: Arc::default() }
    }

    /// Answers a request for a stream. It begins behind the event of `Last-Event-ID`, or of the
    /// parameter `after`; without both, with the next event that happens. The parameter `types`
    /// names the kinds of events.
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn begin(&self, request: &Request, audience: Audience) -> Result<Response, StreamError> {
        if !self.handle.has_streams() {
            return Err(StreamError::Off);
        }
        let kinds = kinds(request.query_parameter("types")?.as_deref())?;
        let (header, after) = (request.header(&LAST_EVENT_ID)?, request.query_parameter("after")?);
        let next = match (header, after.as_deref()) {
            (Some(seen), _) => position("Last-Event-ID", seen)?.next(),
            (None, Some(seen)) => position("after", seen)?.next(),
            (None, None) => self.handle.end().await?,
        };
        let permit = self.permit(&audience)?;
        let follower = Follower {
            changes: self.handle.changes(),
            handle: self.handle.clone(),
            audience,
            kinds,
            next,
            shutdown: request.shutdown().clone(),
            life: StreamLife::begin(request),
            has_begun: false,
            _permit: permit,
        };
        Ok(event_stream(follower, async |mut follower: Follower| {
            let piece = follower.piece().await?;
            Some((piece, follower))
        }))
    }

    fn permit(&self, audience: &Audience) -> Result<Permit, StreamError> {
        let app_id = match audience {
            Audience::Operator => None,
            Audience::Application(app_id) => Some(app_id.clone()),
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(app_id.clone()).or_default();
        if *count >= MOST_STREAMS {
            return Err(StreamError::TooMany);
        }
        *count += 1;
        Ok(Permit { open: Arc::clone(&self.open), app_id })
    }
}

fn position(name: &'static str, text: &str) -> Result<EventPosition, StreamError> {
    text.parse().map_err(|error| StreamError::Parameter { name, problem: format!("{error}, not {text:?}") })
}

/// The kinds that a list with commas names; all of them without a list.
fn kinds(list: Option<&str>) -> Result<HashSet<EventKind>, StreamError> {
    let Some(list) = list else { return Ok(EventKind::ALL.into_iter().collect()) };
    let kind = |name: &str| {
        name.parse().map_err(|_| {
            let known = EventKind::ALL.map(EventKind::name).join(", ");
            StreamError::Parameter {
                name: "types",
                problem: format!("{name:?} is no type of event; there are {known}"),
            }
        })
    };
    list.split(',').map(kind).collect()
}

/// A client that follows the events of an audience.
struct Follower {
    handle: EventsHandle,
    audience: Audience,
    kinds: HashSet<EventKind>,
    /// From where on events are read.
    next: EventPosition,
    changes: watch::Receiver<u64>,
    shutdown: Shutdown,
    life: StreamLife,
    has_begun: bool,
    _permit: Permit,
}

impl Follower {
    /// The next piece of the stream; `None` at its end.
    async fn piece(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(self.place());
        }
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            if Instant::now() >= self.life.end() || self.shutdown.triggered().now_or_never().is_some() {
                return None;
            }
            self.changes.mark_unchanged();
            let page = match self.handle.read(&self.audience, self.next, PAGE).await {
                Ok(page) => page,
                // The stream ends, and the client connects again.
                Err(error) => {
                    tracing::error!(%error, "events cannot be read for a stream");
                    return None;
                }
            };
            let is_end = page.is_end;
            if let Some(piece) = self.text_of(page) {
                return Some(piece);
            }
            if !is_end {
                // Many events that are not told.
                if Instant::now() >= heartbeat {
                    return Some(self.place());
                }
                continue;
            }
            let deadline = heartbeat.min(self.life.end());
            let changed = tokio::select! {
                changed = timeout_at(deadline, self.changes.changed()) => changed,
                () = self.shutdown.triggered() => return None,
            };
            match changed {
                Ok(Ok(())) => {}
                // The service has ended.
                Ok(Err(_)) => return None,
                Err(_) if Instant::now() >= self.life.end() => return None,
                Err(_) => return Some(self.place()),
            }
        }
    }

    /// Where the client is, without an event: one that connects again misses nothing, also when no
    /// event has come yet.
    fn place(&self) -> Bytes {
        format!("id: {}\n\n", self.next.before()).into()
    }

    /// A page as text; `None` when nothing of it is told.
    fn text_of(&mut self, page: EventPage) -> Option<Bytes> {
        let mut text = String::new();
        if page.has_gap {
            text.push_str("event: gap\ndata: {\"reason\":\"events before this one are no longer kept\"}\n\n");
        }
        for (position, event) in page.events.iter().filter(|(_, event)| self.kinds.contains(&event.kind)) {
            // The body is JSON without line breaks.
            let _ = write!(text, "id: {position}\nevent: {}\ndata: {}\n\n", event.kind.name(), event.body);
        }
        self.next = page.next;
        (!text.is_empty()).then(|| text.into())
    }
}
