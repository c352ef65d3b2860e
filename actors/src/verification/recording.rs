//! Recording of nullifiers, signed nonces and integrity bundles: each verification of a nullifier
//! is counted exactly once, each nonce is used once and each bundle for the same nullifiers alone,
//! even when many requests with the same ones race. What is told of a request: its results, and its
//! event.

use std::collections::BTreeSet;
use std::sync::Arc;

use selfsame_protocol::U256;
use selfsame_protocol::events::EventKind;
use selfsame_protocol::events::record::{RecordedEvent, VerificationEvent, VerifiedNullifier};
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::answer::ItemResult;
use selfsame_protocol::verification::directory::{ActionKey, RelyingParty};
use selfsame_protocol::verification::identity::{
    ActionRecord, MaxVerificationsReached, NullifierKey, SessionProof, count_verification,
};
use selfsame_protocol::verification::integrity::{BundleUse, IntegrityError, IntegrityFinding};
use selfsame_protocol::verification::request::{Proofs, VerificationRequest};
use selfsame_protocol::verification::rp_signature::{CLOCK_TOLERANCE, SignedNonce, SignedRequest};
use selfsame_storage::{Decision, StoreError, VerificationRecords, VerificationWrite};
use tokio::sync::{Mutex, MutexGuard, oneshot};
use tokio::time::{Instant, timeout_at};

use super::handle::Verdict;
use super::refusals::VerificationError;
use crate::clock::Clock;
use crate::events::log::EventRecorder;
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::surroundings::Surroundings;

/// Number of locks that nullifiers share: enough that two unrelated nullifiers rarely share one.
const LOCKS: usize = 1024;

/// What is recorded of a request with at least one verified proof.
pub(super) struct RequestRecord<'a> {
    pub app_id: &'a str,
    /// `None` for a session.
    pub action: Option<ProvedAction<'a>>,
    /// The verified proofs of a session, of which nothing else is recorded.
    pub session_proofs: Vec<SessionProof>,
    /// What the relying party signed, if the request has its signature.
    pub signed: Option<&'a SignedRequest>,
    /// The use of the request's integrity bundle, if it has one that holds.
    pub bundle: Option<BundleUse>,
    /// What receivers of events are told, without the nullifier; `None` when it is not told.
    pub event: Option<VerificationEvent>,
}

/// What a request has proved for its action.
pub(super) struct ProvedAction<'a> {
    pub key: ActionKey,
    pub text: &'a str,
    /// Whether the action is configured. Another one has a record.
    pub is_configured: bool,
    /// In how many requests a nullifier may be verified; 0 for any number.
    pub max_verifications: u64,
    pub user_presence_completed: bool,
    /// Each verified nullifier once, in the items' order.
    pub nullifiers: Vec<Nullifier>,
}

/// A nullifier and when it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenNullifier {
    /// The nullifier.
    pub nullifier: Nullifier,
    /// When it was first recorded, in Unix milliseconds.
    pub created_at: UnixMillis,
    /// In how many requests it was verified, with this one.
    pub verifications: u64,
}

/// The outcome of recording.
pub(super) struct RecordingResult {
    /// The first nullifier of the request.
    pub first: Option<SeenNullifier>,
    /// Whether any of the nullifiers had been seen before.
    pub is_reuse: bool,
}

/// Records nullifiers.
pub(super) struct NullifierRecorder {
    records: Arc<VerificationRecords>,
    events: EventRecorder,
    clock: Arc<dyn Clock>,
    announcer: Announcer,
    /// Serialises writers of the same nullifier. Without the locks, the writers that lose a race
    /// would retry their compare-and-write.
    locks: Vec<Mutex<()>>,
}

