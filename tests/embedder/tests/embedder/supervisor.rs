//! Two services under the embedder's supervisor, with a plan of faults and actors that are killed.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::protocol::ledger::Outcome;
use selfsame_actors::ractor::registry::where_is;
use selfsame_actors::ractor::{Actor, ActorRef};
use selfsame_actors::{BatchLimits, RegistryHandle, Service, ServiceChild, ServiceParts, Settings};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::host::{Host, HostMessage};
use super::{PATIENCE, expect_finalized, new_instance, new_store, submit, wait_until};

async fn start(host: &ActorRef<HostMessage>, store: selfsame_actors::storage::Store) -> (String, ServiceChild) {
    let instance = new_instance();
    let batch = BatchLimits { max_operations: 4, ..BatchLimits::default() };
    let settings = Settings { batch, ..Settings::for_instance(&instance) };
    let child = ServiceChild::new(ServiceParts::new(settings, store));
    host.cast(HostMessage::Start(child.clone())).expect("the supervisor runs");
    timeout(PATIENCE, child.running()).await.expect("the service starts");
    (instance, child)
}

/// Creates accounts, each through the service that runs at that time.
async fn create_accounts(child: ServiceChild, accounts: u64) {
    for number in 0..accounts {
        // The service may end between two looks: then the request is sent to the next one, under
        // the same idempotency key.
        loop {
            let service = child.running().await;
            let registry = service.registry();
            let attempt = async {
                let request_id = submit(&registry, number).await;
                expect_finalized(&registry, &request_id).await;
            };
            tokio::select! {
                () = attempt => break,
                () = has_ended(&child, &service) => {}
            }
        }
    }
}

/// Returns when another service runs, or none.
async fn has_ended(child: &ServiceChild, service: &Arc<Service>) {
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        if !child.service().is_some_and(|present| Arc::ptr_eq(&present, service)) {
            return;
        }
    }
}

/// Kills an actor of a service that has created this many accounts, or of the next service.
async fn kill_after(child: &ServiceChild, accounts: u64, name: &str) {
    let has_created = || child.service().is_some_and(|service| service.registry().statistics().accounts >= accounts);
    let kill = || where_is(name).inspect(|actor| actor.kill()).is_some();
    wait_until(&format!("{name} runs after {accounts} accounts"), || has_created() && kill()).await;
}

/// The leaf indices of the accounts that were created, in the order of the blocks.
async fn created(registry: &RegistryHandle, accounts: u64) -> Vec<u64> {
    let mut created = Vec::new();
    let mut blocks = pin!(registry.follow(1));
    while (created.len() as u64) < accounts {
        let followed = timeout(PATIENCE, blocks.next()).await.expect("a block comes").expect("no end");
        for outcome in followed.expect("the block is read").outcomes {
            match outcome {
                Outcome::Applied { leaf_index } => created.push(leaf_index.0),
                Outcome::Failed { rule, .. } => panic!("an operation broke the rule {rule}"),
            }
        }
    }
    created
}

/// The actors of the services, the services and their parts end in every order; no request is lost
/// or carried out twice, and the supervisor of the embedder lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_survive_faults_and_kills_under_a_supervisor_that_knows_nothing_of_them() {
    const ACCOUNTS: u64 = 40;
    let (ended_sender, mut ended) = mpsc::unbounded_channel();
    let (host, _) = Actor::spawn(None, Host, ended_sender).await.expect("the supervisor starts");
    let (_first_folder, first_store) = new_store();
    let (_second_folder, second_store) = new_store();
    let (first_instance, first) = start(&host, first_store).await;
    let (second_instance, second) = start(&host, second_store).await;
    // Each service has a plan of its own, and both are in force at the same time. The accounts are
    // created one after the other, so that each point is passed more often than its step skips.
    let first_plan = Plan::for_instance(first_instance.as_str())
        .strike_times(FaultPoint::RequestTrackerHandle, Fault::Panic, 20, 1)
        .strike_times(FaultPoint::BatcherSeal, Fault::Panic, 5, 1)
        .run();
    let second_plan = Plan::for_instance(second_instance.as_str())
        .strike_times(FaultPoint::TreeMaintainerApply, Fault::Panic, 7, 1)
        .strike_times(FaultPoint::GroupCommitAfter, Fault::Error, 10, 2)
        .run();

    let mut creating = tokio::task::JoinSet::new();
    creating.spawn(create_accounts(first.clone(), ACCOUNTS));
    creating.spawn(create_accounts(second.clone(), ACCOUNTS));
    kill_after(&first, 5, &first.name()).await;
    kill_after(&first, 15, &format!("{first_instance}/root")).await;
    kill_after(&first, 25, &format!("{first_instance}/registry")).await;
    while let Some(created) = timeout(PATIENCE, creating.join_next()).await.expect("every call is answered") {
        created.expect("no account is missing");
    }
    assert_eq!(first_plan.strikes(FaultPoint::RequestTrackerHandle), 1);
    assert_eq!(first_plan.strikes(FaultPoint::BatcherSeal), 1);
    assert_eq!(second_plan.strikes(FaultPoint::TreeMaintainerApply), 1);
    assert_eq!(second_plan.strikes(FaultPoint::GroupCommitAfter), 2);
    drop((first_plan, second_plan));
    for child in [&first, &second] {
        let service = timeout(PATIENCE, child.running()).await.expect("the service runs");
        let registry = service.registry();
        assert_eq!(created(&registry, ACCOUNTS).await, (1..=ACCOUNTS).collect::<Vec<_>>(), "each account once");
        assert_eq!(registry.statistics().accounts, ACCOUNTS);
    }
    let mut names = HashSet::new();
    while let Ok(name) = ended.try_recv() {
        names.insert(name);
    }
    assert_eq!(names, HashSet::from([first.name()]), "the other service did not end");
    host.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
}
