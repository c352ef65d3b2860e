//! Admission of verification requests by the configuration: relying parties, their applications,
//! actions and issuers.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::groups::{GroupNames, KnownGroups, VerifiedGroup};
use super::identity::{Environment, LegacyCredential, ProofKind, RelyingPartyId, hash_text, hash_to_field};
use super::request::{Proofs, VerificationRequest};
use super::rp_signature::SigningRule;
use crate::client_secret::ClientSecret;
use crate::commitment::PublicKey;
use crate::groups::names::{GroupId, RollName};
use crate::time::UnixSeconds;
use crate::{B256, U256, keccak256};

/// A relying party and its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelyingParty {
    /// The configured id, or the id that is derived from the application's.
    pub rp_id: RelyingPartyId,
    /// Id of the application, `app_…`. It enters the external nullifier of legacy proofs.
    pub app_id: String,
    /// The application's name, for people.
    pub name: String,
    /// Where people find the application.
    pub integration_url: Option<String>,
    /// Whether the relying party is active; the proofs of an inactive one are not checked.
    pub is_active: bool,
    /// Whether its application is active.
    pub has_active_application: bool,
    /// The environments whose proofs the application accepts.
    pub environments: Vec<Environment>,
    /// Whether the application accepts proofs of protocol version 3.0.
    pub accept_legacy: bool,
    /// Whether only configured actions are accepted.
    pub only_configured_actions: bool,
    /// The credentials that count for the application; `None` for all.
    pub accepted_identifiers: Option<Vec<String>>,
    /// Whether the verification interface takes only requests with an integrity bundle.
    pub require_integrity: bool,
    /// The relying party's OPRF public key as it is configured: a public input of current proofs.
    pub oprf_public_key: Option<PublicKey>,
    /// The environments in which the OPRF key is followed from a chain when it is not configured.
    /// In other environments current proofs are refused without a configured key.
    pub follows_oprf_key_in: Vec<Environment>,
    /// The key that signs its requests, if it has one.
    pub signing: Option<SigningRule>,
    /// The secrets with which the application's servers say who they are: two while a secret is
    /// changed, none for an application without a secret.
    pub secrets: Vec<ClientSecret>,
}

impl RelyingParty {
    /// The environment of requests that name none ([`super::request`]): that of the application's
    /// id, unless the application does not have it.
    pub fn usual_environment(&self) -> Environment {
        let usual = Environment::of_application(&self.app_id);
        let accepted = &self.environments;
        if accepted.contains(&usual) { usual } else { accepted.first().copied().unwrap_or(usual) }
    }
}

/// How a relying party stands in an environment, in the words of the public service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyStanding {
    /// It is served.
    Registered,
    /// It is not served any more.
    Deactivated,
    /// It is not served there yet.
    Pending,
}

impl PartyStanding {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Deactivated => "deactivated",
            Self::Pending => "pending",
        }
    }
}

/// An action with an entry in the configuration. Other actions are created by their first verified
/// proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Id of the application that the action belongs to.
    pub app_id: String,
    /// The environment that the action belongs to.
    pub environment: Environment,
    /// The action's text. Texts with the same hash are one action ([`ActionKey`]).
    pub action: String,
    /// What authenticators show of it; empty to show nothing.
    pub description: String,
    /// The most requests that can verify one nullifier; 0 means no limit.
    pub max_verifications: u64,
    /// Whether the action accepts proofs of protocol version 3.0.
    pub accept_legacy: bool,
    /// The credentials that count for the action, of those that count for the application; `None`
    /// for all of these.
    pub accepted_identifiers: Option<Vec<String>>,
    /// The lower bound that current proofs must show for the time of the credential's first issue.
    pub genesis_issued_at_min: Option<UnixSeconds>,
    /// Whether the action takes only requests with an integrity bundle.
    pub require_integrity: bool,
    /// The scores of Selfie Check that count for the action.
    pub sybil_scores: ScoreBounds,
    /// The roll of the action's group whose root alone counts; `None` for the group's live roots.
    pub roll: Option<RollName>,
}

/// Bounds of the scores of Selfie Check, both inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreBounds {
    /// The least score; `None` for no bound.
    pub min: Option<u64>,
    /// The greatest score; `None` for no bound.
    pub max: Option<u64>,
}

