//! What blocks of a [`FakeChain`](crate::fake_node::FakeChain) contain when public contracts change
//! in them.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolError, SolEvent};
use selfsame_protocol::chain::contracts::abi;

use crate::fake_node::{BlockContent, CallOutcome, FakeLog};

/// What a fake registry of OPRF keys holds under an id.
#[derive(Clone, Copy, Debug)]
pub enum FakeOprfKey {
    Unknown,
    Present([U256; 2]),
    Deleted,
}

/// The registry of accounts, version 2, records a root. `time` is that of the block, in Unix
/// seconds; the window is in seconds, too.
pub fn registry_root(registry: Address, root: U256, time: u64, window: u64) -> BlockContent {
    let [time, window] = [time, window].map(U256::from);
    let event = abi::RootRecorded { root, timestamp: time };
    let mut content = log(registry, &event);
    returns(&mut content, registry, &abi::getLatestRootCall {}, &root);
    returns(&mut content, registry, &abi::getRootTimestampCall { root }, &time);
    returns(&mut content, registry, &abi::getRootValidityWindowCall {}, &window);
    returns(&mut content, registry, &abi::getRootExpirationCall { root }, &U256::ZERO);
    content
}

/// The identity manager of a legacy tree replaces its root.
pub fn manager_root(manager: Address, replaced: U256, root: U256, expiry: u64) -> BlockContent {
    let mut content = log(manager, &abi::TreeChanged { preRoot: replaced, kind: 0, postRoot: root });
    returns(&mut content, manager, &abi::latestRootCall {}, &root);
    returns(&mut content, manager, &abi::getRootHistoryExpiryCall {}, &U256::from(expiry));
    content
}

/// A bridge is created; it has no root.
pub fn empty_bridge(bridge: Address, expiry: u64) -> BlockContent {
    let mut content = BlockContent::default();
    returns(&mut content, bridge, &abi::rootHistoryExpiryCall {}, &U256::from(expiry));
    reverts(&mut content, bridge, &abi::latestRootCall {}, &abi::NoRootsSeen {});
    content
}

/// A bridge gets a root. `time` is that of the block, in Unix seconds.
pub fn bridge_root(bridge: Address, root: U256, time: u64) -> BlockContent {
    let mut content = log(bridge, &abi::RootAdded { root, timestamp: time.into() });
    returns(&mut content, bridge, &abi::latestRootCall {}, &root);
    content
}

/// The registry of issuers holds a key from this block on, or none.
pub fn issuer_key(registry: Address, issuer_schema_id: u64, key: Option<[U256; 2]>) -> BlockContent {
    let [x, y] = key.unwrap_or_default();
    let mut content = BlockContent::default();
    let call = abi::issuerSchemaIdToPubkeyCall { issuerSchemaId: issuer_schema_id };
    returns(&mut content, registry, &call, &abi::issuerSchemaIdToPubkeyReturn { x, y });
    content
}

/// The registry of OPRF keys holds this from this block on.
pub fn oprf_key(registry: Address, rp_id: u64, key: FakeOprfKey) -> BlockContent {
    let id = U160::from(rp_id);
    let mut content = BlockContent::default();
    let call = abi::getOprfPublicKeyCall { oprfKeyId: id };
    match key {
        FakeOprfKey::Unknown => reverts(&mut content, registry, &call, &abi::UnknownId { id }),
        FakeOprfKey::Present([x, y]) => {
            returns(&mut content, registry, &call, &abi::getOprfPublicKeyReturn { x, y });
        }
        FakeOprfKey::Deleted => reverts(&mut content, registry, &call, &abi::DeletedId { id }),
    }
    content
}

/// The verifier names these contracts from this block on: the registry, the issuers, the OPRF keys
/// and the contract that checks proofs.
pub fn deployment(verifier: Address, named: [Address; 4]) -> BlockContent {
    let [registry, issuers, oprf_keys, proof_verifier] = named;
    let mut content = BlockContent::default();
    returns(&mut content, verifier, &abi::getWorldIDRegistryCall {}, &registry);
    returns(&mut content, verifier, &abi::getCredentialSchemaIssuerRegistryCall {}, &issuers);
    returns(&mut content, verifier, &abi::getOprfKeyRegistryCall {}, &oprf_keys);
    returns(&mut content, verifier, &abi::getVerifierCall {}, &proof_verifier);
    content
}

impl BlockContent {
    /// Both in one block; the other's logs come after these.
    pub fn and(mut self, other: Self) -> Self {
        self.logs.extend(other.logs);
        self.calls.extend(other.calls);
        self.storage.extend(other.storage);
        self
    }
}

fn log(address: Address, event: &impl SolEvent) -> BlockContent {
    let data = event.encode_log_data();
    let log = FakeLog { address, topics: data.topics().to_vec(), data: data.data.clone() };
    BlockContent { logs: vec![log], ..BlockContent::default() }
}

fn returns<C: SolCall>(content: &mut BlockContent, contract: Address, call: &C, result: &C::Return) {
    let outcome = CallOutcome::Returns(C::abi_encode_returns(result).into());
    content.calls.insert((contract, call.abi_encode().into()), outcome);
}

fn reverts(content: &mut BlockContent, contract: Address, call: &impl SolCall, error: &impl SolError) {
    let outcome = CallOutcome::Reverts(Bytes::from(error.abi_encode()));
    content.calls.insert((contract, call.abi_encode().into()), outcome);
}
