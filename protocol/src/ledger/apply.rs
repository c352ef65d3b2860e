//! Applying a block: the only place where operations change state.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};

use super::block::{Block, Entry, Seal};
use super::merkle::merkle_root;
use super::result::{BlockResult, Outcome};
use crate::eip712::RegistryDomain;
use crate::encoding::encode;
use crate::ids::LeafIndex;
use crate::registry::{self, Account, Overlay, PackedAccount, RecoveredSigner, RegistryView, RuleViolation};
use crate::tree::{self, HashPairs, OneThread, Page, PageId, PageSource, Root};

/// The last applied block, and what it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The last applied block.
    pub seal: Seal,
    /// Hash of the result of that block; zeros before the first.
    pub result_hash: B256,
    /// The tree's root after that block.
    pub root: Root,
}

crate::encode_fields!(Tip { seal, result_hash, root });

impl Default for Tip {
    /// The tip before the first block, with the root of the empty tree.
    fn default() -> Self {
        Self { seal: Seal::default(), result_hash: B256::ZERO, root: Root::empty() }
    }
}

/// Everything that applying a block changes.
#[derive(Clone, Debug)]
pub struct BlockEffects {
    /// Accounts that were created or changed.
    pub accounts: BTreeMap<LeafIndex, Account>,
    /// Addresses that were mapped, or unmapped (`None`).
    pub addresses: BTreeMap<Address, Option<PackedAccount>>,
    /// The leaf index that the next account gets.
    pub next_leaf_index: LeafIndex,
    /// Tree pages that changed.
    pub pages: Vec<(PageId, Page)>,
    /// The outcome of each entry, in the block's order.
    pub outcomes: Vec<Outcome>,
    /// The messages of the failed entries by position, for people: the rule and the values.
    pub messages: BTreeMap<usize, String>,
    /// The block's result.
    pub result: BlockResult,
    /// The tip after the block.
    pub tip: Tip,
}

/// Recovers the signer of each entry; `None` for the kinds that are not signed. Recovery is the
/// most expensive part of the rules and needs no state, so a caller can do it in advance or on
/// several threads.
pub fn recover_signers(entries: &[Entry], domain: &RegistryDomain) -> Vec<RecoveredSigner> {
    entries.iter().map(|entry| recover_signer(&entry.operation, domain)).collect()
}

/// Recovers the signer of one operation; `None` for the kinds that are not signed.
pub fn recover_signer(operation: &registry::Operation, domain: &RegistryDomain) -> RecoveredSigner {
    let digest = domain.signing_digest(operation)?;
    operation.signature().map(|signature| signature.recover(&digest))
}

/// Recovers the signer of an operation before its request is admitted.
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

/// Applies a block to the state of `view`, whose last block is `tip`. Each operation is checked by
/// the rules on the state that the operations before it left. A failed operation changes nothing
/// and does not affect the others. The function writes nothing: it returns the effects. The same
/// block on the same state always gives the same effects.
///
/// `block` must follow `tip` ([`Block::follows`]), and `signers` must be [`recover_signers`] of its
/// entries. An entry without an element in `signers` counts as unsigned.
///
/// # Errors
/// The state or a page of the tree could not be read.
pub fn apply_block<V, E>(block: &Block, signers: &[RecoveredSigner], view: &V, tip: &Tip) -> Result<BlockEffects, E>
where
    V: RegistryView<Error = E> + PageSource<Error = E>,
{
    apply_block_with(&OneThread, block, signers, view, tip)
}

/// [`apply_block`], with the nodes of the tree hashed by `hasher`.
///
/// # Errors
/// The state or a page of the tree could not be read.
pub fn apply_block_with<V, E>(
    hasher: &impl HashPairs,
    block: &Block,
    signers: &[RecoveredSigner],
    view: &V,
    tip: &Tip,
) -> Result<BlockEffects, E>
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
        // An operation that changes only the nonce or the recovery agent does not change the tree.
        let before = view.account(*leaf_index)?.map(|account| account.commitment);
        if before != Some(account.commitment) {
            leaves.insert(*leaf_index, account.commitment.leaf());
        }
    }
    let tree_update = tree::update_with(hasher, view, &leaves)?;
    let seal = Seal::of(header);
    let result = BlockResult {
        block_hash: seal.hash,
        root_before: tip.root,
        root_after: tree_update.root,
        outcomes_root: merkle_root(outcomes.iter().map(encode)),
        previous_result_hash: tip.result_hash,
    };
    let tip = Tip { seal, result_hash: result.hash(), root: tree_update.root };
    let pages = tree_update.pages;
    Ok(BlockEffects { accounts, addresses, next_leaf_index, pages, outcomes, messages, result, tip })
}
