//! The keys of a cluster in etcd, below its prefix.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>/journal/<position>` | an entry: its leader's term, 8 bytes, big-endian; then the entry |
//! | `<prefix>/head` | position and term of the last entry, as text |
//! | `<prefix>/leader` | who leads, as JSON; the key's create revision is the term |
//! | `<prefix>/cluster` | what the cluster is, as JSON, written once |
//! | `<prefix>/replicas/<name>` | how far a replica is, as JSON |
//!
//! Positions have 20 decimal digits, so that etcd's order of keys is theirs.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};
use bytes::Bytes;
use selfsame_storage::{JournalEntry, Position, Term};
use serde::{Deserialize, Serialize};

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

/// The value of the leader's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The replica's name.
    pub name: String,
    /// The URL at which the other replicas reach it.
    pub address: String,
}

/// The value of the cluster's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Chosen at random by the first replica, 32 hex digits.
    pub id: String,
    /// Name of the first replica.
    pub founder: String,
    /// Chain id of the registry.
    pub chain_id: u64,
    /// Contract address of the registry.
    pub verifying_contract: Address,
}

/// The value of a replica's key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaRecord {
    /// The replica's name.
    pub name: String,
    /// Chosen at random when its store became a replica, 32 hex digits: a second replica of the
    /// same name has another one.
    pub store_id: String,
    /// The URL at which the other replicas reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// The last entry of the journal that its store has.
    pub position: u64,
    /// The last entry that survives a power failure of its machine.
    pub synced: u64,
    /// Height of the newest block that it has applied.
    pub height: u64,
    /// Hash of the result of that block, which follows from all blocks before; zeros before the
    /// first one.
    pub result: B256,
    /// Grows each time that the replica writes this: one that does not write it is not running, or
    /// cut off.
    pub beat: u64,
    /// For each other replica that runs, the seconds since this one could last reach it; 0 for one
    /// that the last attempt reached. Empty for a program that does not attempt it.
    #[serde(default)]
    pub unreached: BTreeMap<String, u64>,
    /// It was elected within the last minutes, and could not do a leader's work.
    #[serde(default)]
    pub unfit: bool,
}

impl Keys {
    /// The keys below a prefix, which has no slash at its end.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The key of an entry.
    pub fn entry(&self, position: Position) -> String {
        format!("{}/journal/{:020}", self.prefix, position.0)
    }

    /// What comes after the keys of all entries.
    pub fn after_entries(&self) -> String {
        // The character after the slash.
        format!("{}/journal0", self.prefix)
    }

    /// The position in the key of an entry; `None` for other keys.
    pub fn position(&self, key: &[u8]) -> Option<Position> {
        let digits = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("/journal/")?;
        digits.parse().ok().map(Position).filter(|position| self.entry(*position).as_bytes() == key)
    }

    /// The key of the journal's end.
    pub fn head(&self) -> String {
        format!("{}/head", self.prefix)
    }

    /// The leader's key.
    pub fn leader(&self) -> String {
        format!("{}/leader", self.prefix)
    }

    /// The cluster's key.
    pub fn cluster(&self) -> String {
        format!("{}/cluster", self.prefix)
    }

    /// A replica's key.
    pub fn replica(&self, name: &str) -> String {
        format!("{}/replicas/{name}", self.prefix)
    }

    /// What the keys of all replicas begin with.
    pub fn replicas(&self) -> String {
        format!("{}/replicas/", self.prefix)
    }
}

/// The value of [`Keys::head`].
pub fn head_text(position: Position, term: Term) -> String {
    format!("{} {}", head_prefix(position), term.0)
}

/// What [`head_text`] begins with: values with a smaller position are less than this, and those
/// with this position greater.
pub fn head_prefix(position: Position) -> String {
    format!("{:020}", position.0)
}

/// Reads a [`head_text`].
pub fn read_head(value: &[u8]) -> Option<(Position, Term)> {
    let (position, term) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    Some((Position(position.parse().ok()?), Term(term.parse().ok()?)))
}

/// The value of an entry's key.
pub fn entry_value(term: Term, entry: &[u8]) -> Vec<u8> {
    [&term.0.to_be_bytes(), entry].concat()
}

/// Reads an [`entry_value`].
pub fn read_entry(position: Position, value: &[u8]) -> Option<JournalEntry> {
    let (term, bytes) = value.split_first_chunk()?;
    Some(JournalEntry { position, term: Term(u64::from_be_bytes(*term)), bytes: Bytes::copy_from_slice(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_orders_keys_and_ends_as_their_positions() {
        let keys = Keys::new("/c");
        let positions = [1, 2, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX].map(Position);
        for pair in positions.windows(2) {
            let [less, greater] = [pair[0], pair[1]];
            assert!(keys.entry(less) < keys.entry(greater));
            assert!(keys.entry(greater) < keys.after_entries());
            let head = head_text(less, Term(7));
            assert!(head_prefix(less) < head && head < head_prefix(greater), "{head}");
        }
        for position in positions {
            assert_eq!(keys.position(keys.entry(position).as_bytes()), Some(position));
        }
        for other in ["/c/head", "/c/journal/7", "/d/journal/00000000000000000007", "/c/journal/0000000000000000000x"] {
            assert_eq!(keys.position(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let entry = JournalEntry { position: Position(3), term: Term(9), bytes: Bytes::from_static(b"entry") };
        assert_eq!(read_entry(entry.position, &entry_value(entry.term, &entry.bytes)), Some(entry));
        assert_eq!(read_entry(Position(3), &[0; 7]), None);
        assert_eq!(read_head(head_text(Position(3), Term(9)).as_bytes()), Some((Position(3), Term(9))));
        for wrong in ["", "3", "3 x", "x 9"] {
            assert_eq!(read_head(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
