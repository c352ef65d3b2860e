//! Three services on one journal, with their threads and real stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selfsame_actors::{LeadError, ManualClock, RegistryHandle, Service, Settings, SubmitError, SystemRandom};
use selfsame_protocol::Address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::RequestId;
use selfsame_storage::{JournalFault, MemoryJournal, NoProgress, OpenOptions, Store, Term, fsck};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{PATIENCE, create, expect_finalized, lock_exclusive, start, submit};

struct RunningReplica {
    service: Service,
    store: Store,
    folder: TempDir,
}

async fn start_replica(journal: &MemoryJournal) -> RunningReplica {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(&folder.path().join("store"), &OpenOptions::new(domain)).expect("the store opens");
    let settings = Settings::for_instance(format!("replica-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let journal = journal.client(|_| JournalFault::None);
    let service = Service::start_replica(settings, store.clone(), journal, clock, Arc::new(SystemRandom));
    RunningReplica { service: service.await.expect("the service starts"), store, folder }
}

impl RunningReplica {
    fn registry(&self) -> RegistryHandle {
        self.service.registry()
    }

    /// Waits until the replica shows the request as final.
    async fn expect_final(&self, request_id: &RequestId) {
        let registry = self.registry();
        let known = async {
            while registry.status(request_id).expect("the read succeeds").is_none() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, known).await.expect("the replica gets the request");
        expect_finalized(&registry, request_id).await;
    }

    async fn stop(self) {
        timeout(PATIENCE, self.service.stop()).await.expect("the service stops");
        let report = fsck(&self.store, self.folder.path(), &NoProgress).expect("fsck runs");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

/// A request that every replica has as final, in the same state.
async fn expect_everywhere(replicas: &[RunningReplica], request_id: &RequestId) {
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
        let refused = replica.registry().submit(create(0).into()).await.expect_err("nobody leads");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_starts_where_it_stopped() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let leader = start_replica(&journal).await;
    leader.service.lead(journal.begin_term()).await.expect("it leads");
    let RunningReplica { service, store, folder } = start_replica(&journal).await;
    let first = submit(&leader.registry(), 0).await;
    leader.expect_final(&first).await;
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
    let second = submit(&leader.registry(), 1).await;
    leader.expect_final(&second).await;

    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let settings = Settings::for_instance("replica-again");
    let client = journal.client(|_| JournalFault::None);
    let service = Service::start_replica(settings, store.clone(), client, clock, Arc::new(SystemRandom));
    let again = RunningReplica { service: service.await.expect("the service starts"), store, folder };
    again.expect_final(&second).await;
    let replicas = [leader, again];
    expect_everywhere(&replicas, &second).await;
    assert_eq!(replicas[0].service.position(), replicas[1].service.position());
    for replica in replicas {
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
