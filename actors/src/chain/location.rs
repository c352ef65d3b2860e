//! Where a followed contract is, which the verifier contract of its deployment may change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::Address;
use selfsame_protocol::chain::deployment::InDeployment;
use selfsame_protocol::chain::followed::Unavailable;

use super::error::ChainError;
use super::place::Place;
use super::settings::ContractPlace;
use super::verifier_source::VerifierSource;

/// Where one contract is.
pub(super) struct Location {
    source: String,
    chain_id: u64,
    /// The contract's kind, which is part of the id.
    kind: &'static str,
    configured: ContractPlace,
    verifier: Option<Arc<VerifierSource>>,
    /// The contract's address in the deployment that the verifier names.
    in_deployment: InDeployment,
    /// The contract whose data is published.
    place: Mutex<Option<Place>>,
}

impl Location {
    /// The location of a contract, which `verifier` may name.
    pub fn new(
        source: &str,
        chain_id: u64,
        kind: &'static str,
        configured: ContractPlace,
        verifier: Option<Arc<VerifierSource>>,
        in_deployment: InDeployment,
    ) -> Self {
        let source = source.to_owned();
        let place = Mutex::default();
        let location = Self { source, chain_id, kind, configured, verifier, in_deployment, place };
        *location.lock() = location.known().map(|address| location.at(address));
        location
    }

    /// The contract whose data is published; `None` before the verifier was asked for the first
    /// time.
    pub fn place(&self) -> Option<Place> {
        *self.lock()
    }

    /// Where the contract is now. Waits a moment for the first answer of the verifier.
    pub async fn find(&self) -> Result<Place, ChainError> {
        if let (ContractPlace::FromVerifier, Some(verifier)) = (self.configured, &self.verifier) {
            verifier.wait_for_deployment().await;
        }
        self.known().map(|address| self.at(address)).ok_or(ChainError::NotLocated)
    }

    /// Records that what is published is that of this place.
    pub fn move_to(&self, place: Place) {
        if let Some(before) = self.lock().replace(place)
            && before != place
        {
            let (from, to) = (before.address, place.address);
            tracing::warn!(source = self.source, %from, %to, "the verifier names another contract, which is followed now");
        }
    }

    /// The address that the verifier names, when it is not the configured one, which counts.
    pub fn elsewhere(&self) -> Option<Address> {
        let ContractPlace::At(configured) = self.configured else { return None };
        self.in_verifier().filter(|named| *named != configured)
    }

    /// Why nothing of the contract's deployment counts.
    pub fn halt(&self) -> Option<Unavailable> {
        self.verifier.as_ref().and_then(|verifier| verifier.code.halt())
    }

    fn known(&self) -> Option<Address> {
        match self.configured {
            ContractPlace::At(address) => Some(address),
            ContractPlace::FromVerifier => self.in_verifier(),
        }
    }

    fn in_verifier(&self) -> Option<Address> {
        let deployment = self.verifier.as_ref()?.deployment()?;
        Some((self.in_deployment)(&deployment))
    }

    fn at(&self, address: Address) -> Place {
        Place::new(self.chain_id, address, self.kind)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
