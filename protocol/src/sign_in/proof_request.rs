//! Proof requests: what an authenticator gets about a sign-in, and how it says where the request
//! came from.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::response::{ErrorKind, SignInRejection};
use crate::bridge::wire::{is_of_client_kits, is_of_person};
use crate::json::to_printable;
use crate::net::network_text;
use crate::time::UnixSeconds;
use crate::verification::{Environment, ProofKind};

pub use crate::verification::request::{AskedSession, ProofType};
use crate::{U256, encode_enum, encode_fields};

/// The header `typ` of a signed proof request. Tokens have other types, so neither can stand for
/// the other (RFC 8725, section 3.11).
pub const REQUEST_TYPE: &str = "selfsame-request+jwt";

/// The most characters of a header `User-Agent` that are kept.
pub const LONGEST_USER_AGENT: usize = 200;

/// A proof request as an authenticator reads it. The plain
/// and the signed form have these members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInRequest {
    /// Id of the application that the person signs in to.
    pub app_id: String,
    /// Name of the application, for the person.
    pub app_name: String,
    /// Action that the proof has to be for; empty for a legacy proof.
    pub action: String,
    /// Signal of the proof: 32 random bytes as `0x` and 64 hex digits.
    #[schema(
        pattern = "^0x[0-9a-f]{64}$",
        example = "0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"
    )]
    pub signal: String,
    /// Nonce of a current proof.
    #[serde(with = "crate::number")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{1,62}$", example = "0x2a")]
    pub nonce: U256,
    /// Accepted protocol versions of the proof: `3.0` is legacy, `4.0` is current.
    #[schema(min_items = 1, example = json!(["4.0"]))]
    pub protocol_versions: Vec<String>,
    /// Environment that the proof has to be for.
    pub environment: Environment,
    /// Scopes that the person grants with the proof, separated by spaces.
    pub scopes: String,
    /// When the request expires.
    pub expires_at: UnixSeconds,
    /// URL that the answer is posted to.
    pub answer_url: String,
    /// Host that the response goes to, with its port if the redirect URI names one.
    pub redirect_host: String,
    /// What began the sign-in.
    pub initiator: Initiator,
    /// Whether the proof may come from another device than the browser's.
    pub cross_device: CrossDevice,
    /// Type of the current proof; absent for a legacy proof, and for uniqueness that is bound to no
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_type: Option<ProofType>,
    /// With `proof_type`: `create` for uniqueness that is bound to a new session, or the id of the
    /// session that has to be proved; then `action` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "create")]
    pub session_id: Option<String>,
    /// The bound of the credential's first issue that the proof has to show, in Unix seconds;
    /// absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 1780272000)]
    pub genesis_issued_at_min: Option<UnixSeconds>,
    /// The only credential that the proof may be of; absent where each accepted one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "proof_of_human")]
    pub identifier: Option<String>,
}

encode_fields!(SignInRequest {
    app_id,
    app_name,
    action,
    signal,
    nonce,
    protocol_versions,
    environment,
    scopes,
    expires_at,
    answer_url,
    redirect_host,
    initiator,
    cross_device,
    proof_type,
    session_id,
    genesis_issued_at_min,
    identifier,
});

/// What a sign-in of an application asks for: the setting `proof`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SignInProof {
    /// Current proofs that belong to an account: one of uniqueness at the first visit, which is
    /// bound to a session, and then proofs in that session.
    Account,
    /// A legacy proof each time; the subject is its nullifier.
    #[default]
    Legacy,
    /// A current proof of uniqueness each time; the subject is its nullifier.
    Current,
}

encode_enum!(SignInProof { Legacy = 0, Current = 1, Account = 2 } of "a proof of sign-in");

impl SignInProof {
    /// The kind of proof.
    pub fn kind(self) -> ProofKind {
        match self {
            Self::Legacy => ProofKind::Legacy,
            Self::Account | Self::Current => ProofKind::Current,
        }
    }

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl SignInRequest {
    /// Whether a legacy proof is asked for.
    pub fn is_legacy(&self) -> bool {
        self.protocol_versions.iter().any(|version| version == "3.0")
    }
}

/// The claims of the signed form: the request, and who signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedRequest {
    /// The issuer, whose keys are at `{iss}/jwks`.
    pub iss: String,
    /// The request.
    #[serde(flatten)]
    pub request: SignInRequest,
}

