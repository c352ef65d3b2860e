//! Column families: the kinds of records, and their keys; the layout of all of them.

use std::fmt;
use std::marker::PhantomData;

use selfsame_protocol::chain::deployment::ContractCode;
use selfsame_protocol::chain::followed::{Position, PublishedRoot};
use selfsame_protocol::encoding::{DecodeError, Encoding, decode};
use selfsame_protocol::events::record::{EventPosition, LogEntry, RecordedEvent};
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, MemberNumber, SecretHash};
use selfsame_protocol::groups::records::{
    AwaitedRollRecord, CodeRecord, CopyId, EnrolmentKey, GroupRecord, LiveRootRecord, MemberKey, MemberRecord,
    PageRecord, PageRootKey, PartKey, RollKey, RollPageKey, RollPageRecord, RollRecord, SealedRecord,
};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{Block, RequestId, RootRecord};
use selfsame_protocol::registry::{Account, PackedAccount};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Page, PageId, Root};
use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::{ActionRecord, NullifierKey, NullifierRecord};
use selfsame_protocol::verification::roots::{RootDecision, RootKey};
use selfsame_protocol::{Address, B256, encode_fields};

use super::records::{
    AppliedBlock, AppliedTip, DeliveryRecord, DeploymentRecord, IdempotencyRecord, KeySourceRecord, LogProgress, Place,
    QueuedEntry, ReceiverKey, ReceiverRecord, RecordKey, RequestRecord, RootSourceRecord, SourceId, StoredRecord,
    SweptRequests, UnloggedKey,
};

/// A column family with the types of its keys and values. Keys are canonical encodings, so numbers
/// sort by value.
pub(crate) struct Family<Key, Value> {
    /// Name of the RocksDB column family.
    pub name: &'static str,
    types: PhantomData<fn(Key) -> Value>,
}

impl<Key: Encoding, Value: Encoding> Family<Key, Value> {
    const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    const fn typed(&self) -> (&'static str, DecodeRecord) {
        (self.name, decode_record::<Key, Value>)
    }
}

/// Decodes the key and the value of a record.
pub(crate) type DecodeRecord = fn(&[u8], &[u8]) -> Result<(), DecodeError>;

fn decode_record<Key: Encoding, Value: Encoding>(key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
    decode::<Key>(key)?;
    decode::<Value>(value)?;
    Ok(())
}

/// Leaf index → account.
pub(crate) const ACCOUNTS: Family<LeafIndex, Account> = Family::new("accounts");
/// Authenticator address → packed account data.
pub(crate) const ADDRESSES: Family<Address, PackedAccount> = Family::new("addresses");
/// Page id → tree page. Pages with nothing below them are absent.
pub(crate) const TREE_PAGES: Family<PageId, Page> = Family::new("tree_pages");
/// Root → a height at which it was the newest root, and when it was replaced.
pub(crate) const ROOTS: Family<Root, RootRecord> = Family::new("roots");
/// Height → what applying the block gave.
pub(crate) const RESULTS: Family<u64, AppliedBlock> = Family::new("results");
/// One record: how far blocks have been applied.
pub(crate) const APPLIED: Family<(), AppliedTip> = Family::new("applied");

/// Height → sealed block.
pub(crate) const BLOCKS: Family<u64, Block> = Family::new("blocks");
/// Block hash → height.
pub(crate) const BLOCK_HASHES: Family<B256, u64> = Family::new("block_hashes");
/// Request id → its place in a block. Never deleted.
pub(crate) const PLACES: Family<RequestId, Place> = Family::new("places");

/// Request id → request. Those of final requests are deleted some time after their blocks.
pub(crate) const REQUESTS: Family<RequestId, RequestRecord> = Family::new("requests");
/// Sequence number → request that is not applied yet.
pub(crate) const QUEUE: Family<u64, QueuedEntry> = Family::new("queue");
/// One record: the greatest sequence number among the requests that left the queue.
pub(crate) const FINISHED_SEQUENCE: Family<(), u64> = Family::new("finished_sequence");
/// Hash of an idempotency key → the request it stands for.
pub(crate) const IDEMPOTENCY: Family<B256, IdempotencyRecord> = Family::new("idempotency");
/// One record: how far the records of final requests are deleted.
pub(crate) const SWEPT_REQUESTS: Family<(), SweptRequests> = Family::new("swept_requests");
/// Time when an idempotency key was accepted, and its hash.
pub(crate) const ACCEPTED_KEYS: Family<(UnixSeconds, B256), ()> = Family::new("accepted_keys");

/// Nullifier of an action → when it was first seen, and how often. Never deleted.
pub(crate) const NULLIFIERS: Family<NullifierKey, NullifierRecord> = Family::new("nullifiers");
/// Action → how it came to be, unless it was configured.
pub(crate) const ACTIONS: Family<ActionKey, ActionRecord> = Family::new("actions");
/// Root → what the operator decided about it.
pub(crate) const TRUSTED_ROOTS: Family<RootKey, RootDecision> = Family::new("trusted_roots");

