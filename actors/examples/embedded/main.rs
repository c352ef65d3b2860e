//! Two services inside another actor system, under its own supervisor, used by messages and by
//! handles. Faults strike one of them until its supervisors give up; the other one does not notice.
//!
//! `cargo run --release --package selfsame-actors --features fault-injection --example embedded`

#![allow(clippy::expect_used, missing_docs, reason = "a program has no callers, and ends when a step fails")]

mod application;
mod host;
mod person;

use std::error::Error;
use std::time::Duration;

use application::settings;
use host::Host;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::protocol::eip712::RegistryDomain;
use selfsame_actors::protocol::gateway::GatewayRequestState;
use selfsame_actors::protocol::ids::{Commitment, CompressedKey};
use selfsame_actors::protocol::registry::{CreateAccount, Operation};
use selfsame_actors::protocol::{Address, U256};
use selfsame_actors::ractor::{Actor, ActorRef, call_t, registry};
use selfsame_actors::storage::{OpenOptions, Store};
use selfsame_actors::{RegistryMessage, ServiceChild, ServiceEvent, ServiceMessage, ServiceParts, SupervisionSettings};

/// How long the answer to one message may take, in milliseconds.
const PATIENCE_MS: u64 = 10_000;

const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);

const ACCOUNTS: u64 = 30;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (red, blue) = (service("red", folder.path())?, service("blue", folder.path())?);
    let (mut red_events, mut blue_events) = (red.subscribe(), blue.subscribe());
    let services = vec![red.clone(), blue.clone()];
    let (host, hosting) = Actor::spawn(Some("host".to_owned()), Host, services).await?;
    red.running().await;
    blue.running().await;

    // The batcher of one service dies whenever it has something to do.
    let plan = Plan::for_instance("red").strike_always(FaultPoint::BatcherSeal, Fault::Panic).run();
    let pending = create("red", 0).await?;
    println!("red: {pending} is durable");
    while red_events.recv().await? != ServiceEvent::Started {}
    while red_events.recv().await? != ServiceEvent::Started {}
    println!("red: gave up after {} panics, and was started again", plan.strikes(FaultPoint::BatcherSeal));

    // The other one works, by messages to its actor.
    for number in 0..ACCOUNTS {
        let request_id = create("blue", number).await?;
        expect_final("blue", request_id).await?;
    }
    println!("blue: {ACCOUNTS} accounts are final");
    println!("blue: the proof has nullifier {}", person::verify(&find("blue").await, 7).await?);
    println!("blue: {} signed in", person::sign_in(&find("blue").await, 7).await?);

    // The same by its handles, and what it told meanwhile.
    let service = blue.running().await;
    assert_eq!(service.registry().statistics().accounts, ACCOUNTS);
    assert_eq!(service.verification().statistics().good, 2);
    assert_eq!(service.sign_in().clients().len(), 1);
    let (mut finals, mut restarts) = (0, 0);
    while let Ok(event) = blue_events.try_recv() {
        match event {
            ServiceEvent::RequestFinal { .. } => finals += 1,
            ServiceEvent::ActorEnded { .. } => restarts += 1,
            _ => {}
        }
    }
    println!("blue: told of {finals} final requests and {restarts} actors that ended");
    assert_eq!((finals, restarts), (ACCOUNTS, 0));

    // When its faults are over, the first service carries out what it had accepted.
    drop(plan);
    while expect_final("red", pending).await.is_err() {
        tokio::task::yield_now().await;
    }
    println!("red: {pending} is final");
    host.stop(None);
    hosting.await?;
    Ok(())
}

/// A service with a store of its own.
fn service(instance: &str, folder: &std::path::Path) -> Result<ServiceChild, Box<dyn Error>> {
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(&folder.join(instance), &OpenOptions::new(domain))?;
    let mut settings = settings(instance);
    // Few restarts, so that this program is short.
    settings.supervision = SupervisionSettings { actor_restarts: 3, group_restarts: 1, ..settings.supervision };
    Ok(ServiceChild::new(ServiceParts::new(settings, store)))
}

/// The actor of a service, by its name.
async fn find(instance: &str) -> ActorRef<ServiceMessage> {
    loop {
        if let Some(service) = registry::where_is(format!("{instance}/service")) {
            return service.into();
        }
        tokio::task::yield_now().await;
    }
}

type RequestId = selfsame_actors::protocol::ledger::RequestId;

/// Submits the creation of an account; each number has other authenticators.
async fn create(instance: &str, number: u64) -> Result<RequestId, Box<dyn Error>> {
    let operation: Operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::left_padding_from(&(number + 1).to_be_bytes())],
        authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
        offchain_signer_commitment: Commitment(U256::from(number + 1)),
    }
    .into();
    let service = find(instance).await;
    let submit = |reply| RegistryMessage::Submit { submission: Box::new(operation.into()), reply }.into();
    Ok(call_t!(service, submit, PATIENCE_MS)??.request_id)
}

/// Waits until a request is final, and checks that it was carried out.
async fn expect_final(instance: &str, request_id: RequestId) -> Result<(), Box<dyn Error>> {
    let service = find(instance).await;
    let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience: PATIENCE, reply }.into();
    match call_t!(service, wait, PATIENCE_MS)??.ok_or("the registry forgot the request")?.status {
        GatewayRequestState::Finalized { .. } => Ok(()),
        state => Err(format!("{request_id} is {state:?}").into()),
    }
}
