//! A service whose records of sign-in the embedder keeps.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::groth16::PreparedKey;
use selfsame_protocol::groth16::key::LEGACY_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::sign_in::accounts::SubjectKind;
use selfsame_protocol::sign_in::claims::Scopes;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, SignInProof};
use selfsame_protocol::sign_in::response::{Delivery, ResponseMode, ResponseType, Target};
use selfsame_protocol::sign_in::{AuthorizationRequest, Client};
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::directory::{Directory, RelyingParty};
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_protocol::verification::roots::{RootKey, RootTrust, TrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use selfsame_storage::{
    Decision, EmbeddedRecords, GroupCommit, MemoryJournal, OnDecided, RecordKey, RecordKind, RecordWrite, Records,
    StoreError, StoredRecord,
};
use serde_json::{Value, json};

use super::*;
use crate::sign_in::session_registry::SessionRegistryMessage;
use crate::support::slot::TracedMessage;
use crate::{
    BrowserCookie, BrowserCookies, ClusterParts, CompletedTransaction, CompletionSecrets, ConfiguredKey, SignInClient,
};

const APP: &str = "app_staging_records";
const REDIRECT_URI: &str = "https://app.example/callback";
const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

/// Records in a map. A real implementation makes a write durable before it tells of it.
#[derive(Default)]
struct MapRecords {
    records: Mutex<BTreeMap<RecordKey, StoredRecord>>,
    sweeps: AtomicUsize,
}

impl MapRecords {
    fn kinds(&self) -> Vec<RecordKind> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kinds: Vec<_> = records.keys().map(|key| key.kind).collect();
        kinds.dedup();
        kinds
    }

    fn of_kind(&self, kind: RecordKind) -> Vec<StoredRecord> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().filter(|(key, _)| key.kind == kind).map(|(_, record)| record.clone()).collect()
    }
}

impl Records for MapRecords {
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        Ok(self.records.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: OnDecided) {
        let decision = {
            let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
            match writes.iter().all(|write| records.get(&write.key) == write.before.as_ref()) {
                true => {
                    for RecordWrite { key, after, .. } in writes {
                        match after {
                            Some(after) => records.insert(key, after),
                            None => records.remove(&key),
                        };
                    }
                    Decision::Written
                }
                false => Decision::Changed,
            }
        };
        decided(Ok(decision));
    }

    fn expire(&self, time: UnixSeconds, limit: usize) -> Result<usize, StoreError> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let expired = records.iter().filter(|(_, record)| record.expires_at < time).take(limit);
        let expired: Vec<_> = expired.map(|(key, _)| *key).collect();
        expired.iter().for_each(|key| drop(records.remove(key)));
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        Ok(expired.len())
    }
}

fn simulator() -> Simulator {
    Simulator::from_seed(b"tests of records", LEGACY_INPUTS)
}

/// Accepts proofs of the simulator, and has one application.
fn configure(settings: &mut Settings) {
    let relying_party = RelyingParty {
        rp_id: RelyingPartyId::derived_from(APP),
        app_id: APP.to_owned(),
        name: "Example".to_owned(),
        integration_url: None,
        is_active: true,
        has_active_application: true,
        environments: vec![HERE.0],
        accept_legacy: true,
        only_configured_actions: false,
        accepted_identifiers: None,
        require_integrity: false,
        oprf_public_key: None,
        follows_oprf_key_in: Vec::new(),
        signing: None,
        secrets: Vec::new(),
    };
    let key = RootKey { environment: HERE.0, kind: HERE.1, root: Root::from_number(U256::from(5)) };
    let trust = RootTrust { time: UnixSeconds(1_800_000_000), identifiers: vec![LegacyIdentifier::Orb] };
    let verification_key = Arc::new(PreparedKey::new(&simulator().verification_key()));
    settings.verification.keys = vec![ConfiguredKey { environment: HERE.0, kind: HERE.1, key: verification_key }];
    settings.verification.directory = Directory::new([relying_party], [], [], [HERE]);
    settings.verification.trusted_roots = vec![TrustedRoot { key, trust }];
    let client = Client {
        id: APP.to_owned(),
        redirect_uris: vec![REDIRECT_URI.to_owned()],
        post_logout_redirect_uris: Vec::new(),
        response_types: vec![ResponseType::CODE],
        is_public: false,
        require_pkce: false,
    };
    settings.sign_in.clients = vec![SignInClient {
        client,
        name: "Example".to_owned(),
        secrets: Vec::new(),
        environment: HERE.0,
        proof: SignInProof::Legacy,
        has_legacy_history: false,
        legacy: Default::default(),
        first_credential: None,
        only_group: None,
        subject: SubjectKind::Nullifier,
        allows_cross_device: true,
    }];
}

