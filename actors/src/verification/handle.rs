//! Proof verification from outside: one handle that takes a request through all its checks.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use selfsame_protocol::groth16::{Claim, InputCountError, PreparedKey};
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::verification::answer::ItemResult;
use selfsame_protocol::verification::directory::{ActionKey, AdmissionError, Admitted, Directory};
use selfsame_protocol::verification::items::{ItemFailure, KnownRoots, check_items};
use selfsame_protocol::verification::nullifiers::{
    ActionRecord, MaxVerificationsReached, NullifierKey, NullifierRecord, verified_again,
};
use selfsame_protocol::verification::request::{NumberText, Proofs, VerificationRequest};
use selfsame_protocol::verification::roots::{RootAge, TrustedRoot, TrustedRoots};
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_protocol::{B256, U256};
use selfsame_storage::{Decision, GroupCommit, Store, StoreError, VerifiedRequest};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::clock::{Clock, Random};
use crate::registry::handle::{RateLimiter, RegistryHandle, network_of};
use crate::support::slot::{CallError, Slot};
use crate::verification::pool::{Job, VerifierPoolMessage};

/// A verification key and where it counts.
pub type PlacedKey = ((Environment, ProofKind), Arc<PreparedKey>);

/// How verification is set up.
#[derive(Clone)]
pub struct VerificationSettings {
    /// Proofs that are checked at a time.
    pub workers: usize,
    /// Proofs that may be inside, waiting or being checked; more are refused.
    pub queue: usize,
    /// How long a request may take.
    pub patience: Duration,
    /// Limit of requests by source address (IPv6 by /64); `None` is off.
    pub per_source: Option<RateLimit>,
    /// The verification keys. A key that serves twice should be one `Arc`, so that its proofs share batches.
    pub keys: Vec<PlacedKey>,
    /// Who may ask for what.
    pub directory: Directory,
    /// Roots that are trusted beside those of the registry and those that the operator added.
    pub trusted_roots: Vec<TrustedRoot>,
    /// What decides whether proofs hold. For whoever injects faults; everybody else keeps [`Pairings`].
    pub checker: Arc<dyn ProofChecker>,
}

impl Default for VerificationSettings {
    /// No keys and nobody who may ask: every request is refused.
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            queue: 1024,
            patience: Duration::from_secs(8),
            per_source: None,
            keys: Vec::new(),
            directory: Directory::default(),
            trusted_roots: Vec::new(),
            checker: Arc::new(Pairings),
        }
    }
}

impl std::fmt::Debug for VerificationSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|(place, _)| place).collect();
        f.debug_struct("VerificationSettings")
            .field("workers", &self.workers)
            .field("queue", &self.queue)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// Decides which of several proofs of one key hold. Runs on a worker's thread; a panic costs the proofs at hand an answer.
pub trait ProofChecker: Send + Sync + 'static {
    /// One answer for each claim, in their order.
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError>;
}

/// Checks the pairings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pairings;

impl ProofChecker for Pairings {
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError> {
        key.which_hold(claims, &mut || {
            let mut bytes = [0; 16];
            random.fill(&mut bytes);
            u128::from_le_bytes(bytes)
        })
    }
}

/// Locks for nullifiers that are being recorded: enough that two of different people rarely share one.
const RECORDING_STRIPES: usize = 1024;

/// What the pool, its workers and the handles share.
pub(crate) struct VerifierShared {
    pub pool: Slot<VerifierPoolMessage>,
    pub workers: Vec<WorkerRecord>,
    pub checker: Arc<dyn ProofChecker>,
    pub random: Arc<dyn Random>,
    /// Proofs checked since the start: those that hold, and the others.
    pub good: AtomicU64,
    pub bad: AtomicU64,
    instance: String,
}

/// What is known about a worker, across its restarts.
#[derive(Default)]
pub(crate) struct WorkerRecord {
    starts: AtomicU64,
    /// The name of the one that works now, and since when it has been busy.
    now: Mutex<(String, Option<Instant>)>,
}

