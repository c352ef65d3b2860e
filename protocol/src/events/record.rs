//! What is stored of an event before it is told.
//!
//! A verification, and a decision of the operator, write a [`RecordedEvent`] together with what
//! they are about. The events of a block need no record: the log has the block's height, and block
//! and result say the rest.

use super::EventId;
use crate::U256;
use crate::encode_fields;
use crate::encoding::{DecodeError, Encoding};
use crate::ids::Nullifier;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tree::Root;
use crate::verification::{Environment, ProofKind, RelyingPartyId};

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
    /// The session's id; empty when the request was for an action.
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
    user_presence_completed
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

/// An event that is stored with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedEvent {
    /// A verification.
    Verification(VerificationEvent),
    /// A decision of the operator.
    TrustedRoot(TrustedRootEvent),
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
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Verification(Encoding::decode(input)?)),
            1 => Ok(Self::TrustedRoot(Encoding::decode(input)?)),
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