impl ScoreBounds {
    /// Whether a score is within the bounds.
    pub fn contains(self, score: u64) -> bool {
        self.min.is_none_or(|min| score >= min) && self.max.is_none_or(|max| score <= max)
    }
}

impl fmt::Display for ScoreBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "from {min} to {max}"),
            (Some(min), None) => write!(f, "of {min} or more"),
            (None, Some(max)) => write!(f, "of {max} or less"),
            (None, None) => f.write_str("of any size"),
        }
    }
}

/// An issuer of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Issuer schema id.
    pub id: u64,
    /// The identifiers that a proof of its credentials can have.
    pub identifiers: Vec<String>,
    /// The environments in which its credentials count.
    pub environments: Vec<Environment>,
    /// The key that its credentials are signed with: a public input of current proofs. `None` for a
    /// key that is followed from a chain.
    pub public_key: Option<PublicKey>,
}

/// Relying parties, actions and issuers by their keys.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    relying_parties: HashMap<RelyingPartyId, Arc<RelyingParty>>,
    by_application: HashMap<String, RelyingPartyId>,
    actions: HashMap<ActionKey, Arc<Action>>,
    issuers: HashMap<(u64, Environment), Issuer>,
    groups: GroupNames,
    /// The environments and kinds of proof that have a verification key.
    keys: HashSet<(Environment, ProofKind)>,
}

/// An action of an application, by the hash of its text: texts that stand for the same bytes are
/// the same action. An application that is given another relying-party id keeps its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActionKey {
    /// keccak256 of the application's id.
    pub application: B256,
    /// The environment that the action belongs to.
    pub environment: Environment,
    /// The hash of the action's text.
    pub action: U256,
}

impl ActionKey {
    /// The key of an action's text.
    pub fn new(app_id: &str, environment: Environment, action: &str) -> Self {
        Self { application: keccak256(app_id), environment, action: hash_text(action) }
    }
}

crate::encode_fields!(ActionKey { application, environment, action });

/// Why a request is refused before its proofs are checked, in the order of the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The id in the request's path has neither form of an id.
    #[error(
        "{} is neither a relying-party id (rp_ and 16 hex digits) nor an application id (app_…)",
        super::fields::quote(path)
    )]
    InvalidRelyingPartyId {
        /// The id in the request's path.
        path: String,
    },
    /// No relying party has the id in the request's path, and no application has it.
    #[error(
        "there is no relying party {}; register its application, or use the id it was given",
        super::fields::quote(path)
    )]
    UnknownRelyingParty {
        /// The id in the request's path.
        path: String,
    },
    /// The relying party is not active.
    #[error("relying party {rp_id} is not active")]
    InactiveRelyingParty {
        /// The relying party.
        rp_id: RelyingPartyId,
        /// Id of its application.
        app_id: String,
    },
    /// The application of the relying party is not active.
    #[error("application {app_id} is not active")]
    InactiveApplication {
        /// Id of the application.
        app_id: String,
    },
    /// The application does not accept proofs of the request's environment.
    #[error("application {app_id} accepts {accepted}, not {given}")]
    Environment {
        /// Id of the application.
        app_id: String,
        /// The names of the accepted environments, joined with ` and `.
        accepted: String,
        /// The environment as the request names it.
        given: &'static str,
    },
    /// The configuration has no verification key for the request's proofs.
    #[error("there is no verification key for {kind} proofs in {environment}", kind = .kind.name(), environment = .environment.name())]
    NoVerificationKey {
        /// Id of the application.
        app_id: String,
        /// The environment of the proofs.
        environment: Environment,
        /// The kind of the proofs.
        kind: ProofKind,
    },
    /// The request has current proofs, and the relying party has no OPRF public key.
    #[error("relying party {rp_id} has no OPRF public key, which proofs of protocol version 4.0 need")]
    NoOprfKey {
        /// Id of the application.
        app_id: String,
        /// The relying party.
        rp_id: RelyingPartyId,
    },
    /// The request has current proofs, and the chain has no OPRF public key of the relying party.
    #[error("{source_name} has no OPRF public key of relying party {rp_id}: {}", if *.is_deleted { "it was deleted, for good" } else { "it was not made yet; try again when it was" })]
    NoFollowedOprfKey {
        /// Id of the application.
        app_id: String,
        /// The relying party.
        rp_id: RelyingPartyId,
        /// The contract that the keys are followed from.
        source_name: Arc<str>,
        /// Whether there was a key that was deleted.
        is_deleted: bool,
    },
    /// The request is for an action that is not configured, and the application takes no others.
    #[error(
        "application {app_id} has no action {} in {environment}; use one that is configured, or ask the operator",
        super::fields::quote(action), environment = .environment.name()
    )]
    UnknownAction {
        /// Id of the application.
        app_id: String,
        /// The action's text.
        action: String,
        /// The environment of the proofs.
        environment: Environment,
    },
    /// The request has legacy proofs, and the application or the action does not accept them.
    #[error("{restricted_by} accepts no proofs of protocol version 3.0; ask for one of 4.0")]
    LegacyNotAccepted {
        /// Id of the application.
        app_id: String,
        /// The entry that does not accept them: `application` and its id, or `action` and its text
        /// in quotes.
        restricted_by: String,
    },
}

