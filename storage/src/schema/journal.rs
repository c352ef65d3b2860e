//! What an entry of the journal says.
//!
//! An entry is one group of the group commit: a version byte, and an item for each of its writes,
//! one after the other. It carries what was decided, as data; each replica derives its records from
//! it. What depends on blocks alone (accounts, tree, final states) is not in it: every replica
//! applies the blocks itself.

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, Encoding, expect_version};
use selfsame_protocol::ledger::{Block, BlockHeader, Entry, RequestId};

use super::family::{
    ACTIONS, DELIVERIES, EVENT_LOG, EVENT_LOG_PROGRESS, EVENT_RECEIVERS, GROUP_AWAITED_ROLLS, GROUP_CODES,
    GROUP_ENROLMENTS, GROUP_LEAVING, GROUP_MEMBERS, GROUP_PAGE_ROOTS, GROUP_PAGES, GROUP_ROLL_PAGES, GROUP_ROLLS,
    GROUP_ROOTS, GROUPS, NULLIFIERS, RECORD_EXPIRIES, RECORDS, SEALED_COPIES, SEALED_HANDLES, SEALED_UNKEPT,
    TRUSTED_ROOTS, UNLOGGED_EVENTS,
};
use super::records::IdempotencyKey;

/// The first byte of an entry.
const VERSION: u8 = 1;

/// The families whose records travel as they are stored. Entries name them by their place in this
/// list, so a family is never removed from it, and a new one comes last.
const WRITTEN: [&str; 24] = [
    RECORDS.name,
    RECORD_EXPIRIES.name,
    NULLIFIERS.name,
    ACTIONS.name,
    TRUSTED_ROOTS.name,
    UNLOGGED_EVENTS.name,
    EVENT_LOG.name,
    EVENT_LOG_PROGRESS.name,
    EVENT_RECEIVERS.name,
    DELIVERIES.name,
    GROUPS.name,
    GROUP_MEMBERS.name,
    GROUP_LEAVING.name,
    GROUP_ENROLMENTS.name,
    GROUP_CODES.name,
    GROUP_PAGES.name,
    GROUP_ROOTS.name,
    GROUP_PAGE_ROOTS.name,
    GROUP_ROLLS.name,
    GROUP_ROLL_PAGES.name,
    GROUP_AWAITED_ROLLS.name,
    SEALED_COPIES.name,
    SEALED_HANDLES.name,
    SEALED_UNKEPT.name,
];

/// One write of a group.
#[expect(clippy::large_enum_variant, reason = "one at a time is encoded, or a group's are decoded")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalItem {
    /// A request was admitted.
    Admitted(Admitted),
    /// Records were written, their conditions held.
    Written(Vec<WrittenRecord>),
    /// A block was sealed.
    Sealed(SealedBlock),
}

/// An admitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// Its place in the order of admission.
    pub sequence: u64,
    /// Its id and operation.
    pub entry: Entry,
    /// The idempotency key that it came with.
    pub idempotency: Option<IdempotencyKey>,
}

encode_fields!(Admitted { sequence, entry, idempotency });

/// A record of one of the families in [`WRITTEN`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenRecord {
    family: u8,
    /// Its key, as it is stored.
    pub key: Vec<u8>,
    /// Its new value, as it is stored; `None` when it was deleted.
    pub value: Option<Vec<u8>>,
}

encode_fields!(WrittenRecord { family, key, value });

impl WrittenRecord {
    /// A record of a family.
    ///
    /// # Panics
    /// When the records of the family do not travel: the others would lack what was acknowledged.
    #[expect(clippy::panic, reason = "the callers and the list of families are in this crate")]
    pub fn of(family: &'static str, key: &[u8], value: Option<&[u8]>) -> Self {
        match WRITTEN.iter().position(|name| *name == family) {
            Some(index) => Self { family: index as u8, key: key.to_vec(), value: value.map(<[u8]>::to_vec) },
            None => panic!("the records of {family} are not in the list of those that travel"),
        }
    }

