//! `GET /simulator`: what a simulated authenticator needs to make proofs. The simulator's secrets
//! are public.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::operator::{Coordinates, SimulatedIssuer, SimulatedRelyingParty, Simulation};
use selfsame_protocol::verification::Environment;

use super::error::OperatorError;
use super::state::Operator;
use crate::config::{self, Config};
use crate::http::{Request, Response, json};

/// The simulation of a seed: the issuers of staging and all relying parties.
pub fn simulation(config: &Config, seed: String) -> Simulation {
    let is_staging = |issuer: &&config::Issuer| issuer.environments().contains(&Environment::Staging);
    let issuer = |issuer: &config::Issuer| SimulatedIssuer {
        id: issuer.id,
        identifiers: issuer.identifiers().into_iter().map(str::to_owned).collect(),
        public_key: Coordinates::from(&issuer.public_key),
    };
    let relying_party = |app: &config::App| {
        let entry = config.relying_parties.iter().find(|party| party.app_id == app.id);
        SimulatedRelyingParty {
            app_id: app.id.clone(),
            rp_id: config.relying_party_id(&app.id),
            oprf_public_key: entry.and_then(|party| party.oprf_public_key.as_ref()).map(Coordinates::from),
        }
    };
    Simulation {
        seed,
        issuers: config.issuers.iter().filter(is_staging).map(issuer).collect(),
        relying_parties: config.apps.iter().map(relying_party).collect(),
    }
}

/// The simulation; 404 when no verification key is the simulator's.
pub async fn simulator(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let simulation = operator.simulation.load_full().ok_or(OperatorError::NoSimulator)?;
    Ok(json(StatusCode::OK, &*simulation))
}
