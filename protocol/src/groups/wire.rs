//! The bodies of the wallet interface, and of enrolment by the operator.
//!
//! Bodies are read strictly: numbers, byte strings, codes and names have one spelling each. Unknown
//! keys are ignored.

use alloy_primitives::U256;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::codes::Code;
use super::names::{
    Day, FieldNumber, GroupId, GroupKey, MemberNumber, ReplacementSecret, RollName, SealedHandle, SecretHash, WriteKey,
    padded_number,
};
use crate::encoding::{DecodeError, Encoding};
use crate::groth16::proof::LEGACY_WORDS;
use crate::tree::Root;
use crate::verification::{Environment, LegacyIdentifier};

// What wallets read.

/// The answer of `GET /groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupList {
    /// The groups, in the order of the configuration.
    pub groups: Vec<GroupName>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupName {
    /// Its id.
    pub id: GroupId,
    /// Its name, for people.
    #[schema(example = "Members of the cooperative")]
    pub name: String,
}

/// The answer of `GET /groups/{id}`: one moment of the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupResponse {
    /// Its id.
    pub id: GroupId,
    /// Its name, for people.
    #[schema(example = "Members of the cooperative")]
    pub name: String,
    /// The group key.
    pub group_key: GroupKey,
    /// The environment of the proofs of its members.
    pub environment: Environment,
    /// The public name under which pages made with client kits ask for the credential; null for a
    /// group without one.
    pub legacy_identifier: Option<LegacyIdentifier>,
    /// Counts the roots that the group has had.
    #[schema(example = 12)]
    pub version: u64,
    /// Positions that were ever given.
    #[schema(example = 417)]
    pub size: u32,
    /// Leaves that are not 0.
    #[schema(example = 411)]
    pub members: u32,
    /// The root.
    pub root: Root,
    /// The root of each page of 1024 leaves.
    pub page_roots: Vec<FieldNumber>,
    /// The rolls, in the order of their names.
    pub rolls: Vec<RollResponse>,
}

/// A roll: the list of members of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RollResponse {
    /// Its name.
    pub name: RollName,
    /// The day on which it was taken.
    pub taken_on: Day,
    /// Positions that it has.
    pub size: u32,
    /// Leaves in it that are not 0: the members who may be counted.
    pub members: u32,
    /// Its root.
    pub root: Root,
    /// The root of each page of 1024 leaves.
    pub page_roots: Vec<FieldNumber>,
    /// The actions that count it.
    pub actions: Vec<RollAction>,
}

/// An action that counts a roll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RollAction {
    /// Id of the application.
    #[schema(example = "app_vote")]
    pub app_id: String,
    /// The external nullifier of proofs for the action.
    pub external_nullifier: FieldNumber,
}

// What wallets send. A commitment, a nullifier and a proof are read by their form; whether the
// numbers are below the modulus is a rule of enrolment.

/// A commitment as a wallet sends it: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
pub struct SentCommitment(pub U256);

impl Serialize for SentCommitment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#066x}", self.0))
    }
}

impl<'de> Deserialize<'de> for SentCommitment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        padded_number(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

/// The proof of a link proof: `0x` and 512 lower-case hex digits, which are eight words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, pattern = "^0x[0-9a-f]{512}$")]
pub struct ProofText(pub [U256; LEGACY_WORDS]);

impl Serialize for ProofText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let words: String = self.0.iter().map(|word| format!("{word:064x}")).collect();
        serializer.collect_str(&format_args!("0x{words}"))
    }
}

impl<'de> Deserialize<'de> for ProofText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom("must be 0x and 512 lower-case hex digits");
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64 * LEGACY_WORDS && digits.is_ascii());
        let digits = digits.ok_or_else(wrong)?;
        let mut words = [U256::ZERO; LEGACY_WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            let digits = digits.get(64 * index..64 * (index + 1)).ok_or_else(wrong)?;
            *word = padded_number(&format!("0x{digits}")).map_err(|_| wrong())?;
        }
        Ok(Self(words))
    }
}

