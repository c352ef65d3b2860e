//! Blocks.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{B256, keccak256};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::merkle::merkle_root;
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
