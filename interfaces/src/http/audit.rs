//! The audit trail: one event for each request to an audited route, with what it did or why not.
//! All of them are counted; of refused requests only some are written, by network, so that a flood
//! neither fills the log nor hides what comes from other networks. The access log, a line for each
//! request that was answered, comes first.
//!
//! Events of the audit trail have the log target `audit` and the level info; an alarm has the level
//! warn. They are inside the request's span, so they carry the request id. They contain no secret,
//! and no nullifier and no subject in clear.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use alloy_primitives::{hex, keccak256};
use hyper::{Method, StatusCode, Version};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use schemars::JsonSchema;
use selfsame_actors::Clock;
use selfsame_protocol::net::network_text;
use serde::{Deserialize, Serialize};

use super::exchange::Source;
use super::response::InterfaceError;

/// The log target of the audit trail.
pub const AUDIT_TARGET: &str = "audit";

// The access log: a line for each request that was answered.

/// The log target of the access log.
const TARGET: &str = "access";

/// Whether there is a line for each request, and how it names the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessLog {
    /// Only failures of the service have a line; at the level debug every request has one.
    #[default]
    Off,
    /// Every request has a line, with the network of its source: the /24 of an IPv4 address, the
    /// /48 of an IPv6 address.
    Network,
    /// Every request has a line, with the address of its source.
    Address,
}

/// A request that was answered.
pub(super) struct Answered<'a> {
    pub method: &'a Method,
    pub version: Version,
    pub status: StatusCode,
    /// Length of the answer's body in bytes; `None` when it is not known yet.
    pub bytes: Option<u64>,
    pub elapsed: Duration,
    /// `None` for an interface whose sources are not logged.
    pub source: Option<Source>,
}

impl AccessLog {
    /// Writes the line of a request, inside its span, which has its id, its interface and its
    /// route. The line contains no path, query, body or credential.
    pub(super) fn write(self, answered: &Answered<'_>) {
        let Answered { method, version, status, bytes, elapsed, source } = *answered;
        let (status_code, micros) = (status.as_u16(), elapsed.as_micros() as u64);
        // Overload is counted in the metrics; by default it is not logged request by request.
        let is_failure = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
        let source = match self {
            Self::Off if is_failure => {
                return tracing::warn!(%method, status = status_code, micros, "answered");
            }
            Self::Off => return tracing::debug!(%method, status = status_code, micros, "answered"),
            Self::Network => source.map(|source| source_text(source, network_text)),
            Self::Address => source.map(|source| source_text(source, |address| address.to_string())),
        };
        let source = source.as_deref();
        if is_failure {
            tracing::warn!(target: TARGET, %method, status = status_code, micros, bytes, ?version, source, "answered");
        } else {
            tracing::info!(target: TARGET, %method, status = status_code, micros, bytes, ?version, source, "answered");
        }
    }
}

/// `unix` for a unix socket, otherwise the text of the address.
pub(super) fn source_text(source: Source, of_address: impl Fn(std::net::IpAddr) -> String) -> String {
    match source {
        Source::Address(address) => of_address(address),
        Source::UnixSocket => "unix".to_owned(),
    }
}

/// The time after which a further event of refused requests with the same name, outcome and network
/// is written.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

/// How many such events are written at once after a pause. Each may have another reason.
const REFUSED_BURST: u32 = 10;

/// The same for requests past a limit, whose events say nothing new.
const LIMITED_BURST: u32 = 1;

/// The most triples of name, outcome and network that are told apart. It bounds memory, and with
/// [`REFUSED_INTERVAL`] the lines that all networks together can cause.
const MOST_NETWORKS: usize = 256;

/// The longest text about what a request concerns, in characters. A client may have sent the text.
const MOST_CONCERNS: usize = 200;

