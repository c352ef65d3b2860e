//! Which followed roots and keys count for proofs, and until when.
//!
//! A node that answers no more, or is behind, must not make old data count as new. Every judgement
//! therefore depends on the time of the newest block at which the data was confirmed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::contracts::{FollowedKey, Header, WindowStart};
use super::deployment::UnacceptedCode;
use crate::encoding::{DecodeError, Encoding};
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::verification::roots::RootAge;
use crate::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use crate::{B256, encode_fields};

/// How a contract's roots count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootRule {
    /// Legacy roots: the newest counts, an older one by the age that the request allows. `of` are
    /// the credentials that all members of the tree have.
    Legacy {
        /// The credentials.
        of: Vec<LegacyIdentifier>,
    },
    /// Current roots: the newest counts, another one within the contract's window.
    Current {
        /// From when the window counts; it depends on the contract's version.
        start: WindowStart,
    },
}

/// The followed roots of one contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRoots {
    /// The source's name, for messages.
    pub source: Arc<str>,
    /// The environment whose proofs the roots are for.
    pub environment: Environment,
    /// How the roots count.
    pub rule: RootRule,
    /// For how many seconds the contract accepts a root that is no longer the newest. As long,
    /// what was confirmed as the newest root counts when no newer block is known.
    pub window: u64,
    /// From this age of [`Self::confirmed`] on (exclusive), in seconds, nothing of the source
    /// counts.
    pub stale_after: u64,
    /// Up to this age of [`Self::confirmed`], in seconds, the source is up to date: a root that it
    /// does not have does not exist.
    pub fresh_for: u64,
    /// The newest block up to which the history is complete; `None` before the first one.
    pub confirmed: Option<Header>,
    /// The roots.
    pub history: Arc<RootHistory>,
}

/// Why followed data cannot decide about a proof now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The source was not read up to the newest block yet.
    #[error("{what} of {source_name} were not read yet")]
    NotRead {
        /// What is followed.
        what: &'static str,
        /// The source's name.
        source_name: Arc<str>,
    },
    /// The newest known block is too old.
    #[error("the newest known block of {source_name} is {age} seconds old")]
    Old {
        /// The source's name.
        source_name: Arc<str>,
        /// The block's age.
        age: u64,
    },
    /// A contract runs code that the operator has not accepted, and the operator wants to decide
    /// about it first.
    #[error("{source_name} {code}")]
    Unaccepted {
        /// The source's name.
        source_name: Arc<str>,
        /// The code.
        code: UnacceptedCode,
    },
}

/// What a source says about a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootJudgement<Known> {
    /// The contract published the root.
    Published(Known),
    /// The contract did not publish the root, or so long ago that it does not count.
    Unknown,
}

impl FollowedRoots {
    /// The age of the newest block up to which the source was read, in seconds.
    pub fn confirmed_age(&self, now: UnixSeconds) -> Option<u64> {
        self.confirmed.map(|header| now.since(header.time))
    }

    /// The source's legacy credentials; empty for current roots.
    pub fn identifiers(&self) -> &[LegacyIdentifier] {
        match &self.rule {
            RootRule::Legacy { of } => of,
            RootRule::Current { .. } => &[],
        }
    }

    /// Whether the source is one of current roots.
    pub fn is_current(&self) -> bool {
        matches!(self.rule, RootRule::Current { .. })
    }

    /// The age of a legacy root: the time since another one replaced it.
    ///
    /// # Errors
    /// The source cannot decide now.
    pub fn legacy_age(&self, root: Root, now: UnixSeconds) -> Result<RootJudgement<RootAge>, Unavailable> {
        let confirmed_age = self.usable_age(now)?;
        match self.history.get(root) {
            None => self.unknown(confirmed_age),
            Some(KnownRoot { replaced_at: None, .. }) => {
                self.ensure_newest(confirmed_age)?;
                Ok(RootJudgement::Published(RootAge::Newest))
            }
            Some(KnownRoot { replaced_at: Some(replaced_at), .. }) => {
                Ok(RootJudgement::Published(RootAge::Seconds(now.since(replaced_at))))
            }
        }
    }

    /// Whether a current root counts: the rule of the registry contract, by its version.
    ///
    /// # Errors
    /// The source cannot decide now.
    pub fn is_valid(&self, root: Root, now: UnixSeconds) -> Result<RootJudgement<bool>, Unavailable> {
        let RootRule::Current { start } = self.rule else { return Ok(RootJudgement::Unknown) };
        let confirmed_age = self.usable_age(now)?;
        let Some(KnownRoot { time, replaced_at }) = self.history.get(root) else { return self.unknown(confirmed_age) };
        let is_within = |start: UnixSeconds| now <= start.plus(self.window);
        let is_valid = match (start, replaced_at) {
            (WindowStart::Replaced, Some(replaced_at)) => is_within(replaced_at),
            (WindowStart::Replaced, None) => {
                self.ensure_newest(confirmed_age)?;
                true
            }
            // The contract accepts the newest root whatever its age, and may stop to accept it at
            // the moment when another one is recorded.
            (WindowStart::Recorded, None) if confirmed_age <= self.fresh_for => true,
            (WindowStart::Recorded, None) if !is_within(time) => return Err(self.old(confirmed_age)),
            (WindowStart::Recorded, _) => is_within(time),
        };
        Ok(RootJudgement::Published(is_valid))
    }

