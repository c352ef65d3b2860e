//! Fault injection into a service that runs inside another actor system.
//!
//! An embedder's supervisor runs the registry's actors. Clients create a hundred accounts while
//! actors panic, one block is written although its write returns an error, and two group commits do
//! the same. At the end, every account exists exactly once.
//!
//! `cargo run --release --package selfsame-actors --features fault-injection --example
//! fault_injection`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "the example ends when a step fails"
)]

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{BatchLimits, RegistryHandle, Service, ServiceParts, Settings, Submission};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, CompressedKey};
use selfsame_protocol::registry::CreateAccount;
use selfsame_protocol::{Address, U256};
use selfsame_storage::{OpenOptions, Store};
use tokio::time::Instant;

const ACCOUNTS: u64 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain))?;
    let (host, _) = Actor::spawn(Some("host".to_owned()), Host, ()).await?;

    // Each fault strikes once or twice, in the middle of the work. Another service of the process
    // would not be struck.
    let plan = Plan::for_instance("identity")
        .strike_times(FaultPoint::RequestTrackerHandle, Fault::Panic, 40, 1)
        .strike_times(FaultPoint::BatcherSeal, Fault::Panic, 3, 1)
        .strike_times(FaultPoint::TreeMaintainerApply, Fault::Panic, 5, 1)
        .strike_times(FaultPoint::LedgerAppendAfter, Fault::Error, 8, 1)
        .strike_times(FaultPoint::GroupCommitAfter, Fault::Error, 20, 2)
        .run();

    // Small blocks, so that the run has many.
    let settings = Settings {
        batch: BatchLimits { max_operations: 4, ..BatchLimits::default() },
        ..Settings::for_instance("identity")
    };
    let service = Service::start_linked(ServiceParts::new(settings, store), host.get_cell()).await?;
    let clients = (0..ACCOUNTS).map(|number| tokio::spawn(create(service.registry(), number)));
    let clients: Vec<_> = clients.collect();
    for client in clients {
        client.await?;
    }

    for point in FaultPoint::ALL.iter().filter(|point| plan.strikes(**point) > 0) {
        println!("{:<26} passed {:>5} times, struck {}", point.name(), plan.visits(*point), plan.strikes(*point));
    }
    for actor in service.actors().iter().filter(|actor| actor.restarts > 0) {
        println!("{:<34} was started again {} times", actor.name, actor.restarts);
    }
    let accounts = service.registry().snapshot().next_leaf_index().0 - 1;
    println!("{ACCOUNTS} accounts were asked for, {accounts} are there");
    assert_eq!(accounts, ACCOUNTS);
    drop(plan);
    service.stop().await;
    host.stop_and_wait(None, None).await?;
    Ok(())
}

/// Creates an account as a careful client does: sends the same request under the same idempotency
/// key until it is accepted, then waits until it is final.
async fn create(registry: RegistryHandle, number: u64) {
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::left_padding_from(&(number + 1).to_be_bytes())],
        authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
        offchain_signer_commitment: Commitment(U256::from(number + 1)),
    };
    let idempotency_key = Some(format!("account {number}"));
    let submission = Submission { operation: operation.into(), source: None, idempotency_key };
    let request_id = loop {
        match registry.submit(submission.clone()).await {
            Ok(accepted) => break accepted.request_id,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = registry.wait_until_final(&request_id, deadline).await.ok().flatten();
    assert!(status.is_some_and(|status| matches!(status.status, GatewayRequestState::Finalized { .. })));
}

/// The embedder's supervisor. It would be notified if the service's root ended, which does not
/// happen in this run.
struct Host;

impl Actor for Host {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            println!("the service ended: {cell:?}: {error}");
        }
        Ok(())
    }
}