/// Makes [`AuditOutcome`] from the one table of the outcomes and their names.
macro_rules! outcomes {
    ($($(#[$description:meta])+ $outcome:ident = $name:literal,)+) => {
        /// What became of an audited request, or of what the service did by itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditOutcome {
            $($(#[$description])+ $outcome,)+
        }

        impl AuditOutcome {
            const COUNT: usize = [$(Self::$outcome),+].len();

            /// The name in events and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$outcome => $name,)+
                }
            }
        }
    };
}

outcomes! {
    /// It was done.
    Success = "success",
    /// It was done, and had been done before.
    SuccessAgain = "success_again",
    /// It was done, and the sessions were ended.
    SuccessSessionsEnded = "success_sessions_ended",
    /// The browser's session answered.
    GrantedFromSession = "granted_from_session",
    /// The browser's sign-in was under way already, and goes on.
    AlreadyUnderWay = "already_under_way",
    /// A person was asked for a confirmation.
    Asked = "asked",
    /// The sign-in goes on with another proof.
    AnotherProofAsked = "another_proof_asked",
    /// The browser has forgotten its accounts.
    AccountsForgotten = "accounts_forgotten",
    /// All others have forgotten an account.
    OthersForgotten = "others_forgotten",
    /// A sign-in code was made.
    CodeMade = "code_made",
    /// A browser got what a passkey of an account is made of.
    PasskeyMade = "passkey_made",
    /// A link to an account was made.
    LinkMade = "link_made",
    /// A link to an account was used up.
    LinkUsed = "link_used",
    /// There is no session to end.
    NoSession = "no_session",
    /// The person refused.
    RefusedByPerson = "refused_by_person",
    /// The person's wallet made no proof.
    RefusedByWallet = "refused_by_wallet",
    /// The person cancelled the sign-in.
    CancelledByPerson = "cancelled_by_person",
    /// The person was shown why there is no proof.
    ShownWhyNoProof = "shown_why_no_proof",
    /// A code that has given a token was used again.
    CodeReused = "code_reused",
    /// The request is not valid, or its caller may not make it.
    Refused = "refused",
    /// A limit was reached.
    Limited = "limited",
    /// The service failed.
    Failed = "failed",
    /// The client closed its connection before the answer.
    Abandoned = "abandoned",
}

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
    refusals: Mutex<Refusals>,
}

impl AuditTrail {
    /// A trail whose counters are in `registry`. With `key`, persons are hashed, so that events
    /// about one person can be found together, but not with the nullifier alone.
    pub fn register(key: [u8; 32], clock: Arc<dyn Clock>, registry: &mut Registry) -> Self {
        let events = Family::default();
        registry.register("audit_events", "Events of the audit trail by outcome", Family::clone(&events));
        Self { key, events, clock, refusals: Mutex::default() }
    }

    /// How many events of this name and outcome there were since the start.
    pub fn count(&self, event: &'static str, outcome: AuditOutcome) -> u64 {
        self.events.get(&Labels { event, outcome: outcome.name() }).map_or(0, |count| count.get())
    }

    /// Writes the event of a request. `status` is that of its answer; `None` when the client closed
    /// its connection before. `source` is `None` for an interface whose sources are not logged.
    fn write(&self, route: &AuditedRoute, notes: &AuditNotes, status: Option<StatusCode>, source: Option<Source>) {
        let notes = notes.lock().as_deref().cloned().unwrap_or_default();
        let noted = notes.outcome.unwrap_or_else(|| outcome_of(status));
        let (event, outcome) = (route.event, noted.name());
        let labels = Labels { event, outcome };
        let counter = || Counter::clone(&self.events.get_or_create(&labels));
        route.counters[noted as usize].get_or_init(counter).inc();
        let source = source.map(origin);
        let suppressed = match is_refusal(noted, status, notes.is_alarm) {
            false => Suppressed::default(),
            true => {
                let is_limited = !notes.is_alarm && status.is_some_and(is_past_limit);
                let burst = if is_limited { LIMITED_BURST } else { REFUSED_BURST };
                match self.refusals().admit(labels, source.as_deref().unwrap_or_default(), burst, self.clock.passed()) {
                    Some(suppressed) => suppressed,
                    None => return,
                }
            }
        };
        let Suppressed { suppressed, suppressed_elsewhere } = suppressed;
        let person = notes.person.map(|person| self.hash(&person));
        let Notes { client, concerns, reason, .. } = notes;
        let (client, concerns, reason) = (client.as_deref(), concerns.as_deref(), reason.as_deref());
        let source = source.as_deref();
        let (person, status) = (person.as_deref(), status.map(|status| status.as_u16()));
        if notes.is_alarm {
            tracing::warn!(
                target: AUDIT_TARGET, event, outcome, status, source, client, concerns, person, reason, suppressed,
                suppressed_elsewhere
            );
        } else {
            tracing::info!(
                target: AUDIT_TARGET, event, outcome, status, source, client, concerns, person, reason, suppressed,
                suppressed_elsewhere
            );
        }
    }

