//! The sections of the configuration as types. Their defaults are those of the parts that they
//! configure. `docs/configuration/` describes every key for operators.

use std::path::PathBuf;

use schemars::JsonSchema;
use selfsame_actors::{AdmissionLimits, BatchLimits, SignInLimits, SignInSettings, VerificationSettings};
use selfsame_interfaces::http;
use selfsame_protocol::bridge::entries::EntryLimits;
use selfsame_protocol::rate_limit;
use selfsame_protocol::registry::{CommitmentCheck, RuleParameters};
use selfsame_protocol::sign_in::asks::{CURRENT_ALONE_SINCE, LEGACY_ENDS};
use selfsame_storage::Resources;
use serde::{Deserialize, Serialize};

use super::addresses::Origin;
use super::pages::{ConnectorBase, DomainName, SignInPage, WalletLink};
use super::values::{
    self, ContractAddress, InactiveStatus, Network, OperatorSocket, ProductionKey, SecretHash, StagingKey, TimeSpan,
    UtcTime,
};

pub use crate::logging::LogFormat;
pub use selfsame_interfaces::http::AccessLog;
pub use selfsame_protocol::sign_in::SigningAlgorithm;
pub use selfsame_protocol::sign_in::accounts::SubjectKind;
pub use selfsame_protocol::sign_in::proof_request::CrossDevice;
pub use selfsame_protocol::sign_in::proof_request::SignInProof;
pub use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind};

/// `[tls]`: PEM files, for every listener except one that serves the operator interface alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// File of the certificate chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// File of the private key.
    pub private_key: PathBuf,
}

/// `[registry]`: the domain that authenticators sign for and the parameters of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Registry {
    /// EIP-712 chain id, fixed in the store at its first start.
    pub chain_id: u64,
    /// EIP-712 verifying contract, fixed in the store at its first start. Without it the store has
    /// its own, which the first start chooses at random.
    pub verifying_contract: Option<ContractAddress>,
    /// Authenticators of one account, 1 to 7.
    pub max_authenticators: u32,
    /// How long a replaced root stays valid, in whole seconds.
    pub root_validity_window: TimeSpan,
    /// Time from the request for a new recovery agent to its earliest execution, in whole seconds;
    /// zero is allowed.
    pub recovery_agent_update_cooldown: TimeSpan,
    /// Whether a commitment is compared with the account's public keys.
    pub commitment_check: CommitmentCheck,
    /// How long the status of a final request is kept.
    pub request_retention: TimeSpan,
    /// Who may create accounts.
    pub create_account: CreateAccount,
    /// Salted hash of the token that `create_account = "token"` needs.
    pub create_account_token_hash: Option<SecretHash>,
}

/// Who may create accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreateAccount {
    /// Every client.
    #[default]
    Open,
    /// Clients that send the operator's token.
    Token,
}

impl Default for Registry {
    fn default() -> Self {
        let rules = RuleParameters::default();
        Self {
            chain_id: 480,
            verifying_contract: None,
            max_authenticators: rules.max_authenticators,
            root_validity_window: TimeSpan::from_secs(rules.root_validity_window),
            recovery_agent_update_cooldown: TimeSpan::from_secs(rules.recovery_agent_update_cooldown),
            commitment_check: rules.commitment_check,
            request_retention: AdmissionLimits::default().request_retention.into(),
            create_account: CreateAccount::default(),
            create_account_token_hash: None,
        }
    }
}

/// `[batcher]`: when a block is closed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Batcher {
    /// The most operations in one block.
    pub max_operations: usize,
    /// How long the first operation of a block waits for others, at least.
    pub min_wait: TimeSpan,
    /// How long the first operation of a block waits for others, at most.
    pub max_wait: TimeSpan,
}

impl Default for Batcher {
    fn default() -> Self {
        let BatchLimits { max_operations, min_wait, max_wait } = BatchLimits::default();
        Self { max_operations, min_wait: min_wait.into(), max_wait: max_wait.into() }
    }
}

