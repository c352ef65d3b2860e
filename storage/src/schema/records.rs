//! The stored records: their keys and values.

use selfsame_protocol::chain::contracts::{FollowedKey, Header, WindowStart};
use selfsame_protocol::chain::deployment::Deployment;
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::encoding::{DecodeError, Encoding, expect_version};
use selfsame_protocol::events::EventId;
use selfsame_protocol::events::record::{EventPosition, LogEntry};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{BlockResult, Entry, Outcome, RequestId, Seal, Tip};
use selfsame_protocol::registry::{GatewayErrorCode, OperationKind};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::{B256, encode_enum, encode_fields, keccak256};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// An authorization request that waits for the end user, or has been answered.
    Transaction,
    /// An authorization code, by its hash.
    AuthorizationCode,
    /// An access token, by its hash.
    AccessToken,
    /// A browser's session, by the hash of its cookie.
    BrowserSession,
    /// The keys that ID tokens are signed with.
    SigningKeys,
    /// The key that the heads of the registry are signed with.
    RegistryKey,
    /// A nonce that a relying party signed and that was used, by the hash of its application and
    /// itself. Its value is empty.
    SignedNonce,
    /// A proof of a session that receivers of events were told of. Its value is empty.
    ToldSessionProof,
    /// A person's account at an application.
    Account,
    /// The subject of the account that a nullifier is of.
    AccountByNullifier,
    /// The subject of the account that a session is of.
    AccountBySession,
    /// The accounts that a browser has used, by the hash of its cookie.
    Pointers,
    /// The key that the subjects of accounts are derived with.
    SubjectKey,
    /// Which subjects new accounts of an application get.
    DecidedSubjects,
    /// What a sign-in code leads to, by an id that is derived from the code.
    SignInCode,
    /// What a one-time link leads to, by an id that is derived from its secret.
    AccountLink,
    /// The subject of the account that an id is of.
    AccountById,
    /// The nullifiers that an integrity bundle was used for, as a hash, by the hash of the device's
    /// key and of what it signed.
    IntegrityBundle,
    /// The origin of the web wallet, to which the passkeys of members belong.
    WalletOrigin,
}

encode_enum!(RecordKind {
    Transaction = 0,
    AuthorizationCode = 1,
    AccessToken = 2,
    BrowserSession = 3,
    SigningKeys = 4,
    RegistryKey = 5,
    SignedNonce = 6,
    ToldSessionProof = 7,
    Account = 8,
    AccountByNullifier = 9,
    AccountBySession = 10,
    Pointers = 11,
    SubjectKey = 12,
    DecidedSubjects = 13,
    SignInCode = 14,
    AccountLink = 15,
    AccountById = 16,
    IntegrityBundle = 17,
    WalletOrigin = 18,
} of "a kind of record");

/// Key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Id of the record among those of its kind: for secrets, their hash.
    pub id: B256,
}

encode_fields!(RecordKey { kind, id });

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// From this time on (inclusive), readers treat the record as absent.
    pub expires_at: UnixSeconds,
    /// The record's encoding, which its writer defines.
    pub value: Vec<u8>,
}

encode_fields!(StoredRecord { expires_at, value });

// The records of applied blocks, and where a request stands in the ledger.

/// How far blocks have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedTip {
    /// The last applied block, the hash of its result, and the root after it.
    pub tip: Tip,
    /// The leaf index that the next account gets.
    pub next_leaf_index: LeafIndex,
}

encode_fields!(AppliedTip { tip, next_leaf_index } version 1 of "applied tip");

impl Default for AppliedTip {
    /// Before the first block. The next leaf index is 1, because leaf 0 is reserved.
    fn default() -> Self {
        Self { tip: Tip::default(), next_leaf_index: LeafIndex(1) }
    }
}

/// What applying a block gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedBlock {
    /// The block's result, which the next block's result is linked to.
    pub result: BlockResult,
    /// One for each entry of the block, in its order.
    pub outcomes: Vec<Outcome>,
}

encode_fields!(AppliedBlock { result, outcomes } version 1 of "applied block");