/// Sign-in's records, the registry's key, used nonces and bundles, each with an expiry.
pub(crate) const RECORDS: Family<RecordKey, StoredRecord> = Family::new("records");
/// Expiry and key of each record, in the order of expiry.
pub(crate) const RECORD_EXPIRIES: Family<(UnixSeconds, RecordKey), ()> = Family::new("record_expiries");

/// Source of roots → how far its contract was followed.
pub(crate) const ROOT_SOURCES: Family<SourceId, RootSourceRecord> = Family::new("root_sources");
/// Source and position → a root that its contract published there.
pub(crate) const PUBLISHED_ROOTS: Family<(SourceId, Position), PublishedRoot> = Family::new("published_roots");
/// Source of keys → the keys of its contract.
pub(crate) const KEY_SOURCES: Family<SourceId, KeySourceRecord> = Family::new("key_sources");
/// Verifier contract → where the contracts of its deployment are.
pub(crate) const DEPLOYMENTS: Family<SourceId, DeploymentRecord> = Family::new("deployments");
/// Followed contract → its code when it was first seen.
pub(crate) const CONTRACT_CODE: Family<SourceId, ContractCode> = Family::new("contract_code");

/// Time and id → an event that is not in the log yet.
pub(crate) const UNLOGGED_EVENTS: Family<UnloggedKey, RecordedEvent> = Family::new("unlogged_events");
/// Number → record of the log of events. Old ones are forgotten.
pub(crate) const EVENT_LOG: Family<u64, LogEntry> = Family::new("event_log");
/// One record: how far the log of events is.
pub(crate) const EVENT_LOG_PROGRESS: Family<(), LogProgress> = Family::new("event_log_progress");
/// Receiver of webhooks → how far it is.
pub(crate) const EVENT_RECEIVERS: Family<ReceiverKey, ReceiverRecord> = Family::new("event_receivers");
/// Receiver and position → an event that was sent and not accepted.
pub(crate) const DELIVERIES: Family<(ReceiverKey, EventPosition), DeliveryRecord> = Family::new("deliveries");

/// Group → its record.
pub(crate) const GROUPS: Family<GroupId, GroupRecord> = Family::new("groups");
/// Group and member number → member. Never deleted.
pub(crate) const GROUP_MEMBERS: Family<MemberKey, MemberRecord> = Family::new("group_members");
/// Group and number of a member who has left, and whose leaf is still in the tree.
pub(crate) const GROUP_LEAVING: Family<MemberKey, ()> = Family::new("group_leaving");
/// Group and enrolment nullifier → the member number that has it, or ever had it. Never deleted.
pub(crate) const GROUP_ENROLMENTS: Family<EnrolmentKey, MemberNumber> = Family::new("group_enrolments");
/// Hash of a code → the code.
pub(crate) const GROUP_CODES: Family<SecretHash, CodeRecord> = Family::new("group_codes");
/// Group and page → its leaves.
pub(crate) const GROUP_PAGES: Family<PartKey, PageRecord> = Family::new("group_pages");
/// Group and version → its root, while proofs may be made against it.
pub(crate) const GROUP_ROOTS: Family<PartKey, LiveRootRecord> = Family::new("group_roots");
/// Group, page and version → the root that the page has from then on, while a live root has it.
pub(crate) const GROUP_PAGE_ROOTS: Family<PageRootKey, FieldNumber> = Family::new("group_page_roots");
/// Group and name → roll.
pub(crate) const GROUP_ROLLS: Family<RollKey, RollRecord> = Family::new("group_rolls");
/// Group and page root → a page of rolls.
pub(crate) const GROUP_ROLL_PAGES: Family<RollPageKey, RollPageRecord> = Family::new("group_roll_pages");
/// Group and name → a roll with a time, from when it was first seen in the configuration.
pub(crate) const GROUP_AWAITED_ROLLS: Family<RollKey, AwaitedRollRecord> = Family::new("group_awaited_rolls");

/// Random id → sealed copy.
pub(crate) const SEALED_COPIES: Family<CopyId, SealedRecord> = Family::new("sealed_copies");
/// Hash of a handle → the sealed copy that it finds.
pub(crate) const SEALED_HANDLES: Family<SecretHash, CopyId> = Family::new("sealed_handles");
/// Day and id of a sealed copy that is not kept yet.
pub(crate) const SEALED_UNKEPT: Family<(Day, CopyId), ()> = Family::new("sealed_unkept");

/// Facts about the store itself; see `store.rs` for the keys.
pub(crate) const META: &str = "meta";

/// The families that applying blocks derives from the ledger; fsck rebuilds and compares them byte
/// by byte.
pub(crate) const DERIVED: [&str; 6] =
    [ACCOUNTS.name, ADDRESSES.name, TREE_PAGES.name, ROOTS.name, RESULTS.name, APPLIED.name];

/// The families that can be made from the blocks again: those of [`DERIVED`], and the indexes of
/// the ledger.
pub(crate) const REBUILT: [&str; 8] = [
    ACCOUNTS.name,
    ADDRESSES.name,
    TREE_PAGES.name,
    ROOTS.name,
    RESULTS.name,
    APPLIED.name,
    BLOCK_HASHES.name,
    PLACES.name,
];