/// `[limits]`: what one client, or all clients together, may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time from a request's arrival to its answer; waiting for a status is exempt.
    pub request_timeout: TimeSpan,
    /// Time from the opening of a connection to the end of its first request's head. For later
    /// requests `idle_timeout` applies.
    pub header_timeout: TimeSpan,
    /// How long a connection without a request stays open.
    pub idle_timeout: TimeSpan,
    /// How long requests in flight may take after SIGTERM.
    pub shutdown_grace: TimeSpan,
    /// How long an `Idempotency-Key` is kept.
    pub idempotency_retention: TimeSpan,
    /// Open connections of each listen address.
    pub max_connections: usize,
    /// Of these, connections of one source address (IPv6: of one /64), at most a quarter of all.
    /// Trusted proxies may have more, but each of their clients may occupy only so many.
    pub max_connections_per_source: usize,
    /// Calls that may wait for one actor's answer at a time.
    pub in_flight: usize,
    /// Gateway requests that are accepted and not final.
    pub queue_length: usize,
    /// Status requests that wait for a final state.
    pub status_waiters: usize,
    /// Gateway requests of one source address (IPv6: of one /64) (without it no limit).
    pub per_source: Option<RateLimit>,
    /// Accepted gateway requests for one leaf index (without it no limit).
    pub per_leaf_index: Option<RateLimit>,
    /// Verification requests of one source address (IPv6: of one /64) (without it no limit).
    pub verifications_per_source: Option<RateLimit>,
    /// Proofs in verification requests of one application that shows its secret, and as many in
    /// requests that it signed (without it no limit). At least `verifications_per_source`.
    pub verifications_per_application: Option<RateLimit>,
    /// Sign-ins begun or answered, credentials that were wrong, and codes and tokens that were
    /// wrong without a client secret, of one source address (without it no limit).
    pub sign_ins_per_source: Option<RateLimit>,
    /// Messages that one source address (IPv6: one /64) hands to the message bridge, and requests
    /// that it fetches there (without it no limit).
    pub bridge_per_source: Option<RateLimit>,
    /// Joinings, replacements, leavings and writes of sealed copies of one source address (IPv6: of
    /// one /64) at the wallet interface (without it no limit).
    pub groups_per_source: Option<RateLimit>,
    /// Sign-ins that were begun within `sign_in.transaction_lifetime`, completed or not. One source
    /// address may have begun a quarter of them.
    pub open_sign_ins: usize,
    /// Sign-ins that one source address follows at a time: event streams and held answers. As many
    /// answers of the message bridge may be held for it.
    pub followers_per_source: usize,
    /// The proxies that name their clients in `forwarded_header`.
    pub trusted_proxies: Vec<Network>,
    /// The one header that is read from the trusted proxies.
    pub forwarded_header: http::ForwardedHeader,
}

impl Default for Limits {
    fn default() -> Self {
        let (http, admission, sign_in) = (http::Limits::default(), AdmissionLimits::default(), SignInLimits::default());
        Self {
            request_timeout: http.request_timeout.into(),
            header_timeout: http.header_timeout.into(),
            idle_timeout: http.idle_timeout.into(),
            shutdown_grace: http.grace.into(),
            idempotency_retention: admission.idempotency_retention.into(),
            max_connections: http.connections,
            max_connections_per_source: http.connections_per_source,
            in_flight: admission.waiting_calls,
            queue_length: admission.queue_length,
            status_waiters: admission.status_waiters,
            per_source: None,
            per_leaf_index: None,
            verifications_per_source: None,
            verifications_per_application: None,
            sign_ins_per_source: None,
            bridge_per_source: None,
            groups_per_source: None,
            open_sign_ins: sign_in.open_sign_ins,
            followers_per_source: sign_in.followers_per_source,
            trusted_proxies: Vec::new(),
            forwarded_header: http.forwarded_header,
        }
    }
}

/// At most `requests` in any `window` of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// The most requests in a window, 1 to 100000.
    pub requests: u32,
    /// Length of the sliding window, 1 second to 1 day.
    pub window: TimeSpan,
}

impl RateLimit {
    /// The limit in the type of the rules.
    pub fn limit(self) -> rate_limit::RateLimit {
        rate_limit::RateLimit { count: self.requests as usize, window: *self.window }
    }
}

