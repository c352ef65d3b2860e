//! Wire types of the operator interface (`docs/interfaces/operator.md`), for the daemon and
//! for its commands.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commitment::PublicKey;
use crate::events::EventKind;
use crate::number::{self, AddressText};
use crate::sign_in::accounts::SubjectKind;
use crate::sign_in::attaching::KeptProofs;
use crate::tree::Root;
use crate::verification::identity::RequestedEnvironment;
use crate::verification::roots::{RootKey, TrustedRoot};
use crate::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use crate::{Address, B256, U256, address};

/// Name of the file in the data folder that holds the operator token. Every call needs it but those
/// for probes, `GET /metrics`, `GET /challenge`, `GET /simulator` and the page, or is signed with
/// it ([`crate::operator_call`]).
pub const TOKEN_FILE: &str = "operator.token";

/// Name of the unix socket in the data folder through which the commands call the daemon, unless
/// the configuration moves it or turns it off.
pub const SOCKET_FILE: &str = "operator.socket";

/// The answer of `GET /simulator`: the simulator's seed, and the public keys that are public inputs
/// of its proofs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Simulation {
    /// The text that the simulator's secrets are derived from: the setting
    /// `verifier.simulator_seed`, or the one that the daemon made. It is public.
    pub seed: String,
    /// The configured issuers of the staging environment.
    pub issuers: Vec<SimulatedIssuer>,
    /// One entry for each configured application.
    pub relying_parties: Vec<SimulatedRelyingParty>,
    /// The attestation issuers whose key follows from the seed.
    #[serde(default)]
    pub attestation_issuers: Vec<SimulatedAttestationIssuer>,
}

/// An attestation issuer of integrity bundles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedAttestationIssuer {
    /// Its name, as tokens have it in `iss`.
    pub issuer: String,
    /// The environments whose bundles are judged by its key: `staging`, `sandbox` or both.
    pub environments: Vec<RequestedEnvironment>,
}

/// An issuer in the staging environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedIssuer {
    /// Issuer schema id.
    pub id: u64,
    /// The identifiers that a proof of the issuer's credentials can have, such as `proof_of_human`.
    pub identifiers: Vec<String>,
    /// The key that the issuer's credentials are signed with.
    pub public_key: Coordinates,
}

/// A relying party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedRelyingParty {
    /// Id of the application, `app_…`.
    pub app_id: String,
    /// The configured id, or the id that is derived from the application's.
    pub rp_id: RelyingPartyId,
    /// The configured OPRF key; null when there is none, and current proofs are then refused.
    pub oprf_public_key: Option<Coordinates>,
    /// The address of the key that its requests for proofs are signed with; the zero address, and
    /// null on the wire, when it is not configured.
    #[serde(default, with = "address::or_none")]
    #[schema(value_type = Option<AddressText>)]
    pub signing_key: Address,
}

/// The cluster that a daemon is a replica of, as that one sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// The name of the replica that answers.
    pub name: String,
    /// The name of the replica that leads; null when none leads, or when the leader is unknown.
    pub leader: Option<String>,
    /// Why the leader is unknown; null when it is known.
    pub leader_error: Option<String>,
    /// The term in which the replica that answers leads; null when another one does.
    pub term: Option<u64>,
    /// The last entry of the journal; null before it was seen.
    pub journal_end: Option<u64>,
    /// The store has everything that the journal had this many milliseconds ago; null until it had
    /// everything for the first time.
    pub staleness_ms: Option<u64>,
    /// All replicas, in the order of their names.
    pub replicas: Vec<Replica>,
}

/// A replica as it has published itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Its name.
    pub name: String,
    /// The URL at which the other replicas reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// Whether it has published its state in the last seconds.
    pub running: bool,
    /// Whole seconds since then, as far as the replica that answers has seen.
    pub silent_seconds: u64,
    /// The last entry of the journal that its store has.
    pub position: u64,
    /// The last entry that its store keeps when its machine loses power.
    pub synced: u64,
    /// Entries of the journal that it lacks; null before the journal's end was seen.
    pub lag: Option<u64>,
    /// Height of the newest block that it has applied.
    pub height: u64,
}

/// The body of `POST /cluster/remove`, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicaRemoval {
    /// The name of the replica.
    pub name: String,
}

/// The affine coordinates of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Coordinates {
    /// First coordinate, a numeric string below the modulus of BN254's scalar field.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x2a")]
    pub x: U256,
    /// Second coordinate, a numeric string below the modulus of BN254's scalar field.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x2a")]
    pub y: U256,
}

