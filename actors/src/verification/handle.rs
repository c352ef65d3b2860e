//! The handle of proof verification, which takes a request through all its checks.
//!
//! The directory admits a request once. The proofs of the request then pass three steps, each with
//! the permits that admission took for them: every check that needs no curve ([`check_items`], on a
//! blocking thread), decoding and the pairings (the verifier pool), and the record of the verified
//! nullifiers ([`NullifierRecorder`]).

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use selfsame_protocol::chain::contracts::FollowedKey;
use selfsame_protocol::chain::deployment::RegisteredParty;
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::events::EventKind;
use selfsame_protocol::groth16::EncodedClaim;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::net::network_of;
use selfsame_protocol::verification::answer::ItemResult;
use selfsame_protocol::verification::directory::{
    ActionKey, AdmissionError, Admitted, Directory, PartyStanding, RelyingParty,
};
use selfsame_protocol::verification::groups::KnownGroups;
use selfsame_protocol::verification::integrity::IntegrityFinding;
use selfsame_protocol::verification::items::{ItemCode, ItemError, check_items};
use selfsame_protocol::verification::request::{MOST_RESPONSES, Proofs, RequestForm, VerificationRequest};
use selfsame_protocol::verification::rp_signature::{RpSignature, check_signature};
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_storage::{Counter, HistogramSnapshot, Metrics, Samples, StoreError, VerificationRecords};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::integrity::IssuerState;
use super::pool::{Job, VerifierPoolMessage, VerifierState};
use super::queue::{Origin, Permits, ProofPermit};
use super::recording::{
    NullifierRecorder, ProvedAction, RecordingResult, RequestRecord, SeenNullifier, results, session_proofs,
    verification_event, verified_nullifiers,
};
use super::refusals::{ApplicationLimiter, VerificationError};
use super::roots::{
    CheckedItems, GroupRoots, RootList, TrustedDataAt, TrustedDataError, TrustedSources, has_unknown_root,
    roots_to_look_for,
};
use super::settings::{ConfiguredKey, VerificationLimits, VerificationSettings};
use crate::chain::handle::{ChainHandle, UnseenContracts};
use crate::clock::Clock;
use crate::events::log::EventRecorder;
use crate::registry::handle::RegistryHandle;
use crate::support::slot::CallError;
use crate::support::source_limits::{SourceLimiter, register_refusals};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::Blocking;

/// A request of which at least one proof verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The application's id.
    pub app_id: String,
    /// The kind of the proofs.
    pub kind: ProofKind,
    /// The result of each item, in the items' order.
    pub results: Vec<ItemResult>,
    /// The first verified nullifier; `None` for session proofs, which are not recorded.
    pub nullifier: Option<SeenNullifier>,
    /// Whether any verified nullifier was seen before.
    pub is_reuse: bool,
    /// What was found of the request's integrity bundle.
    pub integrity: IntegrityFinding,
    /// In how many requests the action lets a nullifier be verified; 0 for any number.
    pub max_verifications: u64,
}

/// Statistics of the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VerifierStatistics {
    /// Proofs of verification requests that wait or are being checked.
    pub proofs_inside: usize,
    /// The most proofs of verification requests that may wait or be checked at a time.
    pub queue: usize,
    /// Proofs of sign-ins that wait or are being checked.
    pub sign_in_proofs_inside: usize,
    /// The most proofs of sign-ins that may wait or be checked at a time.
    pub sign_in_queue: usize,
    /// Proofs that held, since the start.
    pub good: u64,
    /// Proofs that did not hold, since the start. Proofs that were refused for other reasons are
    /// not counted.
    pub bad: u64,
}

/// A verification key, and what came of the proofs for it since the start.
struct CountedKey {
    configured: ConfiguredKey,
    verified: Counter,
    /// The proofs that failed, in the order of [`ItemCode::ALL`].
    failed: [Counter; ItemCode::ALL.len()],
}

impl CountedKey {
    fn new(configured: ConfiguredKey) -> Self {
        Self { configured, verified: Counter::default(), failed: Default::default() }
    }

