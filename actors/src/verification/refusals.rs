//! Why a verification request is not answered with success, who is held to the limits of one, and
//! the limits as the handle counts by them.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::U256;
use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::time::RetryAfter;
use selfsame_protocol::verification::answer::ItemResult;
use selfsame_protocol::verification::directory::{AdmissionError, OtherSignal, RelyingParty};
use selfsame_protocol::verification::identity::MaxVerificationsReached;
use selfsame_protocol::verification::integrity::IntegrityError;
use selfsame_protocol::verification::items::OTHER_ENVIRONMENT;
use selfsame_protocol::verification::rp_signature::{RpSignature, RpSignatureError, SignedNonce, check_signature};
use selfsame_storage::{Counter, StoreError};

use super::handle::VerificationHandle;
use crate::support::source_limits::{RateLimiter, TooManyRequests};

/// Why a verification request is not answered with success.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VerificationError {
    /// The request is refused before its proofs are checked.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The relying party's signature is missing or not accepted.
    #[error("{error}")]
    RpSignature {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// What is wrong with the signature.
        error: RpSignatureError,
    },
    /// The signal of a legacy proof is not the signed nonce.
    #[error("{error}")]
    Signal {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// Which proof it is.
        error: OtherSignal,
    },
    /// A request with the same signed nonce was answered with success.
    #[error("the nonce was used already; sign another one for each request")]
    UsedNonce {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
    },
    /// The integrity bundle does not hold, or one is missing that the request needs.
    #[error("{error}")]
    Integrity {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// What is wrong.
        error: IntegrityError,
    },
    /// No proof verified. When a legacy proof holds in the application's other environment, the
    /// answer has a code of its own.
    #[error("no proof of the request verified; results says why for each")]
    AllFailed {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// The failure of each item, in the order of the request.
        results: Vec<ItemResult>,
    },
    /// A nullifier has been verified as often as its action allows.
    #[error("{limit}")]
    MaxVerifications {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// How often the action allows a nullifier to be verified.
        limit: MaxVerificationsReached,
    },
    /// Too many proofs or requests wait; or the verifier is not running or did not answer; or the
    /// checks or the recording took longer than the deadline allows. When the recording took too
    /// long, the nullifiers may have been recorded. `reason` says which.
    #[error("{reason}; try again")]
    Unavailable {
        /// Which of these causes applies, for the client.
        reason: String,
    },
    /// The store could not be read or written. After a failed write the nullifiers may have been
    /// recorded all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VerificationError {
    /// The code of the answer (`docs/interfaces/verification-errors.md`, "Errors").
    pub fn code(&self) -> &'static str {
        match self {
            Self::Admission(error) => error.code(),
            Self::RpSignature { error, .. } => error.code(),
            Self::Signal { .. } => "invalid_signal",
            Self::UsedNonce { .. } => "duplicate_nonce",
            Self::Integrity { .. } => IntegrityError::CODE,
            Self::AllFailed { results, .. } if has_other_environment(results) => OTHER_ENVIRONMENT,
            Self::AllFailed { .. } => "all_verifications_failed",
            Self::MaxVerifications { .. } => "max_verifications_reached",
            Self::Unavailable { .. } | Self::Store(_) => "verifier_unavailable",
        }
    }

    /// The part of the request that is refused; `None` for the request as a whole.
    pub fn attribute(&self) -> Option<Cow<'static, str>> {
        let attribute = match self {
            Self::Signal { error, .. } => return Some(format!("responses[{}].signal_hash", error.index).into()),
            Self::Admission(error) => error.attribute(),
            Self::RpSignature { .. } => Some("rp_signature"),
            Self::UsedNonce { .. } => Some("nonce"),
            Self::Integrity { .. } => Some(IntegrityError::ATTRIBUTE),
            Self::MaxVerifications { .. } => Some("action"),
            Self::AllFailed { results, .. } if has_other_environment(results) => Some("environment"),
            Self::AllFailed { .. } | Self::Unavailable { .. } | Self::Store(_) => None,
        };
        attribute.map(Cow::Borrowed)
    }

    /// Id of the application that the request is refused for, if there is one.
    pub fn app_id(&self) -> Option<&str> {
        match self {
            Self::Admission(error) => error.app_id(),
            Self::RpSignature { app_id, .. }
            | Self::Signal { app_id, .. }
            | Self::UsedNonce { app_id }
            | Self::Integrity { app_id, .. }
            | Self::AllFailed { app_id, .. }
            | Self::MaxVerifications { app_id, .. } => Some(app_id),
            Self::Unavailable { .. } | Self::Store(_) => None,
        }
    }

    /// The failure of each item, when no proof verified.
    pub fn results(&self) -> Option<&[ItemResult]> {
        if let Self::AllFailed { results, .. } = self { Some(results) } else { None }
    }

    /// The verifier cannot answer now.
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}