/// The body of `POST /groups/{id}/join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinRequest {
    /// The invitation.
    pub code: Code,
    /// The new leaf.
    pub commitment: SentCommitment,
    /// The enrolment nullifier.
    pub nullifier: FieldNumber,
    /// The link proof.
    pub proof: ProofText,
    /// The hash of the secret with which the member can replace the leaf.
    pub replacement_hash: SecretHash,
    /// The hash of a handle of the sealed copy that is kept from this write on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<SecretHash>,
}

/// The body of `POST /groups/{id}/replace`. Exactly one of `code` and `replacement_secret` is
/// there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplaceRequest {
    /// An enroller's link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The present replacement secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement_secret: Option<ReplacementSecret>,
    /// The new leaf.
    pub commitment: SentCommitment,
    /// The enrolment nullifier.
    pub nullifier: FieldNumber,
    /// The link proof.
    pub proof: ProofText,
    /// The hash of the next replacement secret.
    pub replacement_hash: SecretHash,
    /// The hash of a handle of the sealed copy that is kept from this write on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<SecretHash>,
}

/// The body of `POST /groups/{id}/leave`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaveRequest {
    /// The present replacement secret.
    pub replacement_secret: ReplacementSecret,
    /// The live leaf.
    pub commitment: SentCommitment,
    /// The enrolment nullifier.
    pub nullifier: FieldNumber,
    /// The link proof.
    pub proof: ProofText,
}

/// The answer of `/join` and `/replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnrolledResponse {
    /// Position of the leaf, counted from 0.
    pub position: u32,
    /// The version of the group that has the leaf, or a later one.
    pub version: u64,
}

/// The answer of `/leave`: an object without keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftResponse {}

// Sealed copies.

/// The most hex digits of `sealed`.
pub const LONGEST_SEALED: usize = 32_768;

/// The most slots of a copy.
pub const MOST_SLOTS: usize = 16;

/// A sealed copy as its owner's devices read it. Texts are lower-case hex; the service cannot open
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedResponse {
    /// Counts the writes of the copy, from 1 on.
    pub version: u64,
    /// What was sealed.
    #[serde(flatten)]
    pub content: SealedContent,
}

/// What is sealed, and the keys that open it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedContent {
    /// 12 bytes.
    pub iv: HexText,
    /// Ciphertext and tag.
    pub sealed: HexText,
    /// The content key, sealed for each passkey and code.
    pub slots: Vec<SealedSlot>,
}

/// The content key, sealed for one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedSlot {
    /// What opens it.
    pub kind: SlotKind,
    /// 12 bytes.
    pub iv: HexText,
    /// 48 bytes: the sealed key and its tag.
    pub key: HexText,
}

/// What opens a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotKind {
    /// The output of a passkey.
    Passkey,
    /// The recovery code.
    Code,
}

crate::encode_enum!(SlotKind { Passkey = 0, Code = 1 } of "a kind of slot");
crate::encode_fields!(SealedSlot { kind, iv, key });
crate::encode_fields!(SealedContent { iv, sealed, slots });

/// Bytes of any length as lower-case hex without `0x`.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, pattern = "^([0-9a-f]{2})*$")]
pub struct HexText(pub Vec<u8>);

impl Serialize for HexText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&alloy_primitives::hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for HexText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_lower = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let wrong = || D::Error::custom("must be an even number of lower-case hex digits without 0x");
        if !is_lower {
            return Err(wrong());
        }
        alloy_primitives::hex::decode(text).map(Self).map_err(|_| wrong())
    }
}

impl Encoding for HexText {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Vec::decode(input).map(Self)
    }
}

/// The body of the first `PUT /sealed/{handle}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewSealed {
    /// What was sealed.
    #[serde(flatten)]
    pub content: SealedContent,
    /// One or two handles, that of the path among them.
    pub handles: Vec<SealedHandle>,
    /// The hash of the write key.
    pub write_key_hash: SecretHash,
    /// What allows a new copy; none is needed with `--dev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<SealedPermit>,
}

/// The body of a later `PUT /sealed/{handle}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedSealed {
    /// What was sealed.
    #[serde(flatten)]
    pub content: SealedContent,
    /// One or two handles, that of the path among them.
    pub handles: Vec<SealedHandle>,
    /// The hash of the write key from now on.
    pub write_key_hash: SecretHash,
}

