//! The verifier pool under load and with failing workers: every call gets an answer, and no proof
//! is reported as valid without a check.

mod groups;

use std::net::IpAddr;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, pending};
use ractor::registry::where_is;
use selfsame_protocol::chain::contracts::{Answer, BlockTag, Question, RootContract};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::groth16::key::LEGACY_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{Claim, InputCountError, PreparedKey};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::directory::{Directory, RelyingParty, ScoreBounds};
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_protocol::verification::roots::{RootKey, RootTrust, TrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use selfsame_protocol::{Address, U256};
use selfsame_storage::{OpenOptions, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::chain::contracts::{ChainSettings, CodeSettings, ContractPlace, Freshness, RootSourceSettings};
use crate::chain::nodes::{ChainNode, NodeError, Refusal};
use crate::clock::{ManualClock, Random};
use crate::{
    ActorHealth, ConfiguredKey, PairingChecker, ProofChecker, Service, ServiceParts, Settings, VerificationError,
    VerificationHandle, VerificationLimits, VerificationSettings, VerifierStatistics,
};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

const APP: &str = "app_staging_tests";
const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

fn simulator() -> Simulator {
    Simulator::from_seed(b"verifier tests", LEGACY_INPUTS)
}

/// A legacy request with one item for each pair of a person's number and whether the proof is
/// valid.
fn request(proofs: &[(u64, bool)]) -> VerificationRequest {
    let responses: Vec<Value> = proofs.iter().map(|(person, good)| item(*person, *good)).collect();
    let body = json!({
        "protocol_version": "3.0", "nonce": "n", "action": "a", "environment": "staging", "responses": responses,
    });
    VerificationRequest::read(&body).expect("the request is well-formed")
}

fn item(person: u64, good: bool) -> Value {
    let nullifier = U256::from(person + 1);
    let numbers = [U256::from(5), nullifier, hash_text(""), external_nullifier(APP, "a")];
    let mut inputs = numbers.map(|number| field_element(&number).expect("the number is a field element")).to_vec();
    if !good {
        inputs.swap(2, 3);
    }
    let scalar = |number: u64| field_element(&U256::from(number)).expect("the number is a field element");
    let proof =
        simulator().prove(&inputs, [scalar(person * 2 + 3), scalar(person * 2 + 4)]).expect("the proof has 4 inputs");
    let words: String = proof.to_legacy().iter().map(|word| format!("{word:064x}")).collect();
    json!({"identifier": "orb", "merkle_root": "0x5", "nullifier": format!("{nullifier:#x}"), "proof": format!("0x{words}")})
}

async fn verify(
    verification: &VerificationHandle,
    request: VerificationRequest,
) -> Result<crate::Verification, VerificationError> {
    verify_from(verification, None, request).await
}

async fn verify_from(
    verification: &VerificationHandle,
    source: Option<IpAddr>,
    request: VerificationRequest,
) -> Result<crate::Verification, VerificationError> {
    verification.verify(source, APP, request, verification.deadline()).await
}

/// The address of a client. No two of them have a network in common.
fn source(number: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, number, 1]))
}

struct VerificationService {
    service: Service,
    verification: VerificationHandle,
    _folder: TempDir,
}

/// The root of the proofs of these tests.
fn trusted_root() -> TrustedRoot {
    let key = RootKey { environment: HERE.0, kind: HERE.1, root: Root::from_number(U256::from(5)) };
    TrustedRoot { key, trust: RootTrust { time: UnixSeconds(0), identifiers: vec![LegacyIdentifier::Orb] } }
}

/// The relying party of these tests.
fn relying_party() -> RelyingParty {
    RelyingParty {
        rp_id: RelyingPartyId::derived_from(APP),
        app_id: APP.to_owned(),
        name: "Example".to_owned(),
        integration_url: None,
        is_active: true,
        has_active_application: true,
        environments: vec![Environment::Staging],
        accept_legacy: true,
        only_configured_actions: false,
        accepted_identifiers: None,
        require_integrity: false,
        oprf_public_key: None,
        follows_oprf_key_in: Vec::new(),
        signing: None,
        secrets: Vec::new(),
    }
}

async fn start(instance: &str, change: impl FnOnce(&mut VerificationSettings)) -> VerificationService {
    start_with(Settings::for_instance(instance), change).await
}

