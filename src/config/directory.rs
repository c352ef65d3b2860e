//! Who asks for proofs and signs in, and what is trusted: `[[apps]]`, `[[actions]]`, `[[issuers]]`,
//! `[[relying_parties]]` and `[[trusted_roots]]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use selfsame_protocol::groups::names::RollName;
use selfsame_protocol::sign_in::ResponseType;
use serde::{Deserialize, Serialize};

use super::addresses::{ApplicationPage, RedirectUri};
use super::pages::WalletLink;
use super::sections::{CrossDevice, Environment, LegacyIdentifier, ProofKind, SignInProof, SubjectKind};
use super::values::{self, AccountAddress, CurvePoint, FieldElement, RelyingPartyId, SecretHash, UtcTime, formats};

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
    #[serde(deserialize_with = "values::app_id")]
    #[schemars(with = "formats::AppId")]
    pub id: String,
    /// The name that people see when they sign in; the id by default.
    pub(super) name: Option<String>,
    /// A page of the application, which authenticators show beside its name.
    pub integration_url: Option<ApplicationPage>,
    /// Salted hash of the secret of a confidential client.
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
    #[serde(default)]
    pub redirect_uris: Vec<RedirectUri>,
    /// URIs to which sign-out may send a browser, compared byte for byte; the same rules as for
    /// redirect URIs.
    #[serde(default)]
    pub post_logout_redirect_uris: Vec<RedirectUri>,
    /// The environments whose proofs it accepts; by default staging for ids that begin with
    /// `app_staging_`, production for all others.
    pub(super) environments: Option<Vec<Environment>>,
    /// What sign-in asks for: `account` for current proofs that belong to a lasting account of the
    /// application, `legacy` or `current` for a proof each time whose nullifier is the subject.
    #[serde(default)]
    pub proof: SignInProof,
    /// What the subject of a new account is: `derived` (the default), or `nullifier`, which
    /// continues the subjects of sign-ins that asked for the same nullifier each time. Set it
    /// before the first sign-in. Without accounts the subject is the nullifier.
    pub(super) subject: Option<SubjectKind>,
    /// Whether people have a subject here that is the nullifier of a legacy proof, of this service
    /// or of another one: then sign-ins to accounts find it. The first accepted legacy proof says
    /// so as well, for good.
    #[serde(default)]
    pub history: History,
    /// Whether people can attach current proofs to an account of legacy proofs.
    #[serde(default)]
    pub link: Link,
    /// Whether a person with an older credential, of whom no account is found, gets one when legacy
    /// proofs have ended. With `allow` a person of legacy proofs can have two.
    #[serde(default)]
    pub old_credentials: OldCredentials,
    /// Whether the verification interface accepts legacy proofs; by default while the relying party
    /// has no OPRF public key.
    pub accept_legacy: Option<bool>,
    /// Whether the verification interface accepts only the actions of `[[actions]]`; by default the
    /// first proof of another action begins it.
    #[serde(default)]
    pub only_configured_actions: bool,
    /// The credentials that count, at verification and at sign-in; all public ones by default. A
    /// group's counts only where it is named.
    pub accepted_identifiers: Option<Vec<String>>,
    /// Whether the verification interface takes only results with an integrity bundle.
    #[serde(default)]
    pub require_integrity: bool,
    /// Whether sign-ins may take credentials of several groups, or of a group and public ones,
    /// although one person has another subject with each.
    #[serde(default)]
    pub counts_sources_separately: bool,
    /// The response types that sign-in gives; `code` alone by default.
    #[serde(
        default = "values::code_alone",
        deserialize_with = "values::response_types",
        serialize_with = "values::write_response_types"
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
    pub wallet_link: Option<WalletLink>,
    /// The file of the application's logo: PNG, WebP or SVG.
    pub logo_file: Option<PathBuf>,
    /// The page of the application that people go back to from a page of sign-in.
    pub home_url: Option<ApplicationPage>,
    /// The address at which the application begins a sign-in (OpenID Connect Core 1.0, section 4).
    pub initiate_login_uri: Option<ApplicationPage>,
    /// The page of the application for people who have no authenticator.
    pub fallback_url: Option<ApplicationPage>,
    /// Whether the application is served.
    #[serde(default)]
    pub status: Status,
}

