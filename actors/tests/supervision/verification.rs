//! The verifier pool, its workers and the session registry.

use std::sync::Arc;
use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{ConfiguredKey, Settings, VerificationError, VerificationHandle};
use selfsame_protocol::U256;
use selfsame_protocol::groth16::PreparedKey;
use selfsame_protocol::groth16::key::LEGACY_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::directory::{Directory, RelyingParty};
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_protocol::verification::roots::{RootKey, RootTrust, TrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use serde_json::json;
use tokio::time::timeout;

use super::{
    FAULTS, FaultTestService, PATIENCE, expect_struck, lock_exclusive, start, start_with, wait_until, work_under,
};

pub const APP: &str = "app_staging_tests";
const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

fn simulator() -> Simulator {
    Simulator::from_seed(b"supervision tests", LEGACY_INPUTS)
}

/// A request with one valid proof of this person.
pub fn request(person: u64) -> VerificationRequest {
    let nullifier = U256::from(person + 1);
    let numbers = [U256::from(5), nullifier, hash_text(""), external_nullifier(APP, "a")];
    let inputs = numbers.map(|number| field_element(&number).expect("the number is a field element"));
    let scalar = |number: u64| field_element(&U256::from(number)).expect("the number is a field element");
    let proof =
        simulator().prove(&inputs, [scalar(person * 2 + 3), scalar(person * 2 + 4)]).expect("the proof has 4 inputs");
    let words: String = proof.to_legacy().iter().map(|word| format!("{word:064x}")).collect();
    let item = json!({
        "identifier": "orb", "merkle_root": "0x5", "nullifier": format!("{nullifier:#x}"), "proof": format!("0x{words}"),
    });
    let body = json!({
        "protocol_version": "3.0", "nonce": "n", "action": "a", "environment": "staging", "responses": [item],
    });
    VerificationRequest::read(&body).expect("the request is well-formed")
}

/// The root of the proofs of these tests.
pub fn trusted_root() -> TrustedRoot {
    let key = RootKey { environment: HERE.0, kind: HERE.1, root: Root::from_number(U256::from(5)) };
    TrustedRoot { key, trust: RootTrust { time: UnixSeconds(0), identifiers: vec![LegacyIdentifier::Orb] } }
}

pub fn configure_verification(settings: &mut Settings) {
    let relying_party = RelyingParty {
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
    };
    let key = Arc::new(PreparedKey::new(&simulator().verification_key()));
    settings.verification.keys = vec![ConfiguredKey { environment: HERE.0, kind: HERE.1, key }];
    settings.verification.directory = Directory::new([relying_party], [], [], [HERE]);
    settings.verification.trusted_roots = vec![trusted_root()];
}

/// Sends the request until the proof is verified. Each call must get an answer, and a valid proof
/// must not be reported as invalid. Returns whether the proof was verified before.
async fn verify(verification: &VerificationHandle, person: u64) -> bool {
    let verifying = async {
        loop {
            match verification.verify(None, APP, request(person), verification.deadline()).await {
                Ok(verified) => return verified.is_reuse,
                Err(VerificationError::Unavailable { .. } | VerificationError::Store(_)) => {}
                Err(error) => panic!("{person}: {error}"),
            }
        }
    };
    timeout(PATIENCE, verifying).await.expect("every call gets an answer, and one verifies the proof")
}

pub async fn verify_proofs(running: &FaultTestService) {
    let calls = (0..12).map(|person| {
        let verification = running.service.verification();
        tokio::spawn(async move { verify(&verification, person).await })
    });
    let calls: Vec<_> = calls.collect();
    for call in calls {
        call.await.expect("every call got an answer");
    }
    // Each proof has a record, so the second request is a reuse.
    let verification = running.service.verification();
    for person in 0..12 {
        assert!(verify(&verification, person).await, "{person} was verified but has no record");
    }
}

/// Verifies proofs with a service that starts under a plan.
async fn verify_under(plan: Plan, strikes: impl IntoIterator<Item = (FaultPoint, usize)>) {
    let running = work_under(plan, strikes, async {
        let running = start_with(configure_verification).await;
        verify_proofs(&running).await;
        running
    });
    running.await.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_are_verified_when_the_pool_or_a_worker_dies_at_any_step() {
    let _guard = lock_exclusive().await;
    for (point, skip) in [
        (FaultPoint::VerifierPoolHandle, 3),
        (FaultPoint::VerifierWorkerCheck, 1),
        (FaultPoint::VerifierWorkerAnswer, 1),
        (FaultPoint::VerifierWorkerIdle, 1),
        (FaultPoint::GroupCommitBefore, 1),
        (FaultPoint::GroupCommitAfter, 1),
    ] {
        for fault in FAULTS {
            // What is stalled does not come to the point again.
            let times = if fault == Fault::Stall { 1 } else { 2 };
            let plan = Plan::new().strike_times(point, fault, skip, times);
            verify_under(plan, [(point, times)]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_are_verified_when_recording_a_nullifier_fails_or_is_slow() {
    let _guard = lock_exclusive().await;
    let point = FaultPoint::NullifierWrite;
    for (fault, times) in [(Fault::Error, 3), (Fault::Delay(Duration::from_millis(50)), 3), (Fault::Stall, 1)] {
        verify_under(Plan::new().strike_times(point, fault, 1, times), [(point, times)]).await;
    }
    // The point is passed in the caller's task.
    let running = start_with(configure_verification).await;
    let verification = running.service.verification();
    let plan = Plan::new().strike_times(point, Fault::Panic, 0, 1).run();
    let client = verification.clone();
    let panicked = tokio::spawn(async move { client.verify(None, APP, request(20), client.deadline()).await }).await;
    assert!(panicked.expect_err("the fault strikes").is_panic());
    assert_eq!(plan.strikes(point), 1);
    assert!(!verify(&verification, 20).await, "nothing was recorded");
    drop((plan, verification));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_are_verified_when_the_restart_of_the_pool_or_a_worker_fails() {
    let _guard = lock_exclusive().await;
    let pairs = [
        (FaultPoint::VerifierPoolHandle, FaultPoint::VerifierPoolStart, 1),
        // Two workers start with the service.
        (FaultPoint::VerifierWorkerCheck, FaultPoint::VerifierWorkerStart, 2),
    ];
    for (handle, begin, skip) in pairs {
        for fault in FAULTS {
            let plan = Plan::new().strike_times(handle, Fault::Panic, 1, 1).strike_times(begin, fault, skip, 1);
            verify_under(plan, [(handle, 1), (begin, 1)]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_registry_is_restarted_after_a_failure() {
    let _guard = lock_exclusive().await;
    for fault in [Fault::Panic, Fault::Error] {
        // The heartbeat sends it a message every second. The first start belongs to the start of
        // the service.
        let plan = Plan::new()
            .strike_times(FaultPoint::SessionRegistryHandle, fault, 0, 1)
            .strike_times(FaultPoint::SessionRegistryStart, fault, 1, 1)
            .run();
        let running = start().await;
        expect_struck(&plan, FaultPoint::SessionRegistryStart, 1).await;
        let is_back = || {
            let actors = running.service.actors();
            actors.iter().any(|actor| actor.name.ends_with("session-registry") && actor.restarts >= 1)
        };
        wait_until("the session registry is back", is_back).await;
        drop(plan);
        running.stop().await;
    }
}

/// The first signing keys are records of sign-in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_keys_are_made_when_their_write_fails_or_is_slow() {
    let _guard = lock_exclusive().await;
    for fault in FAULTS {
        let running = start().await;
        let sign_in = running.service.sign_in();
        let plan = Plan::new().strike_times(FaultPoint::RecordsWrite, fault, 0, 1);
        let made = work_under(plan, [(FaultPoint::RecordsWrite, 1)], sign_in.published_keys()).await;
        assert_eq!(made.is_err(), matches!(fault, Fault::Error | Fault::Panic), "{fault}: {made:?}");
        assert_eq!(sign_in.published_keys().await.expect("the next attempt makes them").len(), 2);
        drop(sign_in);
        running.stop().await;
    }
}
