//! How much strangers may ask of sign-in.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use selfsame_protocol::rate_limit::{RateLimit, SlidingWindows};

use super::handle::{SignInFailure, SignInHandle, TRANSACTION_LIFETIME};
use super::settings::SignInSettings;
use crate::registry::handle::{RateLimiter, network_of};

/// How long a sign-in counts as open, completed or not: its record is kept as long.
const OPEN_FOR: Duration = Duration::from_secs(TRANSACTION_LIFETIME);

/// A source address has begun, answered or got wrong as much as it may for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many sign-ins from this address; try again in {} s", retry_after.as_secs_f64().ceil())]
pub struct TooManySignIns {
    /// How long until it may again.
    pub retry_after: Duration,
}

/// What strangers have asked for of late, and what they may.
pub(super) struct Sources {
    asked: Mutex<Asked>,
    open: Mutex<Open>,
}

/// What each source address has asked for.
struct Asked {
    limit: Option<RateLimit>,
    of_source: RateLimiter<IpAddr>,
}

/// Sign-ins that were begun within their lifetime: each is kept for so long, completed or not, and anybody may begin one.
struct Open {
    limit: usize,
    all: RateLimiter<()>,
    of_source: RateLimiter<IpAddr>,
}

impl Open {
    /// The windows of all.
    fn all(&mut self) -> Option<&mut SlidingWindows<()>> {
        self.all.under(Some(RateLimit { count: self.limit, window: OPEN_FOR }))
    }

    /// The windows of each source, which may have a quarter of the room.
    fn of_source(&mut self) -> Option<&mut SlidingWindows<IpAddr>> {
        self.of_source.under(Some(RateLimit { count: self.limit.div_ceil(4), window: OPEN_FOR }))
    }

    fn charge(&mut self, source: Option<IpAddr>, now: Duration) {
        if let Some(windows) = self.all() {
            windows.charge((), now);
        }
        if let (Some(source), Some(windows)) = (source.map(network_of), self.of_source()) {
            windows.charge(source, now);
        }
    }

    fn give_back(&mut self, source: Option<IpAddr>) {
        if let Some(windows) = self.all() {
            windows.give_back(&());
        }
        if let (Some(source), Some(windows)) = (source.map(network_of), self.of_source()) {
            windows.give_back(&source);
        }
    }
}

impl Sources {
    pub fn new(settings: &SignInSettings) -> Self {
        let asked = Asked { limit: settings.per_source, of_source: RateLimiter::new() };
        let open = Open { limit: settings.open_sign_ins, all: RateLimiter::new(), of_source: RateLimiter::new() };
        Self { asked: Mutex::new(asked), open: Mutex::new(open) }
    }
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
        let mut asked = self.shared.sources.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = asked.limit;
        let Some(windows) = asked.of_source.under(limit) else { return Ok(()) };
        let (source, now) = (network_of(source), self.shared.clock.now());
        windows.check(&source, now).map_err(|retry_after| TooManySignIns { retry_after })?;
        if counts {
            windows.charge(source, now);
        }
        Ok(())
    }

    /// Counts a sign-in, if there is room for it: see [`SignInSettings::open_sign_ins`]. A source has a quarter of the room, so that
    /// none uses up that of all others.
    pub(super) fn open_sign_in(&self, source: Option<IpAddr>) -> Result<(), SignInFailure> {
        let now = self.shared.clock.now();
        let mut open = self.shared.sources.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(source), Some(windows)) = (source.map(network_of), open.of_source()) {
            windows.check(&source, now).map_err(|retry_after| TooManySignIns { retry_after })?;
        }
        let checked = open.all().map_or(Ok(()), |windows| windows.check(&(), now));
        let reason = || "too many sign-ins are under way".to_owned();
        checked.map_err(|retry_after| SignInFailure::Unavailable { reason: reason(), retry_after })?;
        open.charge(source, now);
        Ok(())
    }

    /// Takes back what was counted last: nothing came of it.
    pub(super) fn give_open_sign_in_back(&self, source: Option<IpAddr>) {
        let mut open = self.shared.sources.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.give_back(source);
    }

    /// Changes the limits, from the next request on: what one source address may ask for, and how many sign-ins may be under way.
    pub fn limit_sources(&self, per_source: Option<RateLimit>, open_sign_ins: usize) {
        let sources = &self.shared.sources;
        sources.asked.lock().unwrap_or_else(PoisonError::into_inner).limit = per_source;
        sources.open.lock().unwrap_or_else(PoisonError::into_inner).limit = open_sign_ins;
    }
}