    fn count(&self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let count = match verdict {
                Ok(()) => &self.verified,
                Err(error) => &self.failed[error.code() as usize],
            };
            count.inc();
        }
    }

    /// Each outcome that a proof had, with the number of proofs.
    fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let failed = ItemCode::ALL.into_iter().zip(&self.failed).map(|(code, count)| (code.name(), count.get()));
        std::iter::once(("verified", self.verified.get())).chain(failed).filter(|(_, count)| *count > 0)
    }
}

/// The most requests that wait for a look at a chain at a time. They hold the permits of their
/// proofs for up to a second.
const MOST_LOOKING: usize = 32;

/// The outcome of a proof's checks: verified, or why not.
pub(crate) type Verdict = Result<(), ItemError>;

/// A claim that waits for the pool, or why its item failed an earlier check.
type CheckedItem = Result<PermittedClaim, ItemError>;

/// A claim with the permit of its proof.
struct PermittedClaim {
    claim: EncodedClaim,
    permit: Option<ProofPermit>,
}

/// Proof verification, for front-ends and embedders. Cheap to clone. The handle stays valid when
/// its actors restart.
#[derive(Clone)]
pub struct VerificationHandle {
    pub(super) inner: Arc<Inner>,
}

/// What the clones of a handle share.
pub(super) struct Inner {
    verifier: Arc<VerifierState>,
    pub(super) registry: RegistryHandle,
    pub(super) chain: ChainHandle,
    groups: Arc<dyn GroupRoots>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) blocking: Blocking,
    keys: Vec<CountedKey>,
    directory: ArcSwap<Directory>,
    pub(super) roots: RootList,
    pub(super) integrity: ArcSwap<Vec<Arc<IssuerState>>>,
    pub(super) recorder: NullifierRecorder,
    pub(super) events: EventRecorder,
    pub(super) limits: ArcSwap<VerificationLimits>,
    pub(super) per_source: SourceLimiter,
    pub(super) per_application: ApplicationLimiter,
    /// One permit for each proof that waits or is checked. A request takes all of its permits or
    /// none. Each permit is released when the work for its proof ends, even when the caller no
    /// longer waits.
    pub(super) permits: Arc<Permits>,
    /// Permits for the proofs that answer sign-ins, which other proofs must not keep out.
    pub(super) sign_in_permits: Arc<Permits>,
    /// Permits for the requests that are prepared at a time, one per worker: a legacy proof against
    /// an unknown root is decoded, which takes a tenth of a millisecond.
    preparing: Arc<Semaphore>,
    /// Permits for the requests that wait for a look at a chain.
    looking: Semaphore,
}

impl VerificationHandle {
    /// Builds the handle, and reads the trusted roots that the operator added.
    pub(crate) fn new(
        surroundings: &Surroundings,
        settings: VerificationSettings,
        verifier: Arc<VerifierState>,
        sources: TrustedSources,
        records: VerificationRecords,
        events: EventRecorder,
    ) -> Result<Self, StoreError> {
        let VerificationSettings { queue, keys, directory, trusted_roots, attestation_issuers, limits, .. } = settings;
        let issuers = IssuerState::of(attestation_issuers, &[], surroundings.clock.now());
        let TrustedSources { registry, chain, groups } = sources;
        let records = Arc::new(records);
        Ok(Self {
            inner: Arc::new(Inner {
                permits: Arc::new(Permits::new(queue, MOST_RESPONSES)),
                sign_in_permits: Arc::new(Permits::new(queue.div_ceil(4), 1)),
                preparing: Arc::new(Semaphore::new(verifier.workers.len())),
                looking: Semaphore::new(MOST_LOOKING),
                verifier,
                registry,
                chain,
                groups,
                blocking: surroundings.blocking.clone(),
                keys: keys.into_iter().map(CountedKey::new).collect(),
                directory: ArcSwap::from_pointee(directory),
                roots: RootList::load(trusted_roots, Arc::clone(&records))?,
                integrity: ArcSwap::from_pointee(issuers),
                recorder: NullifierRecorder::new(surroundings, records, events.clone()),
                events,
                clock: Arc::clone(&surroundings.clock),
                limits: ArcSwap::from_pointee(limits),
                per_source: SourceLimiter::new(limits.per_source),
                per_application: ApplicationLimiter::new(limits.per_application),
            }),
        })
    }