impl AppliedBlock {
    /// Decodes the result only, which comes before the outcomes.
    pub(crate) fn decode_result(mut input: &[u8]) -> Result<BlockResult, DecodeError> {
        expect_version("applied block", 1, &mut input)?;
        BlockResult::decode(&mut input)
    }
}

/// Where a request stands in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Height of the block.
    pub height: u64,
    /// Position in the block, counted from 0.
    pub position: u32,
}

encode_fields!(Place { height, position });

// The records of requests: the durable queue, states, idempotency keys.

/// A request's kind, its place in the queue, and why it failed.
///
/// Whether a request is final is not in it: it is when the block that it is in was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Kind of its operation.
    pub kind: OperationKind,
    /// Position in the order of admission, from 1 on; 0 when this store did not admit the request.
    pub sequence: u64,
    /// Why applying its operation failed; `None` while the request is open, and when the operation
    /// was applied.
    pub failure: Option<RequestFailure>,
}

encode_fields!(RequestRecord { kind, sequence, failure } version 1 of "request record");

/// How a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// Height of the request's block.
    pub height: u64,
    /// The code of the broken rule.
    pub code: GatewayErrorCode,
    /// The broken rule and the values, as a text for a person.
    pub message: String,
}

encode_fields!(RequestFailure { height, code, message });

/// How far the records of final requests are deleted, in the order of their blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweptRequests {
    /// Height of the last block of whose requests every record is deleted.
    pub height: u64,
    /// The first so many requests of the next block have no record, either.
    pub of_next: u32,
}

encode_fields!(SweptRequests { height, of_next } version 1 of "progress of the deletion of requests");

impl SweptRequests {
    /// Whether the record of the request at a place is deleted.
    pub fn contains(&self, Place { height, position }: Place) -> bool {
        height <= self.height || (height == self.height + 1 && position < self.of_next)
    }
}

/// A request in the durable queue. It stays there until its block is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedEntry {
    /// The request's id and operation.
    pub entry: Entry,
}

encode_fields!(QueuedEntry { entry } version 1 of "queued request");

/// What an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The request that the key was accepted with.
    pub request_id: RequestId,
    /// Hash of the operation.
    pub body_hash: B256,
    /// When the key was accepted; its retention counts from then.
    pub accepted_at: UnixSeconds,
}

encode_fields!(IdempotencyRecord { request_id, body_hash, accepted_at } version 1 of "idempotency record");

/// Hash of an idempotency key, and the record to store for it.
pub type IdempotencyKey = (B256, IdempotencyRecord);

// The records of events: what waits to be put in order, how far the log is, how far receivers are.

/// The key of an event that is not in the log yet: when it happened, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnloggedKey {
    /// When it happened.
    pub time: UnixMillis,
    /// Its id.
    pub id: EventId,
}

encode_fields!(UnloggedKey { time, id });

/// How far the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogProgress {
    /// The number of the last record; 0 before the first.
    pub last: u64,
    /// The height of the last block whose events are in the log.
    pub height: u64,
    /// Whether blocks are logged. While they are not, `height` stays behind.
    pub has_blocks: bool,
}

encode_fields!(LogProgress { last, height, has_blocks } version 1 of "progress of the log of events");

/// A receiver of webhooks: a hash of its id in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiverKey {
    hash: B256,
}

encode_fields!(ReceiverKey { hash });

impl ReceiverKey {
    /// The key of the receiver with this id.
    pub fn new(id: &str) -> Self {
        Self { hash: keccak256(id) }
    }
}

/// How far a receiver is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverRecord {
    /// Its id in the configuration.
    pub id: String,
    /// Every event before this one was delivered, has a [`DeliveryRecord`], or was not for this
    /// receiver.
    pub next: EventPosition,
    /// Events that were given up without being kept as dead letters, because there were too many.
    pub lost: u64,
    /// Grows with each write, so that a late write of another sender is noticed.
    pub revision: u64,
}

encode_fields!(ReceiverRecord { id, next, lost, revision } version 1 of "receiver of webhooks");