    /// Writes an event that belongs to no request: `concerns` and `reason` as in [`AuditNotes`].
    pub fn write_own(&self, event: &'static str, outcome: AuditOutcome, concerns: &str, reason: Option<&str>) {
        let outcome = outcome.name();
        self.events.get_or_create(&Labels { event, outcome }).inc();
        tracing::info!(target: AUDIT_TARGET, event, outcome, concerns, reason);
    }

    /// The keyed hash of a person, in hex. keccak256 needs no construction against the extension of
    /// its input.
    fn hash(&self, person: &[u8; 32]) -> String {
        let hash = keccak256([self.key, *person].concat());
        hex::encode(&hash[..16])
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the event of a request is thinned: it was refused, failed or was abandoned, it has done
/// nothing, or it is an alarm, which may be repeated at will.
fn is_refusal(outcome: AuditOutcome, status: Option<StatusCode>, is_alarm: bool) -> bool {
    use AuditOutcome::{Asked, Limited, NoSession, Refused};
    let is_success = status.is_some_and(|status| status.is_success() || status.is_redirection());
    is_alarm || !is_success || matches!(outcome, Refused | Limited | NoSession | Asked)
}

/// How many events were left out before one that is written; `None` when all were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Suppressed {
    /// With the same name and outcome, from the same network.
    suppressed: Option<NonZeroU64>,
    /// With the same name and outcome, from networks that are not told apart any more.
    suppressed_elsewhere: Option<NonZeroU64>,
}

/// The events of refused requests that are not written.
#[derive(Default)]
struct Refusals {
    by_network: HashMap<(Labels, String), EventPace>,
    /// Of networks for which there is no room, by name and outcome, of which there are few.
    elsewhere: HashMap<Labels, EventPace>,
}

/// How fast events may be written, and how many were not.
#[derive(Clone, Copy, Default)]
struct EventPace {
    /// When, in terms of [`Clock::passed`], a complete burst may be written again.
    rested_at: Duration,
    suppressed: u64,
}

impl EventPace {
    /// Counts an event; whether it may be written.
    fn admit(&mut self, burst: u32, now: Duration) -> bool {
        let is_due = self.rested_at <= now + REFUSED_INTERVAL * (burst - 1);
        match is_due {
            true => self.rested_at = self.rested_at.max(now) + REFUSED_INTERVAL,
            false => self.suppressed += 1,
        }
        is_due
    }
}

impl Refusals {
    /// Counts an event; what was left out before, if this one is to be written.
    fn admit(&mut self, labels: Labels, network: &str, burst: u32, now: Duration) -> Option<Suppressed> {
        let key = (labels.clone(), network.to_owned());
        if self.by_network.len() >= MOST_NETWORKS && !self.by_network.contains_key(&key) {
            self.forget_rested(now);
        }
        let has_room = self.by_network.len() < MOST_NETWORKS || self.by_network.contains_key(&key);
        let of_network = match has_room {
            true => {
                let pace = self.by_network.entry(key).or_default();
                if !pace.admit(burst, now) {
                    return None;
                }
                NonZeroU64::new(std::mem::take(&mut pace.suppressed))
            }
            false if !self.elsewhere.entry(labels.clone()).or_default().admit(burst, now) => return None,
            false => None,
        };
        let elsewhere = self.elsewhere.get_mut(&labels).map(|pace| std::mem::take(&mut pace.suppressed));
        Some(Suppressed { suppressed: of_network, suppressed_elsewhere: elsewhere.and_then(NonZeroU64::new) })
    }

