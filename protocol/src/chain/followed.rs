//! Which followed roots and keys count for proofs, and until when.
//!
//! A node that answers no more, or is behind, must not make old data count as new. Every judgement
//! therefore depends on the time of the newest block at which the data was confirmed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::contracts::{FollowedKey, WindowStart};
use super::deployment::UnacceptedCode;
use super::history::{KnownRoot, RootHistory};
use super::rpc::Header;
use crate::encoding::{DecodeError, Encoding};
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::verification::roots::RootAge;
use crate::verification::{Environment, LegacyIdentifier, RelyingPartyId};

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
