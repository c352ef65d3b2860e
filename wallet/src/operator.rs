//! A client of the operator interface: the calls that a development authenticator needs.

use std::path::{Path, PathBuf};

use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use selfsame_protocol::net::is_loopback_host;
use selfsame_protocol::operator::{ListedRoot, SimulatedIssuer, SimulatedRoot, Simulation, TOKEN_FILE};
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use zeroize::Zeroizing;

use crate::client::{ANSWER_TIMEOUT, ClientError, base, http_without_proxy, send};
use crate::prove::{ProveError, SimulatedParty};

/// Why a call of the operator interface failed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The operator interface cannot be reached, or its answer is an error or cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The interface is on another machine and is called by plain HTTP, so every machine on the way
    /// could read the token.
    #[error(
        "{url} is not on this machine, and the operator's token would be sent in clear text; run the command there, or \
         call it by https"
    )]
    TokenInClear {
        /// The address of the operator interface, as it was given.
        url: String,
    },
    /// The operator's token cannot be read from the daemon's data folder.
    #[error("{}: {source}; give the daemon's data folder with --data", path.display())]
    Token {
        /// Path of the token's file in the data folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The daemon's simulation lacks a value that a proof needs.
    #[error(transparent)]
    Prove(#[from] ProveError),
}

/// A client of a daemon's operator interface.
#[derive(Clone, Debug)]
pub struct Operator {
    http: reqwest::Client,
    url: String,
}

impl Operator {
    /// A client of the operator interface at a base address.
    ///
    /// # Errors
    /// [`ClientError::NotAnAddress`].
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Ok(Self { http: http_without_proxy(url)?, url: base(url)? })
    }

    /// Has a daemon that runs with `--dev` trust the root of a wallet's own identity tree, with the
    /// token in the daemon's data folder.
    ///
    /// # Errors
    /// [`OperatorError::TokenInClear`] when the token would leave this machine by plain HTTP,
    /// [`OperatorError::Token`] when it cannot be read, and [`OperatorError::Client`], also when
    /// the daemon runs without `--dev`.
    pub async fn trust_simulated_root(
        &self,
        root: Root,
        environment: Environment,
        identifier: LegacyIdentifier,
        data: &Path,
    ) -> Result<(), OperatorError> {
        self.check_token_is_safe()?;
        let path = data.join(TOKEN_FILE);
        let token = std::fs::read_to_string(&path).map_err(|source| OperatorError::Token { path, source })?;
        let token = Zeroizing::new(format!("Bearer {}", token.trim()));
        let url = format!("{}/simulator/roots", self.url);
        let body = SimulatedRoot { root, environment, identifier };
        let request = self.http.post(&url).json(&body).header(AUTHORIZATION, token.as_str()).timeout(ANSWER_TIMEOUT);
        let _: ListedRoot = send(&url, request).await?;
        Ok(())
    }

    /// Checks that the token would not be sent to another machine in clear text.
    ///
    /// # Errors
    /// [`OperatorError::TokenInClear`].
    pub fn check_token_is_safe(&self) -> Result<(), OperatorError> {
        let is_safe = Url::parse(&self.url)
            .is_ok_and(|url| url.scheme() == "https" || url.host_str().is_some_and(is_loopback_host));
        if is_safe { Ok(()) } else { Err(OperatorError::TokenInClear { url: self.url.clone() }) }
    }

    /// The simulator's seed, and the public keys that its proofs are made for.
    pub async fn simulation(&self) -> Result<Simulation, ClientError> {
        let url = format!("{}/simulator", self.url);
        send(&url, self.http.get(&url).timeout(ANSWER_TIMEOUT)).await
    }
}

impl SimulatedParty {
    /// The values for proofs to an application, with the daemon's first issuer.
    ///
    /// # Errors
    /// [`ProveError::UnknownApplication`], [`ProveError::NoOprfKey`] and [`ProveError::NoIssuer`].
    pub fn of(simulation: Simulation, app_id: &str, root: Root) -> Result<Self, ProveError> {
        let issuer = simulation.issuers.first();
        let credential = issuer.and_then(|issuer| Some((issuer, issuer.identifiers.first()?.clone())));
        Self::of_credential(&simulation, app_id, credential, root)
    }

    /// The values for proofs to an application, with the issuer that has this id.
    ///
    /// # Errors
    /// As [`SimulatedParty::of`].
    pub fn of_issuer(
        simulation: &Simulation,
        app_id: &str,
        issuer_schema_id: u64,
        identifier: &str,
        root: Root,
    ) -> Result<Self, ProveError> {
        let issuer = simulation.issuers.iter().find(|issuer| issuer.id == issuer_schema_id);
        Self::of_credential(simulation, app_id, issuer.map(|issuer| (issuer, identifier.to_owned())), root)
    }

    fn of_credential(
        simulation: &Simulation,
        app_id: &str,
        credential: Option<(&SimulatedIssuer, String)>,
        root: Root,
    ) -> Result<Self, ProveError> {
        let party = simulation.relying_parties.iter().find(|party| party.app_id == app_id);
        let party = party.ok_or_else(|| ProveError::UnknownApplication { app_id: app_id.to_owned() })?;
        let oprf = party.oprf_public_key.ok_or_else(|| ProveError::NoOprfKey { app_id: app_id.to_owned() })?;
        let (issuer, identifier) = credential.ok_or(ProveError::NoIssuer)?;
        Ok(Self {
            seed: simulation.seed.clone(),
            rp_id: party.rp_id,
            oprf_public_key: [oprf.x, oprf.y],
            issuer_schema_id: issuer.id,
            identifier,
            issuer_public_key: [issuer.public_key.x, issuer.public_key.y],
            root,
        })
    }
}
