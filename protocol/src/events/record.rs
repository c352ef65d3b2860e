//! What is stored of an event before it is told.
//!
//! A verification, and a decision of the operator, write a [`RecordedEvent`] together with what
//! they are about. The events of a block need no record: the log has the block's height, and block
//! and result say the rest.

use std::fmt;
use std::str::FromStr;

use super::{EventId, EventKind};
use crate::encoding::{DecodeError, Encoding};
use crate::groups::enrolment::MemberChangeKind;
use crate::groups::names::{Day, GroupId, MemberNumber};
use crate::ids::Nullifier;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tree::Root;
use crate::verification::integrity::IntegrityFinding;
use crate::verification::{Environment, ProofKind, RelyingPartyId};
use crate::{B256, U256, encode_fields};

/// A verification request that was answered with success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationEvent {
    /// Id of the application.
    pub app_id: String,
    /// Id of its relying party.
    pub rp_id: RelyingPartyId,
    /// The environment of the proofs.
    pub environment: Environment,
    /// The kind of the proofs, which is their protocol version.
    pub kind: ProofKind,
    /// The action's text; empty for a session.
    pub action: String,
    /// The session's id; empty when the request named none.
    pub session_id: String,
    /// The nonce that the proofs bind; `None` for legacy proofs.
    pub nonce: Option<U256>,
    /// The identifiers of the credentials that verified, in the request's order.
    pub identifiers: Vec<String>,
    /// The first verified nullifier, when it was seen first, and in how many requests it has been
    /// verified; `None` for a session.
    pub nullifier: Option<VerifiedNullifier>,
    /// Whether the sender of the request said that the person's app completed the presence check.
    pub user_presence_completed: bool,
    /// What was found of the request's integrity bundle.
    pub integrity: IntegrityFinding,
    /// The score of the first verified proof of Selfie Check; `None` without one.
    pub sybil_score: Option<u64>,
}

encode_fields!(VerificationEvent {
    app_id,
    rp_id,
    environment,
    kind,
    action,
    session_id,
    nonce,
    identifiers,
    nullifier,
    user_presence_completed,
    integrity,
    sybil_score
});

/// A nullifier of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedNullifier {
    /// The nullifier.
    pub nullifier: Nullifier,
    /// When it was first verified.
    pub first_verified_at: UnixMillis,
    /// In how many requests it has been verified, with this one.
    pub uses: u64,
}

encode_fields!(VerifiedNullifier { nullifier, first_verified_at, uses });

/// A root that the operator trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedRootEvent {
    /// The root.
    pub root: Root,
    /// The environment of the proofs against it.
    pub environment: Environment,
    /// The kind of the proofs against it.
    pub kind: ProofKind,
    /// From when on it is trusted.
    pub added_at: UnixSeconds,
}

encode_fields!(TrustedRootEvent { root, environment, kind, added_at });

/// A change of a member of a group. It has a day and no time, as the records of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberEvent {
    /// The group.
    pub group: GroupId,
    /// The member number.
    pub member: MemberNumber,
    /// What happened.
    pub change: MemberChangeKind,
    /// The day on which it happened.
    pub day: Day,
}

encode_fields!(MemberEvent { group, member, change, day });

impl MemberEvent {
    /// The kind of the event.
    pub fn kind(&self) -> EventKind {
        match self.change {
            MemberChangeKind::Joined => EventKind::MemberJoined,
            MemberChangeKind::Replaced => EventKind::MemberReplaced,
            MemberChangeKind::Removed => EventKind::MemberRemoved,
        }
    }
}

/// That current proofs were attached to an account of legacy proofs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLinkedEvent {
    /// Id of the application.
    pub app_id: String,
    /// The subject of the account.
    pub subject: B256,
    /// Whether another person's were attached before.
    pub is_disputed: bool,
}

encode_fields!(AccountLinkedEvent { app_id, subject, is_disputed });

/// An event that is stored with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedEvent {
    /// A verification.
    Verification(VerificationEvent),
    /// A decision of the operator.
    TrustedRoot(TrustedRootEvent),
    /// A change of a member of a group.
    Member(MemberEvent),
    /// Current proofs were attached to an account.
    AccountLinked(AccountLinkedEvent),
}

