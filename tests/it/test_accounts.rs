//! Keys that are the same in every run, and accounts made with them.

use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, U256, keccak256};
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{CreateAccount, Operation};
use selfsame_wallet::account::{Accepted, Registry, Report};
use selfsame_wallet::client::Client;
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, Step, create_account};
use selfsame_wallet::person::Person;

use crate::harness::PATIENCE;

/// The seed that is derived from a name.
pub fn seed(name: &str) -> [u8; 32] {
    keccak256(name).0
}

/// The key that is derived from a name.
pub fn key(name: &str) -> AuthenticatorKey {
    AuthenticatorKey::generate(&mut |bytes: &mut [u8; 32]| *bytes = seed(name)).expect("a key")
}

/// The simulator's seed that the persons of tests have. Their nullifiers are then the same in every
/// run, whatever seed the daemon's simulator has.
pub const SIMULATOR_SEED: &str = "the simulator of the tests";

/// The leaf index that is derived from a name. No tree has that many accounts, so it is none of the
/// accounts that a test creates.
pub fn leaf_of(name: &str) -> LeafIndex {
    let [first, second, third, fourth, ..] = seed(name);
    LeafIndex((1 << 32) + u64::from(u32::from_be_bytes([first, second, third, fourth])))
}

/// The person that is derived from a name, who has no account.
pub fn person_of(name: &str) -> Person {
    Person::assumed(SIMULATOR_SEED, leaf_of(name))
}

/// Bytes that this process has not returned before: sufficient for idempotency keys.
pub fn fresh(bytes: &mut [u8; 32]) {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    *bytes = seed(&format!("fresh {}", GIVEN.fetch_add(1, Ordering::Relaxed)));
}

/// An operation that creates account `number`. The keys of these accounts are not used: each
/// account only has to be different.
pub fn creation(number: u64) -> Operation {
    let number = U256::from(number + 1);
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::from_word(number.into())],
        authenticator_pubkeys: vec![CompressedKey(number)],
        offchain_signer_commitment: Commitment(number),
    };
    operation.into()
}

/// The registry that a client talks to.
pub async fn registry(client: Client) -> Registry {
    Registry::connect(client).await.expect("the gateway names its domain")
}

/// Submits an operation, which must be accepted.
pub async fn submit(registry: &Registry, step: Step) -> Accepted {
    registry.submit(step, &mut fresh).await.expect("accepted")
}

/// Carries out an operation: submits it, waits until it is finalized, verifies its receipt and
/// inclusion proof.
pub async fn carry_out(registry: &Registry, step: Step) -> Report {
    registry.carry_out(step, &mut fresh, PATIENCE).await.expect("carried out")
}

/// Creates an account whose only authenticator is `key`.
pub async fn create(registry: &Registry, key: &AuthenticatorKey, recovery_agent: Address) -> AccountState {
    carry_out(registry, create_account(&[key.authenticator()], recovery_agent)).await.account
}

/// Waits for the final state of a request.
pub async fn final_state(client: &Client, request_id: RequestId) -> GatewayRequestState {
    client.wait_final(request_id, PATIENCE).await.expect("a final state").status
}
