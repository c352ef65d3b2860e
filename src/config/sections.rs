//! The sections of the configuration as types. Their defaults are those of the parts that they
//! configure. `docs/configuration.md` describes every key for operators.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use alloy_primitives::Address;
use schemars::JsonSchema;
use selfsame_actors::{AdmissionLimits, BatchLimits, SignInLimits, SignInSettings, VerificationSettings};
use selfsame_protocol::bridge::entries::EntryLimits;
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::rate_limit;
use selfsame_protocol::registry::{CommitmentCheck, RuleParameters};
use selfsame_protocol::sign_in::ResponseType;
pub use selfsame_protocol::sign_in::SigningAlgorithm;
pub use selfsame_protocol::sign_in::proof_request::CrossDevice;
use selfsame_protocol::tree::Root;
pub use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind};
use serde::{Deserialize, Serialize};

use super::formats;
use super::pages::{SignInPage, WalletLink};
use super::urls::{self, Origin};
use super::values::{
    self, InactiveStatus, Network, OperatorSocket, ProductionKey, RelyingPartyId, SecretHash, StagingKey,
};
use super::written;
use crate::http;
pub use crate::http::AccessLog;
use crate::interface::PerInterface;
pub use crate::logging::LogFormat;

/// The base URL of each public interface as clients see it, without a trailing slash; the operator
/// interface's own address.
pub type PublicUrls = PerInterface<String>;

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
    #[serde(deserialize_with = "values::optional_address", serialize_with = "written::optional_address")]
    #[schemars(with = "formats::ContractAddress")]
    pub verifying_contract: Option<Address>,
    /// Authenticators of one account, 1 to 7.
    pub max_authenticators: u32,
    /// How long a replaced root stays valid, in whole seconds.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub root_validity_window: Duration,
    /// Time from the request for a new recovery agent to its earliest execution, in whole seconds;
    /// zero is allowed.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub recovery_agent_update_cooldown: Duration,
    /// Whether a commitment is compared with the account's public keys.
    pub commitment_check: CommitmentCheck,
    /// How long the status of a final request is kept.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub request_retention: Duration,
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
            root_validity_window: Duration::from_secs(rules.root_validity_window),
            recovery_agent_update_cooldown: Duration::from_secs(rules.recovery_agent_update_cooldown),
            commitment_check: rules.commitment_check,
            request_retention: AdmissionLimits::default().request_retention,
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
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub min_wait: Duration,
    /// How long the first operation of a block waits for others, at most.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub max_wait: Duration,
}

impl Default for Batcher {
    fn default() -> Self {
        let BatchLimits { max_operations, min_wait, max_wait } = BatchLimits::default();
        Self { max_operations, min_wait, max_wait }
    }
}

/// `[limits]`: what one client, or all clients together, may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time from a request's arrival to its answer; waiting for a status is exempt.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub request_timeout: Duration,
    /// Time from the opening of a connection to the end of its first request's head. For later
    /// requests `idle_timeout` applies.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub header_timeout: Duration,
    /// How long a connection without a request stays open.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub idle_timeout: Duration,
    /// How long requests in flight may take after SIGTERM.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub shutdown_grace: Duration,
    /// How long an `Idempotency-Key` is kept.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub idempotency_retention: Duration,
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
            request_timeout: http.request_timeout,
            header_timeout: http.header_timeout,
            idle_timeout: http.idle_timeout,
            shutdown_grace: http.grace,
            idempotency_retention: admission.idempotency_retention,
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
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub window: Duration,
}