impl From<&PublicKey> for Coordinates {
    fn from(key: &PublicKey) -> Self {
        let (x, y) = key.coordinates();
        Self { x, y }
    }
}

/// The body of `POST /roots`: a root to trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewRoot {
    /// The root, a numeric string below the modulus of BN254's scalar field.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x2a")]
    pub root: Root,
    /// The kind of proofs that the root is for: `legacy` or `current`.
    pub kind: ProofKind,
    /// The environment whose proofs the root is for.
    pub environment: Environment,
    /// For a legacy root the credentials that all members of its tree have, at least one; absent or
    /// empty for a current root.
    #[serde(default)]
    pub identifiers: Vec<LegacyIdentifier>,
    /// The time since when the root is known (RFC 3339), at most a minute ahead of the service's
    /// clock; the current time when it is absent.
    #[serde(default)]
    pub time: Option<String>,
}

/// The body of `POST /roots/remove`, and of its answer: the root that is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RootRemoval {
    /// The root, a numeric string.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x2a")]
    pub root: Root,
    /// The kind of proofs that the root was for: `legacy` or `current`.
    pub kind: ProofKind,
    /// The environment whose proofs the root was for.
    pub environment: Environment,
}

/// The body of `POST /simulator/roots`: the root of a development wallet's own identity tree, which
/// has one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedRoot {
    /// The root, a numeric string below the modulus of BN254's scalar field.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x2a")]
    pub root: Root,
    /// The environment whose proofs the root is for.
    pub environment: Environment,
    /// The credential that the wallet simulates.
    pub identifier: LegacyIdentifier,
}

/// A trusted root, in the answers of `/roots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedRoot {
    /// The root in canonical hex: `0x` and lower-case digits without leading zeros.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x2a")]
    pub root: Root,
    /// The kind of proofs that the root is for: `legacy` or `current`.
    pub kind: ProofKind,
    /// The environment whose proofs the root is for.
    pub environment: Environment,
    /// The credentials that the root is for; empty for a current root.
    pub identifiers: Vec<LegacyIdentifier>,
    /// The time since when the root is known (RFC 3339).
    pub time: String,
}

impl ListedRoot {
    /// A trusted root with its time as text.
    pub fn new(trusted: &TrustedRoot, time: String) -> Self {
        let TrustedRoot { key: RootKey { environment, kind, root }, trust } = trusted;
        let identifiers = trust.identifiers.clone();
        Self { root: *root, kind: *kind, environment: *environment, identifiers, time }
    }
}

/// What came of reading the configuration again: the answer of `POST /reload`, and `reload` in that
/// of `GET /status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadReport {
    /// Whether the new configuration is in force.
    pub outcome: ReloadOutcome,
    /// When it was read (RFC 3339).
    pub time: String,
    /// The keys of the settings that changed and are in force.
    pub changed: Vec<String>,
    /// The keys of the settings that differ and wait for a restart.
    pub needs_restart: Vec<String>,
    /// Why the new configuration was refused; the old one stays in force.
    pub problems: Vec<String>,
}

/// Whether a configuration that was read again is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// It is in force.
    Success,
    /// It has problems, and the old one stays in force.
    Refused,
}

impl ReloadOutcome {
    /// The text in answers and in the audit trail.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Refused => "refused",
        }
    }
}

/// The body of `POST /keys/rotate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rotate {
    /// Whether to rotate even when clients may not have fetched the next key yet.
    #[serde(default)]
    pub now: bool,
}

/// The body of `POST /keys/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoke {
    /// Key id of the key that is removed.
    #[schema(pattern = "^[A-Za-z0-9_-]{22}$", example = "AAECAwQFBgcICQoLDA0ODw")]
    pub kid: String,
    /// Whether all sign-ins up to now end, with their codes, access tokens and browser sessions.
    #[serde(default)]
    pub end_sessions: bool,
}

/// A signing key, in the answers of `/keys`. It contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Key id in the headers of ID tokens and in the key set: base64url of the first 16 bytes of
    /// SHA-256 of the modulus (RS256), or of the coordinates x and y, of 32 bytes each (ES256).
    pub kid: String,
    /// `unpublished` (checks hints alone), `retired` (published until its last token has expired),
    /// `current`, `next`.
    pub state: String,
    /// The time since when the key is published (RFC 3339).
    pub published_at: String,
}

