//! A node of a cluster of `ractor_cluster` whose service the other nodes use.
//!
//! `cluster_node serve PORT FOLDER` starts a service with its store in a folder, and offers its
//! registry, its verification and its sign-in to the other nodes in process groups. It ends when
//! its standard input ends.
//!
//! `cluster_node create PORT ACCOUNTS` starts a node without a service, connects it to the one at
//! this port, finds the registry in the process group, and creates accounts through it.
//!
//! `cluster_node visit PORT PERSON` does the same with verification and sign-in: a person proves
//! that they are one, and signs in to an application.
//!
//! The nodes know each other by a cookie, and the connection is not encrypted: keep it in a network
//! of your own, or give the node server a certificate.

#![allow(missing_docs, reason = "a program has no callers")]

#[path = "../actors/examples/embedded/application.rs"]
mod application;
#[path = "../actors/examples/embedded/person.rs"]
mod person;

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use ractor_cluster::{NodeServer, NodeServerMessage, client_connect};
use selfsame_actors::protocol::eip712::RegistryDomain;
use selfsame_actors::protocol::gateway::GatewayRequestState;
use selfsame_actors::protocol::ids::{Commitment, CompressedKey};
use selfsame_actors::protocol::registry::CreateAccount;
use selfsame_actors::protocol::{Address, U256};
use selfsame_actors::ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, Message, call_t, pg};
use selfsame_actors::storage::{OpenOptions, Store};
use selfsame_actors::{RegistryActor, RegistryMessage, ServiceChild, ServiceParts, SignInActor, VerificationActor};

/// The process groups that the actors of services are members of, on all nodes.
const REGISTRIES: &str = "registries";
const VERIFICATIONS: &str = "verifications";
const SIGN_INS: &str = "sign-ins";

const COOKIE: &str = "the same on all nodes";

/// How long the answer to one message may take, in milliseconds.
const PATIENCE_MS: u64 = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", port, folder] => serve(port.parse()?, folder.as_ref()).await,
        ["create", port, accounts] => create(port.parse()?, accounts.parse()?).await,
        ["visit", port, person] => visit(port.parse()?, person.parse()?).await,
        _ => Err("call it with `serve PORT FOLDER`, `create PORT ACCOUNTS` or `visit PORT PERSON`".into()),
    }
}

/// Serves until the standard input ends.
async fn serve(port: u16, folder: &Path) -> Result<(), Box<dyn Error>> {
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder, &OpenOptions::new(domain))?;
    let service = ServiceChild::new(ServiceParts::new(application::settings("identity"), store));
    let (host, _) = Actor::spawn(Some("host".to_owned()), Host, ()).await?;
    let above = service.spawn(host.get_cell()).await?;
    let service = service.running().await;
    let (registry, _) = Actor::spawn_linked(None, RegistryActor, service.registry(), above.clone()).await?;
    let (verification, _) = Actor::spawn_linked(None, VerificationActor, service.verification(), above.clone()).await?;
    let (sign_in, _) = Actor::spawn_linked(None, SignInActor, service.sign_in(), above).await?;
    pg::join(REGISTRIES.to_owned(), vec![registry.get_cell()]);
    pg::join(VERIFICATIONS.to_owned(), vec![verification.get_cell()]);
    pg::join(SIGN_INS.to_owned(), vec![sign_in.get_cell()]);
    let _node = start_node(port, "service-node").await?;
    println!("serving");
    // The end of the input is waited for on a thread that may block.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    host.stop_and_wait(None, None).await?;
    Ok(())
}

/// Creates accounts through the registry of another node, one after the other.
async fn create(port: u16, accounts: u64) -> Result<(), Box<dyn Error>> {
    let node = start_node(0, "client-node").await?;
    client_connect(&node, ("127.0.0.1", port)).await?;
    let registry: ActorRef<RegistryMessage> = find(REGISTRIES).await?.into();
    let before = call_t!(registry, |reply| RegistryMessage::Tip { reply }, PATIENCE_MS)?;
    for number in 0..accounts {
        let key = before.seal.height * 1_000_000 + number;
        let operation = CreateAccount {
            recovery_address: Address::ZERO,
            authenticator_addresses: vec![Address::left_padding_from(&(key + 1).to_be_bytes())],
            authenticator_pubkeys: vec![CompressedKey(U256::from(key))],
            offchain_signer_commitment: Commitment(U256::from(key + 1)),
        };
        let submission = Box::new(selfsame_actors::protocol::registry::Operation::from(operation).into());
        let submit = |reply| RegistryMessage::Submit { submission, reply };
        let request_id = call_t!(registry, submit, PATIENCE_MS)??.request_id;
        let patience = Duration::from_millis(PATIENCE_MS / 2);
        let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience, reply };
        let status = call_t!(registry, wait, PATIENCE_MS)??.ok_or("the registry forgot the request")?;
        match status.status {
            GatewayRequestState::Finalized { .. } => println!("{request_id} is final"),
            state => return Err(format!("{request_id} is {state:?}").into()),
        }
    }
    Ok(())
}

/// Lets a person prove that they are one, and sign in, through the actors of another node.
async fn visit(port: u16, person: u64) -> Result<(), Box<dyn Error>> {
    let node = start_node(0, "client-node").await?;
    client_connect(&node, ("127.0.0.1", port)).await?;
    let nullifier = person::verify(&find(VERIFICATIONS).await?.into(), person).await?;
    println!("the proof has nullifier {nullifier:#x}");
    let subject = person::sign_in(&find(SIGN_INS).await?.into(), person).await?;
    println!("{subject} signed in");
    Ok(())
}

/// Starts the part of a node that other nodes connect to.
async fn start_node(port: u16, name: &str) -> Result<ActorRef<NodeServerMessage>, Box<dyn Error>> {
    let server = NodeServer::new(port, COOKIE.to_owned(), name.to_owned(), "localhost".to_owned(), None, None);
    Ok(Actor::spawn(None, server, ()).await?.0)
}

/// An actor of another node, once the nodes have told each other of their process groups.
async fn find(group: &str) -> Result<ActorCell, Box<dyn Error>> {
    for _ in 0..200 {
        if let Some(actor) = pg::get_members(&group.to_owned()).pop() {
            return Ok(actor);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("no node has {group}").into())
}

/// The supervisor of this program. It ends with its children.
struct Host;

/// Nothing is said to the supervisor.
enum HostMessage {}

impl Message for HostMessage {}

impl Actor for Host {
    type Msg = HostMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<HostMessage>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}