impl WorkerRecord {
    pub fn begin(&self) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(Instant::now());
    }

    pub fn rest(&self) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1 = None;
    }

    /// Starts after the first.
    pub fn restarts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Its name, and for how long it has been busy with one batch.
    pub fn busy(&self) -> (String, Duration) {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        (now.0.clone(), now.1.map_or(Duration::ZERO, |since| since.elapsed()))
    }
}

impl VerifierShared {
    /// A name that no worker had before: the one that is replaced may not have given its own back yet.
    pub fn next_worker_name(&self, index: usize) -> String {
        let record = &self.workers[index];
        let start = record.starts.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}/verifier/worker-{index}.{start}", self.instance);
        *record.now.lock().unwrap_or_else(PoisonError::into_inner) = (name.clone(), None);
        name
    }

    pub fn new(instance: &str, settings: &VerificationSettings, random: Arc<dyn Random>) -> Self {
        Self {
            // What is inside is bounded by places, see [`VerificationShared`].
            pool: Slot::new(format!("{instance}/verifier"), usize::MAX),
            workers: (0..settings.workers.max(1)).map(|_| WorkerRecord::default()).collect(),
            checker: Arc::clone(&settings.checker),
            random,
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            instance: instance.to_owned(),
        }
    }
}

pub(crate) struct VerificationShared {
    pub verifier: Arc<VerifierShared>,
    registry: RegistryHandle,
    store: Store,
    clock: Arc<dyn Clock>,
    keys: Vec<PlacedKey>,
    directory: ArcSwap<Directory>,
    trusted_roots: ArcSwap<TrustedRoots>,
    configured_roots: Vec<TrustedRoot>,
    patience: Duration,
    queue: usize,
    per_source: Mutex<(Option<RateLimit>, RateLimiter<IpAddr>)>,
    /// Places for proofs. A request takes all of its places when it comes, and each is given back when nothing is done for its
    /// proof any more, whether or not somebody still waits for the answer.
    places: Arc<Semaphore>,
    /// Bounds the work on requests before their proofs are queued: decoding points takes a fraction of a millisecond each.
    preparing: Arc<Semaphore>,
    /// Who records a nullifier holds the lock of its stripe, so that many who race for one take turns instead of each other's
    /// time.
    recording: Vec<tokio::sync::Mutex<()>>,
    /// One change of the trusted roots at a time.
    adding_root: tokio::sync::Mutex<()>,
    group_commit: GroupCommit,
}

/// Why a request was not answered with success.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VerificationError {
    /// It is refused before its proofs are looked at.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// No proof verified.
    #[error("no proof of the request verified; results says why for each")]
    AllFailed { app_id: String, results: Vec<ItemResult> },
    /// A nullifier has been verified as often as its action allows.
    #[error("{limit}")]
    MaxVerifications { app_id: String, limit: MaxVerificationsReached },
    /// More proofs are inside than may be, or the verifier is restarting, or it took too long. In the last case the nullifiers
    /// may have been recorded all the same.
    #[error("{reason}; try again")]
    Unavailable { reason: String },
    /// The state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A source asked too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests from this address; try again in {} s", retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0))]
pub struct TooManyVerifications {
    /// How long until another request is taken.
    pub retry_after: Duration,
}

/// A request of which at least one proof verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    pub app_id: String,
    /// One for each item, in their order.
    pub results: Vec<ItemResult>,
    /// The first verified nullifier; `None` for sessions, which leave no record.
    pub nullifier: Option<SeenNullifier>,
    /// Whether any verified nullifier was seen before.
    pub is_reuse: bool,
}

/// How the verifier is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VerifierStatistics {
    /// Proofs that wait or are being checked.
    pub proofs_inside: usize,
    /// How many may be.
    pub queue: usize,
    /// Proofs that held, since the start.
    pub good: u64,
    /// Proofs that did not. Those that were refused for other reasons are not counted.
    pub bad: u64,
}

/// A nullifier and when it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenNullifier {
    pub nullifier: U256,
    /// Unix milliseconds.
    pub created_at: u64,
}