/// The body of `POST /accounts/show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountQuery {
    /// The application.
    #[schema(example = "app_5e1f5a3e0000000000000000000000ff")]
    pub app_id: String,
    /// The environment of its sign-ins; that of the configuration when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The claim `sub` of the person: `0x` and 64 hex digits.
    #[schema(
        pattern = "^0x[0-9a-fA-F]{64}$",
        example = "0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"
    )]
    pub sub: String,
}

/// What the store knows of an account of sign-in, besides its nullifier and its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownAccount {
    /// The application.
    pub app_id: String,
    /// The environment of its sign-ins.
    pub environment: Environment,
    /// The claim `sub`: `0x` and 64 hex digits.
    pub sub: String,
    /// The day on which the account was made, in UTC: `2026-07-01`.
    pub created_on: String,
    /// The hour in which the person last gave a proof, rounded down (RFC 3339).
    pub human_at: String,
    /// The credential of the last proof of uniqueness.
    pub identifier: String,
    /// How often all pointers to the account were ended: a browser remembers it with the number of
    /// that time.
    pub generation: u32,
    /// Whether the account is one of legacy proofs.
    pub has_legacy: bool,
    /// Whether the account has current proofs.
    pub has_current: bool,
    /// The hour in which the current proofs of the account were attached (RFC 3339); absent when
    /// they made the account, when an operator has chosen them, and when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_at: Option<String>,
    /// Whether the current proofs were attached so lately that legacy proofs sign in as well.
    pub is_provisional: bool,
    /// The hour in which another person gave proofs for the account (RFC 3339): neither of the two
    /// signs in with current proofs until the operator has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disputed_at: Option<String>,
}

/// The body of `POST /accounts/link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountChoice {
    /// The application.
    #[schema(example = "app_5e1f5a3e0000000000000000000000ff")]
    pub app_id: String,
    /// The environment of its sign-ins; that of the configuration when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The claim `sub` of the person: `0x` and 64 hex digits.
    #[schema(
        pattern = "^0x[0-9a-fA-F]{64}$",
        example = "0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"
    )]
    pub sub: String,
    /// The current proofs that the account has from now on, for good.
    pub keep: KeptProofs,
    /// Whether the operator knows that two persons have given theirs. Without it, proofs that came
    /// after the operator looked at the account are not dropped.
    #[serde(default)]
    pub of_two: bool,
}

/// The body of `POST /accounts/subjects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewSubjects {
    /// The application.
    #[schema(example = "app_5e1f5a3e0000000000000000000000ff")]
    pub app_id: String,
    /// The environment of its sign-ins; that of the configuration when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// What the subject of a new account is from now on.
    pub subject: SubjectKind,
}

/// The answer of `POST /accounts/subjects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedSubjects {
    /// The application.
    pub app_id: String,
    /// The environment of its sign-ins.
    pub environment: Environment,
    /// What the subject of a new account is from now on.
    pub subject: SubjectKind,
    /// What it was before.
    pub before: SubjectKind,
    /// The day on which that was decided, in UTC: `2026-07-01`.
    pub before_since: String,
}

/// The body of `POST /backups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewBackup {
    /// The folder that the backup is made in: an absolute path on the daemon's machine, of a folder
    /// that is missing or empty.
    #[schema(example = "/var/backups/selfsame/2026-07-01")]
    pub folder: String,
}

/// A webhook of the configuration, in the answer of `/webhooks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookStatus {
    /// Its id in the configuration.
    #[schema(example = "orders")]
    pub id: String,
    /// Where events are posted.
    #[schema(example = "https://shop.example/hooks/selfsame")]
    pub url: String,
    /// The events that are posted.
    pub events: Vec<EventKind>,
    /// The application whose verifications are posted; null for those of all applications.
    pub app_id: Option<String>,
    /// How many records of the log of events it is behind. A record of a block has many events.
    pub behind: u64,
    /// Events that were not accepted, and are sent again.
    pub waiting: usize,
    /// Events that were not accepted in all attempts.
    pub dead_letters: usize,
    /// Events that were given up and not kept: they were too old, or there were too many dead
    /// letters.
    pub lost: u64,
    /// Webhooks that were accepted since the start of the daemon.
    pub delivered: u64,
    /// Attempts that failed since the start of the daemon.
    pub failed: u64,
    /// When the last one was accepted (RFC 3339); null when none was since the start.
    pub last_delivered: Option<String>,
    /// Why the last attempt of those that wait failed; null when none waits.
    pub last_failure: Option<String>,
}