/// What the address of a proof request answers: the request in its plain and its signed form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestForms {
    /// The plain form, which any page can imitate.
    #[serde(flatten)]
    pub plain: SignInRequest,
    /// Whether a proof or a refusal was accepted. Every later answer is rejected.
    pub answered: bool,
    /// The signed form: a JWS in the compact form whose `typ` is `selfsame-request+jwt`. Its claims
    /// are the plain form and `iss`.
    #[serde(rename = "request")]
    #[schema(pattern = "^[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+$")]
    pub signed: String,
}

/// Whether a sign-in may be answered from another device than the browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossDevice {
    /// Proofs from any device are accepted.
    #[default]
    Allow,
    /// Only proofs from the browser's own device are accepted.
    Deny,
}

encode_enum!(CrossDevice { Allow = 0, Deny = 1 } of "a rule for other devices");

/// What began a sign-in, for the person who is asked for the proof. It helps the person to
/// recognize a request that was begun elsewhere. A browser can claim any `User-Agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Initiator {
    /// The network that the request came from, in CIDR notation: the first 24 bits of an IPv4
    /// address, the first 48 bits of an IPv6 address. Empty when the address is not known.
    pub network: String,
    /// The request's `User-Agent`, at most 200 characters of printable ASCII.
    /// Empty when there was none.
    pub user_agent: String,
    /// When the request arrived.
    pub time: UnixSeconds,
}

encode_fields!(Initiator { network, user_agent, time });

impl Initiator {
    /// Describes a request that came from `source`, with this `User-Agent`, at `time`.
    pub fn new(source: Option<IpAddr>, user_agent: Option<&str>, time: UnixSeconds) -> Self {
        let shown = |character: char| if matches!(character, ' '..='~') { character } else { '?' };
        let user_agent = user_agent.unwrap_or_default().chars().take(LONGEST_USER_AGENT).map(shown).collect();
        Self { network: source.map(network_text).unwrap_or_default(), user_agent, time }
    }
}

/// How the authenticator got a proof request, and what ties its answer to the browser that began
/// the sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// It opened a link on the device where the browser is, and opens the return URL there.
    SameDevice,
    /// It scanned a code, or does not know.
    CrossDevice,
    /// It was opened from the short page on another device, and shows digits that the person types
    /// where the sign-in began.
    WithDigits,
}

impl AnswerMode {
    /// Reads the members `mode` and `digits` of an answer; an authenticator that sends neither
    /// counts as another device.
    ///
    /// # Errors
    /// `mode` is neither `"same_device"` nor `"cross_device"`, `digits` is no truth value, or an
    /// answer from the same device asks for digits.
    pub fn read(mode: Option<&Value>, digits: Option<&Value>) -> Result<Self, SignInRejection> {
        let wrong = |attribute, detail| Err(SignInRejection::of(attribute, ErrorKind::InvalidRequest, detail));
        let is_same = match mode.map(Value::as_str) {
            None | Some(Some("cross_device")) => false,
            Some(Some("same_device")) => true,
            Some(_) => return wrong("mode", "mode must be 'same_device' or 'cross_device'"),
        };
        match (is_same, digits.map(Value::as_bool)) {
            (_, Some(None)) => wrong("digits", "digits must be true or false"),
            (true, Some(Some(true))) => wrong(
                "digits",
                "digits are for an answer from another device; leave them out, or send mode 'cross_device'",
            ),
            (true, _) => Ok(Self::SameDevice),
            (false, Some(Some(true))) => Ok(Self::WithDigits),
            (false, _) => Ok(Self::CrossDevice),
        }
    }
}

// An answer without a proof: the person refused, or the wallet could not make one.

/// A wallet's word that there will be no proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProof {
    /// The person refused.
    Refused,
    /// The wallet gives none.
    Failed {
        /// Why.
        failure: WalletFailure,
        /// The code that it gave.
        code: String,
    },
}