/// Every family but [`META`], with the function that decodes its records.
pub(crate) const TYPED: [(&str, DecodeRecord); 44] = [
    ACCOUNTS.typed(),
    ADDRESSES.typed(),
    TREE_PAGES.typed(),
    ROOTS.typed(),
    RESULTS.typed(),
    APPLIED.typed(),
    BLOCKS.typed(),
    BLOCK_HASHES.typed(),
    PLACES.typed(),
    REQUESTS.typed(),
    QUEUE.typed(),
    FINISHED_SEQUENCE.typed(),
    IDEMPOTENCY.typed(),
    SWEPT_REQUESTS.typed(),
    ACCEPTED_KEYS.typed(),
    NULLIFIERS.typed(),
    ACTIONS.typed(),
    TRUSTED_ROOTS.typed(),
    RECORDS.typed(),
    RECORD_EXPIRIES.typed(),
    ROOT_SOURCES.typed(),
    PUBLISHED_ROOTS.typed(),
    KEY_SOURCES.typed(),
    DEPLOYMENTS.typed(),
    CONTRACT_CODE.typed(),
    UNLOGGED_EVENTS.typed(),
    EVENT_LOG.typed(),
    EVENT_LOG_PROGRESS.typed(),
    EVENT_RECEIVERS.typed(),
    DELIVERIES.typed(),
    GROUPS.typed(),
    GROUP_MEMBERS.typed(),
    GROUP_LEAVING.typed(),
    GROUP_ENROLMENTS.typed(),
    GROUP_CODES.typed(),
    GROUP_PAGES.typed(),
    GROUP_ROOTS.typed(),
    GROUP_PAGE_ROOTS.typed(),
    GROUP_ROLLS.typed(),
    GROUP_ROLL_PAGES.typed(),
    GROUP_AWAITED_ROLLS.typed(),
    SEALED_COPIES.typed(),
    SEALED_HANDLES.typed(),
    SEALED_UNKEPT.typed(),
];

/// Every family.
pub(crate) const ALL: [&str; TYPED.len() + 1] = {
    let mut names = [META; TYPED.len() + 1];
    let mut index = 0;
    while index < TYPED.len() {
        names[index] = TYPED[index].0;
        index += 1;
    }
    names
};

/// Families that are read by single keys. A key is in one level of RocksDB's files, or in none: a
/// Bloom filter saves a read from disk in each of the others.
pub(crate) const WITH_BLOOM_FILTER: [&str; 11] = [
    ACCOUNTS.name,
    ADDRESSES.name,
    TREE_PAGES.name,
    ROOTS.name,
    BLOCK_HASHES.name,
    PLACES.name,
    REQUESTS.name,
    IDEMPOTENCY.name,
    NULLIFIERS.name,
    ACTIONS.name,
    RECORDS.name,
];

/// Those of which a key is often in no write buffer: an address that a new account is checked for,
/// and what the proofs of accounts are made of.
pub(crate) const WITH_MEMORY_FILTER: [&str; 4] = [ACCOUNTS.name, ADDRESSES.name, TREE_PAGES.name, NULLIFIERS.name];

/// What an inclusion proof is read from. Nearly all keys that are asked for are there.
///
/// They are not compressed. LZ4 makes the other families smaller, because neighbouring keys begin
/// alike and values have zeros: with 307,200 accounts, it leaves 48 % of results, 66 % of
/// addresses, 71 % of requests, 79 % of places, 84 % of blocks, block hashes and roots. Tree pages
/// are hashes, of which it leaves all. It would leave 77 % of accounts, which is not worth it: each
/// block that is not in the cache would be read into memory and then decompressed into other
/// memory, which took a sixth of the processor time of proofs (docs/benchmarks.md, "Ten million
/// accounts").
pub(crate) const IN_PROOFS: [&str; 2] = [ACCOUNTS.name, TREE_PAGES.name];

// The layout of a store's records: a store says it, and a program reads no other.

/// Version of the layout. Releases count from 1; until the first one it is 0.
pub const SCHEMA_VERSION: u32 = 0;

/// Number of the layout among those of its version that were not released; 0 for a released one.
/// Every change of what is stored raises it: a key, a value, a family, an entry of the journal.
pub const SCHEMA_DRAFT: u32 = 11;

/// The layout of a store, as the store says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its version.
    pub schema: u32,
    /// Its draft. `None` in stores of the builds that did not count drafts yet: no released program
    /// made them.
    pub draft: Option<u32>,
}

encode_fields!(Layout { schema, draft });

impl Layout {
    /// The layout of this program.
    pub const PRESENT: Self = Self { schema: SCHEMA_VERSION, draft: Some(SCHEMA_DRAFT) };
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema {}", self.schema)?;
        match self.draft {
            None | Some(0) => Ok(()),
            Some(draft) => write!(f, ", draft {draft}"),
        }
    }
}