/// `[operator]`: who may call the operator interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Operator {
    /// Names besides addresses and `localhost` under which the interface answers.
    pub hosts: Vec<String>,
    /// Whether it may listen elsewhere than on loopback, or share its address.
    pub allow_public: bool,
    /// Salted hash of the token that programs can invite members of groups with, and do nothing
    /// else; without it only the operator's token invites.
    pub invitation_token_hash: Option<SecretHash>,
    /// Where the unix socket for the commands is.
    pub socket: OperatorSocket,
    /// Whether the daemon is ready only while every contract of `[[chains]]` can be used.
    pub ready_needs_chains: bool,
    /// Whether the other interfaces answer `/ready`, too, without reasons.
    pub ready_everywhere: bool,
    /// How long the daemon goes on serving after SIGTERM while `/ready` says that it is about to
    /// stop, so that load balancers send no more clients.
    pub drain_delay: TimeSpan,
}

/// `[log]`: the daemon's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How its lines are written.
    pub format: LogFormat,
    /// Whether each request has a line, and how it names the source.
    pub access: AccessLog,
}

/// `[backup]`: backups at regular times.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Backup {
    /// Time from one backup to the next; without it none is made.
    pub every: Option<TimeSpan>,
    /// How many are kept.
    pub keep: usize,
    /// The folder that they are made in.
    pub folder: Option<PathBuf>,
}

impl Default for Backup {
    fn default() -> Self {
        Self { every: None, keep: 7, folder: None }
    }
}

/// `[cors]`: the origins from which browsers may call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cors {
    /// Origins for gateway, indexer and verification, as browsers send them:
    /// `https://wallet.example`.
    pub allowed_origins: Vec<Origin>,
}

/// `[wallet]`: the web wallet, which the wallet interface serves where groups are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Wallet {
    /// The origin that the web wallet had before, as browsers write it. A start at another origin
    /// is refused without it, because the passkeys of members belong to the old one.
    pub moved_from: Option<Origin>,
}

/// `[sign_in]`: lifetimes and constants of the sign-in interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// How long an authorization request waits for an answer.
    pub transaction_lifetime: TimeSpan,
    /// Lifetime of an authorization code.
    pub code_lifetime: TimeSpan,
    /// Lifetime of a browser session.
    pub session_lifetime: TimeSpan,
    /// Time between two rotations of the signing key.
    pub key_rotation: TimeSpan,
    /// The algorithm of the signing keys that are made. Keys that exist sign until they are rotated
    /// out.
    pub signing_algorithm: SigningAlgorithm,
    /// The file of the key that encrypts the private signing keys in the store; without it they
    /// are stored as they are.
    pub key_encryption_key_file: Option<PathBuf>,
    /// Status of the introspection answer for a token that is not active: 401, or 200 as in RFC
    /// 7662.
    pub introspection_inactive_status: InactiveStatus,
    /// The claim `name`. It is a constant, because a proof of personhood carries no name.
    pub name: String,
    /// The claim `given_name`.
    pub given_name: String,
    /// The claim `family_name`.
    pub family_name: String,
    /// The link that opens an authenticator, with the URL of the proof request in the place of
    /// `{request}`; by default that URL itself.
    pub wallet_link: Option<WalletLink>,
    /// The base of the connector URIs that sign-in offers to authenticators on the message bridge;
    /// by default `/connect` behind `urls.id_url`.
    pub connector_base: Option<ConnectorBase>,
    /// The domain that browsers keep passkeys for: the host of `urls.id_url`, which is the default,
    /// or a domain above it.
    pub passkey_domain: Option<DomainName>,
    /// When legacy proofs end: from then on sign-ins to accounts ask for none any more.
    pub legacy_ends_at: UtcTime,
    /// Since when new people can make no legacy proofs. A credential that was first issued at this
    /// time or later is of a person without a legacy account.
    pub current_alone_since: UtcTime,
    /// Whose pages end users see.
    pub page: SignInPage,
}