impl NoProof {
    /// What an error code of a wallet says, in the words of any client kit, or of an authorization
    /// response (RFC 6749, section 4.1.2.1).
    pub fn of_code(code: &str) -> Self {
        match code == "access_denied" || is_of_person(code) {
            true => Self::Refused,
            false => Self::Failed { failure: WalletFailure::of_code(code), code: code.to_owned() },
        }
    }

    /// Reads the members `error_code` and `error` of an answer, of which wallets send one. `None`
    /// when the answer has neither.
    ///
    /// # Errors
    /// It is not a code that is known.
    pub fn read(answer: &Map<String, Value>) -> Result<Option<Self>, SignInRejection> {
        let named = |name: &'static str| Some((name, answer.get(name).filter(|code| !code.is_null())?));
        let Some((name, code)) = ["error_code", "error"].into_iter().find_map(named) else { return Ok(None) };
        let is_known = |code: &&str| {
            *code == "access_denied" || is_of_client_kits(code) || WalletFailure::of_code(code) != WalletFailure::Broken
        };
        match code.as_str().filter(is_known) {
            Some(code) => Ok(Some(Self::of_code(code))),
            None => {
                let detail = format!(
                    "{name} must be access_denied when the person refuses, or a code of the client kits, such as \
                     nullifier_replayed, credential_unavailable or generic_error"
                );
                Err(SignInRejection::of(name, ErrorKind::InvalidRequest, detail))
            }
        }
    }

    /// Why there is no proof, for the audit trail; `None` when the person refused.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Refused => None,
            Self::Failed { failure: WalletFailure::Broken, code } => {
                Some(format!("{} ({})", WalletFailure::Broken.name(), to_printable(code)))
            }
            Self::Failed { failure, .. } => Some(failure.name().to_owned()),
        }
    }
}

/// Why a wallet gave no proof. The codes are those of the public client kits, in each spelling that
/// wallets and the libraries behind them use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalletFailure {
    /// The wallet has given the proof of this person for this application before, and gives none
    /// again for a time.
    NullifierReplayed,
    /// The wallet cannot make a current proof.
    NoCurrentProof,
    /// The wallet cannot make a legacy proof.
    NoLegacyProof,
    /// The wallet has no credential that the application accepts.
    CredentialUnavailable,
    /// The wallet gave a proof of uniqueness that is bound to no session, where one was asked for
    /// that is: it does not give it again for a time, and no account could be made with it.
    UnboundProof,
    /// The wallet gave a proof of uniqueness that was to find an account, and the person has none
    /// here. No account was made, because the person may have one of legacy proofs.
    NoAccount,
    /// The wallet gave a proof of uniqueness that was to be attached to an account, and it belongs
    /// to another account.
    OtherAccount,
    /// The wallet gave a proof of uniqueness that was to be attached to an account, which has
    /// another one for good.
    AttachedBefore,
    /// Two persons' current proofs were given for the account, and the operator has not chosen yet.
    Disputed,
    /// Anything else: the wallet, or the nodes behind it, failed.
    Broken,
}

encode_enum!(WalletFailure {
    NullifierReplayed = 0,
    NoCurrentProof = 1,
    NoLegacyProof = 2,
    CredentialUnavailable = 3,
    Broken = 4,
    UnboundProof = 5,
    NoAccount = 6,
    OtherAccount = 7,
    Disputed = 8,
    AttachedBefore = 9,
} of "a failure of a wallet");

impl WalletFailure {
    /// All failures.
    pub const ALL: [Self; 10] = [
        Self::NullifierReplayed,
        Self::NoCurrentProof,
        Self::NoLegacyProof,
        Self::CredentialUnavailable,
        Self::UnboundProof,
        Self::NoAccount,
        Self::OtherAccount,
        Self::AttachedBefore,
        Self::Disputed,
        Self::Broken,
    ];