/// An event that was sent to a receiver and not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The record of the log that the event is in. The log may forget it earlier.
    pub entry: LogEntry,
    /// Attempts so far.
    pub attempts: u32,
    /// When it is sent again; `None` for a dead letter.
    pub next_attempt: Option<UnixMillis>,
    /// When the last attempt failed.
    pub failed_at: UnixMillis,
    /// Why it failed, in words.
    pub failure: String,
}

encode_fields!(DeliveryRecord { entry, attempts, next_attempt, failed_at, failure } version 1 of "delivery");

// The records of what is followed from chains.

/// A followed contract: a hash of everything that makes its history another one, such as the chain
/// and the contract's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId {
    /// The hash.
    pub hash: B256,
}

encode_fields!(SourceId { hash });

/// From where on the roots of a contract are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFrom {
    /// The first block whose logs were read.
    pub block: u64,
    /// Every root that was published at this time or later is known.
    pub time: UnixSeconds,
}

encode_fields!(KnownFrom { block, time });

/// How far a contract's roots were followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSourceRecord {
    /// From where on.
    pub known_from: KnownFrom,
    /// The last block whose logs were read.
    pub read: Header,
    /// The newest block at which the history was complete; `None` before the first one.
    pub confirmed: Option<Header>,
    /// For how many seconds the contract accepts a root that is no longer the newest, and from when
    /// it counts them; `None` before it was asked.
    pub rule: Option<(u64, WindowStart)>,
}

encode_fields!(RootSourceRecord { known_from, read, confirmed, rule } version 2 of "source of roots");

/// The keys of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySourceRecord {
    /// The newest block at which they were read.
    pub confirmed: Header,
    /// The keys of the followed owners.
    pub keys: Vec<(KeyOwner, FollowedKey)>,
}

encode_fields!(KeySourceRecord { confirmed, keys } version 1 of "source of keys");

/// Where the contracts of a deployment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// The newest block at which the verifier was asked.
    pub confirmed: Header,
    /// What it answered.
    pub deployment: Deployment,
}

encode_fields!(DeploymentRecord { confirmed, deployment } version 1 of "deployment");

// The mark of a store that was restored from a backup.

/// That a store was restored from a backup, and what the operator has confirmed since. A service
/// does not start on a restored store that is not confirmed.
///
/// The copy of a store in a backup has such a mark too, so that a service does not start on a copy
/// that was taken out of the backup without a restore. It names no backup: the digest of the
/// manifest is that of the copy as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// Digest of the backup's manifest; zeros in the copy of a store in a backup.
    pub backup: B256,
    /// When the backup was made.
    pub backup_made_at: UnixSeconds,
    /// Height of the last block of the backup; 0 when it has none.
    pub height: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// When the store was restored; 0 in the copy of a store in a backup.
    pub restored_at: UnixSeconds,
    /// What the operator has confirmed; `None` before.
    pub confirmation: Option<Confirmation>,
}

encode_fields!(Restoration {
    backup, backup_made_at, height, block_hash, restored_at, confirmation
} version 1 of "restoration");

impl Restoration {
    /// The mark for the copy of a store in a backup.
    pub(crate) fn of_copy(made_at: UnixSeconds, head: &Seal) -> Self {
        Self {
            backup: B256::ZERO,
            backup_made_at: made_at,
            height: head.height,
            block_hash: head.hash,
            restored_at: UnixSeconds(0),
            confirmation: None,
        }
    }

    /// Whether the store is the copy in a backup, or was taken out of it without a restore.
    pub fn is_only_copied(&self) -> bool {
        self.backup.is_zero() && self.confirmation.is_none()
    }
}

/// What the operator has said about the blocks that clients have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Height of the last block that clients have seen; `None` when the operator named it by a hash
    /// that no block of the backup has.
    pub clients_have_seen: Option<u64>,
    /// Whether clients have seen blocks that the backup lacks, and the operator has accepted their
    /// loss.
    pub is_loss_accepted: bool,
    /// When the operator confirmed.
    pub confirmed_at: UnixSeconds,
}

encode_fields!(Confirmation { clients_have_seen, is_loss_accepted, confirmed_at });