impl AdmissionError {
    /// The code of the answer (`docs/interfaces/verification-errors.md`, "Errors").
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidRelyingPartyId { .. } => "invalid_request",
            Self::UnknownRelyingParty { .. } => "app_not_migrated",
            Self::InactiveRelyingParty { .. } => "rp_not_active",
            Self::InactiveApplication { .. } => "not_found",
            Self::Environment { .. }
            | Self::NoVerificationKey { .. }
            | Self::NoOprfKey { .. }
            | Self::NoFollowedOprfKey { .. } => "configuration_error",
            Self::UnknownAction { .. } => "invalid_action",
            Self::LegacyNotAccepted { .. } => "legacy_proofs_not_accepted",
        }
    }

    /// The part of the request that is refused; `None` for the relying party as a whole.
    pub fn attribute(&self) -> Option<&'static str> {
        match self {
            Self::InvalidRelyingPartyId { .. } => Some("rp_id"),
            Self::UnknownRelyingParty { .. } | Self::InactiveRelyingParty { .. } | Self::InactiveApplication { .. } => {
                None
            }
            Self::Environment { .. } => Some("environment"),
            Self::NoVerificationKey { .. }
            | Self::NoOprfKey { .. }
            | Self::NoFollowedOprfKey { .. }
            | Self::LegacyNotAccepted { .. } => Some("protocol_version"),
            Self::UnknownAction { .. } => Some("action"),
        }
    }

    /// Id of the application, if there is one.
    pub fn app_id(&self) -> Option<&str> {
        match self {
            Self::InvalidRelyingPartyId { .. } | Self::UnknownRelyingParty { .. } => None,
            Self::InactiveRelyingParty { app_id, .. }
            | Self::InactiveApplication { app_id }
            | Self::Environment { app_id, .. }
            | Self::NoVerificationKey { app_id, .. }
            | Self::NoOprfKey { app_id, .. }
            | Self::NoFollowedOprfKey { app_id, .. }
            | Self::UnknownAction { app_id, .. }
            | Self::LegacyNotAccepted { app_id, .. } => Some(app_id),
        }
    }
}

/// A request whose proofs may be checked. It shares ownership of its directory entries, so that a
/// caller can move it to another thread.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The relying party that the request was sent to.
    pub relying_party: Arc<RelyingParty>,
    /// The environment whose keys, roots and records the request uses.
    pub environment: Environment,
    /// The OPRF public key of the relying party; `None` for legacy proofs, and for current ones
    /// while the caller has not set the followed key.
    pub oprf_public_key: Option<PublicKey>,
    /// The configured action of the request; `None` when its action is not configured, for sessions
    /// and for sign-ins.
    pub action: Option<Arc<Action>>,
}

impl Admitted {
    /// Checks that the signal of each legacy proof is the request's nonce, when the relying party
    /// asks for that. A legacy proof binds its signal and not the nonce: without this check a proof
    /// that somebody else has seen can be sent again beside any signed nonce. Current proofs bind
    /// the nonce.
    ///
    /// # Errors
    /// The first proof with another signal.
    pub fn check_signal(&self, request: &VerificationRequest) -> Result<(), OtherSignal> {
        let (Some(SigningRule { binds_signal: true, .. }), Proofs::Legacy { items, .. }) =
            (self.relying_party.signing, &request.proofs)
        else {
            return Ok(());
        };
        let nonce = request.rp_signature.as_ref().map(|signature| signature.request.nonce);
        let expected = nonce.map(|nonce| hash_to_field(&nonce.to_be_bytes::<32>()));
        match items.iter().position(|item| Some(item.signal_hash) != expected) {
            Some(index) => Err(OtherSignal { index }),
            None => Ok(()),
        }
    }

