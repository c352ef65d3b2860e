//! The verifier pool under load and under failing workers: every call is answered, and nothing is called good that was not
//! checked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use ractor::registry::where_is;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::groth16::key::LEGACY_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{Claim, InputCountError, PreparedKey};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::directory::{Directory, RelyingParty};
use selfsame_protocol::verification::hash::{external_nullifier, hash_text};
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_protocol::verification::roots::TrustedRoot;
use selfsame_protocol::verification::{Environment, ProofKind, RelyingPartyId};
use selfsame_protocol::{Address, U256};
use selfsame_storage::{EmbeddedLedger, OpenOptions, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::clock::{ManualClock, Random, SystemRandom};
use crate::{
    ConfiguredKey, PairingChecker, ProofChecker, Service, Settings, VerificationError, VerificationHandle,
    VerificationSettings,
};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

const APP: &str = "app_staging_tests";
const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

fn simulator() -> Simulator {
    Simulator::from_seed(b"verifier tests", LEGACY_INPUTS)
}

/// A legacy request with one item for each number: person and whether the proof is good.
fn request(people: &[(u64, bool)]) -> VerificationRequest {
    let responses: Vec<Value> = people.iter().map(|(person, good)| item(*person, *good)).collect();
    let body = json!({
        "protocol_version": "3.0", "nonce": "n", "action": "a", "environment": "staging", "responses": responses,
    });
    VerificationRequest::read(&body).expect("a request")
}

fn item(person: u64, good: bool) -> Value {
    let nullifier = U256::from(person + 1);
    let numbers = [U256::from(5), nullifier, hash_text(""), external_nullifier(APP, "a")];
    let mut inputs = numbers.map(|number| field_element(&number).expect("an element")).to_vec();
    if !good {
        inputs.swap(2, 3);
    }
    let scalar = |number: u64| field_element(&U256::from(number)).expect("an element");
    let proof = simulator().prove(&inputs, [scalar(person * 2 + 3), scalar(person * 2 + 4)]).expect("4 inputs");
    let words: String = proof.to_legacy().iter().map(|word| format!("{word:064x}")).collect();
    json!({"identifier": "orb", "merkle_root": "0x5", "nullifier": format!("{nullifier:#x}"), "proof": format!("0x{words}")})
}

async fn ask(
    verification: &VerificationHandle,
    request: VerificationRequest,
) -> Result<crate::Verification, VerificationError> {
    verification.verify(APP, request, verification.deadline()).await
}

struct Running {
    service: Service,
    verification: VerificationHandle,
    _folder: TempDir,
}

async fn start(instance: &str, change: impl FnOnce(&mut VerificationSettings)) -> Running {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
    let ledger = Arc::new(EmbeddedLedger::open(store.clone()).expect("the ledger opens"));
    let party = RelyingParty {
        rp_id: RelyingPartyId::derived_from(APP),
        app_id: APP.to_owned(),
        is_active: true,
        has_active_application: true,
        environments: vec![Environment::Staging],
        accept_legacy: true,
        oprf_public_key: None,
    };
    let mut verification = VerificationSettings {
        workers: 2,
        keys: vec![ConfiguredKey {
            environment: HERE.0,
            kind: HERE.1,
            key: Arc::new(PreparedKey::new(&simulator().verification_key())),
        }],
        directory: Directory::new([party], [], [], [HERE]),
        trusted_roots: vec![TrustedRoot {
            environment: HERE.0,
            kind: HERE.1,
            time: UnixSeconds(0),
            root: Root::from_number(U256::from(5)),
        }],
        ..VerificationSettings::default()
    };
    change(&mut verification);
    let settings = Settings { verification, ..Settings::named(instance) };
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let service = Service::start(settings, store, ledger, clock, Arc::new(SystemRandom)).await.expect("it starts");
    Running { verification: service.verification(), service, _folder: folder }
}

impl Running {
    async fn stop(self) {
        drop(self.verification);
        timeout(PATIENCE, self.service.stop()).await.expect("it stops");
    }

    fn workers(&self) -> Vec<String> {
        let names = self.service.actors().into_iter().map(|actor| actor.name);
        names.filter(|name| name.contains("/worker-")).collect()
    }
}

/// Counts what it checks and can be held.
#[derive(Default)]
struct Watched {
    batches: Mutex<Vec<usize>>,
    is_held: Mutex<bool>,
    released: Condvar,
    panics: AtomicUsize,
}

impl Watched {
    fn hold(&self) {
        *self.is_held.lock().expect("no panic") = true;
    }

    fn release(&self) {
        *self.is_held.lock().expect("no panic") = false;
        self.released.notify_all();
    }
}

impl ProofChecker for Watched {
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError> {
        self.batches.lock().expect("no panic").push(claims.len());
        drop(self.released.wait_while(self.is_held.lock().expect("no panic"), |held| *held).expect("no panic"));
        let panics = self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(panics.is_err(), "a fault that the test asked for");
        PairingChecker.which_hold(key, claims, random)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_proof_among_sixty_four_costs_its_sender() {
    let running = start("bad-proof", |_| {}).await;
    let requests = (0..64).map(|person| ask(&running.verification, request(&[(person, person != 37)])));
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
async fn proofs_that_wait_are_checked_together_and_too_many_are_refused() {
    let watched = Arc::new(Watched::default());
    watched.hold();
    let checker = Arc::clone(&watched);
    let running = start("together", |settings| {
        settings.queue = 40;
        settings.checker = checker;
    })
    .await;
    let spawn = |person: u64| {
        let verification = running.verification.clone();
        tokio::spawn(async move { ask(&verification, request(&[(person, true)])).await })
    };
    // Both workers are held with a proof each; the others wait.
    let mut waiting = vec![spawn(0), spawn(1)];
    while watched.batches.lock().expect("no panic").len() < 2 {
        tokio::task::yield_now().await;
    }
    waiting.extend((2..40).map(spawn));
    let inside = || running.verification.statistics().proofs_inside;
    while inside() < 40 {
        tokio::task::yield_now().await;
    }
    let refused = ask(&running.verification, request(&[(99, true)])).await;
    assert!(matches!(refused, Err(VerificationError::Unavailable { .. })), "{refused:?}");
    watched.release();
    for answer in join_all(waiting).await {
        assert!(answer.expect("no panic").expect("verified").results[0].success);
    }
    assert_eq!(inside(), 0, "every place was given back");
    let batches = watched.batches.lock().expect("no panic").clone();
    assert_eq!((batches[0], batches[1], batches.iter().sum::<usize>()), (1, 1, 40), "{batches:?}");
    assert!(batches.len() <= 6, "those that waited were checked one by one: {batches:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_given_up_leave_nothing_behind() {
    let watched = Arc::new(Watched::default());
    watched.hold();
    let checker = Arc::clone(&watched);
    let running = start("given-up", |settings| {
        settings.queue = 16;
        settings.checker = checker;
    })
    .await;
    let inside = || running.verification.statistics().proofs_inside;
    let spawn = |people: &[(u64, bool)]| {
        let (verification, request) = (running.verification.clone(), request(people));
        tokio::spawn(async move { ask(&verification, request).await })
    };
    // Two proofs are being checked, twelve wait.
    let checked = [spawn(&[(0, true)]), spawn(&[(1, true)])];
    while watched.batches.lock().expect("no panic").len() < 2 {
        tokio::task::yield_now().await;
    }
    let waiting = spawn(&[(2, true); 12]);
    while inside() < 14 {
        tokio::task::yield_now().await;
    }
    // A request is taken whole or not at all.
    let refused = ask(&running.verification, request(&[(3, true); 3])).await;
    assert!(matches!(refused, Err(VerificationError::Unavailable { .. })), "{refused:?}");
    // Whoever leaves takes what waits along; what is being checked keeps its place until it is done.
    waiting.abort();
    checked[0].abort();
    watched.release();
    while inside() > 0 {
        tokio::task::yield_now().await;
    }
    let [_, other] = checked;
    assert!(other.await.expect("no panic").is_ok());
    let batches = watched.batches.lock().expect("no panic").clone();
    assert!(batches.iter().sum::<usize>() <= 14, "{batches:?}");
    assert!(ask(&running.verification, request(&[(4, true); 16])).await.is_ok());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_action_counts_racing_proofs_exactly() {
    use selfsame_protocol::verification::directory::Action;

    let rp_id = RelyingPartyId::derived_from(APP);
    let action =
        Action { rp_id, environment: HERE.0, action: "a".to_owned(), max_verifications: 3, accept_legacy: true };
    let running = start("limited", |settings| {
        let parties = [RelyingParty::clone(settings.directory.relying_party(APP).expect("known"))];
        settings.directory = Directory::new(parties, [action], [], [HERE]);
    })
    .await;
    let answers = join_all((0..20).map(|_| ask(&running.verification, request(&[(0, true)])))).await;
    let verified = answers.iter().filter(|answer| answer.is_ok()).count();
    let limited = answers.iter().filter(|answer| matches!(answer, Err(VerificationError::MaxVerifications { .. })));
    assert_eq!((verified, limited.count()), (3, 17));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_worker_costs_its_batch_an_honest_error() {
    let watched = Arc::new(Watched::default());
    watched.panics.store(3, Ordering::Relaxed);
    let checker = Arc::clone(&watched);
    let running = start("panicking", |settings| settings.checker = checker).await;
    let mut unavailable = 0;
    for person in 0..10 {
        match ask(&running.verification, request(&[(person, true)])).await {
            Ok(verification) => assert!(verification.results[0].success),
            Err(VerificationError::Unavailable { .. }) => unavailable += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(unavailable, 3);
    let restarts: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
    assert_eq!(restarts, 3);
    // What was not answered was not recorded.
    let answer = ask(&running.verification, request(&[(0, true)])).await.expect("verified");
    assert!(!answer.is_reuse);
    running.stop().await;
}

/// Waits until a counter has grown by so much.
async fn until_more(counter: &AtomicUsize, more: usize) {
    let enough = counter.load(Ordering::Relaxed) + more;
    let growing = async {
        while counter.load(Ordering::Relaxed) < enough {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, growing).await.expect("it grows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_and_pools_under_load() {
    let running = start("killed", |_| {}).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let good = Arc::new(AtomicUsize::new(0));
    let answered = Arc::new(AtomicUsize::new(0));
    let asking = (0..6u64).map(|asker| {
        let (verification, is_over) = (running.verification.clone(), Arc::clone(&is_over));
        let (good, answered) = (Arc::clone(&good), Arc::clone(&answered));
        tokio::spawn(async move {
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // Of three proofs the one in the middle is bad.
                let first = asker * 1_000_000 + round * 3;
                let proofs = [(first, true), (first + 1, false), (first + 2, true)];
                match timeout(PATIENCE, ask(&verification, request(&proofs))).await.expect("answered") {
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
    let asking: Vec<_> = asking.collect();
    for kill in 0..12 {
        let names = if kill == 6 { vec!["killed/verifier".to_owned()] } else { running.workers() };
        if let Some(cell) = names.iter().find_map(where_is) {
            cell.kill();
        }
        until_more(&answered, 8).await;
    }
    until_more(&good, 12).await;
    is_over.store(true, Ordering::Relaxed);
    for asked in join_all(asking).await {
        asked.expect("no panic");
    }
    // It is at its full strength again.
    let answer = ask(&running.verification, request(&[(77, true)])).await.expect("verified");
    assert!(answer.results[0].success);
    running.stop().await;
}
