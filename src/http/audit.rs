//! The audit trail: one event for each request to an audited route, with what it did or why not.
//! All of them are counted; of requests past a limit only some are written, so that a flood does
//! not fill the log.
//!
//! Events have the log target `audit` and the level info; an alarm has the level warn. They are
//! inside the request's span, so they carry the request id. They contain no secret, and no
//! nullifier and no subject in clear.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::{hex, keccak256};
use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use selfsame_actors::Clock;
use selfsame_protocol::net::network_text;

use super::access_log::text as source_text;
use super::rejection::InterfaceError;
use super::source::Source;

/// The log target of audit events.
pub const TARGET: &str = "audit";

/// The shortest time between two logged events with the same name and outcome of requests past a
/// limit. All of them are counted, but a source that is limited must not fill the log.
const LIMITED_INTERVAL: Duration = Duration::from_secs(1);

/// The longest text about what a request concerns, in characters. A client may have sent the text.
const MOST_CONCERNS: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    event: &'static str,
    outcome: &'static str,
}

/// Writes and counts audit events.
pub struct AuditTrail {
    key: [u8; 32],
    events: Family<Labels, Counter>,
    clock: Arc<dyn Clock>,
    /// [`Clock::passed`] when an event of a request past a limit was last logged, by name and
    /// outcome, of which there are few.
    last_limited: Mutex<HashMap<Labels, Duration>>,
}

impl AuditTrail {
    /// A trail whose counters are in `registry`. With `key`, persons are hashed, so that events
    /// about one person can be found together, but not with the nullifier alone.
    pub fn register(key: [u8; 32], clock: Arc<dyn Clock>, registry: &mut Registry) -> Self {
        let events = Family::default();
        registry.register("audit_events", "Events of the audit trail by outcome", Family::clone(&events));
        Self { key, events, clock, last_limited: Mutex::default() }
    }

    /// How many events of this name and outcome there were since the start.
    pub fn count(&self, event: &'static str, outcome: &'static str) -> u64 {
        self.events.get(&Labels { event, outcome }).map_or(0, |count| count.get())
    }

    /// Writes the event of a request. `status` is that of its answer; `None` when the client closed
    /// its connection before.
    fn write(&self, event: &'static str, notes: &AuditNotes, status: Option<StatusCode>, source: Source) {
        let notes = notes.lock().as_deref().cloned().unwrap_or_default();
        let outcome = notes.outcome.unwrap_or_else(|| outcome_of(status));
        let labels = Labels { event, outcome };
        self.events.get_or_create(&labels).inc();
        if !notes.is_alarm && status.is_some_and(is_past_limit) && !self.is_limited_event_due(labels) {
            return;
        }
        let person = notes.person.map(|person| self.hash(&person));
        let Notes { client, concerns, reason, .. } = notes;
        let (client, concerns, reason) = (client.as_deref(), concerns.as_deref(), reason.as_deref());
        let (source, person, status) = (origin(source), person.as_deref(), status.map(|status| status.as_u16()));
        if notes.is_alarm {
            tracing::warn!(target: TARGET, event, outcome, status, source, client, concerns, person, reason);
        } else {
            tracing::info!(target: TARGET, event, outcome, status, source, client, concerns, person, reason);
        }
    }

    /// Writes an event that belongs to no request: `concerns` and `reason` as in [`AuditNotes`].
    pub fn write_own(&self, event: &'static str, outcome: &'static str, concerns: &str, reason: Option<&str>) {
        self.events.get_or_create(&Labels { event, outcome }).inc();
        tracing::info!(target: TARGET, event, outcome, concerns, reason);
    }

    /// The keyed hash of a person, in hex. keccak256 needs no construction against the extension of
    /// its input.
    fn hash(&self, person: &[u8; 32]) -> String {
        let hash = keccak256([self.key, *person].concat());
        hex::encode(&hash[..16])
    }

    fn is_limited_event_due(&self, labels: Labels) -> bool {
        let mut last = self.last_limited.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.passed();
        let is_due = last.get(&labels).is_none_or(|last| now.saturating_sub(*last) >= LIMITED_INTERVAL);
        if is_due {
            last.insert(labels, now);
        }
        is_due
    }
}

/// Whether a status says that the client, or all clients together, are past a limit.
fn is_past_limit(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

fn outcome_of(status: Option<StatusCode>) -> &'static str {
    match status {
        None => "abandoned",
        Some(StatusCode::TOO_MANY_REQUESTS) => "limited",
        Some(status) if status.is_client_error() => "refused",
        Some(status) if status.is_server_error() => "failed",
        Some(_) => "success",
    }
}

/// Which requests to a route have an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuditedRoute {
    /// Name of the event.
    pub event: &'static str,
    /// Whether only requests that are not answered with success have one.
    pub only_refusals: bool,
}

