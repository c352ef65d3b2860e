//! The verification interface: checks proofs for relying parties.
//!
//! | module | what it has |
//! |---|---|
//! | this one | the routes and their description; who asks for a verification, and is held to a limit |
//! | [`endpoints`] | verifications, of this version and of version 2; who asks for a proof; how relying parties and applications stand |
//! | [`error`] | the errors, as status and body |
//! | [`schema`] | the bodies of requests, as the description has them |

mod endpoints;
mod error;
mod schema;

use std::net::IpAddr;
use std::sync::Arc;

use hyper::Method;
use selfsame_actors::{Service, SignInHandle, TooManyRequests, VerificationHandle};
use selfsame_protocol::json::from_object;
use selfsame_protocol::verification::rp_signature::RpSignature;
use serde_json::Value;
use utoipa::{Modify, OpenApi};

use crate::http::{Authorization, Cors, Request, Router, Routes, challenge};
use crate::interface::Interface;
use crate::openapi;
use error::VerifyError;

/// The routes of the verification interface.
pub fn routes(service: &Service, logo_url: LogoUrl, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    let endpoint = Endpoint { verification: service.verification(), guesses: service.sign_in(), logo_url };
    Router::<Endpoint, VerifyError>::new(Interface::Verification.name(), Arc::new(endpoint))
        .cors(cors)
        // For authenticators that are web pages: it takes no secret, and what it says is public.
        .open_to_all(&["/api/v4/proof-context/{id}"])
        .reserve(&["/health"])
        .route(Method::POST, "/api/v4/verify/{rp_id}", endpoints::verify)
        .audited("proofs_verified")
        .route(Method::POST, "/api/v2/verify/{app_id}", endpoints::verify_version_2)
        .audited("proofs_verified")
        .route(Method::POST, "/api/v4/proof-context/{id}", endpoints::proof_context)
        .route(Method::GET, "/api/v4/rp-status/{rp_id}", endpoints::rp_status)
        .route(Method::GET, "/api/v4/app-status/{id}", endpoints::app_status)
        .route(Method::GET, "/api/v4/attestation-audience/{id}", endpoints::attestation_audience)
        .route(Method::GET, "/health", |_, _| openapi::health())
        .route(Method::GET, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The interface's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Proof verification",
        version = "4.0.0",
        description = "Checks proofs of personhood for relying parties: legacy proofs (protocol version 3.0), uniqueness proofs \
            and session proofs (4.0). Errors say in `code` what is wrong, in `attribute` where, and in `detail` what would be right."
    ),
    paths(
        endpoints::verify, endpoints::verify_version_2, endpoints::proof_context, endpoints::rp_status, endpoints::app_status,
        endpoints::attestation_audience, openapi::health, openapi::answer
    ),
    modifiers(&Security, &Shared)
)]
pub struct Description;

/// Describes how applications authenticate.
struct Security;

impl Modify for Security {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_client_credentials(description);
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_errors::<VerifyError>(description, "VerificationErrorBody", openapi::NO_ERROR_PAGES);
    }
}

// What the handlers of the verification interface share.

/// The URL of the logo of the application with an id; `None` when it has none.
pub type LogoUrl = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The checks, as the interface calls them.
pub(crate) struct Endpoint {
    /// Admits requests, checks their proofs and records their nullifiers.
    pub verification: VerificationHandle,
    /// Counts wrong secrets of applications, as sign-in counts them.
    pub guesses: SignInHandle,
    /// The logos that authenticators may show.
    pub logo_url: LogoUrl,
}

// Who asks for a verification: an application that shows its secret by HTTP Basic or signs its
// request, otherwise a source address.
//
// The caller's limit is charged one proof before the body is read, so that what cannot be read is
// counted too, and the other proofs of the request after that.

/// The longest body of a request, in bytes.
pub const BODY_LIMIT: usize = 256 * 1024;

/// The longest body that is read from a source at its limit, in bytes: the request may be signed by
/// an application, and a request of 16 proofs has a fifth of this.
const SIGNED_BODY_LIMIT: usize = 64 * 1024;

/// Who is held to the limit of a request, of which one proof is charged.
pub(super) enum Caller {
    /// An application that has shown its secret.
    Application {
        /// The application's id.
        app_id: String,
    },
    /// An address that has shown no credentials.
    Source {
        /// The address.
        source: IpAddr,
        /// Set when the source is at its limit and the request counts only if it is signed.
        at_limit: Option<TooManyRequests>,
    },
}

