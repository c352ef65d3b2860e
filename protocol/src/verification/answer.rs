//! The bodies of answers, and what an authenticator may show of who asks for a proof.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::Fields;
use super::identity::Environment;
use super::items::ItemError;
use super::request::{RequestedEnvironment, ValidationError};
use crate::ids::Nullifier;
use crate::number::AddressText;

/// The result of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ItemResult {
    /// Identifier of the entry that this result is for.
    #[schema(example = "orb")]
    pub identifier: String,
    /// Whether the proof verified.
    pub success: bool,
    /// The nullifier, when the proof verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nullifier: Option<Nullifier>,
    /// The session, when the proof of one, or one that is bound to it, verified.
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Code of the failure, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Text of the failure, for people: what is wrong and what would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The field of the request that is wrong, when it is not one of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "environment")]
    pub attribute: Option<&'static str>,
}

impl ItemResult {
    /// The result of a proof that verified.
    pub fn verified(identifier: String, nullifier: Nullifier, session_id: Option<String>) -> Self {
        let nullifier = Some(nullifier);
        Self { identifier, success: true, nullifier, session_id, code: None, detail: None, attribute: None }
    }

    /// The result of a proof that failed.
    pub fn failed(identifier: String, failure: &ItemError) -> Self {
        let (code, detail, attribute) = (Some(failure.code().name()), Some(failure.to_string()), failure.attribute());
        Self { identifier, success: false, nullifier: None, session_id: None, code, detail, attribute }
    }
}

/// The answer when at least one proof verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerificationResponse {
    /// Always true.
    pub success: bool,
    /// The protocol version of the request's proofs: `3.0` or `4.0`.
    #[schema(example = "4.0")]
    pub protocol_version: &'static str,
    /// The request's session, for session proofs and for proofs that are bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The request's action, unless its proofs are session proofs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The nullifier of the first proof that verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nullifier: Option<Nullifier>,
    /// When that nullifier was first verified (ISO 8601).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The request's environment.
    #[schema(example = "production")]
    pub environment: &'static str,
    /// `verified` for an integrity bundle that holds, `not_checked` where the environment has no
    /// keys; absent for a request without a bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity: Option<&'static str>,
    /// One result for each proof, in the request's order.
    pub results: Vec<ItemResult>,
    /// Summary of the answer, for people.
    pub message: &'static str,
}

/// Message of [`VerificationResponse`]: the proof verified, and its nullifiers are new.
pub const VERIFIED: &str = "Proof verified successfully";
/// The proof verified, and at least one verified nullifier was verified before.
pub const VERIFIED_AGAIN: &str = "Proof verified successfully (nullifier reuse)";
/// A session proof verified.
pub const SESSION_VERIFIED: &str = "Session proof verified successfully";

/// The answer of the interface before `protocol_version`, when its proof verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerificationResponse2 {
    /// In how many requests the nullifier was verified, with this one.
    pub uses: u64,
    /// Always true.
    pub success: bool,
    /// The request's action.
    pub action: String,
    /// In how many requests the nullifier may be verified; 0 for any number.
    pub max_uses: u64,
    /// The nullifier.
    pub nullifier_hash: Nullifier,
    /// When it was first verified (ISO 8601).
    pub created_at: String,
    /// The credential that the proof is for.
    #[schema(example = "orb")]
    pub verification_level: String,
    /// Summary of the answer, for people.
    pub message: &'static str,
}

/// The answer when no proof verified, or when the request was refused before its proofs were
/// checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerificationErrorBody {
    /// Always false.
    pub success: bool,
    /// Code of the error, for programs.
    #[schema(example = "all_verifications_failed")]
    pub code: &'static str,
    /// Text of the error, for people: what is wrong and what would be right.
    pub detail: String,
    /// Path of the field that is wrong, or null.
    pub attribute: Option<String>,
    /// The application, when the request's relying party is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// The result of each proof, when all of them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<ItemResult>>,
}

// What an authenticator may show of who asks for a proof: the request and the answer of
// `POST /api/v4/proof-context/{id}`, and the answers about relying parties and applications.

/// What the authenticator was asked to prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRequest {
    /// The action's text; `None` for sessions.
    pub action: Option<String>,
    /// The environment of the proof; production when the body names none.
    pub environment: Environment,
}

impl ContextRequest {
    /// Reads a request from its parsed body.
    ///
    /// # Errors
    /// The first field that is malformed.
    pub fn read(body: &Value) -> Result<Self, ValidationError> {
        let body = Fields::of_body(body)?;
        let action = body.bounded_text("action")?.filter(|action| !action.is_empty());
        let environment = body.environment().map(RequestedEnvironment::environment)?;
        Ok(Self { action: action.map(str::to_owned), environment })
    }
}

/// Who asks for a proof, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextResponse {
    /// Id of the application.
    pub app_id: String,
    /// Its relying party.
    #[schema(example = "rp_6765160973bf7042")]
    pub rp_id: String,
    /// The application's name, for people.
    pub name: String,
    /// Whether the operator of the service registered the application, its name and its URLs:
    /// always true. It says nothing of an action that has no description.
    pub is_verified: bool,
    /// URL of the application's logo; empty when it has none.
    pub verified_app_logo: String,
    /// The same: there are no logos that the operator did not register.
    pub unverified_app_logo: String,
    /// URL of a page of the application; empty when it has none.
    pub integration_url: String,
    /// The address of the key that the application's servers sign requests for proofs with; absent
    /// when the operator registered none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AddressText>)]
    pub signing_key: Option<String>,
    /// Whether all requests of the application are signed, as verification requires of it. Absent
    /// when it is not so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub require_signed_requests: bool,
    /// The action of the request; absent when it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<ContextAction>,
}

/// An action of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextAction {
    /// Its text.
    pub action: String,
    /// The description of the operator's configuration; empty without one.
    pub description: String,
    /// The environment that was asked about: `production` or `staging`.
    pub environment: &'static str,
}

/// How a relying party stands in both environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PartyStatusResponse {
    /// `registered`, `deactivated`, or `pending` when it is not served there yet.
    #[schema(example = "registered")]
    pub production_status: &'static str,
    /// The same for staging; null when its application accepts no proofs of staging.
    pub staging_status: Option<&'static str>,
}

/// How an application stands, for an attestation issuer that is asked for a token for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttestationAudienceResponse {
    /// Id of the application.
    pub app_id: String,
    /// Its relying party.
    #[schema(example = "rp_6765160973bf7042")]
    pub rp_id: String,
    /// `registered`, `deactivated`, or `pending` when it is not served there yet.
    #[schema(example = "registered")]
    pub production_registration_status: &'static str,
    /// The same for staging; null when the application accepts no proofs of staging.
    pub staging_registration_status: Option<&'static str>,
    /// Whether the operator of the service registered the application and serves it.
    pub verified: bool,
}

/// Whether an authenticator may show an application as verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AppStatusResponse {
    /// Whether the operator of the service registered the application and serves it.
    pub verified: bool,
}
