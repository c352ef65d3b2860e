//! What an authenticator may show of who asks for a proof: the request and the answer of
//! `POST /api/v4/proof-context/{id}`, and the answers about relying parties and applications.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::Fields;
use super::identity::Environment;
use super::request::{RequestedEnvironment, ValidationError};

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

/// Whether an authenticator may show an application as verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AppStatusResponse {
    /// Whether the operator of the service registered the application and serves it.
    pub verified: bool,
}
