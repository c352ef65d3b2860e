//! Settings of following.

use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::{BlockTag, RootContract};
use selfsame_protocol::chain::deployment::AcceptedCode;
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};

use super::node::ChainNode;

/// A chain that is followed.
#[derive(Clone, Default)]
pub struct ChainSettings {
    /// Its name, for messages; unique in the service.
    pub name: String,
    /// The number that the chain's transactions are signed with. Nodes that name another one are
    /// not used.
    pub chain_id: u64,
    /// The nodes that are asked.
    pub nodes: Vec<Arc<dyn ChainNode>>,
    /// How many nodes must give the same answer; 0 counts as 1.
    pub agree: usize,
    /// The contracts whose roots are followed.
    pub roots: Vec<RootSourceSettings>,
    /// The contracts whose keys are followed.
    pub keys: Vec<KeySourceSettings>,
    /// The verifier contracts, at most one for each environment.
    pub verifiers: Vec<VerifierSettings>,
    /// The registries of relying parties.
    pub relying_parties: Vec<PartySourceSettings>,
}

impl std::fmt::Debug for ChainSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.name()).collect();
        f.debug_struct("ChainSettings")
            .field("name", &self.name)
            .field("chain_id", &self.chain_id)
            .field("nodes", &nodes)
            .field("agree", &self.agree)
            .field("roots", &self.roots)
            .field("keys", &self.keys)
            .field("verifiers", &self.verifiers)
            .field("relying_parties", &self.relying_parties)
            .finish()
    }
}

/// When a contract is asked, and how long its answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Time between two steps.
    pub interval: Duration,
    /// From this age of the newest known block on, nothing of the contract counts.
    pub stale_after: Duration,
    /// Up to this age of the newest known block, an unknown root does not exist.
    pub fresh_for: Duration,
}

/// Where a followed contract is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractPlace {
    /// At this address.
    At(Address),
    /// Where the verifier contract of its environment says, which may change.
    FromVerifier,
}

/// The code of a contract that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeSettings {
    /// The accepted code.
    pub accepted: AcceptedCode,
    /// What follows from other code.
    pub on_upgrade: OnUpgrade,
}

/// What follows when a contract runs code that was not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUpgrade {
    /// Log, status and metrics say so.
    #[default]
    Warn,
    /// The same, and nothing of the contract counts until the code is accepted.
    Stop,
}

/// A verifier contract, which names the other contracts of its deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierSettings {
    /// Its name, for messages; unique among the sources of the chain.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// The environment of its deployment.
    pub environment: Environment,
    /// When it is asked.
    pub freshness: Freshness,
    /// The code that counts. Other code stops all contracts of the environment.
    pub code: CodeSettings,
}

/// A registry of relying parties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartySourceSettings {
    /// Its name, for messages; unique among the sources of the chain.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// The environment of its relying parties.
    pub environment: Environment,
    /// The relying parties that are asked about; they can change while the service runs.
    pub parties: Vec<RelyingPartyId>,
    /// When it is asked.
    pub freshness: Freshness,
}

/// A contract whose roots are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSourceSettings {
    /// Its name, for messages; unique among the sources of the chain.
    pub name: String,
    /// What kind of contract it is.
    pub contract: RootContract,
    /// Where it is.
    pub place: ContractPlace,
    /// The code that counts.
    pub code: CodeSettings,
    /// The environment whose proofs the roots are for.
    pub environment: Environment,
    /// For a legacy tree the credentials that all of its members have.
    pub identifiers: Vec<LegacyIdentifier>,
    /// Which block counts as the newest.
    pub head: BlockTag,
    /// When it is asked.
    pub freshness: Freshness,
    /// How far back roots are kept, and read at the first start.
    pub reach: Duration,
    /// The first block that is read at the first start, instead of the one that `reach` gives.
    pub start_block: Option<u64>,
    /// The most blocks that one question asks for the logs of.
    pub blocks_per_question: u64,
}

/// What kind of contract holds followed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyContract {
    /// The registry of issuers.
    Issuers,
    /// The registry of OPRF keys.
    OprfKeys,
}

/// A contract whose keys are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySourceSettings {
    /// Its name, for messages; unique among the sources of the chain.
    pub name: String,
    /// What kind of contract it is.
    pub contract: KeyContract,
    /// Where it is.
    pub place: ContractPlace,
    /// The code that counts.
    pub code: CodeSettings,
    /// The environment whose proofs the keys are for.
    pub environment: Environment,
    /// The owners whose keys are followed; they can change while the service runs.
    pub owners: Vec<FollowedOwner>,
    /// A new key counts from this block on. One that was removed does not count from the newest
    /// block on.
    pub added_at: BlockTag,
    /// When it is asked.
    pub freshness: Freshness,
}

/// An owner whose key is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedOwner {
    /// The owner.
    pub owner: KeyOwner,
    /// The key of the configuration, which wins. It is compared with the followed one.
    pub configured: Option<PublicKey>,
}