/// Why a request cannot be recorded.
enum RecordError {
    Store(StoreError),
    Limit(MaxVerificationsReached),
    UsedNonce,
    UsedBundle,
}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl NullifierRecorder {
    pub fn new(surroundings: &Surroundings, records: Arc<VerificationRecords>, events: EventRecorder) -> Self {
        let Surroundings { clock, announcer, .. } = surroundings.clone();
        Self { records, events, clock, announcer, locks: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }

    /// Whether a nonce of an application was used.
    pub fn is_used(&self, app_id: &str, nonce: U256) -> Result<bool, StoreError> {
        self.records.is_used(&SignedNonce::new(app_id, nonce))
    }

    /// Whether an integrity bundle was used before: for these nullifiers, or for others.
    fn is_first_use(&self, used: &BundleUse) -> Result<bool, RecordError> {
        match self.records.nullifiers_of_bundle(used.pair)? {
            None => Ok(true),
            Some(bound) if bound == used.nullifiers => Ok(false),
            Some(_) => Err(RecordError::UsedBundle),
        }
    }

    /// Whether an integrity bundle can be used. That is decided when the request is recorded; here
    /// it saves the pairings.
    pub fn may_use(&self, used: &BundleUse) -> Result<bool, StoreError> {
        Ok(self.records.nullifiers_of_bundle(used.pair)?.is_none_or(|bound| bound == used.nullifiers))
    }

    /// Records the nullifiers, the nonce and the integrity bundle of a request. When this returns
    /// success, they are durable.
    pub async fn record(
        &self,
        recorded: &RequestRecord<'_>,
        deadline: Instant,
    ) -> Result<RecordingResult, VerificationError> {
        let RequestRecord { action, signed, bundle, event, .. } = recorded;
        if action.is_none() && signed.is_none() && bundle.is_none() && event.is_none() {
            return Ok(RecordingResult { first: None, is_reuse: false });
        }
        let too_long = |_| {
            let reason = "recording the nullifiers took too long; they may have been recorded all the same";
            VerificationError::unavailable(reason)
        };
        let now = self.clock.unix_millis();
        let nullifiers = recorded.action.as_ref().map_or(&[][..], |action| &action.nullifiers);
        let _locked = timeout_at(deadline, self.lock(nullifiers)).await.map_err(too_long)?;
        loop {
            let write = self.write(recorded, now).map_err(|error| match error {
                RecordError::Store(error) => error.into(),
                RecordError::Limit(limit) => {
                    VerificationError::MaxVerifications { app_id: recorded.app_id.to_owned(), limit }
                }
                RecordError::UsedNonce => VerificationError::UsedNonce { app_id: recorded.app_id.to_owned() },
                RecordError::UsedBundle => VerificationError::Integrity {
                    app_id: recorded.app_id.to_owned(),
                    error: IntegrityError::OtherNullifiers,
                },
            })?;
            if write == VerificationWrite::default() {
                // A session's proof that receivers of events were told of leaves no other record.
                return Ok(recording_result(&write));
            }
            fault_point!(self.records.fault_scope(), NullifierWrite);
            let (decided, decision) = oneshot::channel();
            self.records.write(&write, Box::new(move |result| drop(decided.send(result))));
            let decision = timeout_at(deadline, decision).await.map_err(too_long)?;
            match decision.unwrap_or(Err(StoreError::Panicked))? {
                Decision::Written => {
                    if write.event.is_some() {
                        self.events.written();
                    }
                    self.announce_nullifiers(recorded, &write);
                    return Ok(recording_result(&write));
                }
                // Another request has recorded the same nullifier, action or nonce in the meantime.
                Decision::Changed if Instant::now() < deadline => {}
                Decision::Changed => {
                    return Err(VerificationError::unavailable("many requests record the nullifier at the same time"));
                }
            }
        }
    }

    /// Tells embedders which nullifiers were recorded.
    fn announce_nullifiers(&self, recorded: &RequestRecord<'_>, write: &VerificationWrite) {
        for (key, _, after) in &write.nullifiers {
            self.announcer.announce(|| ServiceEvent::NullifierRecorded {
                app_id: recorded.app_id.to_owned(),
                action: recorded.action.as_ref().map_or("", |proved| proved.text).to_owned(),
                nullifier: key.nullifier,
                created_at: after.created_at,
                verifications: after.verifications,
            });
        }
    }

    /// Locks the nullifiers. Every request takes its locks in the same order, so two requests never
    /// wait for each other.
    async fn lock(&self, nullifiers: &[Nullifier]) -> Vec<MutexGuard<'_, ()>> {
        // Nullifiers are hashes, so their last bits are evenly distributed.
        let index = |nullifier: &Nullifier| nullifier.0.as_limbs()[0] as usize % LOCKS;
        let indices: BTreeSet<usize> = nullifiers.iter().map(index).collect();
        let mut locked = Vec::with_capacity(indices.len());
        for index in indices {
            locked.push(self.locks[index].lock().await);
        }
        locked
    }

    /// The write that changes the records from what they are now to what they become.
    fn write(&self, recorded: &RequestRecord<'_>, now: UnixMillis) -> Result<VerificationWrite, RecordError> {
        let mut write = match &recorded.action {
            Some(proved) => self.nullifier_write(proved, now)?,
            None => VerificationWrite::default(),
        };
        if let Some(signed) = recorded.signed {
            let nonce = SignedNonce::new(recorded.app_id, signed.nonce);
            if self.records.is_used(&nonce)? {
                return Err(RecordError::UsedNonce);
            }
            // Another replica may take the signature for good a while longer.
            write.used_nonce = Some((nonce, signed.expires_at.plus(CLOCK_TOLERANCE)));
        }
        if let Some(used) = recorded.bundle
            && self.is_first_use(&used)?
        {
            write.used_bundle = Some(used);
        }
        let Some(event) = &recorded.event else { return Ok(write) };
        let (window, seconds) = (self.events.repeat_window(), UnixSeconds(now.0 / 1000));
        let sessions = recorded.session_proofs.iter().map(|proof| Ok((*proof, self.records.told_until(proof)?)));
        let sessions: Vec<_> = sessions.collect::<Result<_, StoreError>>()?;
        // Receivers are told of a request only when one of its proofs was not told of within the
        // window.
        let is_news = write.nullifiers.iter().any(|(.., after)| after.is_news(now, window))
            || sessions.iter().any(|(_, told_until)| told_until.is_none_or(|until| until <= seconds));
        if !is_news {
            return Ok(write);
        }
        let nullifier = write.nullifiers.first().map(|(key, _, after)| VerifiedNullifier {
            nullifier: key.nullifier,
            first_verified_at: after.created_at,
            uses: after.verifications,
        });
        let event = || RecordedEvent::Verification(VerificationEvent { nullifier, ..event.clone() });
        write.event = self.events.record(EventKind::VerificationSucceeded, Some(recorded.app_id), now, event);
        if write.event.is_some() {
            for (.., after) in &mut write.nullifiers {
                after.told_at = Some(now);
            }
            let forgotten_at = seconds.plus(window.as_secs());
            let sessions = sessions.into_iter().filter(|(_, told_until)| *told_until != Some(forgotten_at));
            write.told_sessions = sessions.map(|(proof, before)| (proof, before, forgotten_at)).collect();
        }
        Ok(write)
    }

    fn nullifier_write(&self, proved: &ProvedAction<'_>, now: UnixMillis) -> Result<VerificationWrite, RecordError> {
        let verified = |nullifier: &Nullifier| {
            let key = NullifierKey { action: proved.key, nullifier: *nullifier };
            let before = self.records.nullifier(&key)?;
            let after =
                count_verification(before.as_ref(), proved.max_verifications, now, proved.user_presence_completed);
            Ok((key, before, after.map_err(RecordError::Limit)?))
        };
        let nullifiers = proved.nullifiers.iter().map(verified).collect::<Result<_, RecordError>>()?;
        let is_known = proved.is_configured || self.records.action(&proved.key)?.is_some();
        let new_action = (!is_known).then(|| (proved.key, ActionRecord::new(proved.text, now)));
        Ok(VerificationWrite { nullifiers, new_action, ..VerificationWrite::default() })
    }
}