    /// The age of the newest block, when it is not so old that nothing counts.
    fn usable_age(&self, now: UnixSeconds) -> Result<u64, Unavailable> {
        let not_read = || Unavailable::NotRead { what: "roots", source_name: Arc::clone(&self.source) };
        let age = self.confirmed_age(now).ok_or_else(not_read)?;
        if age > self.stale_after { Err(self.old(age)) } else { Ok(age) }
    }

    /// What was the newest root at a block counts for the window after it, because the contract
    /// accepts it as long even when another one replaced it in the next block.
    fn ensure_newest(&self, confirmed_age: u64) -> Result<(), Unavailable> {
        if confirmed_age > self.window.max(self.fresh_for) { Err(self.old(confirmed_age)) } else { Ok(()) }
    }

    fn unknown<Known>(&self, confirmed_age: u64) -> Result<RootJudgement<Known>, Unavailable> {
        if confirmed_age > self.fresh_for { Err(self.old(confirmed_age)) } else { Ok(RootJudgement::Unknown) }
    }

    /// The source cannot decide now, because its newest known block is too old.
    pub fn unavailable(&self, now: UnixSeconds) -> Unavailable {
        match self.confirmed_age(now) {
            Some(age) => self.old(age),
            None => Unavailable::NotRead { what: "roots", source_name: Arc::clone(&self.source) },
        }
    }

    fn old(&self, age: u64) -> Unavailable {
        Unavailable::Old { source_name: Arc::clone(&self.source), age }
    }
}

/// What a followed key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyOwner {
    /// The issuer of credentials with this issuer schema id.
    Issuer(u64),
    /// The relying party, whose OPRF key it is.
    RelyingParty(RelyingPartyId),
}

impl KeyOwner {
    /// The relying party, when it is one.
    pub fn relying_party(self) -> Option<RelyingPartyId> {
        match self {
            Self::RelyingParty(rp_id) => Some(rp_id),
            Self::Issuer(_) => None,
        }
    }
}

impl Encoding for KeyOwner {
    fn encode(&self, out: &mut Vec<u8>) {
        let (tag, id) = match self {
            Self::Issuer(id) => (0, *id),
            Self::RelyingParty(rp_id) => (1, rp_id.0),
        };
        out.push(tag);
        id.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => u64::decode(input).map(Self::Issuer),
            1 => u64::decode(input).map(|id| Self::RelyingParty(RelyingPartyId(id))),
            tag => Err(DecodeError::UnknownTag { kind: "the owner of a key", tag }),
        }
    }
}

impl fmt::Display for KeyOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issuer(id) => write!(f, "issuer {id}"),
            Self::RelyingParty(rp_id) => write!(f, "relying party {rp_id}"),
        }
    }
}

/// The followed keys of one contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedKeys {
    /// The source's name, for messages.
    pub source: Arc<str>,
    /// The environment whose proofs the keys are for.
    pub environment: Environment,
    /// From this age of [`Self::confirmed`] on (exclusive), in seconds, no key of the source
    /// counts.
    pub stale_after: u64,
    /// The newest block at which the keys were read; `None` before the first one.
    pub confirmed: Option<Header>,
    /// The keys of the owners that are followed; `None` for one that was not read yet.
    pub keys: HashMap<KeyOwner, Option<FollowedKey>>,
}

impl FollowedKeys {
    /// The key of an owner; `None` when the source does not follow it.
    ///
    /// # Errors
    /// The source cannot decide now.
    pub fn get(&self, owner: KeyOwner, now: UnixSeconds) -> Result<Option<FollowedKey>, Unavailable> {
        let Some(key) = self.keys.get(&owner) else { return Ok(None) };
        let (Some(key), Some(confirmed)) = (key, self.confirmed) else {
            return Err(Unavailable::NotRead { what: "keys", source_name: Arc::clone(&self.source) });
        };
        let age = now.since(confirmed.time);
        if age > self.stale_after {
            return Err(Unavailable::Old { source_name: Arc::clone(&self.source), age });
        }
        Ok(Some(*key))
    }
}

// The roots of one contract in their order, and what a reorganization takes back.

/// Where a root was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The height of the block.
    pub block: u64,
    /// The position of the log in its block.
    pub log_index: u64,
}

encode_fields!(Position { block, log_index });

/// A root as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedRoot {
    /// The root.
    pub root: Root,
    /// The hash of its block.
    pub block_hash: B256,
    /// The time of its block.
    pub time: UnixSeconds,
}

encode_fields!(PublishedRoot { root, block_hash, time } version 1 of "published root");