impl Default for SignIn {
    fn default() -> Self {
        let defaults = SignInSettings::default();
        Self {
            transaction_lifetime: defaults.transaction_lifetime.into(),
            code_lifetime: defaults.code_lifetime.into(),
            session_lifetime: defaults.session_lifetime.into(),
            key_rotation: defaults.key_rotation.into(),
            signing_algorithm: defaults.signing_algorithm,
            key_encryption_key_file: None,
            introspection_inactive_status: InactiveStatus::default(),
            name: defaults.provider.name,
            given_name: defaults.provider.given_name,
            family_name: defaults.provider.family_name,
            wallet_link: None,
            connector_base: None,
            passkey_domain: None,
            legacy_ends_at: UtcTime::at(LEGACY_ENDS),
            current_alone_since: UtcTime::at(CURRENT_ALONE_SINCE),
            page: SignInPage::default(),
        }
    }
}

/// `[bridge]`: the messages between applications and authenticators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bridge {
    /// How long a request or an answer is kept after its last change.
    pub lifetime: TimeSpan,
    /// The memory that all messages together may take, in MiB. A source address has a quarter.
    pub memory_mib: usize,
}

impl Default for Bridge {
    fn default() -> Self {
        let EntryLimits { lifetime, bytes } = EntryLimits::default();
        Self { lifetime: lifetime.into(), memory_mib: bytes >> 20 }
    }
}

/// `[verifier]`: the worker threads that check proofs, and their keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Verifier {
    /// Worker threads; without it one for each core.
    pub workers: Option<usize>,
    /// Proofs of verification requests that wait for a worker or are being checked.
    pub queue: usize,
    /// Seed of the simulator's secrets; without it the text in `<data_dir>/simulator.seed`, which
    /// the first start creates.
    #[serde(serialize_with = "values::hidden")]
    pub simulator_seed: Option<String>,
    /// The verification keys by environment.
    pub keys: VerificationKeys,
}

impl Default for Verifier {
    fn default() -> Self {
        let queue = VerificationSettings::default().queue;
        Self { workers: None, queue, simulator_seed: None, keys: VerificationKeys::default() }
    }
}

/// The verification keys by environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerificationKeys {
    /// The keys for proofs of production.
    pub production: EnvironmentKeys<ProductionKey>,
    /// The keys for proofs of staging.
    pub staging: EnvironmentKeys<StagingKey>,
}

/// The verification keys of one environment by kind of proof.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, bound(deserialize = "Key: Deserialize<'de> + Default"))]
#[schemars(rename = "{Key}s", bound = "Key: JsonSchema + Serialize + Default")]
pub struct EnvironmentKeys<Key> {
    /// The key for legacy proofs (protocol version 3.0).
    pub legacy: Key,
    /// The key for current proofs (protocol version 4.0).
    pub current: Key,
}

impl<Key> EnvironmentKeys<Key> {
    /// The key for proofs of a kind.
    pub fn of(&self, kind: ProofKind) -> &Key {
        match kind {
            ProofKind::Legacy => &self.legacy,
            ProofKind::Current => &self.current,
        }
    }
}

// `[storage]`: what the store may take of the machine.

/// `[storage]`: what the store may take of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// Memory for the parts of the store's files that are in use, in MiB; without it an eighth of
    /// the machine's memory, 64 to 1536.
    pub cache_mib: Option<usize>,
    /// Memory for the newest records of one kind, in KiB. A full buffer is written into a file.
    pub write_buffer_kib: usize,
    /// Length of the log, in MiB, beyond which the oldest records in it are written into files.
    pub log_mib: usize,
    /// Threads that write files and merge them; without it one for each core, 4 to 16.
    pub background_jobs: Option<usize>,
    /// The most files of the store that are held open; without it all of them.
    pub open_files: Option<usize>,
}

impl Default for Storage {
    fn default() -> Self {
        let Resources { write_buffer, log, .. } = Resources::default();
        Self {
            cache_mib: None,
            write_buffer_kib: write_buffer >> 10,
            log_mib: log >> 20,
            background_jobs: None,
            open_files: None,
        }
    }
}

impl Storage {
    /// What the store may take, with the memory and the cores of this machine where nothing is set.
    pub fn resources(&self) -> Resources {
        let default = Resources::of_this_machine();
        Resources {
            block_cache: self.cache_mib.map_or(default.block_cache, |mib| mib << 20),
            write_buffer: self.write_buffer_kib << 10,
            log: self.log_mib << 20,
            background_jobs: self.background_jobs.unwrap_or(default.background_jobs),
            open_files: self.open_files,
        }
    }
}
