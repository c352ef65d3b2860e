//! Why a step of following failed.

use std::time::Duration;

use selfsame_protocol::chain::contracts::AnswerError;
use selfsame_protocol::chain::followed::HistoryError;
use selfsame_storage::StoreError;

use super::node::{NodeError, Refusal};

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
