//! Three services on one journal, with their threads and real stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{
    AwaitError, ClusterParts, Election, HeightError, LeadError, ManualClock, RegistryHandle, Service, ServiceError,
    ServiceParts, Settings, Submission, SubmitError,
};
use selfsame_protocol::Address;
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::Operation;
use selfsame_storage::{
    EmbeddedLedger, Journal, JournalFault, MemoryJournal, NoProgress, OpenOptions, Store, Term, fsck,
};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, create_account};
use tempfile::TempDir;
use tokio::time::timeout;

use super::verification::trusted_root;
use super::{DOMAIN, PATIENCE, create, expect_finalized, lock_exclusive, start, submit, wait_until};

pub struct RunningReplica {
    pub service: Service,
    pub clock: Arc<ManualClock>,
    store: Store,
    folder: TempDir,
}

/// A replica that knows no other one.
fn alone(journal: Arc<dyn Journal>) -> ClusterParts {
    ClusterParts { journal, election: None, leader: None, staleness: Duration::from_secs(2), bridge_peers: None }
}

async fn start_replica(journal: &MemoryJournal) -> RunningReplica {
    start_with_client(journal.client(|_| JournalFault::None), None).await
}

pub async fn start_with_client(journal: Arc<dyn Journal>, election: Option<Arc<dyn Election>>) -> RunningReplica {
    start_changed(journal, election, |_| {}).await
}