/// Proof verification, for front-ends and embedders. Cheap to clone; finds its actors again after they were restarted.
#[derive(Clone)]
pub struct VerificationHandle {
    pub(crate) shared: Arc<VerificationShared>,
}

impl VerificationHandle {
    pub(crate) fn new(
        settings: VerificationSettings,
        verifier: Arc<VerifierShared>,
        registry: RegistryHandle,
        store: Store,
        clock: Arc<dyn Clock>,
        group_commit: GroupCommit,
    ) -> Result<Self, StoreError> {
        let VerificationSettings {
            queue, keys, directory, trusted_roots: configured_roots, patience, per_source, ..
        } = settings;
        let places = Arc::new(Semaphore::new(queue.min(Semaphore::MAX_PERMITS)));
        let preparing = Arc::new(Semaphore::new(verifier.workers.len()));
        let trusted_roots = configured_roots.iter().copied().chain(store.trusted_roots()?).collect();
        Ok(Self {
            shared: Arc::new(VerificationShared {
                verifier,
                registry,
                store,
                clock,
                keys,
                directory: ArcSwap::from_pointee(directory),
                trusted_roots: ArcSwap::from_pointee(trusted_roots),
                configured_roots,
                patience,
                per_source: Mutex::new((per_source, RateLimiter::new())),
                queue,
                places,
                preparing,
                recording: (0..RECORDING_STRIPES).map(|_| tokio::sync::Mutex::default()).collect(),
                adding_root: tokio::sync::Mutex::new(()),
                group_commit,
            }),
        })
    }

