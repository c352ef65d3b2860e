//! `GET /simulator`: what a simulated authenticator needs to make proofs. The simulator's secrets are public.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::number;
use serde::Serialize;

use super::Operator;
use super::error::OperatorError;
use crate::config::{self, Config};
use crate::http::{Request, Response, json};

/// The simulator's seed and the public keys that its proofs are about.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    seed: String,
    issuers: Vec<Issuer>,
    relying_parties: Vec<RelyingParty>,
}

#[derive(Clone, Debug, Serialize)]
struct Issuer {
    id: u64,
    identifiers: Vec<String>,
    public_key: PublicKey,
}

#[derive(Clone, Debug, Serialize)]
struct RelyingParty {
    app_id: String,
    rp_id: String,
    oprf_public_key: Option<PublicKey>,
}

#[derive(Clone, Debug, Serialize)]
struct PublicKey {
    x: String,
    y: String,
}

impl From<&config::PublicKey> for PublicKey {
    fn from(key: &config::PublicKey) -> Self {
        Self { x: number::canonical(key.x), y: number::canonical(key.y) }
    }
}

impl Simulation {
    /// The issuers of staging and all relying parties.
    pub fn new(config: &Config, seed: String) -> Self {
        let is_staging = |issuer: &&config::Issuer| issuer.environments().contains(&config::Environment::Staging);
        let issuer = |issuer: &config::Issuer| Issuer {
            id: issuer.id,
            identifiers: issuer.identifiers().into_iter().map(str::to_owned).collect(),
            public_key: (&issuer.public_key).into(),
        };
        let relying_party = |app: &config::App| {
            let entry = config.relying_parties.iter().find(|party| party.app_id == app.id);
            RelyingParty {
                app_id: app.id.clone(),
                rp_id: config.relying_party_id(&app.id).to_string(),
                oprf_public_key: entry.and_then(|party| party.oprf_public_key.as_ref()).map(PublicKey::from),
            }
        };
        Self {
            seed,
            issuers: config.issuers.iter().filter(is_staging).map(issuer).collect(),
            relying_parties: config.apps.iter().map(relying_party).collect(),
        }
    }
}

impl Simulation {
    /// The same simulator over a configuration that was read again.
    pub fn over(&self, config: &Config) -> Self {
        Self::new(config, self.seed.clone())
    }
}

/// The simulation; 404 where no key is the simulator's.
pub async fn simulator(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let simulation = operator.simulation.load_full().ok_or(OperatorError::NoSimulator)?;
    Ok(json(StatusCode::OK, &*simulation))
}
