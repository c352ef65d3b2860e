//! The actors of Selfsame in another developer's program: under a supervisor of its own, on a
//! ledger of its own, with events and a plan of faults.

#![allow(clippy::expect_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

#[path = "../../../../actors/examples/embedded/application.rs"]
mod application;
mod host;
mod kills;
mod ledger;
mod memory_ledger;
mod messages;
mod supervisor;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selfsame_actors::protocol::eip712::RegistryDomain;
use selfsame_actors::protocol::gateway::GatewayRequestState;
use selfsame_actors::protocol::ids::{Commitment, CompressedKey};
use selfsame_actors::protocol::ledger::RequestId;
use selfsame_actors::protocol::registry::{CreateAccount, Operation};
use selfsame_actors::protocol::{Address, U256};
use selfsame_actors::ractor::{Actor, ActorRef, RpcReplyPort, call_t};
use selfsame_actors::storage::{OpenOptions, Store};
use selfsame_actors::{RegistryHandle, ServiceChild, ServiceMessage, ServiceParts, Submission, SubmitError};
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep};

use host::{Host, HostMessage};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// Longer than any answer takes. A test that waits longer fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn new_store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let store = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).expect("the store opens");
    (folder, store)
}

/// A service whose actor the test starts, under a supervisor that does not start it again.
struct Embedded {
    child: ServiceChild,
    service: ActorRef<ServiceMessage>,
    host: ActorRef<HostMessage>,
    _folder: TempDir,
}

impl Embedded {
    async fn start() -> Self {
        let (folder, store) = new_store();
        let child = ServiceChild::new(ServiceParts::new(application::settings(&new_instance()), store));
        let (host, _) = Actor::spawn(None, Host, unbounded_channel().0).await.expect("the supervisor starts");
        let service = child.spawn(host.get_cell()).await.expect("the service starts");
        Self { child, service, host, _folder: folder }
    }

    /// Kills the service, and starts it again.
    async fn kill(&mut self) {
        self.service.kill_and_wait(Some(PATIENCE)).await.expect("the actor dies");
        self.service = self.child.spawn(self.host.get_cell()).await.expect("the service starts again");
    }

    /// Sends a message and returns its answer.
    async fn ask<M: Into<ServiceMessage>, R: Send + 'static>(&self, message: impl FnOnce(RpcReplyPort<R>) -> M) -> R {
        call_t!(self.service, |reply| message(reply).into(), 60_000).expect("an answer")
    }

    async fn stop(self) {
        self.service.stop_and_wait(None, Some(PATIENCE)).await.expect("the service stops");
    }
}

/// An instance name that no other test uses.
fn new_instance() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("embedded-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
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

/// Submits the operation until it is accepted.
async fn submit(registry: &RegistryHandle, number: u64) -> RequestId {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let idempotency_key = Some(format!("key {number}"));
        let submission = Submission { operation: create(number), source: None, idempotency_key };
        match registry.submit(submission).await {
            Ok(accepted) => return accepted.request_id,
            Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. } | SubmitError::Store(_)) => {
                assert!(Instant::now() < deadline, "request {number} is still refused");
                sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
}

async fn expect_finalized(registry: &RegistryHandle, request_id: &RequestId) {
    let status = registry.wait_until_final(request_id, Instant::now() + PATIENCE).await.expect("the state is read");
    let state = status.expect("an accepted request has a state").status;
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{request_id}: {state:?}");
}

/// Waits until `condition` holds, which another thread brings about.
async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}
