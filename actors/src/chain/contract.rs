//! A followed contract of any kind, as status and verification ask about it.

use std::sync::Arc;

use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::Header;
use selfsame_protocol::chain::followed::Unavailable;
use selfsame_protocol::verification::Environment;
use selfsame_storage::SourceId;

use super::code_watch::CodeWatch;
use super::key_source::KeySource;
use super::party_source::PartySource;
use super::progress::Progress;
use super::root_source::RootSource;
use super::settings::Freshness;
use super::verifier_source::VerifierSource;

/// What is followed of a contract.
pub(super) enum Contract {
    Roots(Box<RootSource>),
    Keys(Box<KeySource>),
    Verifier(Arc<VerifierSource>),
    RelyingParties(Box<PartySource>),
}

impl Contract {
    pub fn name(&self) -> &str {
        match self {
            Self::Roots(roots) => &roots.settings.name,
            Self::Keys(keys) => &keys.settings.name,
            Self::Verifier(verifier) => &verifier.settings.name,
            Self::RelyingParties(parties) => &parties.settings.name,
        }
    }

    pub fn progress(&self) -> &Progress {
        match self {
            Self::Roots(roots) => &roots.progress,
            Self::Keys(keys) => &keys.progress,
            Self::Verifier(verifier) => &verifier.progress,
            Self::RelyingParties(parties) => &parties.progress,
        }
    }

    pub fn freshness(&self) -> Freshness {
        match self {
            Self::Roots(roots) => roots.settings.freshness,
            Self::Keys(keys) => keys.settings.freshness,
            Self::Verifier(verifier) => verifier.settings.freshness,
            Self::RelyingParties(parties) => parties.settings.freshness,
        }
    }

    pub fn environment(&self) -> Environment {
        match self {
            Self::Roots(roots) => roots.settings.environment,
            Self::Keys(keys) => keys.settings.environment,
            Self::Verifier(verifier) => verifier.settings.environment,
            Self::RelyingParties(parties) => parties.settings.environment,
        }
    }

    /// Where the contract is; `None` before the verifier was asked for the first time.
    pub fn address(&self) -> Option<Address> {
        match self {
            Self::Roots(roots) => roots.location.place().map(|place| place.address),
            Self::Keys(keys) => keys.location.place().map(|place| place.address),
            Self::Verifier(verifier) => Some(verifier.settings.address),
            Self::RelyingParties(parties) => Some(parties.settings.address),
        }
    }

    /// The id under which what is followed is stored, where it is.
    pub fn stored_as(&self) -> Option<SourceId> {
        match self {
            Self::Roots(roots) => roots.location.place().map(|place| place.id),
            Self::Keys(keys) => keys.location.place().map(|place| place.id),
            Self::Verifier(verifier) => Some(verifier.place().id),
            Self::RelyingParties(_) => None,
        }
    }

    /// The address that the verifier names, when it is not the configured one, which counts.
    pub fn elsewhere(&self) -> Option<Address> {
        match self {
            Self::Roots(roots) => roots.location.elsewhere(),
            Self::Keys(keys) => keys.location.elsewhere(),
            Self::Verifier(_) | Self::RelyingParties(_) => None,
        }
    }

    /// The code that the contract runs, where it is watched.
    pub fn code(&self) -> Option<&CodeWatch> {
        match self {
            Self::Roots(roots) => Some(&roots.code),
            Self::Keys(keys) => Some(&keys.code),
            Self::Verifier(verifier) => Some(&verifier.code),
            Self::RelyingParties(_) => None,
        }
    }

    /// The newest block at which the data was complete.
    pub fn confirmed(&self) -> Option<Header> {
        match self {
            Self::Roots(roots) => roots.published().confirmed,
            Self::Keys(keys) => keys.published().confirmed,
            Self::Verifier(verifier) => verifier.published().map(|record| record.confirmed),
            Self::RelyingParties(parties) => parties.published().confirmed,
        }
    }

    /// Why nothing of the contract counts: it, or the verifier of its deployment, runs code that
    /// was not accepted.
    pub fn halt(&self) -> Option<Unavailable> {
        match self {
            Self::Roots(roots) => roots.halt(),
            Self::Keys(keys) => keys.halt(),
            Self::Verifier(verifier) => verifier.code.halt(),
            Self::RelyingParties(_) => None,
        }
    }
}
