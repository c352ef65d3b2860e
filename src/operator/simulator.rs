//! `GET /simulator`: what a simulated authenticator needs to make proofs; the simulator's secrets
//! are public. `POST /simulator/roots`: trusts the root of a development wallet's own tree.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::number;
use selfsame_protocol::operator::{
    Coordinates, ListedRoot, SimulatedIssuer, SimulatedRelyingParty, SimulatedRoot, Simulation,
};
use selfsame_protocol::verification::roots::{RootKey, RootTrust, TrustedRoot};
use selfsame_protocol::verification::{Environment, ProofKind};

use super::error::OperatorError;
use super::roots;
use super::state::Operator;
use crate::config::{self, Config};
use crate::http::{Request, Response, json};

/// The simulation of a seed: the issuers of staging with a configured key, and all relying parties.
pub fn simulation(config: &Config, seed: String) -> Simulation {
    let is_staging = |issuer: &&config::Issuer| issuer.environments().contains(&Environment::Staging);
    let issuer = |issuer: &config::Issuer| {
        Some(SimulatedIssuer {
            id: issuer.id,
            identifiers: issuer.identifiers().into_iter().map(str::to_owned).collect(),
            public_key: Coordinates::from(issuer.public_key.as_ref()?),
        })
    };
    let relying_party = |app: &config::App| {
        let entry = config.relying_parties.iter().find(|party| party.app_id == app.id);
        SimulatedRelyingParty {
            app_id: app.id.clone(),
            rp_id: config.relying_party_id(&app.id),
            oprf_public_key: entry.and_then(|party| party.oprf_public_key.as_ref()).map(Coordinates::from),
            signing_key: entry.and_then(|party| party.signing_key).unwrap_or_default(),
        }
    };
    Simulation {
        seed,
        issuers: config.issuers.iter().filter(is_staging).filter_map(issuer).collect(),
        relying_parties: config.apps.iter().map(relying_party).collect(),
    }
}

/// What a simulated authenticator needs
///
/// The simulation; 404 when no verification key is the simulator's.
#[utoipa::path(
    get, path = "/simulator", tag = "operator", operation_id = "simulator",
    responses(
        (status = 200, description = "The seed and the public keys", body = Simulation),
        (status = 404, description = "No verification key is the simulator's: `not_found`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn simulator(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let simulation = operator.simulation.load_full().ok_or(OperatorError::NoSimulator)?;
    Ok(json(StatusCode::OK, &*simulation))
}

/// Trust a development wallet's tree
///
/// Trusts the root of a development wallet's own identity tree, in a daemon that runs with `--dev`.
/// Elsewhere that wallet would be a person of the credential for ever.
#[utoipa::path(
    post, path = "/simulator/roots", tag = "operator", operation_id = "trust_simulated_root", security(("operatorToken" = [])),
    request_body = SimulatedRoot,
    responses(
        (status = 200, description = "The root", body = ListedRoot),
        (status = 400, description = "The body is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "The daemon runs without `--dev`, or is called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn trust_root(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(roots::BODY_LIMIT).await?;
    let SimulatedRoot { root, environment, identifier } = from_object(&body)?;
    if !operator.is_development {
        return Err(OperatorError::NotDevelopment { root: number::canonical(root) });
    }
    let time = operator.clock.unix_seconds();
    let key = RootKey { environment, kind: ProofKind::Legacy, root };
    let trusted = TrustedRoot { key, trust: RootTrust { time, identifiers: vec![identifier] } };
    roots::trust(&operator, request.audit(), &trusted).await?;
    Ok(json(StatusCode::OK, &roots::to_listed_root(&trusted)))
}
