//! A client of the operator interface: the calls that a development authenticator needs.

use std::path::{Path, PathBuf};

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use selfsame_protocol::net::is_loopback_host;
use selfsame_protocol::operator::{ListedRoot, SimulatedIssuer, SimulatedRoot, Simulation, TOKEN_FILE};
use selfsame_protocol::operator_call::{CHALLENGE_PATH, Call, CallNonce, Challenge, OperatorKey, SCHEME, hash_of_body};
use selfsame_protocol::time::UnixSeconds;
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
    /// could read the call and change the answer.
    #[error(
        "{url} is not on this machine, and the call and its answer would be in clear text; run the command there, or \
         call it by https"
    )]
    InClear {
        /// The address of the operator interface, as it was given.
        url: String,
    },
    /// Who answers has not shown that it knows the token of the data folder.
    #[error(
        "the program at {url} did not show that it is the daemon of the data folder {}; nothing was asked of it. Check \
         that the daemon runs, and give its address with --operator and its data folder with --data",
        data.display()
    )]
    NotTheDaemon {
        /// The address that was called.
        url: String,
        /// The data folder whose token it should know.
        data: PathBuf,
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
    /// [`OperatorError::InClear`] when the call would leave this machine by plain HTTP,
    /// [`OperatorError::Token`] when the token cannot be read, [`OperatorError::NotTheDaemon`], and
    /// [`OperatorError::Client`], also when the daemon runs without `--dev`.
    pub async fn trust_simulated_root(
        &self,
        root: Root,
        environment: Environment,
        identifier: LegacyIdentifier,
        data: &Path,
    ) -> Result<(), OperatorError> {
        self.check_way_is_safe()?;
        let path = data.join(TOKEN_FILE);
        let token = std::fs::read_to_string(&path).map_err(|source| OperatorError::Token { path, source })?;
        let key = OperatorKey::of_token(&Zeroizing::new(token));
        let url = format!("{}/simulator/roots", self.url);
        let body = serde_json::to_vec(&SimulatedRoot { root, environment, identifier });
        let body = body.map_err(|error| ClientError::Unreadable { url: url.clone(), reason: error.to_string() })?;
        let authorization = self.authorize(&key, "POST", &url, &body, data).await?;
        let request = self.http.post(&url).body(body).header(CONTENT_TYPE, "application/json");
        let request = request.header(AUTHORIZATION, authorization).timeout(ANSWER_TIMEOUT);
        let _: ListedRoot = send(&url, request).await?;
        Ok(())
    }

    /// Checks that a call would not go to another machine in clear text.
    ///
    /// # Errors
    /// [`OperatorError::InClear`].
    pub fn check_way_is_safe(&self) -> Result<(), OperatorError> {
        let is_safe = Url::parse(&self.url)
            .is_ok_and(|url| url.scheme() == "https" || url.host_str().is_some_and(is_loopback_host));
        if is_safe { Ok(()) } else { Err(OperatorError::InClear { url: self.url.clone() }) }
    }

    /// Has the daemon show that it knows the token, and signs a call with it
    /// ([`selfsame_protocol::operator_call`]): the token itself is not sent.
    async fn authorize(
        &self,
        key: &OperatorKey,
        method: &str,
        url: &str,
        body: &[u8],
        data: &Path,
    ) -> Result<String, OperatorError> {
        let not_the_daemon = || OperatorError::NotTheDaemon { url: self.url.clone(), data: data.to_owned() };
        let mut nonce = CallNonce([0; 32]);
        aws_lc_rs::rand::fill(&mut nonce.0).map_err(|_| not_the_daemon())?;
        let challenge_url = format!("{}{CHALLENGE_PATH}?nonce={nonce}", self.url);
        let challenge = self.http.get(&challenge_url).timeout(ANSWER_TIMEOUT);
        let challenge: Challenge = match send(&challenge_url, challenge).await {
            Ok(challenge) => challenge,
            Err(error @ ClientError::Unreachable { .. }) => return Err(error.into()),
            Err(_) => return Err(not_the_daemon()),
        };
        if !key.check_challenge(&nonce, &challenge) {
            return Err(not_the_daemon());
        }
        let target = Url::parse(url).map_err(|_| ClientError::NotAnAddress { url: url.to_owned() })?;
        let call = Call { method, target: target.path(), body_hash: &hash_of_body(body) };
        Ok(format!("{SCHEME} {}", key.authorize(nonce, &challenge, call)))
    }

    /// The simulator's seed, and the public keys that its proofs are made for.
    pub async fn simulation(&self) -> Result<Simulation, ClientError> {
        let url = format!("{}/simulator", self.url);
        send(&url, self.http.get(&url).timeout(ANSWER_TIMEOUT)).await
    }
}

impl SimulatedParty {
    /// The same for proofs that show this bound of the credential's first issue.
    pub fn issued_since(self, bound: Option<UnixSeconds>) -> Self {
        Self { genesis_issued_at_min: bound.unwrap_or_default(), ..self }
    }

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
            genesis_issued_at_min: UnixSeconds(0),
        })
    }
}
