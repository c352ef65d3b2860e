//! Who may create accounts: `registry.create_account`.

use hyper::header::{AUTHORIZATION, HeaderName};
use selfsame_actors::ClientSecret;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::AccountCreation;
use selfsame_protocol::proof_of_work::{self, MOST_AGE, ProofOfWork, ProofOfWorkError, Solution};
use selfsame_protocol::time::UnixSeconds;

use crate::http::{Rejection, Request};

const PROOF_OF_WORK: HeaderName = HeaderName::from_static("proof-of-work");

/// Who may create accounts.
#[derive(Clone, Debug)]
pub enum CreationPolicy {
    /// Every client.
    Open,
    /// Clients that send the operator's token.
    Token(ClientSecret),
    /// Clients that solve a puzzle of this difficulty for each request.
    ProofOfWork {
        /// Zero bits that the hash has to begin with.
        difficulty: u32,
    },
}

/// Why a request may not create an account.
#[derive(Debug, thiserror::Error)]
pub enum CreationError {
    /// A header is malformed.
    #[error(transparent)]
    Header(#[from] Rejection),
    /// The operator's token is missing or wrong.
    #[error(
        "CreationTokenRequired: accounts are created with a token of this service's operator; send it as \
         Authorization: Bearer"
    )]
    Token,
    /// The proof of work is missing or not accepted.
    #[error(
        "ProofOfWorkRequired: {}; send {}: <Unix seconds>:<number> such that the hash begins with {difficulty} zero \
         bits, with a time at most {MOST_AGE} s from the service's",
        problem.map_or_else(|| format!("the header {} is missing", proof_of_work::HEADER), |problem| problem.to_string()),
        proof_of_work::HEADER
    )]
    ProofOfWork {
        /// What is wrong with the header; `None` when it is missing.
        problem: Option<ProofOfWorkError>,
        /// Zero bits that are asked for.
        difficulty: u32,
    },
}

impl CreationPolicy {
    /// What `/config` tells clients; nothing when every client may create accounts.
    pub fn describe(&self, now: UnixSeconds) -> Option<AccountCreation> {
        match self {
            Self::Open => None,
            Self::Token(_) => Some(AccountCreation::Token),
            Self::ProofOfWork { difficulty } => {
                Some(AccountCreation::ProofOfWork { difficulty: *difficulty, time: now })
            }
        }
    }

    /// Checks that a request with this body may create an account. Returns its proof of work, where
    /// one is needed; the registry decides whether it was used before.
    pub fn check(
        &self,
        request: &Request,
        body: &[u8],
        domain: &RegistryDomain,
        now: UnixSeconds,
    ) -> Result<Option<Solution>, CreationError> {
        match self {
            Self::Open => Ok(None),
            Self::Token(expected) => {
                let token = request.header(&AUTHORIZATION)?.and_then(|header| header.strip_prefix("Bearer "));
                let is_right = token.is_some_and(|token| expected.is(token));
                if is_right { Ok(None) } else { Err(CreationError::Token) }
            }
            Self::ProofOfWork { difficulty } => {
                let refused = |problem| CreationError::ProofOfWork { problem, difficulty: *difficulty };
                let header = request.header(&PROOF_OF_WORK)?.ok_or_else(|| refused(None))?;
                let solution: ProofOfWork = header.parse().map_err(|problem| refused(Some(problem)))?;
                let checked = solution.check(domain, body, *difficulty, now);
                checked.map(Some).map_err(|problem| refused(Some(problem)))
            }
        }
    }
}