    /// The deadline of a request that arrives now.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.inner.limits.load().time_limit
    }

    /// Checks a request that was sent to the relying party `path`: whether the directory admits it,
    /// whether its integrity bundle holds, then every proof, then whether its nullifiers have been
    /// seen. When this returns success, the nullifiers are recorded durably.
    ///
    /// `source` is the address of the client. One source, also a /56 of IPv6, may have a quarter of
    /// the proofs that wait, and after a false proof it shares no batch with others for a while.
    /// Requests without a source have none of these bounds: they can take every permit, and each of
    /// their false proofs can make the proofs of other clients in its batch cost up to 1.3 times as
    /// much as alone.
    ///
    /// # Errors
    /// See [`VerificationError`].
    pub async fn verify(
        &self,
        source: Option<IpAddr>,
        path: &str,
        request: VerificationRequest,
        deadline: Instant,
    ) -> Result<Verification, VerificationError> {
        let directory = self.inner.directory.load_full();
        let admitted = self.with_followed_key(directory.admit(path, &request)?, request.proofs.kind())?;
        self.check_signature(&admitted.relying_party, request.rp_signature).await?;
        let app_id = || admitted.relying_party.app_id.clone();
        let other_signal = |error| VerificationError::Signal { app_id: app_id(), error };
        admitted.check_signal(&request).map_err(other_signal)?;
        let request = Arc::new(request);
        let (integrity, bundle) = self.judge_bundle(&request, &admitted, deadline).await?;
        let origin = Origin { is_sign_in: false, network: source.map(network_of) };
        let verdicts = self.check(&request, &admitted, directory, origin, deadline).await?;
        let Admitted { relying_party, environment, action: configured, .. } = &admitted;
        let kind = request.proofs.kind();
        let app_id = relying_party.app_id.clone();
        if verdicts.iter().all(Result::is_err) {
            let verdicts = self.name_other_environment(&request, &admitted, verdicts, origin, deadline).await;
            return Err(VerificationError::AllFailed { app_id, results: results(&request.proofs, &verdicts) });
        }
        let results = results(&request.proofs, &verdicts);
        let max_verifications =
            configured.as_ref().map_or(request.form.default_max_verifications(), |action| action.max_verifications);
        let proved = request.proofs.action().map(|text| ProvedAction {
            key: ActionKey::new(&app_id, *environment, text),
            text,
            is_configured: configured.is_some(),
            max_verifications,
            user_presence_completed: request.user_presence_completed,
            nullifiers: verified_nullifiers(&request.proofs, &results),
        });
        let signed = request.rp_signature.as_ref().map(|signature| &signature.request);
        let is_told = self.inner.events.wants(EventKind::VerificationSucceeded, Some(&app_id));
        let event = is_told.then(|| verification_event(relying_party, *environment, &request, integrity, &results));
        let session_proofs = session_proofs(&app_id, *environment, &request.proofs, &results);
        let recorded = RequestRecord { app_id: &app_id, action: proved, session_proofs, signed, bundle, event };
        let RecordingResult { first, is_reuse } = self.inner.recorder.record(&recorded, deadline).await?;
        tracing::info!(
            app_id,
            environment = environment.name(),
            is_reuse,
            user_presence_completed = request.user_presence_completed,
            integrity = integrity.name(),
            "verified a proof"
        );
        Ok(Verification { app_id, kind, results, nullifier: first, is_reuse, integrity, max_verifications })
    }

    /// The verdicts of a request whose proofs all failed, with the legacy proofs named that hold in
    /// the application's other environment. Only proofs whose root is unknown are looked at, so
    /// each proof is checked against one key at most.
    async fn name_other_environment(
        &self,
        request: &Arc<VerificationRequest>,
        admitted: &Admitted,
        mut verdicts: Vec<Verdict>,
        origin: Origin,
        deadline: Instant,
    ) -> Vec<Verdict> {
        let Proofs::Legacy { action, items } = &request.proofs else { return verdicts };
        let mut environments = admitted.relying_party.environments.iter().copied();
        let Some(other) = environments.find(|other| *other != admitted.environment) else { return verdicts };
        let is_candidate = |verdict: &Verdict| verdict.as_ref().is_err_and(ItemError::is_unknown_root);
        let candidates: Vec<usize> = (0..items.len()).filter(|index| is_candidate(&verdicts[*index])).collect();
        // Clients of version 2 cannot name an environment.
        if candidates.is_empty() || request.form == RequestForm::Version2 {
            return verdicts;
        }
        let items = candidates.iter().map(|index| items[*index].clone()).collect();
        let proofs = Proofs::Legacy { action: action.clone(), items };
        let elsewhere =
            VerificationRequest { environment: other.into(), proofs, ..VerificationRequest::clone(request) };
        let admitted = Admitted { environment: other, ..admitted.clone() };
        let directory = self.inner.directory.load_full();
        // The proofs failed in any case: an overload is no reason to say less.
        let Ok(found) = self.check(&Arc::new(elsewhere), &admitted, directory, origin, deadline).await else {
            return verdicts;
        };
        for (index, verdict) in candidates.into_iter().zip(found) {
            if verdict.is_ok() {
                let given = request.environment.name();
                verdicts[index] = Err(ItemError::OtherEnvironment { holds_in: other, given });
            }
        }
        verdicts
    }

    /// Checks the relying party's signature of a request, and whether its nonce was used. That is
    /// decided when the request is recorded; here it saves the pairings.
    async fn check_signature(
        &self,
        party: &Arc<RelyingParty>,
        given: Option<RpSignature>,
    ) -> Result<(), VerificationError> {
        let (inner, party) = (Arc::clone(&self.inner), Arc::clone(party));
        let work = move || {
            let app_id = || party.app_id.clone();
            let failed = |error| VerificationError::RpSignature { app_id: app_id(), error };
            check_signature(party.signing, given.as_ref(), inner.clock.unix_seconds()).map_err(failed)?;
            match given {
                Some(RpSignature { request, .. }) if inner.recorder.is_used(&party.app_id, request.nonce)? => {
                    Err(VerificationError::UsedNonce { app_id: app_id() })
                }
                _ => Ok(()),
            }
        };
        if given.is_none() {
            return work();
        }
        let failed = |_| Err(VerificationError::unavailable("checking the signature failed"));
        self.inner.blocking.run(work).await.unwrap_or_else(failed)
    }

    /// Checks the first proof of a request, for the sign-in of an application. Records nothing.
    pub(crate) async fn check_sign_in(
        &self,
        app_id: &str,
        request: VerificationRequest,
        source: Option<IpAddr>,
        deadline: Instant,
    ) -> Result<Verdict, VerificationError> {
        let directory = self.inner.directory.load_full();
        let admitted = self.with_followed_key(directory.admit_sign_in(app_id, &request)?, request.proofs.kind())?;
        let origin = Origin { is_sign_in: true, network: source.map(network_of) };
        let verdicts = self.check(&Arc::new(request), &admitted, directory, origin, deadline).await?;
        verdicts.into_iter().next().ok_or_else(|| VerificationError::unavailable("the request has no proof"))
    }

    /// The relying party that an id names: its own, or that of its application.
    ///
    /// # Errors
    /// The id is malformed, or no relying party has it.
    pub fn relying_party(&self, id: &str) -> Result<Arc<RelyingParty>, AdmissionError> {
        self.inner.directory.load().relying_party(id).cloned()
    }

    /// The relying party of an application; `None` when no application has the id.
    pub fn application(&self, app_id: &str) -> Option<Arc<RelyingParty>> {
        self.inner.directory.load().application(app_id).cloned()
    }

    /// The groups that a legacy proof can name.
    pub fn known_groups(&self) -> KnownGroups {
        self.inner.directory.load().known_groups().clone()
    }

    /// The group whose members prove with the credential of this name in an environment; `None` for
    /// the name of another credential.
    pub(crate) fn group_of(&self, environment: Environment, identifier: &str) -> Option<GroupId> {
        let directory = self.inner.directory.load();
        directory.group_of(environment, directory.known_groups().credential(identifier)?)
    }

    /// How a relying party stands in an environment: as the configuration says, and where a
    /// registry of relying parties is followed, as it says.
    pub fn standing(&self, party: &RelyingParty, environment: Environment) -> PartyStanding {
        if !party.environments.contains(&environment) {
            return PartyStanding::Pending;
        }
        if !party.is_active || !party.has_active_application {
            return PartyStanding::Deactivated;
        }
        match self.inner.chain.relying_party(environment, party.rp_id) {
            Some(None) => PartyStanding::Pending,
            Some(Some(RegisteredParty { is_active: false, .. })) => PartyStanding::Deactivated,
            Some(Some(RegisteredParty { is_active: true, .. })) | None => PartyStanding::Registered,
        }
    }

    /// The configured description of an action; empty without one. Whatever came with a proof is
    /// the sender's word.
    pub fn action_description(&self, key: &ActionKey) -> String {
        self.inner.directory.load().action(key).map(|action| action.description.clone()).unwrap_or_default()
    }

    /// An admitted request with the OPRF key of its relying party, which a chain has when the
    /// configuration has none.
    fn with_followed_key(&self, mut admitted: Admitted, kind: ProofKind) -> Result<Admitted, VerificationError> {
        if kind == ProofKind::Legacy || admitted.oprf_public_key.is_some() {
            return Ok(admitted);
        }
        let RelyingParty { rp_id, app_id, .. } = &*admitted.relying_party;
        let (rp_id, app_id, now) = (*rp_id, app_id.clone(), self.inner.clock.unix_seconds());
        let followed = self.inner.chain.key(admitted.environment, KeyOwner::RelyingParty(rp_id), now);
        let followed = followed.map_err(|error| VerificationError::unavailable(error.to_string()))?;
        match followed {
            Some((FollowedKey::Present(key), _)) => admitted.oprf_public_key = Some(key),
            Some((state, source_name)) => {
                let is_deleted = state == FollowedKey::Deleted;
                return Err(AdmissionError::NoFollowedOprfKey { app_id, rp_id, source_name, is_deleted }.into());
            }
            None => return Err(AdmissionError::NoOprfKey { app_id, rp_id }.into()),
        }
        Ok(admitted)
    }

    /// Checks every proof of an admitted request; the verdicts are in the items' order.
    async fn check(
        &self,
        request: &Arc<VerificationRequest>,
        admitted: &Admitted,
        directory: Arc<Directory>,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Vec<Verdict>, VerificationError> {
        let permits = if origin.is_sign_in { &self.inner.sign_in_permits } else { &self.inner.permits };
        let permits = Permits::take(permits, origin.network, request.proofs.count());
        let permits = permits.ok_or_else(|| VerificationError::unavailable("too many proofs are waiting"))?;
        let key = self.key(admitted.environment, request.proofs.kind())?;
        let items = self.prepare(Arc::clone(request), admitted.clone(), directory, permits, deadline).await?;
        let verdicts = self.check_claims(items, &key.configured, origin, deadline).await?;
        key.count(&verdicts);
        Ok(verdicts)
    }

    fn key(&self, environment: Environment, kind: ProofKind) -> Result<&CountedKey, VerificationError> {
        let is_wanted = |key: &ConfiguredKey| (key.environment, key.kind) == (environment, kind);
        // The directory admits only kinds of proof that have a key, but it can be replaced while
        // the keys cannot.
        let missing = || VerificationError::unavailable("the verification key is not loaded");
        self.inner.keys.iter().find(|key| is_wanted(&key.configured)).ok_or_else(missing)
    }

    /// Checks everything about the items that needs no curve. Each claim keeps its permit. When
    /// the root of an item is unknown, it is looked for at the journal's end and then in the
    /// contracts that are followed, and the items are checked once more.
    async fn prepare(
        &self,
        request: Arc<VerificationRequest>,
        admitted: Admitted,
        directory: Arc<Directory>,
        mut permits: Vec<ProofPermit>,
        deadline: Instant,
    ) -> Result<Vec<CheckedItem>, VerificationError> {
        let check = |unseen| self.check_items(&request, &admitted, &directory, unseen, deadline);
        let mut checked = check(UnseenContracts::new()).await?;
        let mut caught_up = Ok(());
        if self.inner.registry.is_replica() && has_unknown_root(&checked) {
            // Another replica may have shown the root.
            caught_up = self.inner.registry.catch_up().await;
            if let Err(error) = self.inner.groups.settle().await {
                return Err(VerificationError::unavailable(error.to_string()));
            }
            checked = check(UnseenContracts::new()).await?;
        }
        let wanted = match self.inner.chain.is_empty() {
            true => HashSet::new(),
            false => roots_to_look_for(&request.proofs, admitted.environment, &directory, &checked),
        };
        if !wanted.is_empty() {
            // Past the limit, the roots stay unknown to contracts that could know them by now.
            let Ok(_looking) = self.inner.looking.try_acquire() else {
                return Err(VerificationError::unavailable("too many requests wait for roots"));
            };
            let unseen = self.inner.chain.look_for(admitted.environment, &wanted, deadline).await;
            checked = check(unseen).await?;
        }
        if let Err(error) = caught_up
            && has_unknown_root(&checked)
        {
            return Err(VerificationError::unavailable(error.to_string()));
        }
        let items = checked.map_err(|error| VerificationError::unavailable(error.to_string()))?;
        let mut permitted = |claim| PermittedClaim { claim, permit: permits.pop() };
        Ok(items.into_iter().map(|item| item.map(&mut permitted)).collect())
    }

    /// Checks the items on a blocking thread. The inner error is that of followed data which cannot
    /// decide now.
    async fn check_items(
        &self,
        request: &Arc<VerificationRequest>,
        admitted: &Admitted,
        directory: &Arc<Directory>,
        unseen: UnseenContracts,
        deadline: Instant,
    ) -> Result<CheckedItems, VerificationError> {
        let Ok(Ok(preparing)) = timeout_at(deadline, Arc::clone(&self.inner.preparing).acquire_owned()).await else {
            return Err(VerificationError::unavailable("too many requests are waiting"));
        };
        let inner = Arc::clone(&self.inner);
        let (request, admitted, directory) = (Arc::clone(request), admitted.clone(), Arc::clone(directory));
        let work = move || {
            // The permit is released when the work ends, even when the caller no longer waits.
            let _preparing = preparing;
            let now = inner.clock.unix_seconds();
            let Inner { roots, registry, chain, groups, .. } = &*inner;
            let (trusted, groups) = (&roots.published(), &**groups);
            let data = TrustedDataAt { trusted, registry, chain, groups, unseen: &unseen, now };
            match check_items(&request.proofs, &admitted, &directory, &data, now) {
                Ok(items) => Ok(Ok(items)),
                Err(TrustedDataError::Followed(error)) => Ok(Err(error)),
                Err(TrustedDataError::Store(error)) => Err(error.into()),
                Err(TrustedDataError::Group(error)) => Err(VerificationError::unavailable(error.to_string())),
            }
        };
        let failed = |_| Err(VerificationError::unavailable("checking the request failed"));
        self.inner.blocking.run(work).await.unwrap_or_else(failed)
    }

    /// Sends the claims to the pool; the verdicts are in the items' order.
    async fn check_claims(
        &self,
        items: Vec<CheckedItem>,
        ConfiguredKey { kind, key, .. }: &ConfiguredKey,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Vec<Verdict>, VerificationError> {
        let pool = &self.inner.verifier.pool;
        let queued_at = Instant::now();
        let verdicts = items.into_iter().map(|item| async move {
            let PermittedClaim { claim, permit } = match item {
                Ok(permitted) => permitted,
                Err(failure) => return Ok(Err(failure)),
            };
            let key = Arc::clone(key);
            let job = |reply| {
                VerifierPoolMessage::Check(Box::new(Job { key, claim, origin, queued_at, deadline, reply, permit }))
            };
            Ok(match pool.call(job, deadline).await? {
                Ok(true) => Ok(()),
                Ok(false) => Err(ItemError::DoesNotHold),
                Err(error) => Err(ItemError::of_proof(*kind, error)),
            })
        });
        let verdicts: Result<Vec<Verdict>, CallError> = join_all(verdicts).await.into_iter().collect();
        verdicts.map_err(|error| VerificationError::unavailable(format!("the proofs were not checked: {error}")))
    }

    /// Makes the records of events.
    pub(crate) fn events(&self) -> &EventRecorder {
        &self.inner.events
    }

    /// Changes the limits, from the next request on.
    pub fn set_limits(&self, limits: VerificationLimits) {
        self.inner.per_source.set(limits.per_source);
        self.inner.per_application.set(limits.per_application);
        self.inner.limits.store(Arc::new(limits));
    }

    /// Changes relying parties, actions and issuers, from the next request on.
    pub fn set_directory(&self, directory: Directory) {
        self.inner.directory.store(Arc::new(directory));
    }

    /// Statistics of the verifier.
    pub fn statistics(&self) -> VerifierStatistics {
        let Inner { verifier, permits, sign_in_permits, .. } = &*self.inner;
        VerifierStatistics {
            proofs_inside: permits.taken(),
            queue: permits.limit(),
            sign_in_proofs_inside: sign_in_permits.taken(),
            sign_in_queue: sign_in_permits.limit(),
            good: verifier.good.get(),
            bad: verifier.bad.get(),
        }
    }

    /// Adds the numbers of the verifier to `metrics`.
    pub(crate) fn register(&self, metrics: &mut Metrics) {
        let Inner { verifier, per_source, per_application, permits, sign_in_permits, .. } = &*self.inner;
        verifier.register(metrics);
        register_refusals(metrics, "verifications_per_source", "verification", &per_source.refused);
        register_refusals(metrics, "verifications_per_application", "verification", &per_application.refused);
        register_refusals(metrics, "verifier_queue", "verification", &permits.refused_of_source);
        register_refusals(metrics, "verifier_queue", "sign-in", &sign_in_permits.refused_of_source);
        let verification = self.clone();
        metrics.add_group(move |samples| verification.write_metrics(samples));
    }

    fn write_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let Inner { permits, sign_in_permits, keys, .. } = &*self.inner;
        let queues = |number: fn(&Permits) -> usize| {
            [([("queue", "verification")], number(permits)), ([("queue", "sign_in")], number(sign_in_permits))]
        };
        let help = "Proofs that wait for a worker or are being checked";
        samples.gauges("selfsame_verifier_proofs_inside", help, queues(Permits::taken))?;
        let help = "The most proofs that may wait or be checked";
        samples.gauges("selfsame_verifier_proofs_inside_limit", help, queues(Permits::limit))?;
        let verdicts = keys.iter().flat_map(|key| {
            let (environment, kind) = (key.configured.environment.name(), key.configured.kind.name());
            let labels = move |outcome| [("environment", environment), ("kind", kind), ("outcome", outcome)];
            key.outcomes().map(move |(outcome, count)| (labels(outcome), count))
        });
        let help = "Proofs by what came of them: verified, or the code of the error";
        samples.counters("selfsame_verifier_verdicts", help, verdicts)?;
        self.write_integrity_metrics(samples)
    }

    /// The seconds that proofs waited for a worker, since the start.
    pub fn wait_seconds(&self) -> HistogramSnapshot {
        self.inner.verifier.measured.wait_seconds.snapshot()
    }

    /// Computes the tables that each verification key otherwise computes at its first proof. Blocks
    /// the thread for a fraction of a second.
    pub fn warm_up(&self) {
        self.inner.keys.iter().for_each(|key| key.configured.key.warm_up());
    }
}