/// A service with these settings, also with other ones of verification.
async fn start_with(settings: Settings, change: impl FnOnce(&mut VerificationSettings)) -> VerificationService {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
    let mut verification = VerificationSettings {
        workers: 2,
        keys: vec![ConfiguredKey {
            environment: HERE.0,
            kind: HERE.1,
            key: Arc::new(PreparedKey::new(&simulator().verification_key())),
        }],
        directory: Directory::new([relying_party()], [], [], [HERE]),
        trusted_roots: vec![trusted_root()],
        // On a busy machine many proofs take longer than they may by default.
        limits: VerificationLimits { time_limit: PATIENCE / 2, ..VerificationLimits::default() },
        ..VerificationSettings::default()
    };
    change(&mut verification);
    let settings = Settings { verification, ..settings };
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let service = Service::start(ServiceParts::new(settings, store).clock(clock)).await.expect("the service starts");
    VerificationService { verification: service.verification(), service, _folder: folder }
}

impl VerificationService {
    async fn stop(self) {
        drop(self.verification);
        timeout(PATIENCE, self.service.stop()).await.expect("the service stops");
    }

    /// Sends a request in a task of its own.
    fn spawn_verify(
        &self,
        source: Option<IpAddr>,
        proofs: &[(u64, bool)],
    ) -> JoinHandle<Result<crate::Verification, VerificationError>> {
        let (verification, request) = (self.verification.clone(), request(proofs));
        tokio::spawn(async move { verify_from(&verification, source, request).await })
    }

    /// Waits until a condition on the verifier's numbers holds.
    async fn wait_for_numbers(&self, condition: impl Fn(&VerifierStatistics) -> bool) {
        wait_until(|| condition(&self.verification.statistics())).await;
    }

    /// Waits until this many proofs are in the pool's mailbox or queue, or with its workers.
    async fn wait_for_proofs_in_pool(&self, count: usize) {
        let is_pool = |actor: &&ActorHealth| actor.name.ends_with("/verifier");
        wait_until(|| self.service.actors().iter().find(is_pool).is_some_and(|pool| pool.waiting_calls == count)).await;
    }

    fn workers(&self) -> Vec<String> {
        let names = self.service.actors().into_iter().map(|actor| actor.name);
        names.filter(|name| name.contains("/worker-")).collect()
    }
}

/// A proof checker that counts batches, can be held, and panics a chosen number of times.
#[derive(Default)]
struct ControlledChecker {
    batches: Mutex<Vec<usize>>,
    /// On how many threads each batch was checked.
    threads: Mutex<Vec<usize>>,
    is_held: Mutex<bool>,
    released: Condvar,
    panics: AtomicUsize,
}

impl ControlledChecker {
    /// Holds every check until the guard is dropped, which also a failing assertion does: a runtime
    /// does not end before its blocking threads.
    fn hold(self: &Arc<Self>) -> HeldChecks {
        *self.is_held.lock().expect("no panic") = true;
        HeldChecks(Arc::clone(self))
    }

    /// Waits until this many batches have begun.
    async fn wait_for_batches(&self, count: usize) {
        wait_until(|| self.batches.lock().expect("no panic").len() >= count).await;
    }
}

struct HeldChecks(Arc<ControlledChecker>);

impl Drop for HeldChecks {
    fn drop(&mut self) {
        *self.0.is_held.lock().expect("no panic") = false;
        self.0.released.notify_all();
    }
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let awaited_at = Location::caller();
    async move {
        let waiting = async {
            while !condition() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("the condition at {awaited_at} does not hold"));
    }
}

