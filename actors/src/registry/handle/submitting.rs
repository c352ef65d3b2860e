//! Submitting requests: the checks before the request tracker, and the way to the replica that
//! leads.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse, check_request};
use selfsame_protocol::ledger::check_signature;
use selfsame_protocol::registry::RecoveredSigner;
use selfsame_storage::StoreError;
use tokio::time::Instant;

use super::RegistryHandle;
use crate::registry::forwarded;
use crate::registry::messages::RequestTrackerMessage;
use crate::registry::submission::{RateLimitScope, Submission, SubmitError};
use crate::support::slot::{CallError, RESTART_PATIENCE};
use crate::support::source_limits::TooManyRequests;
use crate::support::tasks::Panicked;

impl RegistryHandle {
    /// Submits a request. When this returns success, the request is durable: it becomes final even
    /// when the process ends now. If the idempotency key stands for an earlier request with the
    /// same operation, this returns the present state of that request.
    ///
    /// A replica that does not lead checks the limit by source, the rules that need no state and
    /// the signature, and forwards the request to the leader.
    ///
    /// Checks in this order: whether sealing or applying fails, limit by source, rules that need no
    /// state, signature, calls that wait for the request tracker, idempotency key, queue, locks,
    /// rules on the published state, limit by account. Without an idempotency key a full queue is
    /// refused before the signature is checked.
    ///
    /// # Errors
    /// See [`SubmitError`]. After [`SubmitError::Unknown`] the request may have been recorded, and
    /// after all others it was not. Where the error has no request id, the caller finds out by
    /// submitting the same operation again: with the same idempotency key this returns the state of
    /// the recorded request; without a key it returns [`SubmitError::Duplicate`] with the id in
    /// `same_as` while the recorded request is open.
    pub async fn submit(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        self.check_steps()?;
        if let Some(source) = submission.source {
            self.charge_source(source)?;
        }
        let forwarding = self.inner.forwarding.as_deref().filter(|_| !self.inner.group_commit.leads());
        let Some(forwarding) = forwarding else { return self.submit_at_leader(submission).await };
        check_request(&submission.operation, &self.inner.reader.rules)?;
        let (submission, _) = self.recover(submission).await?;
        forwarded::submit(forwarding, submission).await
    }

    /// The same without the limit by source, for a request that another replica forwards. It is not
    /// forwarded again.
    ///
    /// # Errors
    /// See [`RegistryHandle::submit`].
    pub(crate) async fn submit_forwarded(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        self.check_steps()?;
        self.submit_at_leader(submission).await
    }

    /// Submits a request whose source is charged. A replica that leads may know less than another
    /// one: of its own last entries, when the journal's answer is late, and of those of a
    /// successor. What it refuses for the registry's state, it therefore looks at once more when it
    /// has everything that the journal has.
    async fn submit_at_leader(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        if !self.is_replica() {
            return self.submit_charged(submission).await;
        }
        match self.submit_charged(submission.clone()).await {
            Err(SubmitError::Rule(_) | SubmitError::Duplicate { .. }) => {}
            submitted => return submitted,
        }
        match self.catch_up().await {
            Ok(()) => self.submit_charged(submission).await,
            Err(error) => Err(SubmitError::Unavailable { reason: error.to_string() }),
        }
    }

    fn check_steps(&self) -> Result<(), SubmitError> {
        match self.inner.steps.iter().find_map(|step| step.failing()) {
            Some(step) => Err(SubmitError::Unavailable { reason: format!("the registry is read-only: {step} fails") }),
            None => Ok(()),
        }
    }

    async fn submit_charged(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        let reader = &self.inner.reader;
        check_request(&submission.operation, &reader.rules)?;
        let has_key = submission.idempotency_key.is_some();
        if !has_key {
            self.check_queue()?;
        }
        let (submission, signer) = self.recover(submission).await?;
        let kind = submission.operation.kind();
        let admit = |reply| RequestTrackerMessage::Admit(Box::new(submission), signer, reply);
        let admitted = self.inner.request_tracker.call(admit, Instant::now() + RESTART_PATIENCE).await;
        let request_id = admitted.map_err(|error| match error {
            CallError::NoAnswer => SubmitError::Unknown { request_id: None, reason: error.to_string() },
            CallError::Overloaded | CallError::Restarting | CallError::Ended => {
                SubmitError::Unavailable { reason: error.to_string() }
            }
        })??;
        if has_key {
            // The key may stand for an earlier request. When the commit of that request failed in
            // the meantime, nothing was recorded.
            let reason = || "an earlier request with this Idempotency-Key was not recorded".to_owned();
            return match self.status(&request_id) {
                Ok(status) => status.ok_or_else(|| SubmitError::Unavailable { reason: reason() }),
                Err(error) => Err(SubmitError::Unknown {
                    request_id: Some(request_id),
                    reason: format!("reading it fails: {error}"),
                }),
            };
        }
        Ok(GatewayStatusResponse { request_id, kind, status: GatewayRequestState::Queued })
    }

    /// Recovers the signer of a submission, if it is signed: not on a thread that serves
    /// connections, and at most as many at a time as there are cores, so that a flood of signatures
    /// leaves room for what is quick.
    async fn recover(&self, submission: Submission) -> Result<(Submission, RecoveredSigner), SubmitError> {
        if submission.operation.signature().is_none() {
            return Ok((submission, None));
        }
        let domain = self.inner.reader.domain();
        let recovering = move || {
            let signer = check_signature(&submission.operation, &domain);
            (submission, signer)
        };
        let recovered = self.inner.recovering.run(recovering).await;
        let (submission, signer) = recovered.map_err(|Panicked| StoreError::Panicked)?;
        Ok((submission, signer?))
    }

    /// Counts a request of `source` that its front-end refuses and does not submit, so that a
    /// client cannot try secrets without end.
    ///
    /// # Errors
    /// [`SubmitError::RateLimited`].
    pub fn charge_source(&self, source: IpAddr) -> Result<(), SubmitError> {
        let charged = self.inner.per_source.charge(source, self.inner.reader.clock.now());
        charged.map_err(|TooManyRequests { retry_after }| SubmitError::RateLimited {
            scope: RateLimitScope::Source,
            retry_after,
        })
    }

    /// Refuses a request early when the queue is full. The request tracker repeats the check
    /// exactly. This check avoids signature recovery under overload, which costs far more than
    /// everything else. A request with an idempotency key is not checked here, because the key may
    /// stand for a request that was admitted before.
    fn check_queue(&self) -> Result<(), SubmitError> {
        let limit = self.inner.reader.limits.load().queue_length;
        let is_full = self.inner.reader.counters.open_requests.load(Ordering::Relaxed) >= limit;
        if is_full { Err(SubmitError::QueueFull { limit }) } else { Ok(()) }
    }
}