/// A request to an audited route. Its event is written when this is dropped, so exactly once, also
/// when the client closes its connection or the handler panics.
pub(super) struct AuditedRequest<'a> {
    pub trail: &'a AuditTrail,
    pub route: AuditedRoute,
    pub notes: AuditNotes,
    pub source: Source,
    /// The status of the answer, once there is one.
    pub status: Option<StatusCode>,
}

impl<'a> AuditedRequest<'a> {
    /// A request to an audited route, without notes and without an answer.
    pub fn new(trail: &'a AuditTrail, route: AuditedRoute, source: Source) -> Self {
        Self { trail, route, notes: AuditNotes::new(), source, status: None }
    }
}

impl Drop for AuditedRequest<'_> {
    fn drop(&mut self) {
        let is_success = self.status.is_some_and(|status| status.is_success());
        if !(self.route.only_refusals && is_success) {
            self.trail.write(self.route.event, &self.notes, self.status, self.source);
        }
    }
}

/// How an event names its source: by its network, which is enough to see where an attack comes
/// from, and not one household.
fn origin(source: Source) -> String {
    source_text(source, network_text)
}

/// What the handler of an audited request notes for its event. Clones share their notes; the notes
/// of a request to another route are dropped.
#[derive(Clone, Debug, Default)]
pub struct AuditNotes(Option<Arc<Mutex<Notes>>>);

#[derive(Clone, Debug, Default)]
struct Notes {
    outcome: Option<&'static str>,
    client: Option<String>,
    concerns: Option<String>,
    person: Option<[u8; 32]>,
    reason: Option<String>,
    is_alarm: bool,
}

impl AuditNotes {
    /// Notes of a request to an audited route.
    fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// What happened, where the status of the answer does not say it: by default it is `success`,
    /// `refused`, `limited` or `failed`.
    pub fn outcome(&self, outcome: &'static str) {
        self.change(|notes| notes.outcome = Some(outcome));
    }

    /// An outcome that an operator has to look at.
    pub fn alarm(&self, outcome: &'static str) {
        self.change(|notes| (notes.outcome, notes.is_alarm) = (Some(outcome), true));
    }

    /// Id of the application.
    pub fn client(&self, id: &str) {
        self.change(|notes| notes.client = Some(id.to_owned()));
    }

    /// What the request is about: a transaction, a key or a root. The event has at most 200
    /// characters of it.
    pub fn concerns(&self, what: impl AsRef<str>) {
        self.change(|notes| notes.concerns = Some(what.as_ref().chars().take(MOST_CONCERNS).collect()));
    }

    /// The nullifier of the person. The event has a keyed hash of it.
    pub fn person(&self, nullifier: [u8; 32]) {
        self.change(|notes| notes.person = Some(nullifier));
    }

    /// The request is rejected on a page or at the application, with a status of success.
    pub fn rejected(&self, error: &impl InterfaceError) {
        tracing::debug!(reason = error.reason(), "rejected");
        self.outcome("refused");
        self.reason(|| error.reason());
    }

    /// Why the request is rejected; see [`super::InterfaceError::reason`].
    pub(super) fn reason(&self, reason: impl FnOnce() -> String) {
        self.change(|notes| notes.reason = Some(reason()));
    }

    fn change(&self, change: impl FnOnce(&mut Notes)) {
        if let Some(mut notes) = self.lock() {
            change(&mut notes);
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Notes>> {
        self.0.as_ref().map(|notes| notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use selfsame_actors::SystemClock;

    use super::*;

    fn trail(key: [u8; 32]) -> AuditTrail {
        AuditTrail::register(key, Arc::new(SystemClock), &mut Registry::default())
    }

    #[test]
    fn an_event_names_the_network_of_its_source_or_the_socket() {
        assert_eq!(origin(Source::Address("203.0.113.77".parse().unwrap())), "203.0.113.0/24");
        assert_eq!(origin(Source::UnixSocket), "unix");
    }

    #[test]
    fn the_outcome_follows_the_status_unless_the_handler_notes_another() {
        for (status, expected) in
            [(200, "success"), (303, "success"), (401, "refused"), (429, "limited"), (503, "failed")]
        {
            assert_eq!(outcome_of(StatusCode::from_u16(status).ok()), expected);
        }
        assert_eq!(outcome_of(None), "abandoned");
        let trail = trail([1; 32]);
        let notes = AuditNotes::new();
        notes.clone().alarm("code_reused");
        let source = Source::Address("127.0.0.1".parse().unwrap());
        trail.write("token", &notes, Some(StatusCode::BAD_REQUEST), source);
        for _ in 0..3 {
            trail.write("token", &AuditNotes::default(), Some(StatusCode::TOO_MANY_REQUESTS), source);
        }
        let count = |outcome| trail.events.get_or_create(&Labels { event: "token", outcome }).get();
        assert_eq!((count("code_reused"), count("refused"), count("limited")), (1, 0, 3));
    }

    #[test]
    fn the_hash_of_a_person_depends_on_the_key() {
        let hash = |key| trail([key; 32]).hash(&[7; 32]);
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
        assert_eq!(hash(1).len(), 32);
    }
}
