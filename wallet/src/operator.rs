//! A client of the daemon's operator interface: what a development authenticator needs of it.

use std::path::{Path, PathBuf};

use alloy_primitives::U256;
use reqwest::header::AUTHORIZATION;
use selfsame_protocol::number;
use selfsame_protocol::verification::{Environment, RelyingPartyId};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::client::{ANSWER_TIMEOUT, ClientError, base, http, send};
use crate::prove::{ProveError, SimulatedParty};

/// Where the daemon keeps its token, in its data folder.
const TOKEN_FILE: &str = "operator.token";

/// Why the operator interface was of no help.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{}: {source}; give the daemon's data folder with --data", path.display())]
    Token { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Prove(#[from] ProveError),
}

/// The operator interface of a daemon.
#[derive(Clone, Debug)]
pub struct Operator {
    http: reqwest::Client,
    url: String,
}

/// What `GET /simulator` answers.
#[derive(Debug, Deserialize)]
pub struct Simulation {
    seed: String,
    issuers: Vec<Issuer>,
    relying_parties: Vec<RelyingParty>,
}

#[derive(Debug, Deserialize)]
struct Issuer {
    id: u64,
    identifiers: Vec<String>,
    public_key: PublicKey,
}

#[derive(Debug, Deserialize)]
struct RelyingParty {
    app_id: String,
    rp_id: RelyingPartyId,
    oprf_public_key: Option<PublicKey>,
}

#[derive(Debug, Deserialize)]
struct PublicKey {
    #[serde(with = "number")]
    x: U256,
    #[serde(with = "number")]
    y: U256,
}

impl Operator {
    /// The interface at a base address.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Ok(Self { http: http(url)?, url: base(url)? })
    }

    /// Trusts a legacy root, with the token in the daemon's data folder.
    pub async fn trust_legacy_root(
        &self,
        root: U256,
        environment: Environment,
        data: &Path,
    ) -> Result<(), OperatorError> {
        let path = data.join(TOKEN_FILE);
        let token = std::fs::read_to_string(&path).map_err(|source| OperatorError::Token { path, source })?;
        let token = Zeroizing::new(format!("Bearer {}", token.trim()));
        let url = format!("{}/roots", self.url);
        let body = json!({"root": number::canonical(root), "kind": "legacy", "environment": environment.name()});
        let request = self.http.post(&url).json(&body).header(AUTHORIZATION, token.as_str()).timeout(ANSWER_TIMEOUT);
        let _: Value = send(&url, request).await?;
        Ok(())
    }

    /// The simulator's seed and the public keys that its proofs are about.
    pub async fn simulation(&self) -> Result<Simulation, ClientError> {
        let url = format!("{}/simulator", self.url);
        send(&url, self.http.get(&url).timeout(ANSWER_TIMEOUT)).await
    }
}

impl Simulation {
    /// What proofs for an application are about, by the daemon's first issuer.
    pub fn party(self, app_id: &str, root: U256) -> Result<SimulatedParty, ProveError> {
        let party = self.relying_parties.into_iter().find(|party| party.app_id == app_id);
        let party = party.ok_or_else(|| ProveError::UnknownApplication { app_id: app_id.to_owned() })?;
        let oprf = party.oprf_public_key.ok_or_else(|| ProveError::NoOprfKey { app_id: app_id.to_owned() })?;
        let issuer = self.issuers.into_iter().next().ok_or(ProveError::NoIssuer)?;
        let identifier = issuer.identifiers.into_iter().next().ok_or(ProveError::NoIssuer)?;
        Ok(SimulatedParty {
            seed: self.seed,
            rp_id: party.rp_id,
            oprf_public_key: [oprf.x, oprf.y],
            issuer_schema_id: issuer.id,
            identifier,
            issuer_public_key: [issuer.public_key.x, issuer.public_key.y],
            root,
        })
    }
}