/// What is known of the people of an application from before it had accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// What the store knows.
    #[default]
    None,
    /// They have subjects of legacy proofs.
    Legacy,
}

/// Whether current proofs can be attached to accounts of legacy proofs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// People can.
    #[default]
    On,
    /// Nobody can.
    Off,
}

/// Whether people with older credentials get accounts when legacy proofs have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OldCredentials {
    /// None that they do not have already.
    #[default]
    Refuse,
    /// As others do.
    Allow,
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

    /// What the subject of a person is, who has not signed in before.
    pub fn subject(&self) -> SubjectKind {
        match (self.proof, self.subject) {
            (SignInProof::Account, subject) => subject.unwrap_or_default(),
            (SignInProof::Legacy | SignInProof::Current, _) => SubjectKind::Nullifier,
        }
    }

    /// Sets what the subjects of new accounts are.
    pub fn set_subject(&mut self, subject: SubjectKind) {
        self.subject = Some(subject);
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
    pub accepted_identifiers: Option<Vec<String>>,
    /// The earliest time of a credential's first issue, in Unix seconds, that a current proof must
    /// show. It stands in for the `credential_genesis_issued_at_min` that client kits leave out.
    pub genesis_issued_at_min: Option<u64>,
    /// Whether the action takes only results with an integrity bundle.
    #[serde(default)]
    pub require_integrity: bool,
    /// The least score of Selfie Check that counts for the action.
    pub min_sybil_score: Option<u64>,
    /// The greatest score of Selfie Check that counts for the action.
    pub max_sybil_score: Option<u64>,
    /// Whether an action with a limit may accept both kinds of proof, although one person can then
    /// reach the limit once with each.
    #[serde(default)]
    pub counts_kinds_separately: bool,
    /// The roll of the action's group whose members count, once each; nobody else does. It may be
    /// taken later.
    #[serde(default, deserialize_with = "values::some_form")]
    #[schemars(with = "Option<formats::RollName>")]
    pub roll: Option<RollName>,
    /// Whether an action with a limit may take a group's credential without a roll, although a
    /// member with a new seed counts again.
    #[serde(default)]
    pub counts_new_seeds: bool,
    /// Whether an action with a limit may take credentials of several groups, or of a group and
    /// public ones, although one person can then reach the limit once with each.
    #[serde(default)]
    pub counts_sources_separately: bool,
}

/// `[[issuers]]`: an issuer of credentials, by its schema id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Issuer schema id.
    pub id: u64,
    /// The identifiers that a proof may name with this issuer; the issuers of the public service
    /// have defaults.
    pub(super) identifiers: Option<Vec<String>>,
    /// The key that signs its credentials; left out when it is followed from a chain.
    pub public_key: Option<CurvePoint>,
    /// The environments in which its credentials count; by default both, for issuer 128 staging
    /// alone.
    pub(super) environments: Option<Vec<Environment>>,
}

impl Issuer {
    /// The issuers of the public service, with the identifiers of their credentials.
    pub(super) const PUBLIC: [(u64, &[&str]); 5] = [
        (1, &["proof_of_human"]),
        (128, &["proof_of_human"]),
        (11, &["selfie", "face"]),
        (9303, &["passport"]),
        (9310, &["mnc"]),
    ];

    /// The identifiers that a proof may name with this issuer. The issuers of the public service
    /// have defaults; other issuers must name theirs.
    pub fn identifiers(&self) -> Vec<&str> {
        match &self.identifiers {
            Some(identifiers) => identifiers.iter().map(String::as_str).collect(),
            None => {
                let public = Self::PUBLIC.iter().find(|(id, _)| *id == self.id);
                public.map_or_else(Vec::new, |(_, identifiers)| identifiers.to_vec())
            }
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
    #[serde(default)]
    #[schemars(with = "formats::RelyingPartyId")]
    pub(super) rp_id: Option<RelyingPartyId>,
    /// Public key of its OPRF; current proofs need it, or one that is followed from a chain.
    pub oprf_public_key: Option<CurvePoint>,
    /// The address of the key that its servers sign requests for proofs with.
    pub signing_key: Option<AccountAddress>,
    /// The file of that key, with 64 hex digits: sign-in signs its requests for current proofs with
    /// it where `wallet_link` is `bridge`.
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
    pub root: FieldElement,
    /// The time at which the root became known; a proof's `max_age` counts from here.
    pub time: UtcTime,
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