/// Whether one of the proofs holds in the application's other environment.
fn has_other_environment(results: &[ItemResult]) -> bool {
    results.iter().any(|result| result.code == Some(OTHER_ENVIRONMENT))
}

// Who is held to the limits of a verification request: the application that shows its secret or
// signs the request, otherwise the source address.
//
// The server of an application relays what strangers send, so its address says nothing about who
// chose a proof. Its credentials do: with them the limits count for the application. Strangers
// hold signed requests too, because an application gives each to the page of a person. So a signed
// nonce counts for the application once, and further requests with it count for their source; and
// signed requests have a count of their own, which cannot use up that of the secret.

/// A signed nonce counts for its application once in this time. A relying party signs one for each
/// request, so it needs no second one.
const NONCE_LIMIT: RateLimit = RateLimit { count: 1, window: Duration::from_secs(600) };

/// How an application showed that a request is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Credential {
    Secret,
    Signature,
}

/// Counts the proofs of applications.
pub(super) struct ApplicationLimiter {
    limited: Mutex<ApplicationWindows>,
    /// The requests of applications with a secret that were refused since the start.
    pub refused: Counter,
}

struct ApplicationWindows {
    limit: Option<RateLimit>,
    /// Proofs by the application's id and how it authenticated. Only configured applications are
    /// counted, so the keys are bounded.
    applications: RateLimiter<(String, Credential)>,
    nonces: RateLimiter<[u8; 32]>,
}

impl ApplicationLimiter {
    /// A limiter under `limit`; `None` is off.
    pub fn new(limit: Option<RateLimit>) -> Self {
        let limited = ApplicationWindows { limit, applications: RateLimiter::new(), nonces: RateLimiter::new() };
        Self { limited: Mutex::new(limited), refused: Counter::default() }
    }

    /// Changes the limit, from the next request on.
    pub fn set(&self, limit: Option<RateLimit>) {
        self.lock().limit = limit;
    }

    /// Counts proofs of an application that has shown its secret.
    pub fn charge(&self, app_id: &str, proofs: usize, now: Duration) -> Result<(), TooManyRequests> {
        let charged = self.lock().charge((app_id.to_owned(), Credential::Secret), proofs, now);
        charged.map_err(|wait| {
            self.refused.inc();
            TooManyRequests { retry_after: RetryAfter(wait) }
        })
    }

    /// Takes back one proof that [`ApplicationLimiter::charge`] has counted.
    pub fn refund(&self, app_id: &str) {
        let ApplicationWindows { limit, applications, .. } = &mut *self.lock();
        if let Some(windows) = applications.under(*limit) {
            windows.refund(&(app_id.to_owned(), Credential::Secret));
        }
    }

    /// Counts the proofs of a request that an application signed. `false` when its nonce has
    /// counted before, or when the application is at its limit: the request is then its source's.
    pub fn charge_signed(&self, app_id: &str, nonce: U256, proofs: usize, now: Duration) -> bool {
        let mut limited = self.lock();
        let nonce = SignedNonce::new(app_id, nonce).record_id().0;
        let Some(nonces) = limited.nonces.under(Some(NONCE_LIMIT)) else { return false };
        if nonces.check(&nonce, 1, now).is_err() {
            return false;
        }
        // A request that the limit refuses leaves its nonce for another try.
        let is_charged = limited.charge((app_id.to_owned(), Credential::Signature), proofs, now).is_ok();
        if is_charged && let Some(nonces) = limited.nonces.under(Some(NONCE_LIMIT)) {
            nonces.charge(nonce, 1, now);
        }
        is_charged
    }

    /// Whether a request with this signed nonce has counted for its application. The signature of
    /// another one need not be checked.
    pub fn has_counted(&self, app_id: &str, nonce: U256, now: Duration) -> bool {
        let nonce = SignedNonce::new(app_id, nonce).record_id().0;
        self.lock().nonces.under(Some(NONCE_LIMIT)).is_some_and(|nonces| nonces.check(&nonce, 1, now).is_err())
    }

