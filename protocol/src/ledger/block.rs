//! Blocks, and the Merkle tree of a block's operations.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{B256, Keccak256, keccak256};
use rs_merkle::{Hasher, MerkleProof, MerkleTree};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::eip712::RegistryDomain;
use crate::encode_fields;
use crate::encoding::{DecodeError, Encoding, encode};
use crate::registry::{Operation, RuleParameters};
use crate::time::{UnixMillis, UnixSeconds};

// The comment is in the descriptions of the interfaces, too. Ids are ordered by their bytes: the
// order of time for those that are made with `from_place`.
/// Identifies a gateway request: a UUID, written `gw_<uuid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, pattern = "^(gw_)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", example = "gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002")]
pub struct RequestId(Uuid);

/// A text that is not a request id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a request id; write gw_ and a UUID")]
pub struct RequestIdError;

impl RequestId {
    /// An id from 16 random bytes (UUID version 4), of which 122 bits count.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The id of a place in the order of ids, made unguessable by random bytes, of which 62 bits
    /// count (UUID version 7, RFC 9562).
    pub fn from_place(IdPlace(place): IdPlace, random: [u8; 8]) -> Self {
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&((place & COUNTER_MASK) as u16).to_be_bytes());
        bytes[2..].copy_from_slice(&random);
        Self(uuid::Builder::from_unix_timestamp_millis(place >> COUNTER_BITS, &bytes).into_uuid())
    }

    /// The 16 bytes that records and blocks carry.
    pub fn bytes(&self) -> [u8; 16] {
        *self.0.as_bytes()
    }
}

/// Bits of a UUID of version 7 between its version and its variant, which count the ids of a
/// millisecond.
const COUNTER_BITS: u32 = 12;

const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// A place in the order of request ids: a Unix time in milliseconds, and a counter within it.
///
/// Records that have request ids as their keys are written at the end of their family when each id
/// comes after those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdPlace(u64);

impl IdPlace {
    /// The place of the next id at a time: after this one, also when the clock was set back, or
    /// when 4096 ids of the same millisecond came before.
    pub fn next(self, now: UnixMillis) -> Self {
        Self((now.0 << COUNTER_BITS).max(self.0.saturating_add(1)))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "gw_{}", self.0)
    }
}

impl FromStr for RequestId {
    type Err = RequestIdError;
    /// Reads an id with or without its prefix; the UUID must be in its hyphenated form.
    fn from_str(text: &str) -> Result<Self, RequestIdError> {
        let text = text.strip_prefix("gw_").unwrap_or(text);
        let uuid = Uuid::try_parse(text).map_err(|_| RequestIdError)?;
        if text.len() == uuid::fmt::Hyphenated::LENGTH { Ok(Self(uuid)) } else { Err(RequestIdError) }
    }
}

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Encoding for RequestId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.bytes().encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        <[u8; 16]>::decode(input).map(|bytes| Self(Uuid::from_bytes(bytes)))
    }
}

/// One request in a block. Its encoding is a leaf of the operations tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Id of the request that carried the operation, 16 bytes in the encoding.
    pub request_id: RequestId,
    /// The operation, which the rules check when the block is applied.
    pub operation: Operation,
}

encode_fields!(Entry { request_id, operation });

/// A block's header. Its encoding is one version byte (2) and the fields in this order; its hash is
/// the block's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockHeader {
    /// Counted from 1.
    #[schema(example = 1)]
    pub height: u64,
    /// Hash of the block before; zeros in block 1.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub previous_hash: B256,
    /// Time of the block, never before that of the previous block. The rules use no other time.
    pub time: UnixSeconds,
    /// Number of operations.
    #[schema(example = 1)]
    pub count: u32,
    /// Root of the Merkle tree over the entries.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub operations_root: B256,
    /// The rule parameters in force.
    pub rules: RuleParameters,
    /// The registry that the block belongs to and that its operations are signed for.
    pub domain: RegistryDomain,
}

encode_fields!(BlockHeader {
    height,
    previous_hash,
    time,
    count,
    operations_root,
    rules,
    domain,
} version 2 of "block header");

impl BlockHeader {
    /// The block's hash: keccak256 of the header's encoding.
    pub fn hash(&self) -> B256 {
        keccak256(encode(self))
    }
}

/// A header and its operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The header; its hash is the hash of the block.
    pub header: BlockHeader,
    /// The requests in the order in which their operations are applied; the header holds their
    /// number.
    pub entries: Vec<Entry>,
}

encode_fields!(Block { header, entries });

/// The block that a new block is linked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// Height of the last block; 0 before the first.
    pub height: u64,
    /// Hash of the last block; zeros before the first.
    pub hash: B256,
    /// Time of the last block; 0 before the first.
    pub time: UnixSeconds,
}

encode_fields!(Seal { height, hash, time });

impl Seal {
    /// The seal that a header leaves for the next block.
    pub fn of(header: &BlockHeader) -> Self {
        Self { height: header.height, hash: header.hash(), time: header.time }
    }
}

impl Block {
    /// Seals entries into the block after `previous`. The time of the block is `now`, or that of
    /// `previous` when the clock went back.
    pub fn seal(
        previous: &Seal,
        domain: RegistryDomain,
        now: UnixSeconds,
        rules: RuleParameters,
        entries: Vec<Entry>,
    ) -> Self {
        Self { header: header_of(previous, domain, now, rules, &entries), entries }
    }

    /// Whether this block follows `previous` and its header matches its entries.
    pub fn follows(&self, previous: &Seal) -> bool {
        let BlockHeader { domain, time, rules, .. } = self.header;
        header_of(previous, domain, time, rules, &self.entries) == self.header
    }