impl ProofChecker for ControlledChecker {
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError> {
        self.threads.lock().expect("no panic").push(rayon::current_num_threads());
        self.batches.lock().expect("no panic").push(claims.len());
        drop(self.released.wait_while(self.is_held.lock().expect("no panic"), |held| *held).expect("no panic"));
        let panics = self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(panics.is_err(), "an injected panic");
        PairingChecker.which_hold(key, claims, random)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixty_four_senders_only_the_sender_of_the_bad_proof_is_rejected() {
    let running = start("bad-proof", |_| {}).await;
    let requests = (0..64).map(|person| verify(&running.verification, request(&[(person, person != 37)])));
    for (person, answer) in join_all(requests).await.into_iter().enumerate() {
        match answer {
            Ok(verification) => assert!(person != 37 && verification.results[0].success),
            Err(VerificationError::AllFailed { results, .. }) => {
                assert_eq!((person, results[0].code), (37, Some("invalid_proof")));
            }
            Err(error) => panic!("{person}: {error}"),
        }
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_proofs_are_checked_together_and_excess_proofs_are_rejected() {
    let controlled = Arc::new(ControlledChecker::default());
    let held = controlled.hold();
    let checker = Arc::clone(&controlled);
    let running = start("together", |settings| {
        settings.queue = 40;
        settings.checker = checker;
    })
    .await;
    let spawn = |person: u64| {
        let verification = running.verification.clone();
        tokio::spawn(async move { verify(&verification, request(&[(person, true)])).await })
    };
    // Both workers are held with one proof each; the other proofs wait.
    let mut waiting = vec![spawn(0), spawn(1)];
    controlled.wait_for_batches(2).await;
    waiting.extend((2..40).map(spawn));
    let inside = || running.verification.statistics().proofs_inside;
    wait_until(|| inside() >= 40).await;
    let refused = verify(&running.verification, request(&[(99, true)])).await;
    assert!(matches!(refused, Err(VerificationError::Unavailable { .. })), "{refused:?}");
    let full = running.verification.statistics();
    assert_eq!((full.proofs_inside, full.queue), (40, 40), "what /ready compares");
    assert_eq!((full.sign_in_proofs_inside, full.sign_in_queue), (0, 10));
    drop(held);
    for answer in join_all(waiting).await {
        assert!(answer.expect("no panic").expect("the proof is verified").results[0].success);
    }
    assert_eq!(inside(), 0, "every permit was released");
    let batches = controlled.batches.lock().expect("no panic").clone();
    assert_eq!((batches[0], batches[1], batches.iter().sum::<usize>()), (1, 1, 40), "{batches:?}");
    assert!(batches.len() <= 6, "the waiting proofs were not checked together: {batches:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_has_the_thread_of_an_idle_worker_too() {
    let controlled = Arc::new(ControlledChecker::default());
    let held = controlled.hold();
    let checker = Arc::clone(&controlled);
    let running = start("idle-neighbour", |settings| settings.checker = checker).await;
    let mut waiting = Vec::new();
    for person in 0..2 {
        waiting.push(running.spawn_verify(None, &[(person, true)]));
        controlled.wait_for_batches(waiting.len()).await;
    }
    assert_eq!(*controlled.threads.lock().expect("no panic"), [2, 1], "the second proof has no idle neighbour");
    drop(held);
    for answer in join_all(waiting).await {
        assert!(answer.expect("no panic").expect("the proof is verified").results[0].success);
    }
    running.stop().await;
}

fn is_unavailable<T>(answer: &Result<T, VerificationError>) -> bool {
    matches!(answer, Err(VerificationError::Unavailable { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_with_a_quarter_of_the_permits_is_refused_and_others_are_not() {
    let controlled = Arc::new(ControlledChecker::default());
    let held = controlled.hold();
    let checker = Arc::clone(&controlled);
    let running = start("quarters", |settings| {
        settings.queue = 64;
        settings.checker = checker;
    })
    .await;
    let first = running.spawn_verify(source(1), &[(0, true); 16]);
    running.wait_for_numbers(|verifier| verifier.proofs_inside == 16).await;
    let refused = verify_from(&running.verification, source(1), request(&[(1, true)])).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    let other = running.spawn_verify(source(2), &[(2, true)]);
    running.wait_for_numbers(|verifier| verifier.proofs_inside == 17).await;
    drop(held);
    for answer in [first, other] {
        assert!(answer.await.expect("no panic").expect("the proofs are verified").results[0].success);
    }
    running.stop().await;
}

/// A node of a chain that answers nothing.
struct SilentNode;

impl ChainNode for SilentNode {
    fn name(&self) -> &str {
        "silent"
    }

    fn ask<'a>(&'a self, _: &'a [Question]) -> BoxFuture<'a, Result<Vec<Result<Answer, Refusal>>, NodeError>> {
        pending().boxed()
    }
}

/// A contract whose roots the proofs of these tests have, at a node that answers nothing.
fn silent_chain() -> ChainSettings {
    let seconds = Duration::from_secs;
    let roots = RootSourceSettings {
        name: "silent/roots".to_owned(),
        contract: RootContract::IdentityManager,
        place: ContractPlace::At(Address::repeat_byte(9)),
        code: CodeSettings::default(),
        environment: HERE.0,
        identifiers: vec![LegacyIdentifier::Orb],
        head: BlockTag::Latest,
        freshness: Freshness { interval: seconds(3), stale_after: seconds(900), fresh_for: seconds(60) },
        reach: seconds(3600),
        start_block: None,
        blocks_per_question: 1000,
    };
    let nodes: Vec<Arc<dyn ChainNode>> = vec![Arc::new(SilentNode)];
    ChainSettings { name: "silent".to_owned(), chain_id: 480, nodes, roots: vec![roots], ..ChainSettings::default() }
}

#[tokio::test]
async fn at_most_thirty_two_requests_wait_for_a_look_at_a_chain() {
    let too_many = |answer: &Result<_, _>| {
        matches!(answer, Err(error @ VerificationError::Unavailable { .. })
            if error.to_string().contains("too many requests wait for roots"))
    };
    let running =
        start_with(Settings { chains: vec![silent_chain()], ..Settings::for_instance("looks") }, |settings| {
            settings.queue = 400;
            // The root of the proofs is not known.
            settings.trusted_roots.clear();
        })
        .await;
    // A second that a look may take passes when all requests wait, and not before.
    tokio::time::pause();
    for _ in 0..2 {
        let requests = (0..40_u8)
            .map(|number| verify_from(&running.verification, source(number), request(&[(number.into(), true)])));
        let answers = join_all(requests).await;
        assert!(
            answers.iter().all(is_unavailable),
            "the contract was not read, so the daemon cannot judge the root: {answers:?}"
        );
        assert_eq!(answers.iter().filter(|answer| too_many(answer)).count(), 8, "{answers:?}");
    }
    tokio::time::resume();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_of_sign_ins_have_permits_of_their_own() {
    let controlled = Arc::new(ControlledChecker::default());
    let held = controlled.hold();
    let checker = Arc::clone(&controlled);
    let running = start("sign-in-permits", |settings| {
        settings.queue = 16;
        settings.checker = checker;
    })
    .await;
    let sign_in = |source| {
        let verification = running.verification.clone();
        let deadline = verification.deadline();
        async move { verification.check_sign_in(APP, request(&[(1, true)]), source, deadline).await }
    };
    let all = running.spawn_verify(source(1), &[(0, true); 16]);
    running.wait_for_numbers(|verifier| verifier.proofs_inside == verifier.queue).await;
    let refused = verify_from(&running.verification, source(2), request(&[(2, true)])).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    let accepted = tokio::spawn(sign_in(source(2)));
    running.wait_for_numbers(|verifier| verifier.sign_in_proofs_inside == 1).await;
    let refused = sign_in(source(2)).await;
    assert!(is_unavailable(&refused), "a source has one of the four permits of sign-ins: {refused:?}");
    let other = tokio::spawn(sign_in(source(3)));
    running.wait_for_numbers(|verifier| verifier.sign_in_proofs_inside == 2).await;
    drop(held);
    for answer in [accepted, other] {
        assert_eq!(answer.await.expect("no panic").expect("the proof is checked"), Ok(()));
    }
    assert!(all.await.expect("no panic").is_ok());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_proof_keeps_its_source_out_of_shared_batches() {
    let controlled = Arc::new(ControlledChecker::default());
    let checker = Arc::clone(&controlled);
    let running = start("suspect", |settings| {
        settings.workers = 1;
        settings.checker = checker;
    })
    .await;
    let failed = verify_from(&running.verification, source(1), request(&[(0, false)])).await;
    assert!(matches!(failed, Err(VerificationError::AllFailed { .. })), "{failed:?}");
    // The only worker is held with one proof; the others wait.
    let held = controlled.hold();
    let mut answers = vec![running.spawn_verify(source(3), &[(1, true)])];
    controlled.wait_for_batches(2).await;
    for number in [1, 2, 2] {
        answers.push(running.spawn_verify(source(number), &[(2, true); 16]));
    }
    running.wait_for_proofs_in_pool(1 + 3 * 16).await;
    drop(held);
    for answer in join_all(answers).await {
        assert!(answer.expect("no panic").is_ok());
    }
    let mut batches = controlled.batches.lock().expect("no panic").clone();
    batches.sort_unstable();
    assert_eq!(batches, [1, 1, 4, 4, 4, 4, 32]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_requests_release_their_permits() {
    let controlled = Arc::new(ControlledChecker::default());
    let held = controlled.hold();
    let checker = Arc::clone(&controlled);
    let running = start("abandoned", |settings| {
        settings.queue = 16;
        settings.checker = checker;
    })
    .await;
    let inside = || running.verification.statistics().proofs_inside;
    let spawn = |proofs: &[(u64, bool)]| {
        let (verification, request) = (running.verification.clone(), request(proofs));
        tokio::spawn(async move { verify(&verification, request).await })
    };
    // Two proofs are being checked, and twelve wait.
    let checked = [spawn(&[(0, true)]), spawn(&[(1, true)])];
    controlled.wait_for_batches(2).await;
    let waiting = spawn(&[(2, true); 12]);
    wait_until(|| inside() >= 14).await;
    // The pool accepts all proofs of a request or none.
    let refused = verify(&running.verification, request(&[(3, true); 3])).await;
    assert!(matches!(refused, Err(VerificationError::Unavailable { .. })), "{refused:?}");
    // An abandoned request removes its waiting proofs. A proof that is being checked keeps its
    // permit until the check ends.
    waiting.abort();
    checked[0].abort();
    drop(held);
    wait_until(|| inside() == 0).await;
    let [_, other] = checked;
    assert!(other.await.expect("no panic").is_ok());
    let batches = controlled.batches.lock().expect("no panic").clone();
    assert!(batches.iter().sum::<usize>() <= 14, "{batches:?}");
    assert!(verify(&running.verification, request(&[(4, true); 16])).await.is_ok());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_action_counts_racing_proofs_exactly() {
    use selfsame_protocol::verification::directory::Action;

    let action = Action {
        app_id: APP.to_owned(),
        environment: HERE.0,
        action: "a".to_owned(),
        description: String::new(),
        max_verifications: 3,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: ScoreBounds::default(),
        roll: None,
    };
    let running = start("limited", |settings| {
        let relying_parties =
            [RelyingParty::clone(settings.directory.relying_party(APP).expect("the relying party is configured"))];
        settings.directory = Directory::new(relying_parties, [action], [], [HERE]);
    })
    .await;
    let answers = join_all((0..20).map(|_| verify(&running.verification, request(&[(0, true)])))).await;
    let verified = answers.iter().filter(|answer| answer.is_ok()).count();
    let limited = answers.iter().filter(|answer| matches!(answer, Err(VerificationError::MaxVerifications { .. })));
    assert_eq!((verified, limited.count()), (3, 17));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_worker_fails_its_batch_with_an_error() {
    let controlled = Arc::new(ControlledChecker::default());
    controlled.panics.store(3, Ordering::Relaxed);
    let checker = Arc::clone(&controlled);
    let running = start("panicking", |settings| settings.checker = checker).await;
    let mut unavailable = 0;
    for person in 0..10 {
        match verify(&running.verification, request(&[(person, true)])).await {
            Ok(verification) => assert!(verification.results[0].success),
            Err(VerificationError::Unavailable { .. }) => unavailable += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(unavailable, 3);
    let restarts: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
    assert_eq!(restarts, 3);
    // A request that got no answer left no record.
    let answer = verify(&running.verification, request(&[(0, true)])).await.expect("the proof is verified");
    assert!(!answer.is_reuse);
    running.stop().await;
}

/// Waits until a counter has grown by `more`.
async fn wait_for_growth(counter: &AtomicUsize, more: usize) {
    let enough = counter.load(Ordering::Relaxed) + more;
    wait_until(|| counter.load(Ordering::Relaxed) >= enough).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_while_workers_and_pools_are_killed() {
    let running = start("killed", |_| {}).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let good = Arc::new(AtomicUsize::new(0));
    let answered = Arc::new(AtomicUsize::new(0));
    let clients = (0..6u64).map(|client| {
        let (verification, is_over) = (running.verification.clone(), Arc::clone(&is_over));
        let (good, answered) = (Arc::clone(&good), Arc::clone(&answered));
        tokio::spawn(async move {
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // The second of the three proofs is bad.
                let first = client * 1_000_000 + round * 3;
                let proofs = [(first, true), (first + 1, false), (first + 2, true)];
                match timeout(PATIENCE, verify(&verification, request(&proofs))).await.expect("the call gets an answer")
                {
                    Ok(verification) => {
                        let success: Vec<bool> = verification.results.iter().map(|result| result.success).collect();
                        assert_eq!(success, [true, false, true]);
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(VerificationError::Unavailable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for kill in 0..12 {
        let names = if kill == 6 { vec!["killed/verifier".to_owned()] } else { running.workers() };
        if let Some(cell) = names.iter().find_map(where_is) {
            cell.kill();
        }
        wait_for_growth(&answered, 8).await;
    }
    wait_for_growth(&good, 12).await;
    is_over.store(true, Ordering::Relaxed);
    for client in join_all(clients).await {
        client.expect("no panic");
    }
    // All workers run again.
    let answer = verify(&running.verification, request(&[(77, true)])).await.expect("the proof is verified");
    assert!(answer.results[0].success);
    running.stop().await;
}