impl RateLimit {
    /// The limit in the type of the rules.
    pub fn limit(self) -> rate_limit::RateLimit {
        rate_limit::RateLimit { count: self.requests as usize, window: self.window }
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
    /// Where the unix socket for the commands is.
    pub socket: OperatorSocket,
    /// Whether the daemon is ready only while every contract of `[[chains]]` can be used.
    pub ready_needs_chains: bool,
    /// Whether the other interfaces answer `/ready`, too, without reasons.
    pub ready_everywhere: bool,
    /// How long the daemon goes on serving after SIGTERM while `/ready` says that it is about to
    /// stop, so that load balancers send no more clients.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub drain_delay: Duration,
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
    #[serde(deserialize_with = "values::optional_duration", serialize_with = "written::optional_duration")]
    #[schemars(with = "formats::Duration")]
    pub every: Option<Duration>,
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

/// `[sign_in]`: lifetimes and constants of the sign-in interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// How long an authorization request waits for an answer.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub transaction_lifetime: Duration,
    /// Lifetime of an authorization code.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub code_lifetime: Duration,
    /// Lifetime of a browser session.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub session_lifetime: Duration,
    /// Time between two rotations of the signing key.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub key_rotation: Duration,
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
    /// Whose pages end users see.
    pub page: SignInPage,
}

impl Default for SignIn {
    fn default() -> Self {
        let defaults = SignInSettings::default();
        let SignInSettings {
            provider,
            transaction_lifetime,
            code_lifetime,
            key_rotation,
            signing_algorithm,
            session_lifetime,
            ..
        } = defaults;
        Self {
            transaction_lifetime,
            code_lifetime,
            session_lifetime,
            key_rotation,
            signing_algorithm,
            key_encryption_key_file: None,
            introspection_inactive_status: InactiveStatus::default(),
            name: provider.name,
            given_name: provider.given_name,
            family_name: provider.family_name,
            wallet_link: None,
            page: SignInPage::default(),
        }
    }
}

/// `[bridge]`: the messages between applications and authenticators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bridge {
    /// How long a request or an answer is kept after its last change.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub lifetime: Duration,
    /// The memory that all messages together may take, in MiB. A source address has a quarter.
    pub memory_mib: usize,
}

impl Default for Bridge {
    fn default() -> Self {
        let EntryLimits { lifetime, bytes } = EntryLimits::default();
        Self { lifetime, memory_mib: bytes >> 20 }
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
    #[serde(serialize_with = "written::hidden")]
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

/// Whether an application or a relying party is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is served.
    #[default]
    Active,
    /// Its requests are rejected.
    Inactive,
}

/// `[[apps]]`: an application, which is also the OAuth client of that id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// `app_` and 1 to 128 letters, digits, `-` or `_`; the OAuth client id.
    #[serde(deserialize_with = "values::app_id", serialize_with = "written::app_id")]
    #[schemars(with = "formats::AppId")]
    pub id: String,
    /// The name that people see when they sign in; the id by default.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// A page of the application, which authenticators show beside its name.
    #[serde(default, deserialize_with = "urls::optional_page", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "formats::ApplicationPage")]
    pub integration_url: Option<String>,
    /// Salted hash of the secret of a confidential client.
    #[serde(default)]
    pub client_secret_hash: Option<SecretHash>,
    /// In place of `client_secret_hash`: one or two hashes, so that a secret can be changed without
    /// an outage. Each secret is accepted.
    #[serde(default)]
    pub client_secret_hashes: Vec<SecretHash>,
    /// Whether the client is public: it has no secret, and must use PKCE.
    #[serde(default)]
    pub public: bool,
    /// Redirect URIs, compared byte for byte. An application without one cannot use sign-in, only
    /// verification.
    #[serde(default, deserialize_with = "urls::redirect_uris", serialize_with = "written::redirect_uris")]
    #[schemars(with = "Vec<formats::RedirectUri>")]
    pub redirect_uris: Vec<String>,
    /// URIs to which sign-out may send a browser, compared byte for byte; the same rules as for
    /// redirect URIs.
    #[serde(default, deserialize_with = "urls::redirect_uris", serialize_with = "written::redirect_uris")]
    #[schemars(with = "Vec<formats::RedirectUri>")]
    pub post_logout_redirect_uris: Vec<String>,
    /// The environments whose proofs it accepts; by default staging for ids that begin with
    /// `app_staging_`, production for all others.
    #[serde(default)]
    pub(super) environments: Option<Vec<Environment>>,
    /// The kind of proof that sign-in asks for.
    #[serde(default)]
    pub proof: ProofKind,
    /// Whether the verification interface accepts legacy proofs; by default while the relying party
    /// has no OPRF public key.
    #[serde(default)]
    pub accept_legacy: Option<bool>,
    /// Whether the verification interface accepts only the actions of `[[actions]]`; by default the
    /// first proof of another action begins it.
    #[serde(default)]
    pub only_configured_actions: bool,
    /// The credentials that count, at verification and at sign-in; all by default.
    #[serde(default)]
    pub accepted_identifiers: Option<Vec<String>>,
    /// The response types that sign-in gives; `code` alone by default.
    #[serde(
        default = "values::code_alone",
        deserialize_with = "values::response_types",
        serialize_with = "written::response_types"
    )]
    #[schemars(with = "Vec<formats::ResponseType>")]
    pub response_types: Vec<ResponseType>,
    /// Whether a confidential client must use PKCE too.
    #[serde(default)]
    pub require_pkce: bool,
    /// Whether people may answer with an authenticator on another device than their browser.
    #[serde(default)]
    pub cross_device: CrossDevice,
    /// Accepts `cross_device = "deny"` although the application takes proofs of wallets that answer
    /// requests of other pages, too: a relay then passes it.
    #[serde(default)]
    pub cross_device_deny_despite_relays: bool,
    /// The link that opens an authenticator for this application, in place of
    /// `sign_in.wallet_link`.
    #[serde(default)]
    pub wallet_link: Option<WalletLink>,
    /// The file of the application's logo: PNG, WebP or SVG.
    #[serde(default)]
    pub logo_file: Option<PathBuf>,
    /// Whether the application is served.
    #[serde(default)]
    pub status: Status,
}

