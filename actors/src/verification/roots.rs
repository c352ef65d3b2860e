//! The roots that proofs may be made against: the registry's own, those of the configuration, and
//! those that the operator added.

use std::sync::Arc;

use arc_swap::ArcSwap;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::items::KnownRoots;
use selfsame_protocol::verification::roots::{RootAge, TrustedRoot, TrustedRoots};
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_storage::{StoreError, VerificationRecords};
use tokio::sync::{Mutex, oneshot};

use crate::registry::handle::RegistryHandle;

/// The trusted roots: configured ones, and stored ones that the operator added.
pub(super) struct RootList {
    configured: Vec<TrustedRoot>,
    records: Arc<VerificationRecords>,
    published: ArcSwap<TrustedRoots>,
    /// Held while a root is added, so that a newer list is not replaced by an older one.
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

/// The roots as they are known at `now`, which is the service's time.
pub(super) struct RootsAt<'a> {
    pub trusted: &'a TrustedRoots,
    pub registry: &'a RegistryHandle,
    pub now: UnixSeconds,
}

impl KnownRoots for RootsAt<'_> {
    type Error = StoreError;

    fn legacy(&self, environment: Environment, root: Root) -> Option<RootAge> {
        self.trusted.age(environment, ProofKind::Legacy, root, self.now)
    }

    /// The registry's own roots are valid in both environments, because there is one registry.
    fn is_current(&self, environment: Environment, root: Root) -> Result<bool, StoreError> {
        if self.registry.is_valid_root(root)? {
            return Ok(true);
        }
        let window = self.registry.rules().root_validity_window;
        Ok(self.trusted.is_valid(environment, ProofKind::Current, root, self.now, window))
    }
}
