//! The contracts that are followed: their settings, and why a step of following one failed.

use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::{AnswerError, BlockTag, RootContract};
use selfsame_protocol::chain::deployment::AcceptedCode;
use selfsame_protocol::chain::followed::{HistoryError, KeyOwner};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use selfsame_storage::StoreError;

use super::nodes::{ChainNode, NodeError, Refusal};

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

// Why a step of following failed.

/// Why a step of following failed. The next step begins from what is stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChainError {
    /// Fewer nodes answered than must agree.
    #[error("{answered} of the {agree} nodes that must agree answered: {reasons}")]
    TooFew {
        /// The number of nodes that answered.
        answered: usize,
        /// How many must agree.
        agree: usize,
        /// Why the others did not, by the nodes' names.
        reasons: String,
    },
    /// The nodes answered, and too few of them the same.
    #[error("fewer than {agree} nodes agree about {what}")]
    Disagreement {
        /// How many must agree.
        agree: usize,
        /// What was asked.
        what: &'static str,
    },
    /// The nodes refused a question that they must answer.
    #[error("asked for {what}, {refusal}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// The refusal.
        refusal: Refusal,
    },
    /// The answer is not one that the contract can give.
    #[error("the answer about {what} {error}")]
    Answer {
        /// What was asked.
        what: &'static str,
        /// What is wrong with it.
        error: AnswerError,
    },
    /// The nodes do not have a block that the chain must have.
    #[error("the nodes do not have {0}")]
    NoBlock(&'static str),
    /// The nodes do not have a block that is below their newest one. That may be the failure of a
    /// moment, so they are asked again.
    #[error("the nodes do not have block {0}, although they have a newer one; they are asked again")]
    NoOldBlock(u64),
    /// The nodes are behind what was read from them before.
    #[error("the newest block of the nodes, {head}, is from before block {known}, which is known already")]
    Behind {
        /// The newest block that the nodes named.
        head: u64,
        /// The last block that was read.
        known: u64,
    },
    /// The verifier contract has not said yet where the contract is.
    #[error("the verifier contract has not said yet where the contract is")]
    NotLocated,
    /// The time of the newest block is ahead of the service's clock.
    #[error("the time of the newest block is {0} seconds ahead of this machine's clock")]
    Ahead(u64),
    /// The chain changed while it was read.
    #[error("the chain was reorganized while it was read")]
    Moved,
    /// The logs are not a history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The newest root of the logs is not the contract's newest root.
    #[error("the newest root in the logs is not the one that the contract returns; logs are missing")]
    NewestRoot,
    /// The step took longer than steps may take.
    #[error("the step took longer than {} s", .0.as_secs())]
    Overdue(Duration),
    /// The step panicked.
    #[error("the step panicked")]
    Panicked,
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ChainError {
    /// Whether the logs of a contract do not fit together, so that its history must be read again
    /// when this repeats.
    pub(super) fn is_contradiction(&self) -> bool {
        matches!(self, Self::History(_) | Self::NewestRoot)
    }
}

/// How a node failed, for messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodeFailure {
    /// No question was answered.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node is one of another chain.
    #[error("its chain has the id {found}, not {expected}")]
    OtherChain {
        /// The id that the node named.
        found: u64,
        /// The configured id.
        expected: u64,
    },
    /// The node refused to say which chain it is of.
    #[error("asked for the id of its chain, {0}")]
    ChainId(Refusal),
    /// The node's answer does not say which chain it is of.
    #[error("it does not tell the id of its chain")]
    NoChainId,
    /// The node asked to wait, or failed a moment ago.
    #[error("it is not asked for a while: {0}")]
    Waiting(String),
}