/// The same with changed settings.
pub async fn start_changed(
    journal: Arc<dyn Journal>,
    election: Option<Arc<dyn Election>>,
    change: impl FnOnce(&mut Settings),
) -> RunningReplica {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let store = Store::open(&folder.path().join("store"), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let mut settings = Settings::for_instance(format!("replica-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
    change(&mut settings);
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let cluster = ClusterParts { election, ..alone(journal) };
    let service = Service::start(ServiceParts::new(settings, store.clone()).replica_of(cluster).clock(clock.clone()));
    RunningReplica { service: service.await.expect("the service starts"), clock, store, folder }
}

impl RunningReplica {
    pub fn registry(&self) -> RegistryHandle {
        self.service.registry()
    }

    /// Waits until the replica shows the request as final.
    async fn expect_final(&self, request_id: &RequestId) {
        let registry = self.registry();
        let is_known = || registry.status(request_id).expect("the read succeeds").is_some();
        wait_until("the replica gets the request", is_known).await;
        expect_finalized(&registry, request_id).await;
    }

    pub async fn stop(self) {
        timeout(PATIENCE, self.service.stop()).await.expect("the service stops");
        let report = fsck(&self.store, self.folder.path(), &NoProgress).expect("fsck runs");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

/// A request that every replica has as final, in the same state.
pub async fn expect_everywhere(replicas: &[RunningReplica], request_id: &RequestId) {
    for replica in replicas {
        replica.expect_final(request_id).await;
    }
    let tips: Vec<_> = replicas.iter().map(|replica| *replica.registry().snapshot().tip()).collect();
    assert!(tips.iter().all(|tip| *tip == tips[0]), "{tips:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_what_one_of_them_acknowledges() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(start_replica(&journal).await);
    }
    for replica in &replicas {
        let refused = replica.registry().submit(create(0).into()).await.expect_err("no replica leads");
        assert!(refused.to_string().contains("another replica admits requests"), "{refused}");
    }

    replicas[0].service.lead(journal.begin_term()).await.expect("it leads");
    assert_eq!(replicas[0].service.leading(), Some(Term(1)));
    let first = submit(&replicas[0].registry(), 0).await;
    expect_everywhere(&replicas, &first).await;
    assert!(replicas[1].service.failures().is_empty(), "{:?}", replicas[1].service.failures());

    // Replica 0 does not know that another one began.
    replicas[1].service.lead(journal.begin_term()).await.expect("it leads");
    let refused = replicas[0].registry().submit(create(1).into()).await.expect_err("another replica leads");
    assert!(matches!(refused, SubmitError::Unavailable { .. }), "{refused:?}");
    assert_eq!(replicas[0].service.leading(), None);
    let second = submit(&replicas[1].registry(), 1).await;
    expect_everywhere(&replicas, &second).await;
    // The one before has released what the refused request held.
    replicas[0].service.lead(journal.begin_term()).await.expect("it leads");
    let third = submit(&replicas[0].registry(), 2).await;
    expect_everywhere(&replicas, &third).await;

    // One that comes later, with an empty store, gets everything.
    let late = start_replica(&journal).await;
    for request_id in [&first, &second, &third] {
        late.expect_final(request_id).await;
    }
    replicas.push(late);
    expect_everywhere(&replicas, &third).await;
    for replica in replicas {
        replica.stop().await;
    }
}

/// A follower has a block when the journal does, which may be before the leader goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_refuses_nothing_for_a_request_that_a_follower_shows_as_final() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let replicas = [start_replica(&journal).await, start_replica(&journal).await];
    let [leader, follower] = &replicas;
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    let registry = leader.registry();
    let submit = |operation: Operation| {
        let registry = registry.clone();
        tokio::spawn(async move { registry.submit(operation.into()).await })
    };
    let key = |number| AuthenticatorKey::generate(&mut |seed: &mut [u8; 32]| *seed = [number; 32]).expect("a key");
    let owner = key(1);
    let created = submit(create_account(&[owner.authenticator()], Address::ZERO).operation).await;
    expect_everywhere(&replicas, &created.expect("no panic").expect("accepted").request_id).await;

    let plan = Plan::new().strike_times(FaultPoint::LedgerAppendAfter, Fault::Stall, 0, 1).run();
    let account = AccountState::new(LeafIndex(1), vec![Some(owner.authenticator())], Nonce::from(0));
    let insert = |account: &AccountState, number: u8| {
        let slot = account.lowest_free_slot();
        account.insert(&registry.domain(), &owner, key(number).authenticator(), slot).expect("a slot is free")
    };
    let first = insert(&account, 2);
    let changed = submit(first.operation).await.expect("no panic").expect("accepted").request_id;
    follower.expect_final(&changed).await;
    let mut submitting = submit(insert(&first.after, 3).operation);
    tokio::select! {
        answer = &mut submitting => panic!("nothing is written before the stall ends: {answer:?}"),
        () = leader.expect_final(&changed) => {}
    }
    drop(plan);
    let changed_again = submitting.await.expect("no panic").expect("accepted").request_id;
    expect_everywhere(&replicas, &changed_again).await;
    drop(registry);
    for replica in replicas {
        replica.stop().await;
    }
}

/// The journal has the entry then, and the leader's store does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_cannot_write_its_own_entry_steps_down_and_gets_it_from_the_journal() {
    let _guard = lock_exclusive().await;
    for fault in [Fault::Error, Fault::Panic] {
        let journal = MemoryJournal::default();
        let replicas = [start_replica(&journal).await, start_replica(&journal).await];
        let [leader, _] = &replicas;
        leader.service.lead(journal.begin_term()).await.expect("it leads");
        let submission = || Submission { operation: create(0), source: None, idempotency_key: Some("k".to_owned()) };
        let plan = Plan::new().strike_times(FaultPoint::GroupCommitAfter, fault, 0, 1).run();
        let unknown = leader.registry().submit(submission()).await.expect_err("the write fails");
        drop(plan);
        let SubmitError::Unknown { request_id: Some(request_id), .. } = unknown else { panic!("{unknown:?}") };
        assert_eq!(leader.service.leading(), None, "{fault:?}");

        leader.service.lead(journal.begin_term()).await.expect("it leads again");
        expect_everywhere(&replicas, &request_id).await;
        let again = leader.registry().submit(submission()).await.expect("the key is known");
        assert_eq!(again.request_id, request_id);
        for replica in replicas {
            replica.stop().await;
        }
    }
}

/// The ids of the signing keys that a replica publishes.
async fn key_ids(replica: &RunningReplica) -> Vec<String> {
    let keys = replica.service.sign_in().published_keys().await.expect("the keys are read");
    keys.into_iter().map(|key| key.kid).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_knows_the_roots_and_the_keys_of_the_one_before() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let client = journal.client(move |_| match is_cut.load(Ordering::Relaxed) {
        true => JournalFault::NotSent,
        false => JournalFault::None,
    });
    let (leader, follower) = (start_replica(&journal).await, start_replica(&journal).await);
    let late = start_with_client(client, None).await;
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    let first_keys = key_ids(&leader).await;
    late.service.lead(journal.begin_term()).await.expect("it has what there is");
    assert_eq!(key_ids(&late).await, first_keys);

    cut.store(true, Ordering::Relaxed);
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    leader.service.verification().trust_root(trusted_root()).await.expect("the root is written");
    leader.service.sign_in().rotate_keys(true).await.expect("the keys are written").expect("the rotation is forced");
    let keys = key_ids(&leader).await;
    assert_ne!(keys, first_keys);
    let told = async {
        while !follower.service.verification().trusted_roots().contains(&trusted_root().key)
            || key_ids(&follower).await != keys
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, told).await.expect("a follower is told of both");
    assert_eq!(key_ids(&late).await, first_keys);

    // The retries of its follower are further apart than the steps of this.
    cut.store(false, Ordering::Relaxed);
    late.service.lead(journal.begin_term()).await.expect("it leads");
    assert!(late.service.verification().trusted_roots().contains(&trusted_root().key));
    assert_eq!(key_ids(&late).await, keys);
    for replica in [leader, follower, late] {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_starts_where_it_stopped() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let leader = start_replica(&journal).await;
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    let RunningReplica { service, store, folder, .. } = start_replica(&journal).await;
    let first = submit(&leader.registry(), 0).await;
    leader.expect_final(&first).await;
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
    let second = submit(&leader.registry(), 1).await;
    leader.expect_final(&second).await;

    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let settings = Settings::for_instance("replica-again");
    let client = journal.client(|_| JournalFault::None);
    let parts = ServiceParts::new(settings, store.clone()).replica_of(alone(client)).clock(clock.clone());
    let service = Service::start(parts);
    let again = RunningReplica { service: service.await.expect("the service starts"), clock, store, folder };
    again.expect_final(&second).await;
    let replicas = [leader, again];
    expect_everywhere(&replicas, &second).await;
    assert_eq!(replicas[0].service.position(), replicas[1].service.position());
    for replica in replicas {
        replica.stop().await;
    }
}

/// A second ledger would have blocks of which the other replicas know nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_a_ledger_of_its_own_is_refused() {
    let _guard = lock_exclusive().await;
    let (journal, folder) = (MemoryJournal::default(), tempfile::tempdir().expect("a folder for temporary files"));
    let store = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let ledger = Arc::new(EmbeddedLedger::open(store.clone()).expect("the ledger opens"));
    let cluster = alone(journal.client(|_| JournalFault::None));
    let parts = ServiceParts::new(Settings::for_instance("own-ledger"), store).replica_of(cluster).ledger(ledger);
    let refused = Service::start(parts).await;
    assert!(matches!(refused, Err(ServiceError::Parts { .. })), "{:?}", refused.err());
}

/// The store has an entry of a journal that was lost, and the new one goes on without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_another_journal_neither_applies_nor_leads() {
    let _guard = lock_exclusive().await;
    let (lost, journal) = (MemoryJournal::default(), MemoryJournal::default());
    let before = start_replica(&lost).await;
    before.service.lead(lost.begin_term()).await.expect("it leads");
    let request_id = submit(&before.registry(), 0).await;
    before.expect_final(&request_id).await;
    let RunningReplica { service, store, folder, .. } = before;
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
    let other = start_replica(&journal).await;
    other.service.lead(journal.begin_term()).await.expect("it leads");
    for number in 1..6 {
        let request_id = submit(&other.registry(), number).await;
        other.expect_final(&request_id).await;
    }

    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let settings = Settings::for_instance("replica-apart");
    let client = journal.client(|_| JournalFault::None);
    let parts = ServiceParts::new(settings, store.clone()).replica_of(alone(client)).clock(clock.clone());
    let service = Service::start(parts);
    let apart = RunningReplica { service: service.await.expect("the service starts"), clock, store, folder };
    let position = apart.service.position();
    let refused = apart.service.lead(journal.begin_term()).await.expect_err("the entries differ");
    assert!(refused.to_string().contains("is another one than the store's"), "{refused}");
    let is_named =
        || apart.service.failures().iter().any(|failure| failure.contains("is another one than the store's"));
    wait_until("operators are told", is_named).await;
    assert_eq!((apart.service.leading(), apart.service.position()), (None, position));
    for replica in [other, apart] {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_a_journal_cannot_be_made_a_leader() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let refused = running.service.lead(Term(1)).await;
    assert!(matches!(refused, Err(LeadError::NoJournal)), "{refused:?}");
    assert_eq!((running.service.leading(), running.service.position()), (None, None));
    running.stop().await;
}

/// A request that no replica has.
fn unknown(number: u128) -> RequestId {
    format!("gw_{}", uuid_text(number)).parse().expect("an id")
}

fn uuid_text(number: u128) -> String {
    let hex = format!("{number:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Strangers who ask for what does not exist are refused when they ask for too much; others are
/// not. That they share their questions to the journal is a test of the questions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_ids_count_for_their_source() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let leader = start_replica(&journal).await;
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    let follower = start_replica(&journal).await;
    let (stranger, other) = ([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
    let registry = follower.registry();
    let ask = async |source, numbers: std::ops::Range<u128>| {
        let asking = numbers.map(|number| {
            let registry = registry.clone();
            async move { registry.await_request(&unknown(number), Some(source)).await }
        });
        timeout(PATIENCE, join_all(asking)).await.expect("all are answered")
    };
    let answers = ask(stranger, 0..6000).await;
    assert!(answers.iter().all(Result::is_ok), "{:?}", answers.iter().find(|answer| answer.is_err()));
    let answers = ask(stranger, 0..10).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(AwaitError::TooMany(_)))), "{answers:?}");
    assert!(ask(other, 0..10).await.iter().all(Result::is_ok), "another source");
    let known = submit(&leader.registry(), 0).await;
    timeout(PATIENCE, registry.await_request(&known, Some(other))).await.expect("in time").expect("it is found");
    assert!(registry.status(&known).expect("the read succeeds").is_some());
    follower.clock.advance(Duration::from_secs(61));
    assert!(ask(stranger, 0..10).await.iter().all(Result::is_ok), "the minute has passed");
    expect_everywhere(&[leader, follower], &known).await;
}

/// The word of a client about a block is no reason to wait, when no replica has sealed one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_height_that_no_block_has_is_refused_without_a_wait() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let leader = start_replica(&journal).await;
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    let follower = start_replica(&journal).await;
    let request = submit(&leader.registry(), 0).await;
    leader.expect_final(&request).await;
    let newest = leader.registry().height();
    let source = Some([192, 0, 2, 1].into());
    for registry in [leader.registry(), follower.registry()] {
        registry.await_height(newest, source).await.expect("it has the block, or gets it");
        assert!(registry.height() >= newest);
        for height in [newest + 1, 1 << 40, u64::MAX] {
            let refused = registry.await_height(height, source).await;
            assert_eq!(refused, Err(HeightError::NoSuchBlock { newest }), "{height}");
        }
    }
    leader.stop().await;
    follower.stop().await;
    // A service that is alone shows every block that it has named.
    let single = start().await;
    single.service.registry().await_height(u64::MAX, source).await.expect("the word changes nothing");
}