    /// Forgets the networks that have been quiet; what was left out of theirs is kept without their
    /// names.
    fn forget_rested(&mut self, now: Duration) {
        let Self { by_network, elsewhere } = self;
        by_network.retain(|(labels, _), pace| {
            let is_rested = pace.rested_at <= now;
            if is_rested && pace.suppressed > 0 {
                elsewhere.entry(labels.clone()).or_default().suppressed += pace.suppressed;
            }
            !is_rested
        });
    }
}

/// Whether a status says that the client, or all clients together, are past a limit.
fn is_past_limit(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

fn outcome_of(status: Option<StatusCode>) -> AuditOutcome {
    match status {
        None => AuditOutcome::Abandoned,
        Some(StatusCode::TOO_MANY_REQUESTS) => AuditOutcome::Limited,
        Some(status) if status.is_client_error() => AuditOutcome::Refused,
        Some(status) if status.is_server_error() => AuditOutcome::Failed,
        Some(_) => AuditOutcome::Success,
    }
}

/// Which requests to a route have an event.
#[derive(Debug)]
pub(super) struct AuditedRoute {
    /// Name of the event.
    pub event: &'static str,
    /// Whether only requests that are not answered with success have one.
    only_refusals: bool,
    /// The counter of each outcome, in their order, since the outcome was seen first. No request
    /// looks for one in the family.
    counters: [OnceLock<Counter>; AuditOutcome::COUNT],
}

impl AuditedRoute {
    pub fn new(event: &'static str, only_refusals: bool) -> Self {
        Self { event, only_refusals, counters: Default::default() }
    }
}

/// A request to an audited route. Its event is written when this is dropped, so exactly once, also
/// when the client closes its connection or the handler panics.
pub(super) struct AuditedRequest<'a> {
    trail: &'a AuditTrail,
    route: &'a AuditedRoute,
    pub notes: AuditNotes,
    source: Option<Source>,
    /// The status of the answer, once there is one.
    pub status: Option<StatusCode>,
}

impl<'a> AuditedRequest<'a> {
    /// A request to an audited route, without notes and without an answer.
    pub fn new(trail: &'a AuditTrail, route: &'a AuditedRoute, source: Option<Source>) -> Self {
        Self { trail, route, notes: AuditNotes::new(), source, status: None }
    }
}

impl Drop for AuditedRequest<'_> {
    fn drop(&mut self) {
        let is_success = self.status.is_some_and(|status| status.is_success());
        if !(self.route.only_refusals && is_success) {
            self.trail.write(self.route, &self.notes, self.status, self.source);
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
    outcome: Option<AuditOutcome>,
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

    /// What happened, where the status of the answer does not say it.
    pub fn outcome(&self, outcome: AuditOutcome) {
        self.change(|notes| notes.outcome = Some(outcome));
    }

    /// An outcome that an operator has to look at.
    pub fn alarm(&self, outcome: AuditOutcome) {
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
        self.outcome(AuditOutcome::Refused);
        self.reason(|| error.reason());
    }

    /// Why the request is rejected; see [`super::InterfaceError::reason`].
    pub fn reason(&self, reason: impl FnOnce() -> String) {
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
            assert_eq!(outcome_of(StatusCode::from_u16(status).ok()).name(), expected);
        }
        assert_eq!(outcome_of(None).name(), "abandoned");
        let (trail, route) = (trail([1; 32]), AuditedRoute::new("token", false));
        let notes = AuditNotes::new();
        notes.clone().alarm(AuditOutcome::CodeReused);
        let source = Some(Source::Address("127.0.0.1".parse().unwrap()));
        trail.write(&route, &notes, Some(StatusCode::BAD_REQUEST), source);
        for _ in 0..3 {
            trail.write(&route, &AuditNotes::default(), Some(StatusCode::TOO_MANY_REQUESTS), source);
        }
        // Another route with the same event counts together with it.
        let other = AuditedRoute::new("token", false);
        trail.write(&other, &AuditNotes::default(), Some(StatusCode::TOO_MANY_REQUESTS), source);
        let count = |outcome| trail.count("token", outcome);
        let counts = (count(AuditOutcome::CodeReused), count(AuditOutcome::Refused), count(AuditOutcome::Limited));
        assert_eq!(counts, (1, 0, 4));
    }

    #[test]
    fn refused_requests_are_thinned_for_each_network_and_what_is_left_out_is_said() {
        let mut refusals = Refusals::default();
        let labels = Labels { event: "tokens_issued", outcome: "refused" };
        let mut admit = |network: &str, seconds: u64| {
            let admitted = refusals.admit(labels.clone(), network, REFUSED_BURST, Duration::from_secs(seconds));
            admitted.map(|Suppressed { suppressed, suppressed_elsewhere }| {
                (suppressed.map_or(0, NonZeroU64::get), suppressed_elsewhere.map_or(0, NonZeroU64::get))
            })
        };
        let written = (0..100).filter_map(|_| admit("192.0.2.0/24", 5)).collect::<Vec<_>>();
        assert_eq!(written, [(0, 0); 10]);
        assert_eq!(admit("198.51.100.0/24", 5), Some((0, 0)), "another network has its own");
        assert_eq!((admit("192.0.2.0/24", 6), admit("192.0.2.0/24", 6)), (Some((90, 0)), None));
    }

    #[test]
    fn networks_without_room_share_a_pace_and_are_forgotten_when_they_are_quiet() {
        let mut refusals = Refusals::default();
        let labels = Labels { event: "tokens_issued", outcome: "refused" };
        let mut admit = |network: usize, seconds: u64| {
            let now = Duration::from_secs(seconds);
            let admitted = refusals.admit(labels.clone(), &network.to_string(), REFUSED_BURST, now);
            assert!(refusals.by_network.len() <= MOST_NETWORKS && refusals.elsewhere.len() <= 1);
            admitted.map(|Suppressed { suppressed, suppressed_elsewhere }| (suppressed, suppressed_elsewhere))
        };
        let none = Some((None, None));
        assert!((0..MOST_NETWORKS).all(|network| admit(network, 1) == none));
        // Further networks have what one has.
        let written = (0..100).filter(|number| admit(MOST_NETWORKS + number, 1).is_some()).count();
        assert_eq!(written, 10);
        assert_eq!(admit(0, 1), Some((None, NonZeroU64::new(90))));
        for _ in 0..20 {
            admit(7, 1);
        }
        // A minute later they are quiet, and there is room for others.
        assert_eq!(admit(1000, 61), Some((None, NonZeroU64::new(11))));
        assert_eq!(admit(7, 61), none);
    }

    #[test]
    fn events_of_requests_that_did_something_are_all_written() {
        let status = |status| StatusCode::from_u16(status).ok();
        for (outcome, code, is_alarm, expected) in [
            (AuditOutcome::Success, 200, false, false),
            (AuditOutcome::Success, 303, false, false),
            (AuditOutcome::RefusedByPerson, 200, false, false),
            (AuditOutcome::Refused, 303, false, true),
            (AuditOutcome::Refused, 400, false, true),
            (AuditOutcome::NoSession, 200, false, true),
            (AuditOutcome::CodeReused, 400, true, true),
            (AuditOutcome::Failed, 500, false, true),
        ] {
            assert_eq!(is_refusal(outcome, status(code), is_alarm), expected, "{outcome:?} {code}");
        }
        assert!(is_refusal(AuditOutcome::Abandoned, None, false));
    }

    #[test]
    fn the_hash_of_a_person_depends_on_the_key() {
        let hash = |key| trail([key; 32]).hash(&[7; 32]);
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
        assert_eq!(hash(1).len(), 32);
    }
}