impl Caller {
    /// Reads who asks about the relying party that the path names as `id`, and charges one proof.
    ///
    /// # Errors
    /// The credentials are wrong, which counts as guessing; they are those of another application;
    /// or the caller is at its limit.
    pub fn identify(endpoint: &Endpoint, request: &Request, id: &str) -> Result<Self, VerifyError> {
        let source = request.source();
        let credentials = match request.authorization(challenge::CLIENT)? {
            Some(Authorization::Basic(credentials)) => credentials,
            Some(Authorization::Bearer(_) | Authorization::Signed(_) | Authorization::Other) | None => {
                return Ok(Self::Source { source, at_limit: charge_source(endpoint, source, id)? });
            }
        };
        let known = credentials.and_then(|given| endpoint.verification.authenticate(&given.id, &given.secrets));
        let Some(party) = known else {
            return Err(match endpoint.guesses.charge_source(source) {
                Ok(()) => VerifyError::Unauthenticated,
                Err(too_many) => too_many.into(),
            });
        };
        request.audit().client(&party.app_id);
        if let Ok(named) = endpoint.verification.relying_party(id)
            && named.app_id != party.app_id
        {
            let (app_id, named) = (party.app_id.clone(), id.to_owned());
            return Err(VerifyError::OtherApplication { app_id, named });
        }
        endpoint.verification.charge_application(&party.app_id, 1)?;
        Ok(Self::Application { app_id: party.app_id.clone() })
    }

    /// Reads the body of the request.
    ///
    /// # Errors
    /// The body is not what `read` reads; from a source at its limit, that it is.
    pub async fn read<T, E: Into<VerifyError>>(
        &self,
        request: &mut Request,
        read: impl FnOnce(&Value) -> Result<T, E>,
    ) -> Result<T, VerifyError> {
        let at_limit = if let Self::Source { at_limit, .. } = self { *at_limit } else { None };
        let limit = if at_limit.is_some() { SIGNED_BODY_LIMIT } else { BODY_LIMIT };
        let found = match request.read_json(limit).await {
            // A parsed JSON tree can take about 50 times the memory of its text, so it is dropped
            // before the request waits for the verifier.
            Ok(body) => {
                from_object::<Value>(&body).map_err(VerifyError::from).and_then(|tree| read(&tree).map_err(E::into))
            }
            Err(rejection) => Err(rejection.into()),
        };
        found.map_err(|error| at_limit.map_or(error, VerifyError::from))
    }

    /// Charges the proofs of a request about the relying party `id` after the first one. A request
    /// that its application has signed counts for the application.
    ///
    /// # Errors
    /// The caller is at its limit. A refused request does not count: otherwise a client that tries
    /// again when `Retry-After` says could find its own refused attempts in the way, and be refused
    /// for ever.
    pub async fn charge(
        self,
        endpoint: &Endpoint,
        id: &str,
        signature: Option<RpSignature>,
        proofs: usize,
    ) -> Result<(), TooManyRequests> {
        let verification = &endpoint.verification;
        let further = proofs.saturating_sub(1);
        let (source, at_limit) = match self {
            Self::Application { app_id } => {
                return verification
                    .charge_application(&app_id, further)
                    .inspect_err(|_| verification.refund_application(&app_id));
            }
            Self::Source { source, at_limit } => (source, at_limit),
        };
        if let Some(signature) = signature
            && verification.limits_sources()
            && let Ok(party) = verification.relying_party(id)
            && verification.charge_signer(&party, signature, proofs).await
        {
            if at_limit.is_none() {
                verification.refund_source(source);
            }
            return Ok(());
        }
        match at_limit {
            Some(too_many) => Err(too_many),
            None => verification.charge_source(source, further).inspect_err(|_| verification.refund_source(source)),
        }
    }
}

/// Charges one proof of a source. At its limit the request is still read when the relying party
/// that it names signs its requests.
fn charge_source(endpoint: &Endpoint, source: IpAddr, id: &str) -> Result<Option<TooManyRequests>, TooManyRequests> {
    let Err(too_many) = endpoint.verification.charge_source(source, 1) else { return Ok(None) };
    match endpoint.verification.relying_party(id) {
        Ok(party) if party.signing.is_some() => Ok(Some(too_many)),
        _ => Err(too_many),
    }
}