    /// What an error code of a wallet says.
    pub fn of_code(code: &str) -> Self {
        match code {
            "nullifier_replayed" | "nullifier_replay" => Self::NullifierReplayed,
            "world_id_4_not_available" => Self::NoCurrentProof,
            "world_id_3_not_available" => Self::NoLegacyProof,
            "credential_unavailable" | "unfulfillable_request" => Self::CredentialUnavailable,
            _ => Self::Broken,
        }
    }

    /// The name in the audit trail.
    pub fn name(self) -> &'static str {
        match self {
            Self::NullifierReplayed => "nullifier_replayed",
            Self::NoCurrentProof => "current_proof_not_available",
            Self::NoLegacyProof => "legacy_proof_not_available",
            Self::CredentialUnavailable => "credential_unavailable",
            Self::UnboundProof => "proof_not_bound_to_a_session",
            Self::NoAccount => "no_account",
            Self::OtherAccount => "proof_of_another_account",
            Self::AttachedBefore => "another_proof_attached_before",
            Self::Disputed => "account_disputed",
            Self::Broken => "something_broke",
        }
    }

    /// The error of the authorization response (OpenID Connect Core, section 3.1.2.6, and RFC 6749,
    /// section 4.1.2.1): what the person can mend needs the person, and what only time can mend is
    /// not available for the moment. It is never `access_denied`, because the person refused
    /// nothing.
    pub fn error(self) -> &'static str {
        match self {
            Self::Broken => "temporarily_unavailable",
            _ => "interaction_required",
        }
    }

    /// The description of that error, for the people who run the application.
    pub fn description(self) -> &'static str {
        match self {
            Self::NullifierReplayed => {
                "the authenticator gave this person's proof before and gives none again for a time (nullifier_replayed)"
            }
            Self::NoCurrentProof => "the authenticator cannot make a current proof (world_id_4_not_available)",
            Self::NoLegacyProof => "the authenticator cannot make a legacy proof (world_id_3_not_available)",
            Self::CredentialUnavailable => {
                "the authenticator has no credential that is accepted (credential_unavailable)"
            }
            Self::UnboundProof => {
                "the authenticator gave a proof that is bound to no session, and gives none again for a time"
            }
            Self::NoAccount => "no account was found, and an older credential makes none",
            Self::OtherAccount => "the current proof belongs to another account than the legacy proof",
            Self::AttachedBefore => {
                "another current proof belongs to the account for good; only the operator can drop it"
            }
            Self::Disputed => "two persons' current proofs were given for the account; the operator has to choose",
            Self::Broken => "the authenticator failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_initiator_shows_a_network_and_bounded_printable_text() {
        let of = |source: &str, user_agent: &str| {
            let source = source.parse().expect("an address");
            let Initiator { network, user_agent, .. } = Initiator::new(Some(source), Some(user_agent), UnixSeconds(1));
            (network, user_agent)
        };
        let pair = |network: &str, user_agent: &str| (network.to_owned(), user_agent.to_owned());
        assert_eq!(of("192.0.2.77", "Browser/1 (X; Y)"), pair("192.0.2.0/24", "Browser/1 (X; Y)"));
        assert_eq!(of("::ffff:192.0.2.77", ""), pair("192.0.2.0/24", ""));
        assert_eq!(of("2001:db8:1:2:3::4", "a\u{1b}[2Jb\u{e9}"), pair("2001:db8:1::/48", "a?[2Jb?"));
        assert_eq!(of("192.0.2.77", &"w".repeat(500)).1.len(), LONGEST_USER_AGENT);
        assert_eq!(Initiator::new(None, None, UnixSeconds(1)).network, "");
    }

    #[test]
    fn the_two_forms_of_a_request_differ_by_their_own_members_only() {
        let plain = SignInRequest {
            app_id: "app_a".to_owned(),
            app_name: "An application".to_owned(),
            action: String::new(),
            signal: "0x01".to_owned(),
            nonce: U256::from(255),
            protocol_versions: vec!["3.0".to_owned()],
            environment: Environment::Staging,
            scopes: "openid".to_owned(),
            expires_at: UnixSeconds(7),
            answer_url: "https://id.example/proof".to_owned(),
            redirect_host: "app.example".to_owned(),
            initiator: Initiator::default(),
            cross_device: CrossDevice::Deny,
            proof_type: None,
            session_id: None,
            genesis_issued_at_min: None,
            identifier: None,
        };
        let members = json!({
            "app_id": "app_a", "app_name": "An application", "action": "", "signal": "0x01", "nonce": "0xff",
            "protocol_versions": ["3.0"], "environment": "staging", "scopes": "openid", "expires_at": 7,
            "answer_url": "https://id.example/proof", "redirect_host": "app.example",
            "initiator": {"network": "", "user_agent": "", "time": 0}, "cross_device": "deny",
        });
        let with = |more: Value| {
            let mut members = members.clone();
            members.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            members
        };
        let signed = SignedRequest { iss: "https://id.example".to_owned(), request: plain.clone() };
        assert_eq!(json!(signed), with(json!({"iss": "https://id.example"})));
        let forms = RequestForms { plain: plain.clone(), answered: true, signed: "a.b.c".to_owned() };
        assert_eq!(json!(forms), with(json!({"answered": true, "request": "a.b.c"})));
        assert_eq!(serde_json::from_value::<RequestForms>(json!(forms)).expect("the same members"), forms);
        assert!(plain.is_legacy());
    }

    #[test]
    fn an_answer_without_a_mode_comes_from_another_device() {
        use AnswerMode::{CrossDevice, SameDevice, WithDigits};

        let (same, cross) = (json!("same_device"), json!("cross_device"));
        #[rustfmt::skip]
        let table = [
            (None, None, Ok(CrossDevice)),
            (Some(&cross), None, Ok(CrossDevice)),
            (Some(&same), None, Ok(SameDevice)),
            (None, Some(json!(true)), Ok(WithDigits)),
            (Some(&cross), Some(json!(true)), Ok(WithDigits)),
            (Some(&cross), Some(json!(false)), Ok(CrossDevice)),
            (Some(&same), Some(json!(false)), Ok(SameDevice)),
            (Some(&same), Some(json!(true)), Err("digits")),
            (None, Some(json!("true")), Err("digits")),
            (None, Some(json!(null)), Err("digits")),
            (Some(&json!("SAME_DEVICE")), None, Err("mode")),
            (Some(&json!(null)), None, Err("mode")),
            (Some(&json!(1)), None, Err("mode")),
        ];
        for (mode, digits, expected) in table {
            let read = AnswerMode::read(mode, digits.as_ref());
            let read = read.map_err(|rejection| rejection.attribute.unwrap_or_default());
            assert_eq!(read, expected, "{mode:?} {digits:?}");
        }
    }

    mod wallet_failure {
        use super::super::*;

        #[test]
        fn each_failure_has_its_own_words_and_is_no_refusal() {
            #[rustfmt::skip]
        let table = [
            ("nullifier_replayed", WalletFailure::NullifierReplayed, "interaction_required"),
            ("nullifier_replay", WalletFailure::NullifierReplayed, "interaction_required"),
            ("world_id_4_not_available", WalletFailure::NoCurrentProof, "interaction_required"),
            ("world_id_3_not_available", WalletFailure::NoLegacyProof, "interaction_required"),
            ("credential_unavailable", WalletFailure::CredentialUnavailable, "interaction_required"),
            ("unfulfillable_request", WalletFailure::CredentialUnavailable, "interaction_required"),
            ("invalid_rp_signature", WalletFailure::Broken, "temporarily_unavailable"),
            ("generic_error", WalletFailure::Broken, "temporarily_unavailable"),
            ("", WalletFailure::Broken, "temporarily_unavailable"),
        ];
            for (code, failure, error) in table {
                assert_eq!(WalletFailure::of_code(code), failure, "{code}");
                assert_eq!(failure.error(), error, "{code}");
            }
            let names: std::collections::HashSet<_> = WalletFailure::ALL.iter().map(|failure| failure.name()).collect();
            let descriptions: std::collections::HashSet<_> =
                WalletFailure::ALL.iter().map(|failure| failure.description()).collect();
            assert_eq!((names.len(), descriptions.len()), (WalletFailure::ALL.len(), WalletFailure::ALL.len()));
        }
    }
}
