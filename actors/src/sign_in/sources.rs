//! How much strangers may ask of sign-in.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::Duration;

use selfsame_protocol::rate_limit::RateLimit;

use super::SignInHandle;
use crate::registry::network_of;

/// A source address has begun, answered or got wrong as much as it may for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many sign-ins from this address; try again in {} s", retry_after.as_secs_f64().ceil())]
pub struct TooManySignIns {
    /// How long until it may again.
    pub retry_after: Duration,
}

impl SignInHandle {
    /// Whether a source address (IPv6: its /64) may ask for anything at the moment.
    pub fn check_source(&self, source: IpAddr) -> Result<(), TooManySignIns> {
        self.take_place(source, false)
    }

    /// Counts an authorization request, an answer to one, or wrong credentials, codes and tokens.
    ///
    /// What is right is not counted where a secret was shown: an application's server has one address and many people.
    pub fn charge_source(&self, source: IpAddr) -> Result<(), TooManySignIns> {
        self.take_place(source, true)
    }

    fn take_place(&self, source: IpAddr, counts: bool) -> Result<(), TooManySignIns> {
        let mut per_source = self.shared.per_source.lock().unwrap_or_else(PoisonError::into_inner);
        let (limit, limiter) = &mut *per_source;
        let Some(windows) = limiter.under(*limit) else { return Ok(()) };
        let (source, now) = (network_of(source), self.shared.clock.now());
        windows.check(&source, now).map_err(|retry_after| TooManySignIns { retry_after })?;
        if counts {
            windows.charge(source, now);
        }
        Ok(())
    }

    /// Changes the limit of a source address, from the next request on.
    pub fn limit_sources(&self, limit: Option<RateLimit>) {
        self.shared.per_source.lock().unwrap_or_else(PoisonError::into_inner).0 = limit;
    }
}