    /// Until when a request that comes now should be answered.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.shared.patience
    }

    /// Checks a request that was sent to the relying party `path`: who asks, then every proof, then whether its nullifiers
    /// have been seen. When this returns success, the nullifiers are recorded durably.
    ///
    /// # Errors
    /// See [`VerificationError`].
    pub async fn verify(
        &self,
        path: &str,
        request: VerificationRequest,
        deadline: Instant,
    ) -> Result<Verification, VerificationError> {
        let shared = &self.shared;
        let directory = shared.directory.load_full();
        let request = Arc::new(request);
        let Admitted { relying_party, environment, action: configured } = directory.admit(path, &request)?;
        let (rp_id, app_id) = (relying_party.rp_id, relying_party.app_id.clone());
        let places = Arc::clone(&shared.places).try_acquire_many_owned(request.proofs.count());
        let places = places.map_err(|_| unavailable("too many proofs are waiting"))?;
        let items = self.prepare(path, &request, &directory, Directory::admit, places, deadline).await?;
        let verdicts = self.check(items, (environment, request.proofs.kind()), deadline).await?;
        let results = results(&request.proofs, &verdicts);
        if results.iter().all(|result| !result.success) {
            return Err(VerificationError::AllFailed { app_id, results });
        }
        let (nullifier, is_reuse) = match request.proofs.action() {
            None => (None, false),
            Some(action) => {
                let visit = Visit {
                    action: ActionKey::new(rp_id, environment, action),
                    action_text: action,
                    description: &request.action_description,
                    is_configured: configured.is_some(),
                    max_verifications: configured.map_or(0, |action| action.max_verifications),
                    user_presence_completed: request.user_presence_completed,
                    nullifiers: verified_nullifiers(&request.proofs, &results),
                };
                self.record(&visit, &app_id, deadline).await?
            }
        };
        tracing::info!(
            app_id,
            environment = environment.name(),
            is_reuse,
            user_presence_completed = request.user_presence_completed,
            "verified a proof"
        );
        Ok(Verification { app_id, results, nullifier, is_reuse })
    }

    /// Whether the only proof of a request holds, for the sign-in of an application. Records nothing.
    pub(crate) async fn check_one(
        &self,
        app_id: &str,
        request: VerificationRequest,
        deadline: Instant,
    ) -> Result<Result<(), ItemFailure>, VerificationError> {
        let directory = self.shared.directory.load_full();
        let request = Arc::new(request);
        let environment = directory.admit_sign_in(app_id, &request)?.environment;
        let places = Arc::clone(&self.shared.places).try_acquire_many_owned(request.proofs.count());
        let places = places.map_err(|_| unavailable("too many proofs are waiting"))?;
        let admit = Directory::admit_sign_in;
        let items = self.prepare(app_id, &request, &directory, admit, places, deadline).await?;
        let verdicts = self.check(items, (environment, request.proofs.kind()), deadline).await?;
        verdicts.into_iter().next().ok_or_else(|| unavailable("the request has no proof"))
    }

    /// Everything about the items that needs no pairing, off the async threads. Each claim keeps its place.
    async fn prepare(
        &self,
        path: &str,
        request: &Arc<VerificationRequest>,
        directory: &Arc<Directory>,
        admit: Admit,
        places: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<Vec<Result<PlacedClaim, ItemFailure>>, VerificationError> {
        let turn = match timeout_at(deadline, Arc::clone(&self.shared.preparing).acquire_owned()).await {
            Ok(Ok(turn)) => turn,
            _ => return Err(unavailable("too many requests are waiting")),
        };
        let (shared, directory) = (Arc::clone(&self.shared), Arc::clone(directory));
        let (path, request) = (path.to_owned(), Arc::clone(request));
        let checked = spawn_blocking(move || {
            // It is over when this is over, also if nobody waits for it any more.
            let _turn = turn;
            let mut places = places;
            let admitted = admit(&directory, &path, &request)?;
            let now = shared.clock.unix_seconds();
            let roots = Roots { shared: &shared, now };
            let items = check_items(&request.proofs, admitted, &directory, &roots, now)?;
            let mut placed = |claim| PlacedClaim { claim, place: places.split(1) };
            Ok(items.into_iter().map(|item| item.map(&mut placed)).collect())
        });
        checked.await.unwrap_or_else(|_| Err(unavailable("checking the request failed")))
    }

    /// Lets the pool check the claims; the items in their order, each verified or with its failure.
    async fn check(
        &self,
        items: Vec<Result<PlacedClaim, ItemFailure>>,
        key: (Environment, ProofKind),
        deadline: Instant,
    ) -> Result<Vec<Result<(), ItemFailure>>, VerificationError> {
        let found = self.shared.keys.iter().find(|(place, _)| *place == key);
        // Admission has asked the directory, which was made with the same keys.
        let (_, key) = found.ok_or_else(|| unavailable("the verification key is not loaded"))?;
        let pool = &self.shared.verifier.pool;
        let verdicts = items.into_iter().map(|item| async move {
            let PlacedClaim { claim, place } = match item {
                Ok(placed) => placed,
                Err(failure) => return Ok(Err(failure)),
            };
            let job = |reply| {
                let key = Arc::clone(key);
                VerifierPoolMessage::Check(Box::new(Job { key, claim, deadline, reply, place }))
            };
            match pool.probe(job, deadline).await {
                Ok(true) => Ok(Ok(())),
                Ok(false) => Ok(Err(ItemFailure::DoesNotHold)),
                Err(error) => Err(error),
            }
        });
        let verdicts: Result<Vec<_>, CallError> = join_all(verdicts).await.into_iter().collect();
        verdicts.map_err(|error| unavailable(&format!("the proofs were not checked: {error}")))
    }

    /// Records the nullifiers of a visit; the first with its time, and whether any was known.
    async fn record(
        &self,
        visit: &Visit<'_>,
        app_id: &str,
        deadline: Instant,
    ) -> Result<(Option<SeenNullifier>, bool), VerificationError> {
        let now = self.shared.clock.now().as_millis() as u64;
        let too_long =
            |_| unavailable("recording the nullifiers took too long; they may have been recorded all the same");
        let _turns = timeout_at(deadline, self.lock(visit)).await.map_err(too_long)?;
        loop {
            let verified = visit.records(&self.shared.store, now).map_err(|error| match error {
                RecordError::Store(error) => error.into(),
                RecordError::Limit(limit) => VerificationError::MaxVerifications { app_id: app_id.to_owned(), limit },
            })?;
            let first = verified.nullifiers.first();
            let first =
                first.map(|(key, _, after)| SeenNullifier { nullifier: key.nullifier, created_at: after.created_at });
            let is_reuse = verified.nullifiers.iter().any(|(_, before, _)| before.is_some());
            let (conditions, changes) = verified.into_changes();
            fault_point!(NullifierWrite);
            let (decided, decision) = oneshot::channel();
            let decided = move |result| drop(decided.send(result));
            self.shared.group_commit.commit_if(conditions, changes, Box::new(decided));
            let decision = timeout_at(deadline, decision).await.map_err(too_long)?;
            match decision.unwrap_or(Err(StoreError::Closing))? {
                Decision::Written => return Ok((first, is_reuse)),
                // Somebody else has verified the same nullifier or action in the meantime.
                Decision::Changed if Instant::now() < deadline => {}
                Decision::Changed => return Err(unavailable("the nullifier is being verified by many at once")),
            }
        }
    }

    /// Locks the stripes of a visit's nullifiers, in the order that everybody takes them in.
    async fn lock(&self, visit: &Visit<'_>) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let stripes: BTreeSet<usize> = visit.nullifiers.iter().map(stripe).collect();
        let mut turns = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            turns.push(self.shared.recording[stripe].lock().await);
        }
        turns
    }

    /// Counts a request of a source, or refuses it. A front-end asks first of all; embedders need not.
    pub fn charge_source(&self, source: IpAddr) -> Result<(), TooManyVerifications> {
        let mut per_source = self.shared.per_source.lock().unwrap_or_else(PoisonError::into_inner);
        let (limit, limiter) = &mut *per_source;
        let Some(windows) = limiter.under(*limit) else { return Ok(()) };
        let (source, now) = (network_of(source), self.shared.clock.now());
        windows.check(&source, now).map_err(|retry_after| TooManyVerifications { retry_after })?;
        windows.charge(source, now);
        Ok(())
    }

    /// Changes the limit of requests by source address, from the next request on.
    pub fn limit_sources(&self, limit: Option<RateLimit>) {
        self.shared.per_source.lock().unwrap_or_else(PoisonError::into_inner).0 = limit;
    }

    /// Changes who may ask for what, from the next request on.
    pub fn set_directory(&self, directory: Directory) {
        self.shared.directory.store(Arc::new(directory));
    }

    /// How the verifier is doing.
    pub fn statistics(&self) -> VerifierStatistics {
        let verifier = &self.shared.verifier;
        VerifierStatistics {
            proofs_inside: self.shared.queue.saturating_sub(self.shared.places.available_permits()),
            queue: self.shared.queue,
            good: verifier.good.load(Ordering::Relaxed),
            bad: verifier.bad.load(Ordering::Relaxed),
        }
    }

    /// Computes what the verification keys would compute at their first proof: a fraction of a second. Blocks the thread.
    pub fn warm_up(&self) {
        self.shared.keys.iter().for_each(|(_, key)| key.warm_up());
    }

    /// The trusted roots.
    pub fn trusted_roots(&self) -> Arc<TrustedRoots> {
        self.shared.trusted_roots.load_full()
    }

    /// Trusts a root from now on, durably. Goes its way also if the caller does not wait for it.
    pub async fn trust_root(&self, root: TrustedRoot) -> Result<(), StoreError> {
        let handle = self.clone();
        let trusting = tokio::spawn(async move { handle.add_root(root).await });
        trusting.await.unwrap_or(Err(StoreError::Closing))
    }

    async fn add_root(&self, root: TrustedRoot) -> Result<(), StoreError> {
        let shared = &self.shared;
        let _alone = shared.adding_root.lock().await;
        let (written, durable) = oneshot::channel();
        let written = move |result| drop(written.send(result));
        shared.group_commit.commit(Store::trust_root(&root), Box::new(written));
        durable.await.unwrap_or(Err(StoreError::Closing))?;
        let stored = shared.store.trusted_roots()?;
        shared.trusted_roots.store(Arc::new(shared.configured_roots.iter().copied().chain(stored).collect()));
        Ok(())
    }
}