/// An authenticator's answer to a proof request with this signal.
fn answer(signal: &str) -> Value {
    let nullifier = U256::from(7);
    let numbers = [U256::from(5), nullifier, hash_text(signal), external_nullifier(APP, "")];
    let inputs = numbers.map(|number| field_element(&number).expect("the number is a field element"));
    let scalar = |number: u64| field_element(&U256::from(number)).expect("the number is a field element");
    let proof = simulator().prove(&inputs, [scalar(3), scalar(4)]).expect("the proof has 4 inputs");
    let words: String = proof.to_legacy().iter().map(|word| format!("{word:064x}")).collect();
    let item = json!({
        "identifier": "orb", "merkle_root": "0x5", "nullifier": format!("{nullifier:#x}"), "proof": format!("0x{words}"),
    });
    json!({"protocol_version": "3.0", "responses": [item]})
}

/// Begins a sign-in, answers it and completes it. Returns the access token.
async fn sign_in(service: &Service) -> String {
    let sign_in = service.sign_in();
    let completed = complete(service, BrowserCookie::Unwanted).await;
    let Delivery::Redirect { location } = completed.delivery else { panic!("the response is a redirect") };
    let code = location.split(['?', '&']).find_map(|part| part.strip_prefix("code=")).expect("a code").to_owned();
    let tokens = sign_in.exchange(APP, &code, Some(REDIRECT_URI), None).await.expect("the code is good");
    assert!(sign_in.exchange(APP, &code, Some(REDIRECT_URI), None).await.is_err(), "a code is redeemed once");
    tokens.access_token
}

/// Begins a sign-in, answers it and completes it for a caller with this cookie.
async fn complete(service: &Service, session: BrowserCookie) -> CompletedTransaction {
    let sign_in = service.sign_in();
    let target = Target { redirect_uri: REDIRECT_URI.to_owned(), mode: ResponseMode::Query, state: None };
    let request = AuthorizationRequest {
        client_id: APP.to_owned(),
        target,
        response_type: ResponseType::CODE,
        scopes: Scopes::default(),
        nonce: None,
        code_challenge: None,
        is_silent: false,
        selects_account: false,
        is_fresh: false,
        max_age: None,
        id_token_hint: None,
    };
    let begun = sign_in.begin(request, None, Default::default(), None, None).await.expect("it begins");
    let asked = sign_in.proof_request(begun.id, None).expect("there is a request");
    sign_in.answer(begun.id, &answer(&asked.signal), AnswerMode::CrossDevice, None).await.expect("the proof holds");
    let cookies = BrowserCookies { session, ..BrowserCookies::NONE };
    sign_in.complete(begun.id, &begun.secret, CompletionSecrets::default(), &cookies).await.expect("complete")
}

