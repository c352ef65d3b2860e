//! Applying a block: the only place where operations change state, the results, and the roots that
//! come from it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use alloy_primitives::{Address, B256, keccak256};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::block::{Block, Entry, Seal, merkle_root};
use crate::eip712::RegistryDomain;
use crate::encoding::{DecodeError, Encoding, encode};
use crate::ids::LeafIndex;
use crate::registry::{
    self, Account, GatewayErrorCode, Overlay, PackedAccount, RecoveredSigner, RegistryView, RuleViolation,
};
use crate::time::UnixSeconds;
use crate::tree::{self, HashPairs, OneThread, Page, PageId, PageSource, Root};
use crate::{encode_fields, number};

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

// The result of an applied block, and the outcomes of its operations.

/// The outcome of one operation. Its encoding is a leaf of the outcomes tree, so it contains no
/// message: the wording of a message can change, a hash must not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The operation was applied.
    Applied {
        /// Leaf index of the account that the operation created or changed.
        #[serde(with = "number::plain")]
        #[schema(value_type = u64, example = 1)]
        leaf_index: LeafIndex,
    },
    /// The operation broke a rule and changed nothing.
    Failed {
        /// The rule's name.
        #[schema(example = "MismatchedSignatureNonce")]
        rule: String,
        /// The error code that the request's state carries.
        code: GatewayErrorCode,
    },
}

impl From<&RuleViolation> for Outcome {
    fn from(violation: &RuleViolation) -> Self {
        Self::Failed { rule: violation.name().to_owned(), code: violation.code() }
    }
}

impl Encoding for Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Applied { leaf_index } => {
                out.push(0);
                leaf_index.encode(out);
            }
            Self::Failed { rule, code } => {
                out.push(1);
                rule.encode(out);
                code.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Applied { leaf_index: Encoding::decode(input)? }),
            1 => Ok(Self::Failed { rule: Encoding::decode(input)?, code: Encoding::decode(input)? }),
            tag => Err(DecodeError::UnknownTag { kind: "outcome", tag }),
        }
    }
}

/// A block's result. Its encoding is one version byte (1) and the fields in this order; its hash is
/// keccak256 of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockResult {
    /// Hash of the block.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub block_hash: B256,
    /// The tree's root before the block.
    pub root_before: Root,
    /// The tree's root after the block.
    pub root_after: Root,
    /// Root of the Merkle tree over the outcomes.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub outcomes_root: B256,
    /// Hash of the previous result; zeros in the first.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub previous_result_hash: B256,
}

encode_fields!(BlockResult {
    block_hash,
    root_before,
    root_after,
    outcomes_root,
    previous_result_hash
} version 1 of "block result");

impl BlockResult {
    /// The result's hash.
    pub fn hash(&self) -> B256 {
        keccak256(encode(self))
    }
}

// The validity of roots.

/// The record of a value that is or was the tree's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootRecord {
    /// While the root is the newest, height of the block that made it the newest. Afterwards,
    /// height of the block before the one that replaced it; 0 when block 1 replaced the root of
    /// the empty tree.
    pub height: u64,
    /// Time of the block that replaced the root; `None` while the root is the newest.
    pub replaced_at: Option<UnixSeconds>,
}

encode_fields!(RootRecord { height, replaced_at } version 1 of "root record");

/// Whether a root is valid at `now`, the time of the service's clock. The newest root is valid. A
/// replaced root stays valid for `window` seconds after its replacement, the last second included.
/// A root without a record is not valid.
pub fn is_valid_root(record: Option<&RootRecord>, now: UnixSeconds, window: u64) -> bool {
    match record {
        None => false,
        Some(RootRecord { replaced_at: None, .. }) => true,
        Some(RootRecord { replaced_at: Some(time), .. }) => now <= time.plus(window),
    }
}

// A registry in memory.

/// The whole state of a registry in memory, to replay blocks without a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRegistry {
    /// Accounts by leaf index.
    pub accounts: BTreeMap<LeafIndex, Account>,
    /// What each address maps to.
    pub addresses: BTreeMap<Address, PackedAccount>,
    /// The leaf index that the next account gets.
    pub next_leaf_index: LeafIndex,
    /// The tree's pages.
    pub pages: BTreeMap<PageId, Page>,
    /// The last block applied.
    pub tip: Tip,
}

impl Default for MemoryRegistry {
    /// A registry without accounts and blocks.
    fn default() -> Self {
        Self {
            accounts: BTreeMap::new(),
            addresses: BTreeMap::new(),
            next_leaf_index: LeafIndex(1),
            pages: BTreeMap::new(),
            tip: Tip::default(),
        }
    }
}

impl MemoryRegistry {
    /// Applies a block, which must follow the tip, and adds its effects.
    pub fn apply(&mut self, block: &Block, domain: &RegistryDomain) -> BlockEffects {
        let Ok(effects) = apply_block(block, &recover_signers(&block.entries, domain), self, &self.tip);
        self.absorb(&effects);
        effects
    }

    /// Adds the effects of an applied block.
    pub fn absorb(&mut self, effects: &BlockEffects) {
        self.accounts.extend(effects.accounts.iter().map(|(leaf_index, account)| (*leaf_index, account.clone())));
        for (address, mapping) in &effects.addresses {
            match mapping {
                Some(packed) => self.addresses.insert(*address, *packed),
                None => self.addresses.remove(address),
            };
        }
        self.next_leaf_index = effects.next_leaf_index;
        self.pages.extend(effects.pages.iter().cloned());
        self.tip = effects.tip;
    }
}

impl RegistryView for MemoryRegistry {
    type Error = Infallible;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, Infallible> {
        Ok(self.accounts.get(&leaf_index).cloned())
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, Infallible> {
        Ok(self.addresses.get(&address).copied())
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, Infallible> {
        Ok(self.next_leaf_index)
    }
}

impl PageSource for MemoryRegistry {
    type Error = Infallible;

    fn page(&self, id: PageId) -> Result<Option<Page>, Infallible> {
        Ok(self.pages.get(&id).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_root_is_valid_until_its_window_ends() {
        let replaced = RootRecord { height: 1, replaced_at: Some(UnixSeconds(1000)) };
        let newest = RootRecord { height: 2, replaced_at: None };
        let table = [
            (None, 1000, false),
            (Some(&newest), u64::MAX, true),
            (Some(&replaced), 1000, true),
            (Some(&replaced), 4600, true),
            (Some(&replaced), 4601, false),
        ];
        for (record, now, valid) in table {
            assert_eq!(is_valid_root(record, UnixSeconds(now), 3600), valid, "{record:?} at {now}");
        }
    }
}
