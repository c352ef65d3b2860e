//! Events: what the service tells applications and the operator of, as webhooks and as a stream.
//!
//! | module | what it holds |
//! |---|---|
//! | [`record`] | what is stored of an event before it is told, and the order of the events |
//! | [`delivery`] | the events of a stored record as receivers get them, the signatures of webhooks, and when a failed one is sent again |

pub mod delivery;
pub mod record;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::EnumCount;
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::{B256, keccak256};

/// The kinds of events.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::EnumCount,
    JsonSchema,
    ToSchema,
)]
pub enum EventKind {
    /// A verification request was answered with success.
    #[serde(rename = "verification.succeeded")]
    #[strum(serialize = "verification.succeeded")]
    VerificationSucceeded,
    /// A request to the registry was applied.
    #[serde(rename = "request.finalized")]
    #[strum(serialize = "request.finalized")]
    RequestFinalized,
    /// A request to the registry broke a rule when its block was applied, and changed nothing.
    #[serde(rename = "request.failed")]
    #[strum(serialize = "request.failed")]
    RequestFailed,
    /// There is a root that proofs may be made against: the registry's tree has a new one, or the
    /// operator trusts another one.
    #[serde(rename = "root.added")]
    #[strum(serialize = "root.added")]
    RootAdded,
    /// Current proofs were attached to a person's account of legacy proofs.
    #[serde(rename = "account.linked")]
    #[strum(serialize = "account.linked")]
    AccountLinked,
    /// A member joined a group, or came back to it.
    #[serde(rename = "member.joined")]
    #[strum(serialize = "member.joined")]
    MemberJoined,
    /// A member's leaf was replaced.
    #[serde(rename = "member.replaced")]
    #[strum(serialize = "member.replaced")]
    MemberReplaced,
    /// A member left a group, or was removed from it.
    #[serde(rename = "member.removed")]
    #[strum(serialize = "member.removed")]
    MemberRemoved,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; Self::COUNT] = [
        Self::VerificationSucceeded,
        Self::RequestFinalized,
        Self::RequestFailed,
        Self::RootAdded,
        Self::AccountLinked,
        Self::MemberJoined,
        Self::MemberReplaced,
        Self::MemberRemoved,
    ];

    /// The name in configuration and messages.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether an application may be told of such events. Requests to the registry belong to no
    /// application, and who the members of a group are is for the operator.
    pub fn is_for_applications(self) -> bool {
        matches!(self, Self::VerificationSucceeded | Self::RootAdded | Self::AccountLinked)
    }

    /// Whether such an event can follow from a block.
    pub fn follows_from_blocks(self) -> bool {
        matches!(self, Self::RequestFinalized | Self::RequestFailed | Self::RootAdded)
    }
}

/// Identifies an event: receivers that get the same id twice have got the same event twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub [u8; 16]);

impl Encoding for EventId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}

impl EventId {
    /// The id of the event at `index` of those of a block. A block that is applied again, on
    /// another replica or from a backup, has the same events.
    pub fn of_block(block_hash: &B256, index: u32) -> Self {
        let hash = keccak256([b"selfsame event".as_slice(), block_hash.as_slice(), &index.to_be_bytes()].concat());
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Self(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "evt_{}", alloy_primitives::hex::encode(self.0))
    }
}

/// Who may see an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The operator, who may see all.
    Operator,
    /// An application: its own verifications, and roots.
    Application(String),
}

impl Audience {
    /// Whether it may see an event of a kind that is about `app_id`, or about no application.
    pub fn may_see(&self, kind: EventKind, app_id: Option<&str>) -> bool {
        match self {
            Self::Operator => true,
            Self::Application(own) => kind.is_for_applications() && app_id.is_none_or(|app_id| app_id == own),
        }
    }
}