/// The applications of one browser are in its session alone, which only its cookie opens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_session_in_the_store_names_no_application_and_no_person() {
    let (_folder, mut settings, store, _) = service_parts("sealed-sessions");
    configure(&mut settings);
    let records = Arc::new(MapRecords::default());
    let parts = ServiceParts::new(settings, store.clone()).records(records.clone()).clock(clock());
    let service = Service::start(parts).await.expect("the service starts");
    let first = complete(&service, BrowserCookie::Missing).await.new_session.expect("a session");
    let second = complete(&service, BrowserCookie::HostOnly(first.clone())).await.new_session.expect("a session");
    let sessions = records.of_kind(RecordKind::BrowserSession);
    assert_eq!(sessions.len(), 1, "the first session ended with the second");
    let nullifier = U256::from(7).to_be_bytes::<32>();
    for part in [APP.as_bytes(), REDIRECT_URI.as_bytes(), &nullifier] {
        let is_in = sessions[0].value.windows(part.len()).any(|window| window == part);
        assert!(!is_in, "{:?} is in the stored session", String::from_utf8_lossy(part));
    }
    let known = service.sign_in().session_sign_ins(&second).expect("read");
    assert_eq!(known.iter().map(|known| known.client_id.as_str()).collect::<Vec<_>>(), [APP]);
    assert!(service.sign_in().session_sign_ins(&first).expect("read").is_empty());
    service.sign_in().end_session(&second).await.expect("it ends");
    assert!(records.of_kind(RecordKind::BrowserSession).is_empty());
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sign_in_keeps_its_records_where_the_embedder_wants_them() {
    let (_folder, mut settings, store, _) = service_parts("own-records");
    configure(&mut settings);
    // A nonce that was used before, and may be forgotten.
    let nonce = RecordKey { kind: RecordKind::SignedNonce, id: B256::repeat_byte(1) };
    let used = StoredRecord { expires_at: UnixSeconds(1), value: Vec::new() };
    write_in_store(&store, RecordWrite { key: nonce, before: None, after: Some(used) });

    let records = Arc::new(MapRecords::default());
    let clock = clock();
    let parts = ServiceParts::new(settings, store.clone()).records(records.clone()).clock(clock.clone());
    let service = Service::start(parts.clone()).await.expect("the service starts");
    let token = sign_in(&service).await;
    assert!(service.sign_in().live_token(&token).expect("read").is_none(), "the code was used twice");
    let head = service.registry().signed_head().await.expect("the head is signed");
    let keys = service.sign_in().published_keys().await.expect("keys");
    for kind in [RecordKind::AuthorizationCode, RecordKind::SigningKeys, RecordKind::RegistryKey] {
        assert!(records.kinds().contains(&kind), "{kind:?} of {:?}", records.kinds());
    }

    // All that expires has expired in an hour's time. Both stores are swept.
    clock.advance(Duration::from_secs(3 * 3600));
    let registry = where_is("own-records/session-registry").expect("the actor runs");
    let registry = ActorRef::<TracedMessage<SessionRegistryMessage>>::from(registry);
    registry.cast(SessionRegistryMessage::Sweep.into()).expect("the actor runs");
    let lasting =
        [RecordKind::SigningKeys, RecordKind::RegistryKey, RecordKind::SubjectKey, RecordKind::DecidedSubjects];
    let is_swept = || records.kinds() == lasting;
    wait_until("what expired is deleted", is_swept).await;
    assert!(records.sweeps.load(Ordering::Relaxed) > 0);
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
    expect_no_records(&store);

    let again = Service::start(parts).await.expect("the service starts");
    assert_eq!(again.sign_in().published_keys().await.expect("keys"), keys);
    assert_eq!(again.registry().signed_head().await.expect("the head is signed").public_key, head.public_key);
    timeout(PATIENCE, again.stop()).await.expect("the service stops");
}

fn write_in_store(store: &Store, write: RecordWrite) {
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the thread starts");
    let records = EmbeddedRecords::new(store.clone(), group_commit);
    let (decided, decision) = std::sync::mpsc::channel();
    records.compare_and_write(vec![write], Box::new(move |result| drop(decided.send(result))));
    assert_eq!(decision.recv().expect("a decision").expect("no failure"), Decision::Written);
    drop(records);
    committing.join().expect("no panic");
}

/// The nonce was deleted, and nothing of sign-in was written to the store.
fn expect_no_records(store: &Store) {
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the thread starts");
    let records = EmbeddedRecords::new(store.clone(), group_commit);
    assert_eq!(records.expire(UnixSeconds::NEVER, 100).expect("no failure"), 0);
    for kind in [RecordKind::SigningKeys, RecordKind::RegistryKey] {
        assert_eq!(records.get(&RecordKey { kind, id: B256::ZERO }).expect("no failure"), None, "{kind:?}");
    }
    drop(records);
    committing.join().expect("no panic");
}

/// Records elsewhere would not be in the journal, from which the other replicas have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_records_of_its_own_is_refused() {
    let (_folder, settings, store, _) = service_parts("own-records-of-a-replica");
    let journal = MemoryJournal::default().client(|_| selfsame_storage::JournalFault::None);
    let cluster = ClusterParts { journal, election: None, leader: None, staleness: PATIENCE, bridge_peers: None };
    let parts = ServiceParts::new(settings, store).replica_of(cluster).records(Arc::new(MapRecords::default()));
    let refused = Service::start(parts).await;
    assert!(matches!(refused, Err(ServiceError::Parts { .. })), "{:?}", refused.err());
}