    /// Checks that a credential counts for the application, and for the action if it is configured,
    /// by one of its names. That of a group counts only where one of the two names it: a group that
    /// is added to a configuration must not make its members persons of every application.
    ///
    /// # Errors
    /// It does not count.
    pub(super) fn check_identifier(&self, names: &[&str], is_of_group: bool) -> Result<(), OtherCredential> {
        let RelyingParty { app_id, accepted_identifiers, .. } = &*self.relying_party;
        let refused = |accepted: &&Vec<String>| !accepted.iter().any(|accepted| names.contains(&accepted.as_str()));
        let other =
            |restricted_by, accepted: &[String]| OtherCredential { restricted_by, accepted: accepted.join(" or ") };
        if let Some(accepted) = accepted_identifiers.as_ref().filter(refused) {
            return Err(other(format!("application {app_id}"), accepted));
        }
        let of_action = self.action.as_deref().and_then(|action| Some((action, action.accepted_identifiers.as_ref()?)));
        match of_action {
            Some((Action { action, .. }, accepted)) if refused(&accepted) => {
                Err(other(format!("action {action:?}"), accepted))
            }
            None if is_of_group && accepted_identifiers.is_none() => Err(OtherCredential {
                restricted_by: format!("application {app_id}"),
                accepted: "public credentials alone".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// The signal of a legacy proof is not the nonce that the relying party signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "signal_hash of responses[{index}] is not that of the signed nonce; ask for proofs whose signal is the nonce, as 0x \
     and 64 lower-case hex digits, and send the hash of that"
)]
pub struct OtherSignal {
    /// Position of the proof in the request.
    pub index: usize,
}

/// A credential does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OtherCredential {
    /// The entry that does not accept it: `application` and its id, or `action` and its text in
    /// quotes.
    pub restricted_by: String,
    /// The identifiers that it accepts, joined with ` or `.
    pub accepted: String,
}

impl Directory {
    /// A directory of these entries. `keys` are the environments and kinds of proof that have a
    /// verification key.
    pub fn new(
        relying_parties: impl IntoIterator<Item = RelyingParty>,
        actions: impl IntoIterator<Item = Action>,
        issuers: impl IntoIterator<Item = Issuer>,
        keys: impl IntoIterator<Item = (Environment, ProofKind)>,
    ) -> Self {
        let mut directory = Self { keys: keys.into_iter().collect(), ..Self::default() };
        for party in relying_parties {
            directory.by_application.insert(party.app_id.clone(), party.rp_id);
            directory.relying_parties.insert(party.rp_id, Arc::new(party));
        }
        for action in actions {
            let key = ActionKey::new(&action.app_id, action.environment, &action.action);
            directory.actions.insert(key, Arc::new(action));
        }
        for issuer in issuers {
            for environment in &issuer.environments {
                directory.issuers.insert((issuer.id, *environment), issuer.clone());
            }
        }
        directory
    }

    /// The same directory with these groups.
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = VerifiedGroup>) -> Self {
        self.groups = GroupNames::new(groups);
        self
    }

    /// The groups that a legacy proof can name.
    pub fn known_groups(&self) -> &KnownGroups {
        self.groups.known()
    }

    /// The group whose members prove with a credential in an environment: by its id in its own
    /// environment, or by the public name that it has there. `None` for a public credential, and
    /// for a group's id in another environment.
    pub fn group_of(&self, environment: Environment, credential: LegacyCredential) -> Option<GroupId> {
        self.groups.group_of(environment, credential)
    }

    /// The names of a group in its environment, which stand for one another: its id, and the public
    /// name that it has there.
    pub fn names_of(&self, group: GroupId) -> impl Iterator<Item = &str> {
        self.groups.names_of(group)
    }

    /// Decides whether the proofs of a request are checked. `path` is the id in the request's path.
    ///
    /// # Errors
    /// The first rule of admission that the request breaks.
    pub fn admit(&self, path: &str, request: &VerificationRequest) -> Result<Admitted, AdmissionError> {
        let Admitted { relying_party, environment, oprf_public_key, .. } = self.admit_sign_in(path, request)?;
        let app_id = || relying_party.app_id.clone();
        let key = |action| ActionKey::new(&relying_party.app_id, environment, action);
        let action = request.proofs.action().and_then(|action| self.actions.get(&key(action))).cloned();
        if let (None, Some(text), true) = (&action, request.proofs.action(), relying_party.only_configured_actions) {
            return Err(AdmissionError::UnknownAction { app_id: app_id(), action: text.to_owned(), environment });
        }
        if matches!(request.proofs, Proofs::Legacy { .. }) {
            let restricted_by = if !relying_party.accept_legacy {
                Some(format!("application {}", relying_party.app_id))
            } else {
                action
                    .as_ref()
                    .filter(|action| !action.accept_legacy)
                    .map(|action| format!("action {:?}", action.action))
            };
            if let Some(restricted_by) = restricted_by {
                return Err(AdmissionError::LegacyNotAccepted { app_id: app_id(), restricted_by });
            }
        }
        Ok(Admitted { relying_party, environment, oprf_public_key, action })
    }

    /// Decides whether the proof of a sign-in is checked. The rules about integrity bundles and
    /// `accept_legacy` are those of the verification endpoint and do not apply here.
    ///
    /// # Errors
    /// The first rule of admission that the request breaks.
    pub fn admit_sign_in(&self, path: &str, request: &VerificationRequest) -> Result<Admitted, AdmissionError> {
        let relying_party = self.relying_party(path)?;
        let rp_id = relying_party.rp_id;
        let app_id = || relying_party.app_id.clone();
        if !relying_party.is_active {
            return Err(AdmissionError::InactiveRelyingParty { rp_id, app_id: app_id() });
        }
        if !relying_party.has_active_application {
            return Err(AdmissionError::InactiveApplication { app_id: app_id() });
        }
        let environment = request.environment.environment();
        if !relying_party.environments.contains(&environment) {
            let accepted: Vec<_> = relying_party.environments.iter().map(|accepted| accepted.name()).collect();
            let (accepted, given) = (accepted.join(" and "), request.environment.name());
            return Err(AdmissionError::Environment { app_id: app_id(), accepted, given });
        }
        let kind = request.proofs.kind();
        if !self.keys.contains(&(environment, kind)) {
            return Err(AdmissionError::NoVerificationKey { app_id: app_id(), environment, kind });
        }
        let oprf_public_key = relying_party.oprf_public_key.filter(|_| kind == ProofKind::Current);
        let is_followed = relying_party.follows_oprf_key_in.contains(&environment);
        if kind == ProofKind::Current && oprf_public_key.is_none() && !is_followed {
            return Err(AdmissionError::NoOprfKey { app_id: app_id(), rp_id });
        }
        Ok(Admitted { relying_party: Arc::clone(relying_party), environment, oprf_public_key, action: None })
    }

    /// The configured action with a key.
    pub fn action(&self, key: &ActionKey) -> Option<&Arc<Action>> {
        self.actions.get(key)
    }

    /// The relying party of an application; `None` when no application has the id.
    pub fn application(&self, app_id: &str) -> Option<&Arc<RelyingParty>> {
        self.by_application.get(app_id).and_then(|rp_id| self.relying_parties.get(rp_id))
    }

    /// The issuer with an id; `None` when no issuer of the environment has it.
    pub fn issuer(&self, id: u64, environment: Environment) -> Option<&Issuer> {
        self.issuers.get(&(id, environment))
    }

    /// The relying party that the id in a path names: its own id, or that of its application.
    ///
    /// # Errors
    /// The id is malformed, or no relying party has it.
    pub fn relying_party(&self, path: &str) -> Result<&Arc<RelyingParty>, AdmissionError> {
        let rp_id = if path.starts_with("app_") {
            self.by_application.get(path).copied()
        } else {
            let malformed = |_| AdmissionError::InvalidRelyingPartyId { path: path.to_owned() };
            Some(path.parse::<RelyingPartyId>().map_err(malformed)?)
        };
        let unknown = || AdmissionError::UnknownRelyingParty { path: path.to_owned() };
        rp_id.and_then(|rp_id| self.relying_parties.get(&rp_id)).ok_or_else(unknown)
    }
}