impl App {
    /// The name that end users see; the id by default.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// The hashes of the client's secrets; none for a public client.
    pub fn secret_hashes(&self) -> impl Iterator<Item = &SecretHash> {
        self.client_secret_hash.iter().chain(&self.client_secret_hashes)
    }

    /// Sets the name that end users see.
    pub fn rename(&mut self, name: &str) {
        self.name = Some(name.to_owned());
    }

    /// The environments it accepts: by default that of its id.
    pub fn environments(&self) -> Vec<Environment> {
        self.environments.clone().unwrap_or_else(|| vec![Environment::of_application(&self.id)])
    }

    /// Whether it uses sign-in: it is active, and has a redirect URI.
    pub fn signs_in(&self) -> bool {
        self.status == Status::Active && !self.redirect_uris.is_empty()
    }

    /// The environment of its sign-ins: an application that accepts both gets proofs of production.
    pub fn sign_in_environment(&self) -> Environment {
        self.environments().into_iter().min().unwrap_or(Environment::Production)
    }
}

/// `[[actions]]`: the settings of an action. An action without an entry begins with its first
/// proof, unless its application has `only_configured_actions`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The application, an id of `[[apps]]`.
    pub app_id: String,
    /// The text of the action.
    pub action: String,
    /// The environment; the application must accept it.
    #[serde(default)]
    pub environment: Environment,
    /// What authenticators show of the action; nothing by default.
    #[serde(default)]
    pub description: String,
    /// How often one nullifier may be verified; 0 is no limit.
    #[serde(default)]
    pub max_verifications: u64,
    /// Whether legacy proofs are accepted for the action, if the application accepts them.
    #[serde(default = "default_true")]
    pub accept_legacy: bool,
    /// The credentials that count for the action, of those that count for the application; all of
    /// these by default.
    #[serde(default)]
    pub accepted_identifiers: Option<Vec<String>>,
    /// The earliest time of a credential's first issue, in Unix seconds, that a current proof must
    /// show. It stands in for the `credential_genesis_issued_at_min` that client kits leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis_issued_at_min: Option<u64>,
    /// Whether an action with a limit may accept both kinds of proof, although one person can then
    /// reach the limit once with each.
    #[serde(default)]
    pub counts_kinds_separately: bool,
}

/// `[[issuers]]`: an issuer of credentials, by its schema id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Issuer schema id.
    pub id: u64,
    /// The identifiers that a proof may name with this issuer; the issuers of the public service
    /// have defaults.
    #[serde(default)]
    pub(super) identifiers: Option<Vec<String>>,
    /// The key that signs its credentials; left out when it is followed from a chain.
    #[serde(
        default,
        deserialize_with = "values::optional_public_key",
        serialize_with = "written::optional_public_key"
    )]
    #[schemars(with = "values::Point")]
    pub public_key: Option<PublicKey>,
    /// The environments in which its credentials count; by default both, for issuer 128 staging
    /// alone.
    #[serde(default)]
    pub(super) environments: Option<Vec<Environment>>,
}