/// What allows a new sealed copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SealedPermit {
    /// An open code of a group.
    Code {
        /// The group.
        group: GroupId,
        /// The code.
        code: Code,
    },
    /// An older copy.
    Copy {
        /// A handle of it.
        handle: SealedHandle,
        /// Its write key.
        write_key: WriteKey,
    },
}

/// The answer of a `PUT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedVersion {
    /// The version of the copy.
    pub version: u64,
}

// Enrolment by the operator.

/// The most member numbers of one request for invitations.
pub const MOST_INVITATIONS: usize = 250_000;

/// The body of `POST /groups/{id}/invitations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationRequest {
    /// The member numbers.
    pub members: Vec<MemberNumber>,
    /// Which of them get a new link.
    #[serde(default, rename = "for")]
    pub of: InvitedMembers,
}

/// Which member numbers of a list get a new link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvitedMembers {
    /// Those that were never invited.
    #[default]
    New,
    /// Also those without a first joining; their old links end.
    NotJoined,
    /// Also members and former ones.
    All,
}

/// The answer of `POST /groups/{id}/invitations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationResponse {
    /// The new links, in the order of the request.
    pub invitations: Vec<Invitation>,
    /// How many were invited for the first time.
    pub new: usize,
    /// How many got another link.
    pub again: usize,
    /// How many stay as they are.
    pub unchanged: usize,
}

/// A link for a member number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// The member number.
    pub member: MemberNumber,
    /// The link: the code is in its fragment.
    #[schema(example = "https://wallet.example.org/join#members.0123456789ABCDEFGHJKMNPQRS00")]
    pub link: String,
    /// The last day of the link.
    pub expires_on: Day,
}

// Errors.

/// The code of an error of the wallet interface about groups and sealed copies.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumIter,
    strum::EnumMessage,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GroupErrorCode {
    /// 400: a field is missing or not in its form. 405, 415: method, content type.
    BadRequest,
    /// 404: the path is unknown, or there is no sealed copy under the handle.
    NotFound,
    /// 404: no group has the id.
    UnknownGroup,
    /// 404: neither a live root nor a roll has the page.
    UnknownPage,
    /// 403: the code was never made, or was ended by a newer one.
    UnknownCode,
    /// 410: the code's last day is over.
    CodeExpired,
    /// 409: the code was used.
    CodeUsed,
    /// 409: the member number has a live leaf: make the statement `replace` with the same code.
    UseReplace,
    /// 409: the member number has no live leaf: make the statement `join` with the same code.
    UseJoin,
    /// 400: the commitment is 0, or not below the modulus of the field.
    CommitmentInvalid,
    /// 403: the link proof is for another commitment, group, act, token or seed.
    LinkProofInvalid,
    /// 409: another member number has, or ever had, this enrolment nullifier.
    EnrolledUnderAnotherNumber,
    /// 404: no member number has this enrolment nullifier as its newest, or it has left.
    NotAMember,
    /// 403: the replacement secret is another one.
    ReplacementSecretWrong,
    /// 409: a live leaf is this commitment.
    CommitmentInTree,
    /// 429: the member has replaced the leaf today already.
    ReplacedToday,
    /// 409: the group has no position left.
    GroupFull,
    /// 409: there is no such sealed copy.
    CopyMissing,
    /// 401: the write key is missing, or the operator's token.
    Unauthorized,
    /// 403: the write key is another one.
    WriteKeyWrong,
    /// 403: a new copy needs an open code, or an older copy's handle and write key.
    PermitInvalid,
    /// 409: another copy has a handle.
    HandleTaken,
    /// 412: the copy has another version.
    VersionMismatch,
    /// 428: `If-None-Match: *` or `If-Match` is missing.
    PreconditionRequired,
    /// 413: the sealed text or the list of slots is too long.
    SealedTooLarge,
    /// 429: the source address has sent as many requests in a time as it may.
    RateLimitExceeded,
    /// 503: restarting or overloaded, or the store cannot be read or written. The code is that of
    /// the message bridge, with which wallets talk as well.
    BridgeUnavailable,
    /// 504: no answer within `limits.request_timeout`.
    RequestTimeout,
    /// 500: a fault of the daemon.
    InternalServerError,
}