impl Encoding for RecordedEvent {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Verification(event) => {
                out.push(0);
                event.encode(out);
            }
            Self::TrustedRoot(event) => {
                out.push(1);
                event.encode(out);
            }
            Self::Member(event) => {
                out.push(2);
                event.encode(out);
            }
            Self::AccountLinked(event) => {
                out.push(3);
                event.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Verification(Encoding::decode(input)?)),
            1 => Ok(Self::TrustedRoot(Encoding::decode(input)?)),
            2 => Ok(Self::Member(Encoding::decode(input)?)),
            3 => Ok(Self::AccountLinked(Encoding::decode(input)?)),
            tag => Err(DecodeError::UnknownTag { kind: "a recorded event", tag }),
        }
    }
}

/// What a record of the log stands for.
#[expect(clippy::large_enum_variant, reason = "some at a time are read from the log")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// One event.
    Recorded(EventId, RecordedEvent),
    /// The events of the block at this height.
    Block(u64),
}

impl Encoding for Cause {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Recorded(id, event) => {
                out.push(0);
                id.encode(out);
                event.encode(out);
            }
            Self::Block(height) => {
                out.push(1);
                height.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Recorded(Encoding::decode(input)?, Encoding::decode(input)?)),
            1 => Ok(Self::Block(Encoding::decode(input)?)),
            tag => Err(DecodeError::UnknownTag { kind: "a cause of events", tag }),
        }
    }
}

/// A record of the log of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When it happened.
    pub time: UnixMillis,
    /// What happened.
    pub cause: Cause,
}

encode_fields!(LogEntry { time, cause } version 1 of "log of events");

// The order of the events.

/// The place of an event: first by the record of the log, then by the event within it. A record of
/// a block stands for many events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventPosition {
    /// Number of the record, counted from 1.
    pub sequence: u64,
    /// Number of the event within the record, counted from 0.
    pub index: u32,
}

encode_fields!(EventPosition { sequence, index });

impl EventPosition {
    /// The first position of a record.
    pub fn start_of(sequence: u64) -> Self {
        Self { sequence, index: 0 }
    }

    /// A position whose [`next`](Self::next) is this one: that of the event before it, or the last
    /// one that the record before may have.
    pub fn before(self) -> Self {
        match self.index.checked_sub(1) {
            Some(index) => Self { index, ..self },
            None => Self { sequence: self.sequence.saturating_sub(1), index: u32::MAX },
        }
    }

    /// The next position within the record; that of the next record behind the last one that a
    /// record may have.
    pub fn next(self) -> Self {
        match self.index.checked_add(1) {
            Some(index) => Self { index, ..self },
            None => Self::start_of(self.sequence.saturating_add(1)),
        }
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.sequence, self.index)
    }
}

/// A text that is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is two numbers with a point between them, as in 12.0")]
pub struct EventPositionError;

impl FromStr for EventPosition {
    type Err = EventPositionError;

    fn from_str(text: &str) -> Result<Self, EventPositionError> {
        let (sequence, index) = text.split_once('.').ok_or(EventPositionError)?;
        let number = |digits: &str, most: usize| {
            let is_number = (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| is_number).ok_or(EventPositionError)
        };
        // No record has more events than the index can count: a greater one is behind them, too.
        let index = u32::try_from(number(index, 10)?).unwrap_or(u32::MAX);
        Ok(Self { sequence: number(sequence, 19)?, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ordered_by_record_and_event() {
        let at = |sequence, index| EventPosition { sequence, index };
        let mut positions = [at(2, 0), at(1, 10), at(1, 2)];
        positions.sort();
        assert_eq!(positions, [at(1, 2), at(1, 10), at(2, 0)]);
        assert_eq!(at(1, 2).next(), at(1, 3));
        for position in [at(1, 3), at(2, 0), at(1, 0)] {
            assert_eq!(position.before().next(), position);
        }
    }

    #[test]
    fn a_position_is_read_from_its_text_alone() {
        let position = EventPosition { sequence: 12, index: 3 };
        assert_eq!(position.to_string().parse(), Ok(position));
        assert_eq!("7.9999999999".parse(), Ok(EventPosition { sequence: 7, index: u32::MAX }));
        let too_long = ["12.12345678901", "12345678901234567890.1"];
        for text in ["", "12", "12.", ".3", "12.3.4", "+12.3", "12.-3", "x.1", " 12.3"].into_iter().chain(too_long) {
            assert_eq!(text.parse::<EventPosition>(), Err(EventPositionError), "{text:?}");
        }
    }
}