/// An event that a webhook has not accepted in all attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedDeadLetter {
    /// Its position, for `after`.
    #[schema(example = "12.0")]
    pub position: String,
    /// Its id, as the header `webhook-id` has it; null when the event is no longer known.
    pub event_id: Option<String>,
    /// Its type; null when the event is no longer known.
    #[serde(rename = "type")]
    pub kind: Option<EventKind>,
    /// How often it was sent.
    pub attempts: u32,
    /// When the last attempt failed (RFC 3339).
    pub failed_at: String,
    /// Why it failed.
    #[schema(example = "it answered 500 Internal Server Error")]
    pub failure: String,
}

/// What became of the dead letters of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedDeadLetters {
    /// How many there were.
    pub count: usize,
}

/// A backup, in the answers of `/backups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// Its number since the start of the daemon, from 1 on.
    pub id: u64,
    /// Its folder, on the daemon's machine.
    pub folder: String,
    /// `operator` or `schedule`.
    pub begun_by: String,
    /// When it was begun (RFC 3339). Everything that was acknowledged before is in it.
    pub begun_at: String,
    /// How far it is.
    pub state: BackupState,
    /// Why it failed; null otherwise.
    pub message: Option<String>,
    /// How many bytes of it were read to compute their digests; null when it has not come so far,
    /// or has ended.
    pub progress: Option<BackupProgress>,
    /// What it has; null while it is not complete.
    pub content: Option<BackupContent>,
}

/// How much of a running backup is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupProgress {
    /// Bytes that were read.
    pub done: u64,
    /// Bytes that the backup has.
    pub total: u64,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    /// It is being made.
    Running,
    /// It is complete and durable.
    Complete,
    /// It could not be made; nothing of it is left.
    Failed,
}

/// What a complete backup has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupContent {
    /// Height of its last block; 0 when it has none.
    pub ledger_height: u64,
    /// Hash of that block; zeros before the first block.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub last_block_hash: B256,
    /// Number of files besides the manifest.
    pub files: u64,
    /// The sum of their lengths, in bytes.
    pub size: u64,
    /// How long it took to make, in milliseconds.
    pub took_ms: u64,
}

/// Something that needs the operator's attention, in the answer of `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attention {
    /// The part of the daemon that it is about.
    pub subject: AttentionSubject,
    /// Since when (RFC 3339), as far as this run of the daemon knows.
    #[schema(example = "2026-07-01T12:00:00Z")]
    pub since: String,
    /// What is wrong.
    #[schema(
        example = "the last backup, in /backups/selfsame-2026-07-01T12-00-00Z, failed: /backups: No such file or directory (os error 2)"
    )]
    pub text: String,
    /// What the operator can do.
    #[schema(example = "mend the cause, then make one at once: `selfsame backup FOLDER`; the next good one ends this")]
    pub remedy: String,
}

/// The parts of the daemon that can need attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionSubject {
    /// Something cannot be written.
    Store,
    /// The room on the disk of the data folder.
    Disk,
    /// The clock, compared with the time of the last block.
    Clock,
    /// Backups that fail, or are overdue.
    Backups,
    /// What is followed from chains.
    Chains,
    /// The keys by which integrity bundles are judged.
    AttestationIssuers,
    /// Events that receivers do not accept.
    Webhooks,
    /// The rotation of the signing keys.
    Keys,
    /// The certificate of the listeners.
    Certificate,
    /// A configuration that was refused.
    Configuration,
    /// Lines that the log lacks.
    Log,
    /// The other replicas.
    Cluster,
}

impl AttentionSubject {
    /// The text in answers and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Disk => "disk",
            Self::Clock => "clock",
            Self::Backups => "backups",
            Self::Chains => "chains",
            Self::AttestationIssuers => "attestation_issuers",
            Self::Webhooks => "webhooks",
            Self::Keys => "keys",
            Self::Certificate => "certificate",
            Self::Configuration => "configuration",
            Self::Log => "log",
            Self::Cluster => "cluster",
        }
    }
}

/// That the store of a daemon was restored from a backup, in the answer of `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    /// Height of the last block of the backup.
    pub height: u64,
    /// Hash of that block.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub block_hash: B256,
    /// When the backup was made (RFC 3339).
    pub backup_made_at: String,
    /// When the store was restored (RFC 3339).
    pub restored_at: String,
    /// Whether the operator has accepted that blocks which clients have seen are lost.
    pub is_loss_accepted: bool,
}