    /// Whether this block is linked to `previous`: its height and the hash that it names. Whether
    /// its header matches its entries is not checked.
    pub fn is_linked_to(&self, previous: &Seal) -> bool {
        self.header.height == previous.height.saturating_add(1) && self.header.previous_hash == previous.hash
    }

    /// Whether the block is one of the registry `domain`.
    pub fn belongs_to(&self, domain: &RegistryDomain) -> bool {
        self.header.domain == *domain
    }
}

fn header_of(
    previous: &Seal,
    domain: RegistryDomain,
    now: UnixSeconds,
    rules: RuleParameters,
    entries: &[Entry],
) -> BlockHeader {
    BlockHeader {
        // A seal that was read from a damaged record can have the greatest height, so a plain
        // addition could overflow.
        height: previous.height.saturating_add(1),
        previous_hash: previous.hash,
        time: now.max(previous.time),
        count: entries.len() as u32,
        operations_root: merkle_root(entries.iter().map(encode)),
        rules,
        domain,
    }
}

// The Merkle trees over a block's operations and over its outcomes (`rs_merkle`, keccak256).
//
// A leaf is keccak256(0x00 ‖ encoding), a node keccak256(0x01 ‖ left ‖ right); a node without a
// right sibling moves up unchanged. Because of the prefixes, a node cannot be presented as a leaf.

#[derive(Clone)]
struct Keccak;

impl Hasher for Keccak {
    type Hash = [u8; 32];

    fn hash(data: &[u8]) -> [u8; 32] {
        let mut keccak = Keccak256::new();
        keccak.update([0x00]);
        keccak.update(data);
        keccak.finalize().0
    }

    fn concat_and_hash(left: &[u8; 32], right: Option<&[u8; 32]>) -> [u8; 32] {
        let Some(right) = right else { return *left };
        let mut keccak = Keccak256::new();
        keccak.update([0x01]);
        keccak.update(left);
        keccak.update(right);
        keccak.finalize().0
    }
}

/// A tree over encoded leaves.
#[derive(Clone)]
pub struct BlockTree(MerkleTree<Keccak>);

impl BlockTree {
    /// The tree over these leaves. Computes every node.
    pub fn over<T: AsRef<[u8]>>(leaves: impl IntoIterator<Item = T>) -> Self {
        let leaves: Vec<[u8; 32]> = leaves.into_iter().map(|leaf| Keccak::hash(leaf.as_ref())).collect();
        Self(MerkleTree::from_leaves(&leaves))
    }

    /// The root; 32 zero bytes over no leaves.
    pub fn root(&self) -> B256 {
        self.0.root().map_or(B256::ZERO, B256::from)
    }

    /// The siblings that lead from the leaf at `position` to the root, from the bottom up.
    pub fn path(&self, position: usize) -> Vec<B256> {
        self.0.proof(&[position]).proof_hashes().iter().copied().map(B256::from).collect()
    }
}

/// The root over encoded leaves; 32 zero bytes over no leaves.
pub fn merkle_root<T: AsRef<[u8]>>(leaves: impl IntoIterator<Item = T>) -> B256 {
    BlockTree::over(leaves).root()
}

/// The siblings that lead from the leaf at `position` to the root, from the bottom up.
pub fn merkle_path<T: AsRef<[u8]>>(leaves: &[T], position: usize) -> Vec<B256> {
    BlockTree::over(leaves).path(position)
}

/// Whether `path` leads from the encoded `leaf`, one of `count` at `position`, to `root`.
pub fn verify_path(root: &B256, leaf: &[u8], position: usize, count: usize, path: &[B256]) -> bool {
    // The library ignores surplus nodes at the end of a path. The check of the length refuses them.
    if position >= count || path.len() != path_length(position, count) {
        return false;
    }
    let proof = MerkleProof::<Keccak>::new(path.iter().map(|node| node.0).collect());
    proof.verify(root.0, &[position], &[Keccak::hash(leaf)], count)
}

/// The number of siblings between a leaf and the root.
fn path_length(mut position: usize, mut count: usize) -> usize {
    let mut length = 0;
    while count > 1 {
        length += usize::from(position ^ 1 < count);
        position /= 2;
        count = count.div_ceil(2);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn merkle_roots_match_the_definition() {
        let leaf = |text: &str| keccak256([&[0], text.as_bytes()].concat());
        let node = |left: B256, right: B256| keccak256([&[1], left.as_slice(), right.as_slice()].concat());
        assert_eq!(merkle_root(["a"]), leaf("a"));
        assert_eq!(merkle_root(["a", "b", "c"]), node(node(leaf("a"), leaf("b")), leaf("c")));
        assert_eq!(merkle_root([""; 0]), B256::ZERO);
    }

    #[test]
    fn a_path_leads_to_the_root_only_from_its_own_leaf() {
        for count in 1..20usize {
            let leaves: Vec<String> = (0..count).map(|leaf| format!("leaf {leaf}")).collect();
            let root = merkle_root(&leaves);
            for position in 0..count {
                let path = merkle_path(&leaves, position);
                let leaf = leaves[position].as_bytes();
                assert!(verify_path(&root, leaf, position, count, &path));
                assert!(!verify_path(&root, b"another", position, count, &path));
                assert!(!verify_path(&root, leaf, position + count, count, &path));
                assert!(!verify_path(&B256::ZERO, leaf, position, count, &path));
                if count > 1 {
                    assert!(!verify_path(&root, leaf, (position + 1) % count, count, &path));
                    assert!(!verify_path(&root, leaf, position, count, &path[1..]));
                }
                assert!(!verify_path(&root, leaf, position, count, &[&path[..], &[B256::ZERO]].concat()));
            }
        }
    }
}
