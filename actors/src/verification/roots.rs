//! The roots that proofs may be made against: the registry's own, those of the configuration, and
//! those that the operator added and did not remove.

use std::sync::Arc;

use arc_swap::ArcSwap;
use selfsame_protocol::number;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::items::KnownRoots;
use selfsame_protocol::verification::roots::{
    RootAge, RootDecision, RootKey, TrustedRoot, TrustedRoots, UntrustedRoot,
};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_storage::{StoreError, VerificationRecords};
use tokio::sync::{Mutex, oneshot};

use crate::registry::handle::RegistryHandle;

/// The trusted roots: those of the configuration, as changed by the operator's stored decisions.
pub(super) struct RootList {
    configured: Vec<TrustedRoot>,
    records: Arc<VerificationRecords>,
    published: ArcSwap<TrustedRoots>,
    /// Held while a decision is written, so that a newer list is not replaced by an older one.
    deciding: Mutex<()>,
}

impl RootList {
    /// Reads the stored decisions.
    pub fn load(configured: Vec<TrustedRoot>, records: Arc<VerificationRecords>) -> Result<Self, StoreError> {
        let list = Self { configured, records, published: ArcSwap::default(), deciding: Mutex::default() };
        list.publish_stored()?;
        for TrustedRoot { key, .. } in list.configured.iter().filter(|root| !list.published.load().contains(&root.key))
        {
            let RootKey { environment, kind, root } = key;
            tracing::warn!(
                root = %number::canonical(*root),
                kind = kind.name(),
                environment = environment.name(),
                "a root of the configuration is not trusted, because it was removed by command; leave it out of the \
                 configuration, or add it by command again"
            );
        }
        Ok(list)
    }

    /// The trusted roots.
    pub fn published(&self) -> Arc<TrustedRoots> {
        self.published.load_full()
    }

    /// Trusts a root from now on, durably. Forgets the operator's roots that no proof can use any
    /// more; `window` is the validity window of current roots, in seconds.
    pub async fn add(&self, root: TrustedRoot, now: UnixSeconds, window: u64) -> Result<(), StoreError> {
        let _deciding = self.deciding.lock().await;
        let published = self.published();
        let is_configured = |key: &RootKey| self.configured.iter().any(|configured| configured.key == *key);
        let outdated = |key: &RootKey| published.is_outdated(key, now, window) && !is_configured(key);
        let stored = self.records.root_decisions()?.into_iter().map(|(key, _)| key);
        let outdated: Vec<RootKey> = stored.filter(|key| outdated(key)).collect();
        self.decide(root.key, RootDecision { trust: Some(root.trust) }, &outdated).await
    }

    /// Does not trust a root from now on, durably. Returns whether it was trusted.
    pub async fn remove(&self, key: RootKey) -> Result<bool, StoreError> {
        let _deciding = self.deciding.lock().await;
        if !self.published.load().contains(&key) {
            return Ok(false);
        }
        self.decide(key, RootDecision { trust: None }, &[]).await?;
        Ok(true)
    }

    async fn decide(&self, key: RootKey, decision: RootDecision, outdated: &[RootKey]) -> Result<(), StoreError> {
        let (written, durable) = oneshot::channel();
        self.records.decide_root(&key, &decision, outdated, Box::new(move |result| drop(written.send(result))));
        durable.await.unwrap_or(Err(StoreError::Closing))?;
        self.publish_stored()
    }

    fn publish_stored(&self) -> Result<(), StoreError> {
        let decisions = self.records.root_decisions()?;
        self.published.store(Arc::new(TrustedRoots::new(self.configured.iter().cloned(), decisions)));
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

    fn legacy(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        root: Root,
    ) -> Result<RootAge, UntrustedRoot> {
        self.trusted.legacy_age(environment, identifier, root, self.now)
    }

    /// The registry's own roots are valid in both environments, because there is one registry.
    fn is_current(&self, environment: Environment, root: Root) -> Result<bool, StoreError> {
        if self.registry.is_valid_root(root)? {
            return Ok(true);
        }
        let window = self.registry.rules().root_validity_window;
        Ok(self.trusted.is_current(environment, root, self.now, window))
    }
}