    /// The name of its family.
    ///
    /// # Errors
    /// A later version of the program wrote it.
    pub fn family(&self) -> Result<&'static str, DecodeError> {
        let unknown = DecodeError::UnknownTag { kind: "a family of the journal", tag: self.family };
        WRITTEN.get(usize::from(self.family)).copied().ok_or(unknown)
    }
}

/// A sealed block. The operations of its requests travelled when these were admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedBlock {
    /// The header.
    pub header: BlockHeader,
    /// The entries, in their order.
    pub entries: Vec<SealedEntries>,
}

encode_fields!(SealedBlock { header, entries });

impl SealedBlock {
    /// A block that names its requests by the sequence numbers that `sequence_of` gives.
    pub fn naming<E>(block: &Block, sequence_of: impl Fn(&RequestId) -> Result<Option<u64>, E>) -> Result<Self, E> {
        let mut entries = Vec::new();
        for entry in &block.entries {
            let sequence = sequence_of(&entry.request_id)?;
            match (entries.last_mut(), sequence) {
                (_, None) => entries.push(SealedEntries::Whole(entry.clone())),
                (Some(SealedEntries::Queued(_, last)), Some(sequence)) if *last + 1 == sequence => *last = sequence,
                (_, Some(sequence)) => entries.push(SealedEntries::Queued(sequence, sequence)),
            }
        }
        Ok(Self { header: block.header.clone(), entries })
    }
}

/// Entries of a sealed block.
#[expect(clippy::large_enum_variant, reason = "few parts of a block are whole entries, or all are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SealedEntries {
    /// Those of the queued requests from one sequence number to another one, both inclusive.
    Queued(u64, u64),
    /// That of a request that was not admitted here.
    Whole(Entry),
}

impl Encoding for SealedEntries {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Queued(first, last) => {
                out.push(0);
                first.encode(out);
                last.encode(out);
            }
            Self::Whole(entry) => {
                out.push(1);
                entry.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Queued(u64::decode(input)?, u64::decode(input)?)),
            1 => Ok(Self::Whole(Entry::decode(input)?)),
            tag => Err(DecodeError::UnknownTag { kind: "entries of a sealed block", tag }),
        }
    }
}

impl JournalItem {
    /// The item of changes to records that travel as they are stored.
    ///
    /// # Panics
    /// When the records of a family do not travel: see [`WrittenRecord::of`].
    pub fn written<'a>(changes: impl Iterator<Item = (&'static str, &'a [u8], Option<&'a [u8]>)>) -> Self {
        Self::Written(changes.map(|(family, key, value)| WrittenRecord::of(family, key, value)).collect())
    }
}

impl Encoding for JournalItem {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Admitted(admitted) => {
                out.push(0);
                admitted.encode(out);
            }
            Self::Written(records) => {
                out.push(1);
                records.encode(out);
            }
            Self::Sealed(block) => {
                out.push(2);
                block.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Admitted::decode(input).map(Self::Admitted),
            1 => Vec::decode(input).map(Self::Written),
            2 => SealedBlock::decode(input).map(Self::Sealed),
            tag => Err(DecodeError::UnknownTag { kind: "an item of the journal", tag }),
        }
    }
}

/// An entry without items; encoded items are appended to it.
pub(crate) fn begin_entry() -> Vec<u8> {
    vec![VERSION]
}

/// The items of an entry.
///
/// # Errors
/// The bytes are no entry of this version of the program.
pub(crate) fn decode_entry(mut input: &[u8]) -> Result<Vec<JournalItem>, DecodeError> {
    expect_version("journal entry", VERSION, &mut input)?;
    let mut items = Vec::new();
    while !input.is_empty() {
        items.push(JournalItem::decode(&mut input)?);
    }
    Ok(items)
}