/// Decides whether the proofs of a request are looked at.
type Admit = for<'d> fn(&'d Directory, &str, &VerificationRequest) -> Result<Admitted<'d>, AdmissionError>;

/// A claim with its place.
struct PlacedClaim {
    claim: Claim,
    place: Option<OwnedSemaphorePermit>,
}

fn stripe(nullifier: &U256) -> usize {
    // Nullifiers are hashes: their last bits are as good as any.
    nullifier.as_limbs()[0] as usize % RECORDING_STRIPES
}

fn unavailable(reason: &str) -> VerificationError {
    VerificationError::Unavailable { reason: reason.to_owned() }
}

/// The roots as they are known now.
struct Roots<'a> {
    shared: &'a VerificationShared,
    now: u64,
}

impl KnownRoots for Roots<'_> {
    type Error = StoreError;

    fn legacy(&self, environment: Environment, root: &U256) -> Option<RootAge> {
        self.shared.trusted_roots.load().age(environment, ProofKind::Legacy, root, self.now)
    }

    /// The registry's own roots count in both environments: there is one registry.
    fn is_current(&self, environment: Environment, root: &U256) -> Result<bool, StoreError> {
        if self.shared.registry.is_valid_root(&B256::from(*root))? {
            return Ok(true);
        }
        let window = self.shared.registry.rules().root_validity_window;
        Ok(self.shared.trusted_roots.load().is_valid(environment, ProofKind::Current, root, self.now, window))
    }
}

