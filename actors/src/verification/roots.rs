//! The roots that proofs may be made against: the registry's own, those of the configuration, and those that the operator added.

use std::sync::Arc;

use arc_swap::ArcSwap;
use selfsame_protocol::verification::items::KnownRoots;
use selfsame_protocol::verification::roots::{RootAge, TrustedRoot, TrustedRoots};
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_protocol::{B256, U256};
use selfsame_storage::{StoreError, VerificationRecords};
use tokio::sync::{Mutex, oneshot};

use crate::registry::handle::RegistryHandle;

/// The trusted roots: configured ones, and stored ones that the operator added.
pub(super) struct RootList {
    configured: Vec<TrustedRoot>,
    records: Arc<VerificationRecords>,
    published: ArcSwap<TrustedRoots>,
    /// Held while a root is added, so that an older list is not published over a newer one.
    adding: Mutex<()>,
}

impl RootList {
    /// Reads the stored roots.
    pub fn load(configured: Vec<TrustedRoot>, records: Arc<VerificationRecords>) -> Result<Self, StoreError> {
        let list = Self { configured, records, published: ArcSwap::default(), adding: Mutex::default() };
        list.publish_stored()?;
        Ok(list)
    }

    /// The trusted roots.
    pub fn published(&self) -> Arc<TrustedRoots> {
        self.published.load_full()
    }

    /// Adds a root durably, then publishes it.
    pub async fn add(&self, root: TrustedRoot) -> Result<(), StoreError> {
        let _adding = self.adding.lock().await;
        let (written, durable) = oneshot::channel();
        self.records.trust_root(&root, Box::new(move |result| drop(written.send(result))));
        durable.await.unwrap_or(Err(StoreError::Closing))?;
        self.publish_stored()
    }

    fn publish_stored(&self) -> Result<(), StoreError> {
        let stored = self.records.trusted_roots()?;
        self.published.store(Arc::new(self.configured.iter().copied().chain(stored).collect()));
        Ok(())
    }
}

/// The roots as they are known at `now` (Unix seconds).
pub(super) struct RootsAt<'a> {
    pub trusted: &'a TrustedRoots,
    pub registry: &'a RegistryHandle,
    pub now: u64,
}

impl KnownRoots for RootsAt<'_> {
    type Error = StoreError;

    fn legacy(&self, environment: Environment, root: &U256) -> Option<RootAge> {
        self.trusted.age(environment, ProofKind::Legacy, root, self.now)
    }

    /// The registry's own roots count in both environments: there is one registry.
    fn is_current(&self, environment: Environment, root: &U256) -> Result<bool, StoreError> {
        if self.registry.is_valid_root(&B256::from(*root))? {
            return Ok(true);
        }
        let window = self.registry.rules().root_validity_window;
        Ok(self.trusted.is_valid(environment, ProofKind::Current, root, self.now, window))
    }
}
