//! The checks of link proofs, with which persons join groups, by the workers of the verifier pool.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::groth16::{EncodedClaim, PreparedKey};
use selfsame_protocol::net::network_of;
use selfsame_protocol::verification::{Environment, ProofKind};
use tokio::time::Instant;

use super::pool::{Job, VerifierPoolMessage, VerifierState};
use super::queue::{Origin, Permits};
use super::settings::VerificationSettings;
use crate::groups::kept::LinkProofs;

/// Checks link proofs. They have permits of their own, as many as sign-ins, so that neither those
/// who join nor those who are verified keep the others out.
pub(crate) struct PooledLinkProofs {
    verifier: Arc<VerifierState>,
    keys: Vec<(Environment, Arc<PreparedKey>)>,
    permits: Arc<Permits>,
}

impl PooledLinkProofs {
    pub fn new(verifier: Arc<VerifierState>, settings: &VerificationSettings) -> Self {
        let legacy = settings.keys.iter().filter(|key| key.kind == ProofKind::Legacy);
        Self {
            verifier,
            keys: legacy.map(|key| (key.environment, Arc::clone(&key.key))).collect(),
            permits: Arc::new(Permits::new(settings.queue.div_ceil(4), 1)),
        }
    }
}

impl LinkProofs for PooledLinkProofs {
    fn check(
        &self,
        environment: Environment,
        claim: EncodedClaim,
        source: Option<IpAddr>,
        deadline: Instant,
    ) -> BoxFuture<'_, Result<bool, String>> {
        async move {
            let key = self.keys.iter().find(|(of, _)| *of == environment);
            let (_, key) = key.ok_or("there is no verification key for the proofs of the group")?;
            let origin = Origin { is_sign_in: true, network: source.map(network_of) };
            let permits = Permits::take(&self.permits, origin.network, 1).ok_or("too many proofs are waiting")?;
            let permit = permits.into_iter().next();
            let (key, queued_at) = (Arc::clone(key), Instant::now());
            let job = |reply| {
                VerifierPoolMessage::Check(Box::new(Job { key, claim, origin, queued_at, deadline, reply, permit }))
            };
            let verdict = self.verifier.pool.call(job, deadline).await;
            let verdict = verdict.map_err(|error| format!("the proof was not checked: {error}"))?;
            Ok(verdict.unwrap_or(false))
        }
        .boxed()
    }
}