fn recording_result(write: &VerificationWrite) -> RecordingResult {
    let first = write.nullifiers.first();
    RecordingResult {
        first: first.map(|(key, _, after)| SeenNullifier {
            nullifier: key.nullifier,
            created_at: after.created_at,
            verifications: after.verifications,
        }),
        is_reuse: write.nullifiers.iter().any(|(_, before, _)| before.is_some()),
    }
}

// The results of a request, and what receivers of events are told of it.

pub(super) fn results(proofs: &Proofs, verdicts: &[Verdict]) -> Vec<ItemResult> {
    let session_id = proofs.session_id().map(|session_id| &session_id.text);
    let result = |((identifier, nullifier), verdict): ((&str, Nullifier), &Verdict)| match verdict {
        Ok(()) => ItemResult::verified(identifier.to_owned(), nullifier, session_id.cloned()),
        Err(failure) => ItemResult::failed(identifier.to_owned(), failure),
    };
    proofs.identifiers_and_nullifiers().into_iter().zip(verdicts).map(result).collect()
}

/// What receivers of events are told of a request, but its nullifier.
pub(super) fn verification_event(
    party: &RelyingParty,
    environment: Environment,
    request: &VerificationRequest,
    integrity: IntegrityFinding,
    results: &[ItemResult],
) -> VerificationEvent {
    let nonce = match &request.proofs {
        Proofs::Legacy { .. } => None,
        Proofs::Uniqueness { nonce, .. } | Proofs::Session { nonce, .. } => Some(*nonce),
    };
    let session_id = request.proofs.session_id().map(|session_id| session_id.text.clone()).unwrap_or_default();
    let verified = results.iter().filter(|result| result.success);
    VerificationEvent {
        app_id: party.app_id.clone(),
        rp_id: party.rp_id,
        environment,
        kind: request.proofs.kind(),
        action: request.proofs.action().unwrap_or_default().to_owned(),
        session_id,
        nonce,
        identifiers: verified.map(|result| result.identifier.clone()).collect(),
        nullifier: None,
        user_presence_completed: request.user_presence_completed,
        integrity,
        sybil_score: verified_score(&request.proofs, results),
    }
}