    fn lock(&self) -> MutexGuard<'_, ApplicationWindows> {
        self.limited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApplicationWindows {
    fn charge(&mut self, key: (String, Credential), proofs: usize, now: Duration) -> Result<(), Duration> {
        let Some(windows) = self.applications.under(self.limit) else { return Ok(()) };
        windows.check(&key, proofs, now)?;
        windows.charge(key, proofs, now);
        Ok(())
    }
}

// The limits of the handle, by source address and by application.

impl VerificationHandle {
    /// Counts proofs of a source address (IPv6: its /64), or refuses them. A front-end calls this
    /// before [`VerificationHandle::verify`]; an embedder may omit it.
    pub fn charge_source(&self, source: IpAddr, proofs: usize) -> Result<(), TooManyRequests> {
        self.inner.per_source.charge_many(source, proofs, self.inner.clock.now())
    }

    /// Takes back one proof that [`VerificationHandle::charge_source`] has counted, when its
    /// request is refused by the limit after all.
    pub fn refund_source(&self, source: IpAddr) {
        self.inner.per_source.refund(source);
    }

    /// The application with an id, when one of `readings`, the ways to read the secret that a
    /// caller shows, is one of its secrets.
    pub fn authenticate<T: AsRef<str>>(&self, app_id: &str, readings: &[T]) -> Option<Arc<RelyingParty>> {
        self.application(app_id).filter(|party| ClientSecret::is_any(&party.secrets, readings))
    }

    /// Counts proofs of an application that has shown its secret, or refuses them: in place of
    /// [`VerificationHandle::charge_source`].
    pub fn charge_application(&self, app_id: &str, proofs: usize) -> Result<(), TooManyRequests> {
        self.inner.per_application.charge(app_id, proofs, self.inner.clock.now())
    }

    /// Takes back one proof that [`VerificationHandle::charge_application`] has counted, when its
    /// request is refused by the limit after all.
    pub fn refund_application(&self, app_id: &str) {
        self.inner.per_application.refund(app_id);
    }

    /// Counts the proofs of a request for its application, when that has signed it; `false` when it
    /// counts for its source ([`VerificationHandle::charge_source`]): it is not signed by the
    /// application, its nonce has counted before, or the application is at its limit.
    pub async fn charge_signer(&self, party: &Arc<RelyingParty>, given: RpSignature, proofs: usize) -> bool {
        let Some(signing) = party.signing else { return false };
        let limiter = &self.inner.per_application;
        if limiter.has_counted(&party.app_id, given.request.nonce, self.inner.clock.now()) {
            return false;
        }
        let now = self.inner.clock.unix_seconds();
        let check = move || check_signature(Some(signing), Some(&given), now).is_ok();
        let is_signed = self.inner.blocking.run(check).await.unwrap_or(false);
        is_signed && limiter.charge_signed(&party.app_id, given.request.nonce, proofs, self.inner.clock.now())
    }

    /// Whether verification requests have limits by source address.
    pub fn limits_sources(&self) -> bool {
        self.inner.limits.load().per_source.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn limiter(count: usize) -> ApplicationLimiter {
        ApplicationLimiter::new(Some(RateLimit { count, window: MINUTE }))
    }

    #[test]
    fn each_application_has_its_own_limit_and_signed_requests_do_not_use_it_up() {
        let limiter = limiter(20);
        assert!(limiter.charge_signed("app_a", U256::from(1), 20, NOW));
        assert!(limiter.has_counted("app_a", U256::from(1), NOW));
        assert!(!limiter.charge_signed("app_a", U256::from(2), 1, NOW), "at the limit of signed requests");
        assert!(!limiter.has_counted("app_a", U256::from(2), NOW) && !limiter.has_counted("app_b", U256::from(1), NOW));
        assert_eq!(limiter.refused.get(), 0, "such a request counts for its source");
        assert!(limiter.charge("app_a", 20, NOW).is_ok() && limiter.charge("app_b", 20, NOW).is_ok());
        let refused = limiter.charge("app_a", 1, NOW + MINUTE / 2).expect_err("at the limit");
        assert_eq!((refused.retry_after.0, limiter.refused.get()), (MINUTE / 2, 1));
        assert!(limiter.charge("app_a", 20, NOW + MINUTE).is_ok());
        assert!(limiter.charge_signed("app_a", U256::from(2), 1, NOW + MINUTE), "its refusal left the nonce");
        limiter.set(None);
        assert!(limiter.charge("app_a", 1000, NOW + MINUTE).is_ok(), "without a limit");
    }

    #[test]
    fn a_signed_nonce_counts_for_its_application_once() {
        let limiter = ApplicationLimiter::new(None);
        let charge = |app_id, nonce: u64, now| limiter.charge_signed(app_id, U256::from(nonce), 1, now);
        assert!(charge("app_a", 7, NOW));
        assert!(!charge("app_a", 7, NOW), "the holder of one signature cannot use it for many requests");
        assert!(charge("app_a", 8, NOW) && charge("app_b", 7, NOW));
    }
}