/// What a history knows of a root. A root can be published more than once; this is about the last
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRoot {
    /// The time of its block.
    pub time: UnixSeconds,
    /// The time of the block that replaced it; `None` while it is the newest.
    pub replaced_at: Option<UnixSeconds>,
}

/// Roots do not fit a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The history has another root at the position, or one of another block.
    #[error("the root at block {}, log {} is another one than before", .0.block, .0.log_index)]
    Changed(Position),
    /// A root names a predecessor that is not the root before it, so events between them are
    /// missing.
    #[error("the root at block {}, log {} replaced a root that is not the one before it; events are missing", .0.block, .0.log_index)]
    Gap(Position),
}

/// The roots that a contract published, in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootHistory {
    published: BTreeMap<Position, PublishedRoot>,
    /// The last position of each root.
    last_of: HashMap<Root, Position>,
}

impl RootHistory {
    /// A history of stored roots, which need no check.
    pub fn from_stored(published: impl IntoIterator<Item = (Position, PublishedRoot)>) -> Self {
        let mut history = Self { published: published.into_iter().collect(), last_of: HashMap::new() };
        history.index();
        history
    }

    /// Adds a root, and returns whether it is new. A root that is known at its position stays.
    ///
    /// # Errors
    /// Another root is known at the position. The history is then unchanged.
    pub fn insert(&mut self, position: Position, published: PublishedRoot) -> Result<bool, HistoryError> {
        match self.published.get(&position) {
            Some(known) if *known == published => return Ok(false),
            Some(_) => return Err(HistoryError::Changed(position)),
            None => {}
        }
        self.published.insert(position, published);
        let last = self.last_of.entry(published.root).or_insert(position);
        *last = position.max(*last);
        Ok(true)
    }

    /// Checks that the root before a position is the one that the root there replaced.
    ///
    /// # Errors
    /// It is another one. The first root of the history may have replaced any.
    pub fn check_replaced(&self, position: Position, replaced: Root) -> Result<(), HistoryError> {
        match self.published.range(..position).next_back() {
            Some((_, before)) if before.root != replaced => Err(HistoryError::Gap(position)),
            _ => Ok(()),
        }
    }

    /// Takes back all roots above a block, and returns where they were.
    pub fn undo_above(&mut self, block: u64) -> Vec<Position> {
        let undone = self.published.split_off(&Position { block: block.saturating_add(1), log_index: 0 });
        self.index();
        undone.into_keys().collect()
    }

    /// The positions of all roots.
    pub fn into_positions(self) -> Vec<Position> {
        self.published.into_keys().collect()
    }

    /// The time of the first root that is later than a time; `None` when there is none.
    pub fn first_after(&self, time: UnixSeconds) -> Option<UnixSeconds> {
        self.published.values().map(|published| published.time).find(|later| *later > time)
    }

    /// When the first root was replaced; `None` while there is no second one.
    pub fn first_replacement(&self) -> Option<UnixSeconds> {
        self.published.values().nth(1).map(|replacement| replacement.time)
    }

    /// Forgets the roots that were replaced before a time, and returns where they were.
    pub fn forget_replaced_before(&mut self, time: UnixSeconds) -> Vec<Position> {
        let replacements = self.published.iter().zip(self.published.values().skip(1));
        let outdated: Vec<_> = replacements
            .take_while(|(_, replacement)| replacement.time < time)
            .map(|((position, _), _)| *position)
            .collect();
        for position in &outdated {
            let forgotten = self.published.remove(position);
            if let Some(PublishedRoot { root, .. }) = forgotten
                && self.last_of.get(&root) == Some(position)
            {
                self.last_of.remove(&root);
            }
        }
        outdated
    }

    /// The root at a position.
    pub fn at(&self, position: Position) -> Option<PublishedRoot> {
        self.published.get(&position).copied()
    }

    /// The last root, with its position.
    pub fn newest(&self) -> Option<(Position, PublishedRoot)> {
        self.published.last_key_value().map(|(position, published)| (*position, *published))
    }

    /// A root; `None` when it was never published, or was forgotten.
    pub fn get(&self, root: Root) -> Option<KnownRoot> {
        let position = self.last_of.get(&root)?;
        let mut from = self.published.range(position..);
        let (_, PublishedRoot { time, .. }) = from.next()?;
        Some(KnownRoot { time: *time, replaced_at: from.next().map(|(_, replacement)| replacement.time) })
    }

    /// The blocks with roots and their hashes, the highest first.
    pub fn blocks_backwards(&self) -> impl Iterator<Item = (u64, B256)> {
        let mut last = None;
        self.published.iter().rev().filter_map(move |(position, published)| {
            let is_new = last.replace(position.block) != Some(position.block);
            is_new.then_some((position.block, published.block_hash))
        })
    }

    /// The number of published roots.
    pub fn len(&self) -> usize {
        self.published.len()
    }

    /// Whether no root was published.
    pub fn is_empty(&self) -> bool {
        self.published.is_empty()
    }

    fn index(&mut self) {
        self.last_of = self.published.iter().map(|(position, published)| (published.root, *position)).collect();
    }
}