/// The score of the first verified proof of Selfie Check.
fn verified_score(proofs: &Proofs, results: &[ItemResult]) -> Option<u64> {
    let items = match proofs {
        Proofs::Legacy { .. } => return None,
        Proofs::Uniqueness { items, .. } | Proofs::Session { items, .. } => items,
    };
    items.iter().zip(results).filter(|(_, result)| result.success).find_map(|(item, _)| item.sybil_score)
}

/// The nullifiers of the verified items, each once, in the items' order.
pub(super) fn verified_nullifiers(proofs: &Proofs, results: &[ItemResult]) -> Vec<Nullifier> {
    let mut verified = Vec::new();
    for ((_, nullifier), result) in proofs.identifiers_and_nullifiers().into_iter().zip(results) {
        if result.success && !verified.contains(&nullifier) {
            verified.push(nullifier);
        }
    }
    verified
}

/// The verified proofs of a session.
pub(super) fn session_proofs(
    app_id: &str,
    environment: Environment,
    proofs: &Proofs,
    results: &[ItemResult],
) -> Vec<SessionProof> {
    let Proofs::Session { nonce, .. } = proofs else { return Vec::new() };
    let proof = |nullifier| SessionProof::new(app_id, environment, *nonce, nullifier);
    verified_nullifiers(proofs, results).into_iter().map(proof).collect()
}
