//! Applying a block: the one place where operations become state.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};

use super::merkle::merkle_root;
use super::{Block, BlockResult, Entry, Outcome, Seal};
use crate::eip712::RegistryDomain;
use crate::encoding::encode;
use crate::registry::{self, Account, Overlay, PackedAccount, RecoveredSigner, RegistryView, RuleViolation};
use crate::tree::{self, Node, Page, PageId, PageSource};

/// How far blocks have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The last applied block.
    pub seal: Seal,
    /// Hash of its result; zeros before the first.
    pub result_hash: B256,
    /// The tree's root after it.
    pub root: Node,
}

crate::encode_fields!(Tip { seal, result_hash, root });

impl Default for Tip {
    /// Nothing applied: the empty tree.
    fn default() -> Self {
        Self { seal: Seal::default(), result_hash: B256::ZERO, root: tree::empty_node(tree::DEPTH) }
    }
}

/// Everything that applying a block changes.
#[derive(Clone, Debug)]
pub struct BlockEffects {
    /// Accounts made or changed.
    pub accounts: BTreeMap<u64, Account>,
    /// Addresses mapped, or unmapped (`None`).
    pub addresses: BTreeMap<Address, Option<PackedAccount>>,
    /// The leaf index that the next account gets.
    pub next_leaf_index: u64,
    /// Tree pages that changed.
    pub pages: Vec<(PageId, Page)>,
    /// What became of each entry, in the block's order.
    pub outcomes: Vec<Outcome>,
    /// For each failed entry, by position, what to tell people: the rule and the values.
    pub messages: BTreeMap<usize, String>,
    /// The block's result.
    pub result: BlockResult,
    /// The tip after the block.
    pub tip: Tip,
}

/// What each entry's signature recovers to, `None` for unsigned kinds. The costly part of the rules, and free of state, so a
/// caller may do it ahead or on several threads.
pub fn recover_signers(entries: &[Entry], domain: &RegistryDomain) -> Vec<RecoveredSigner> {
    entries.iter().map(|entry| recover_signer(&entry.operation, domain)).collect()
}

/// What one operation's signature recovers to.
pub fn recover_signer(operation: &registry::Operation, domain: &RegistryDomain) -> RecoveredSigner {
    let digest = domain.signing_digest(operation)?;
    operation.signature().map(|signature| signature.recover(&digest))
}

/// What one operation's signature recovers to, for an operation that is to be admitted.
///
/// # Errors
/// The rule that an unrecoverable signature breaks.
pub fn check_signature(
    operation: &registry::Operation,
    domain: &RegistryDomain,
) -> Result<RecoveredSigner, RuleViolation> {
    match recover_signer(operation, domain) {
        Some(Err(error)) => Err(error.into()),
        signer => Ok(signer),
    }
}

/// Applies a block to the state that `view` shows and `tip` ends. Every operation is judged by the rules on the state that the
/// ones before it left; a failed one changes nothing and leaves its neighbours alone. Nothing is written. The same block on the
/// same state always gives the same effects.
///
/// `block` must follow `tip` ([`Block::follows`]), and `signers` must be [`recover_signers`] of its entries; an entry that has none
/// counts as unsigned.
///
/// # Errors
/// Only the view's own.
pub fn apply_block<V, E>(block: &Block, signers: &[RecoveredSigner], view: &V, tip: &Tip) -> Result<BlockEffects, E>
where
    V: RegistryView<Error = E> + PageSource<Error = E>,
{
    let header = &block.header;
    let mut state = Overlay::new(view);
    let mut outcomes = Vec::with_capacity(block.entries.len());
    let mut messages = BTreeMap::new();
    for (position, entry) in block.entries.iter().enumerate() {
        let signer = signers.get(position).copied().flatten();
        outcomes.push(match registry::apply(&entry.operation, signer, &header.rules, header.time, &mut state)? {
            Ok(leaf_index) => Outcome::Applied { leaf_index },
            Err(violation) => {
                messages.insert(position, violation.message());
                Outcome::from(&violation)
            }
        });
    }
    let next_leaf_index = state.next_leaf_index()?;
    let Overlay { accounts, addresses, .. } = state;
    let mut leaves = BTreeMap::new();
    for (leaf_index, account) in &accounts {
        // A new nonce or agent leaves the commitment, and with it the tree, as it was.
        let before = view.account(*leaf_index)?.map(|account| account.commitment);
        if before != Some(account.commitment) {
            leaves.insert(*leaf_index, tree::node(account.commitment));
        }
    }
    let tree_update = tree::update(view, &leaves)?;
    let seal = Seal::of(header);
    let result = BlockResult {
        block_hash: seal.hash,
        root_before: tip.root,
        root_after: tree_update.root,
        outcomes_root: merkle_root(&outcomes.iter().map(encode).collect::<Vec<_>>()),
        previous_result_hash: tip.result_hash,
    };
    let tip = Tip { seal, result_hash: result.hash(), root: tree_update.root };
    let pages = tree_update.pages;
    Ok(BlockEffects { accounts, addresses, next_leaf_index, pages, outcomes, messages, result, tip })
}