impl Issuer {
    /// The identifiers that a proof may name with this issuer. The issuers of the public service
    /// have defaults; other issuers must name theirs.
    pub fn identifiers(&self) -> Vec<&str> {
        match (&self.identifiers, self.id) {
            (Some(identifiers), _) => identifiers.iter().map(String::as_str).collect(),
            (None, 1 | 128) => vec!["proof_of_human"],
            (None, 11) => vec!["selfie", "face"],
            (None, 9303) => vec!["passport"],
            (None, 9310) => vec!["mnc"],
            (None, _) => Vec::new(),
        }
    }

    /// The environments in which its credentials count: both by default, staging only for issuer
    /// 128.
    pub fn environments(&self) -> &[Environment] {
        match (&self.environments, self.id) {
            (Some(environments), _) => environments,
            (None, 128) => &[Environment::Staging],
            (None, _) => &[Environment::Production, Environment::Staging],
        }
    }
}

/// `[[relying_parties]]`: the relying party of an application, where it differs from the derived
/// default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelyingParty {
    /// The application, an id of `[[apps]]`.
    pub app_id: String,
    /// Its id, by default the one that is derived from the application's.
    #[serde(default, serialize_with = "written::optional_rp_id")]
    #[schemars(with = "formats::RelyingPartyId")]
    pub(super) rp_id: Option<RelyingPartyId>,
    /// Public key of its OPRF; current proofs need it, or one that is followed from a chain.
    #[serde(
        default,
        deserialize_with = "values::optional_public_key",
        serialize_with = "written::optional_public_key"
    )]
    #[schemars(with = "values::Point")]
    pub oprf_public_key: Option<PublicKey>,
    /// The address of the key that its servers sign requests for proofs with.
    #[serde(default, deserialize_with = "values::optional_address", serialize_with = "written::optional_address")]
    #[schemars(with = "formats::AccountAddress")]
    pub signing_key: Option<Address>,
    /// The file of that key, with 64 hex digits: sign-in signs its requests for current proofs with
    /// it where `wallet_link` is `bridge`.
    #[serde(default)]
    pub signing_key_file: Option<PathBuf>,
    /// Whether verification takes only requests that are signed with that key, each nonce once.
    #[serde(default)]
    pub require_signed_requests: bool,
    /// Whether the signal of every legacy proof must be the signed nonce: such a proof binds its
    /// signal alone.
    #[serde(default)]
    pub require_signal_nonce: bool,
    /// Whether the relying party is served.
    #[serde(default)]
    pub status: Status,
}

impl RelyingParty {
    /// An active relying party with an id of its own and without an OPRF key.
    pub fn new(app_id: &str, rp_id: RelyingPartyId) -> Self {
        Self {
            app_id: app_id.to_owned(),
            rp_id: Some(rp_id),
            oprf_public_key: None,
            signing_key: None,
            signing_key_file: None,
            require_signed_requests: false,
            require_signal_nonce: false,
            status: Status::Active,
        }
    }

    /// The id, by default the one derived from the application.
    pub fn rp_id(&self) -> RelyingPartyId {
        self.rp_id.unwrap_or_else(|| RelyingPartyId::derived_from(&self.app_id))
    }
}

/// `[[trusted_roots]]`: a root that proofs may be made against.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustedRoot {
    /// The root, as a number.
    #[serde(deserialize_with = "values::root", serialize_with = "written::root")]
    #[schemars(with = "formats::Number")]
    pub root: Root,
    /// The time at which the root became known; a proof's `max_age` counts from here.
    #[serde(deserialize_with = "values::time", serialize_with = "written::time")]
    #[schemars(with = "formats::Time")]
    pub time: SystemTime,
    /// The environment whose proofs may be made against it.
    #[serde(default)]
    pub environment: Environment,
    /// The kind of proofs that may be made against it.
    pub kind: ProofKind,
    /// For a legacy root the credentials that all members of its tree have, at least one; for a
    /// current root none.
    #[serde(default)]
    pub identifiers: Vec<LegacyIdentifier>,
}

fn default_true() -> bool {
    true
}