fn results(proofs: &Proofs, verdicts: &[Result<(), ItemFailure>]) -> Vec<ItemResult> {
    let result = |((identifier, nullifier), verdict): ((&str, &NumberText), &Result<(), ItemFailure>)| match verdict {
        Ok(()) => ItemResult::verified(identifier.to_owned(), nullifier.text.clone()),
        Err(failure) => ItemResult::failed(identifier.to_owned(), failure),
    };
    proofs.named().into_iter().zip(verdicts).map(result).collect()
}

/// The nullifiers of the verified items, each once, the first one first.
fn verified_nullifiers(proofs: &Proofs, results: &[ItemResult]) -> Vec<U256> {
    let mut verified = Vec::new();
    for ((_, nullifier), result) in proofs.named().into_iter().zip(results) {
        if result.success && !verified.contains(&nullifier.value) {
            verified.push(nullifier.value);
        }
    }
    verified
}

/// What a verified request has to record.
struct Visit<'a> {
    action: ActionKey,
    action_text: &'a str,
    description: &'a str,
    is_configured: bool,
    max_verifications: u64,
    user_presence_completed: bool,
    nullifiers: Vec<U256>,
}

enum RecordError {
    Store(StoreError),
    Limit(MaxVerificationsReached),
}

impl Visit<'_> {
    /// The records as they are now and as they are to be.
    fn records(&self, store: &Store, now: u64) -> Result<VerifiedRequest, RecordError> {
        let next = |nullifier: &U256| {
            let key = NullifierKey { action: self.action, nullifier: *nullifier };
            let before: Option<NullifierRecord> = store.nullifier(&key).map_err(RecordError::Store)?;
            let after = verified_again(before.as_ref(), self.max_verifications, now, self.user_presence_completed);
            Ok((key, before, after.map_err(RecordError::Limit)?))
        };
        let nullifiers = self.nullifiers.iter().map(next).collect::<Result<_, RecordError>>()?;
        let is_known = self.is_configured || store.action(&self.action).map_err(RecordError::Store)?.is_some();
        let new_action = (!is_known).then(|| {
            let record = ActionRecord {
                action: self.action_text.to_owned(),
                description: self.description.to_owned(),
                created_at: now,
            };
            (self.action, record)
        });
        Ok(VerifiedRequest { nullifiers, new_action })
    }
}
