//! Services with their actors and stores, on members of etcd that fail.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use selfsame_actors::{ClusterParts, ManualClock, Service, ServiceParts, Settings, Submission};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, CompressedKey};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{CreateAccount, Operation};
use selfsame_storage::{NoProgress, OpenOptions, Store, fsck};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::PATIENCE;
use super::leader_record;
use super::members::{Members, Signal};
use crate::{Etcd, EtcdElection, EtcdJournal};

struct Replica {
    service: Service,
    store: Store,
    folder: TempDir,
}

async fn start(members: &Members, name: &str, store: Store, folder: TempDir) -> Replica {
    let etcd = Arc::new(Etcd::new(&members.access("/services")));
    let election = Arc::new(EtcdElection::new(Arc::clone(&etcd), leader_record(name)));
    let journal = Arc::new(EtcdJournal::new(etcd));
    let settings = Settings::for_instance(format!("on-etcd-{name}"));
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let cluster = ClusterParts {
        journal,
        election: Some(election),
        leader: None,
        staleness: Duration::from_secs(2),
        bridge_peers: None,
    };
    let service = Service::start(ServiceParts::new(settings, store.clone()).replica_of(cluster).clock(clock));
    Replica { service: service.await.expect("the service starts"), store, folder }
}

async fn start_new(members: &Members, name: &str) -> Replica {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(&folder.path().join("store"), &OpenOptions::new(domain)).expect("the store opens");
    start(members, name, store, folder).await
}

/// The creation of an account; each number has other authenticators.
fn create(number: u64) -> Operation {
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::left_padding_from(&(number + 1).to_be_bytes())],
        authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
        offchain_signer_commitment: Commitment(U256::from(number + 1)),
    };
    operation.into()
}

fn leader(replicas: &[Option<Replica>]) -> Option<usize> {
    let leads = |replica: &Option<Replica>| replica.as_ref().is_some_and(|replica| replica.service.leading().is_some());
    replicas.iter().position(leads)
}

/// The index of a replica that leads, as far as it knows.
async fn leader_of(replicas: &[Option<Replica>]) -> usize {
    let elected = async {
        loop {
            match leader(replicas) {
                Some(index) => return index,
                None => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    timeout(PATIENCE, elected).await.expect("a replica leads")
}

/// Submits under one idempotency key, as a client does whose requests a proxy sends to the leader.
async fn submit(replicas: &[Option<Replica>], number: u64) -> RequestId {
    let submitted = async {
        loop {
            let index = leader_of(replicas).await;
            let registry = replicas[index].as_ref().expect("it leads").service.registry();
            let idempotency_key = Some(format!("key {number}"));
            let submission = Submission { operation: create(number), source: None, idempotency_key };
            match registry.submit(submission).await {
                Ok(accepted) => return accepted.request_id,
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    timeout(PATIENCE, submitted).await.expect("the request is accepted")
}

impl Replica {
    /// Waits until this replica shows the request as finalized.
    async fn expect_final(&self, request_id: &RequestId) {
        let registry = self.service.registry();
        let known = async {
            loop {
                let status = registry.wait_until_final(request_id, Instant::now() + PATIENCE).await;
                match status.expect("the read succeeds") {
                    Some(status) => return status,
                    None => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let state = timeout(PATIENCE, known).await.expect("the replica gets the request").status;
        assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{request_id}: {state:?}");
    }
}

/// One member fails at a time, and the leader stops and starts again with its store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn services_replicate_what_they_acknowledge_on_etcd() {
    let mut members = Members::start(3).await;
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(Some(start_new(&members, name).await));
    }
    let mut accepted = Vec::new();
    let mut leaders = HashSet::new();
    for round in 0..6 {
        let leader = leader_of(&replicas).await;
        leaders.insert(leader);
        for number in 0..5 {
            accepted.push(submit(&replicas, round * 5 + number).await);
        }
        match round {
            0 => members.send(0, Signal::Kill),
            3 => members.send(1, Signal::Stop),
            1 => members.restore(0).await,
            4 => members.restore(1).await,
            _ => {
                let Some(Replica { service, store, folder }) = replicas[leader].take() else { panic!("it leads") };
                let began = Instant::now();
                service.stop().await;
                leader_of(&replicas).await;
                println!("another one leads after {} ms", began.elapsed().as_millis());
                accepted.push(submit(&replicas, 100 + round).await);
                replicas[leader] = Some(start(&members, &format!("again-{round}"), store, folder).await);
            }
        }
    }
    assert!(leaders.len() > 1, "{leaders:?}");
    assert_eq!(accepted.iter().collect::<HashSet<_>>().len(), 32);
    for replica in replicas.iter().flatten() {
        for request_id in &accepted {
            replica.expect_final(request_id).await;
        }
    }
    let tips: Vec<_> = replicas.iter().flatten().map(|replica| *replica.service.registry().snapshot().tip()).collect();
    assert!(tips.iter().all(|tip| *tip == tips[0]), "{tips:?}");
    for Replica { service, store, folder } in replicas.into_iter().flatten() {
        service.stop().await;
        let report = fsck(&store, folder.path(), &NoProgress).expect("fsck runs");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}
