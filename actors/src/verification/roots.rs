//! The roots that proofs may be made against: the registry's own, those of the configuration, those
//! that the operator added and did not remove, those that are followed from chains, and those of
//! groups; and the calls of the handle that read and change them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::chain::contracts::FollowedKey;
use selfsame_protocol::chain::followed::{KeyOwner, Unavailable};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::events::EventKind;
use selfsame_protocol::events::record::{RecordedEvent, TrustedRootEvent};
use selfsame_protocol::groth16::EncodedClaim;
use selfsame_protocol::groups::names::{GroupId, RollName};
use selfsame_protocol::number;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::directory::Directory;
use selfsame_protocol::verification::items::{ItemError, TrustedData};
use selfsame_protocol::verification::request::Proofs;
use selfsame_protocol::verification::roots::{
    RootAge, RootDecision, RootKey, TrustedRoot, TrustedRoots, UntrustedRoot,
};
use selfsame_protocol::verification::{Environment, LegacyCredential, LegacyIdentifier, ProofKind};
use selfsame_storage::{StoreError, UnloggedKey, VerificationRecords};
use tokio::sync::{Mutex, oneshot};

use super::handle::VerificationHandle;
use crate::chain::handle::{ChainHandle, RootUse, UnseenContracts};
use crate::clock::Clock;
use crate::events::log::EventRecorder;
use crate::groups::handle::{GroupError, GroupsHandle};
use crate::registry::handle::RegistryHandle;

/// The trusted roots: those of the configuration, as changed by the operator's stored decisions.
pub(super) struct RootList {
    configured: ArcSwap<Vec<TrustedRoot>>,
    records: Arc<VerificationRecords>,
    published: ArcSwap<TrustedRoots>,
    /// Held while a list is made and published: the one that is made last has everything.
    publishing: std::sync::Mutex<()>,
    /// Held while a decision is written, so that a newer list is not replaced by an older one.
    deciding: Mutex<()>,
}

impl RootList {
    /// Reads the stored decisions.
    pub fn load(configured: Vec<TrustedRoot>, records: Arc<VerificationRecords>) -> Result<Self, StoreError> {
        let list = Self {
            configured: ArcSwap::default(),
            records,
            published: ArcSwap::default(),
            publishing: std::sync::Mutex::default(),
            deciding: Mutex::default(),
        };
        list.set_configured(configured)?;
        Ok(list)
    }

    /// Replaces the roots of the configuration. The operator's decisions stay.
    pub fn set_configured(&self, configured: Vec<TrustedRoot>) -> Result<(), StoreError> {
        let old = self.configured.swap(Arc::new(configured));
        self.publish_stored().inspect_err(|_| self.configured.store(old))?;
        let (configured, published) = (self.configured.load(), self.published.load());
        for TrustedRoot { key, .. } in configured.iter().filter(|root| !published.contains(&root.key)) {
            let RootKey { environment, kind, root } = key;
            tracing::warn!(
                root = %number::canonical(*root),
                kind = kind.name(),
                environment = environment.name(),
                "a root of the configuration is not trusted, because it was removed by command; leave it out of the \
                 configuration, or add it by command again"
            );
        }
        Ok(())
    }

    /// The trusted roots.
    pub fn published(&self) -> Arc<TrustedRoots> {
        self.published.load_full()
    }

    /// Trusts a root from now on, durably. Forgets the operator's roots that no proof can use any
    /// more; `window` is the validity window of current roots, in seconds.
    pub async fn add(
        &self,
        root: TrustedRoot,
        clock: &dyn Clock,
        window: u64,
        events: &EventRecorder,
    ) -> Result<(), StoreError> {
        let _deciding = self.deciding.lock().await;
        let now = clock.unix_seconds();
        let published = self.published();
        let configured = self.configured.load();
        let is_configured = |key: &RootKey| configured.iter().any(|configured| configured.key == *key);
        let outdated = |key: &RootKey| published.is_outdated(key, now, window) && !is_configured(key);
        let stored = self.records.root_decisions()?.into_iter().map(|(key, _)| key);
        let outdated: Vec<RootKey> = stored.filter(|key| outdated(key)).collect();
        let RootKey { environment, kind, root: trusted } = root.key;
        let told = || TrustedRootEvent { root: trusted, environment, kind, added_at: now };
        let event =
            events.record(EventKind::RootAdded, None, clock.unix_millis(), || RecordedEvent::TrustedRoot(told()));
        self.decide(root.key, RootDecision { trust: Some(root.trust) }, &outdated, event.as_ref()).await?;
        if event.is_some() {
            events.written();
        }
        Ok(())
    }

    /// Does not trust a root from now on, durably. Returns whether it could be trusted before: a
    /// root that is not in the list only when it may be one of the registry or of a chain.
    pub async fn remove(&self, key: RootKey, may_be_of_others: bool) -> Result<bool, StoreError> {
        let _deciding = self.deciding.lock().await;
        let published = self.published();
        if published.is_removed(&key) || !(published.contains(&key) || may_be_of_others) {
            return Ok(false);
        }
        self.decide(key, RootDecision { trust: None }, &[], None).await?;
        Ok(true)
    }

    async fn decide(
        &self,
        key: RootKey,
        decision: RootDecision,
        outdated: &[RootKey],
        event: Option<&(UnloggedKey, RecordedEvent)>,
    ) -> Result<(), StoreError> {
        let (written, durable) = oneshot::channel();
        self.records.decide_root(&key, &decision, outdated, event, Box::new(move |result| drop(written.send(result))));
        durable.await.unwrap_or(Err(StoreError::Panicked))?;
        self.publish_stored()
    }

    pub fn publish_stored(&self) -> Result<(), StoreError> {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let decisions = self.records.root_decisions()?;
        self.published.store(Arc::new(TrustedRoots::new(self.configured.load().iter().cloned(), decisions)));
        Ok(())
    }
}

/// Why the trusted data cannot be read now.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum TrustedDataError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is followed from a chain is too old, or was not read yet.
    #[error(transparent)]
    Followed(#[from] Unavailable),
    /// A group cannot be read.
    #[error(transparent)]
    Group(GroupError),
}

/// The roots of groups and of their rolls. Reading them costs a look-up and no mailbox.
pub(crate) trait GroupRoots: Send + Sync {
    /// The age of a live root of a group at `now`; `None` when it is not live.
    ///
    /// # Errors
    /// The group cannot be read now.
    fn root_age(&self, group: &GroupId, root: Root, now: UnixSeconds) -> Result<Option<RootAge>, GroupError>;
    /// The root of a roll; `None` when the roll is not taken.
    ///
    /// # Errors
    /// The group cannot be read now.
    fn roll_root(&self, group: &GroupId, roll: &RollName) -> Result<Option<Root>, GroupError>;
    /// Waits until the roots are those that the store has.
    ///
    /// # Errors
    /// The keeper of the groups gives no answer.
    fn settle(&self) -> BoxFuture<'_, Result<(), GroupError>>;
}

impl GroupRoots for GroupsHandle {
    fn root_age(&self, group: &GroupId, root: Root, now: UnixSeconds) -> Result<Option<RootAge>, GroupError> {
        self.read_root_age(group, root, now)
    }

    fn roll_root(&self, group: &GroupId, roll: &RollName) -> Result<Option<Root>, GroupError> {
        self.read_roll_root(group, roll)
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), GroupError>> {
        GroupsHandle::settle(self).boxed()
    }
}

/// What is known of a group. One that was taken out of the configuration a moment ago has nothing.
fn known<T>(read: Result<Option<T>, GroupError>) -> Result<Option<T>, TrustedDataError> {
    match read {
        Err(GroupError::Unknown(_)) => Ok(None),
        read => read.map_err(TrustedDataError::Group),
    }
}

/// Where roots and keys come from, besides the configuration and the operator.
pub(crate) struct TrustedSources {
    pub registry: RegistryHandle,
    pub chain: ChainHandle,
    pub groups: Arc<dyn GroupRoots>,
}

/// The roots and keys as they are known at `now`, which is the service's time.
pub(super) struct TrustedDataAt<'a> {
    pub trusted: &'a TrustedRoots,
    pub registry: &'a RegistryHandle,
    pub chain: &'a ChainHandle,
    pub groups: &'a dyn GroupRoots,
    /// The contracts that could not be looked at for these proofs.
    pub unseen: &'a UnseenContracts,
    pub now: UnixSeconds,
}

impl TrustedData for TrustedDataAt<'_> {
    type Error = TrustedDataError;

    /// What the operator and the configuration say of a root wins over what a chain says.
    fn legacy(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        root: Root,
    ) -> Result<Result<RootAge, UntrustedRoot>, TrustedDataError> {
        let key = RootKey { environment, kind: ProofKind::Legacy, root };
        if self.trusted.is_removed(&key) {
            return Ok(Err(UntrustedRoot::Unknown));
        }
        let first_followed_after = |time| self.chain.first_legacy_after(environment, identifier, time);
        let trusted = self.trusted.legacy_age(environment, identifier, root, self.now, first_followed_after);
        let followed = || self.chain.legacy_age(environment, identifier, root, self.now, self.unseen);
        match &trusted {
            Ok(RootAge::Newest) | Err(UntrustedRoot::OtherIdentifiers(_)) => Ok(trusted),
            // The chain may have the root as a younger one.
            Ok(RootAge::Seconds(age)) => Ok(Ok(match followed() {
                Ok(Some(Ok(RootAge::Newest))) => RootAge::Newest,
                Ok(Some(Ok(RootAge::Seconds(followed)))) => RootAge::Seconds(followed.min(*age)),
                _ => RootAge::Seconds(*age),
            })),
            Err(_) => Ok(followed()?.unwrap_or(trusted)),
        }
    }

    /// A root that the operator took back ends at once, wherever it comes from.
    fn group(&self, group: GroupId, environment: Environment, root: Root) -> Result<Option<RootAge>, TrustedDataError> {
        if self.trusted.is_removed(&RootKey { environment, kind: ProofKind::Legacy, root }) {
            return Ok(None);
        }
        known(self.groups.root_age(&group, root, self.now))
    }

    /// A roll ends only with its own removal: what was decided of live roots is not its matter.
    fn roll(&self, group: GroupId, roll: &RollName) -> Result<Option<Root>, TrustedDataError> {
        known(self.groups.roll_root(&group, roll))
    }

    /// The registry's own roots are valid in both environments, because there is one registry. A
    /// root that the operator took back ends at once, wherever it comes from.
    fn is_current(&self, environment: Environment, root: Root) -> Result<bool, TrustedDataError> {
        if self.trusted.is_removed(&RootKey { environment, kind: ProofKind::Current, root }) {
            return Ok(false);
        }
        if self.registry.is_valid_root(root)? {
            return Ok(true);
        }
        let window = self.registry.rules().root_validity_window;
        if let Some(since) = self.trusted.current_since(environment, root)
            && self.trusted.is_current(environment, root, self.now, window)
        {
            // A later root of the chain replaced it, too.
            let replaced = self.chain.first_current_after(environment, since);
            if replaced.is_none_or(|replaced| self.now <= replaced.plus(window)) {
                return Ok(true);
            }
        }
        Ok(self.chain.is_current(environment, root, self.now, self.unseen)?.unwrap_or(false))
    }

    fn issuer_key(
        &self,
        environment: Environment,
        issuer_schema_id: u64,
    ) -> Result<Option<PublicKey>, TrustedDataError> {
        match self.chain.key(environment, KeyOwner::Issuer(issuer_schema_id), self.now)? {
            Some((FollowedKey::Present(key), _)) => Ok(Some(key)),
            _ => Ok(None),
        }
    }
}

// The trusted roots as callers of the handle read and change them.

impl VerificationHandle {
    /// The trusted roots.
    pub fn trusted_roots(&self) -> Arc<TrustedRoots> {
        self.inner.roots.published()
    }

    /// Reads the operator's decisions about roots again, which another replica has written.
    pub(crate) fn reload_root_decisions(&self) -> Result<(), StoreError> {
        self.inner.roots.publish_stored()
    }

    /// Replaces the roots of the configuration. A root that was removed by command stays removed.
    ///
    /// # Errors
    /// The stored decisions cannot be read; the old roots stay.
    pub fn set_configured_roots(&self, roots: Vec<TrustedRoot>) -> Result<(), StoreError> {
        self.inner.roots.set_configured(roots)
    }

    /// Trusts a root from now on, durably. A root that is trusted already gets the new time and the
    /// new identifiers. The work is spawned, so it continues when the caller is cancelled.
    pub async fn trust_root(&self, root: TrustedRoot) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        let window = inner.registry.rules().root_validity_window;
        let adding =
            tokio::spawn(async move { inner.roots.add(root, inner.clock.as_ref(), window, &inner.events).await });
        adding.await.unwrap_or(Err(StoreError::Panicked))
    }

    /// Takes a root back: no proof against it passes from now on, also after a restart, and also
    /// when the configuration lists the root, or the registry or a chain has it. Returns whether it
    /// could be trusted. The work is spawned, so it continues when the caller is cancelled.
    pub async fn remove_root(&self, root: RootKey) -> Result<bool, StoreError> {
        let inner = Arc::clone(&self.inner);
        let removing = tokio::spawn(async move {
            let (registry, is_current) = (inner.registry.clone(), root.kind == ProofKind::Current);
            let work = move || Ok::<_, StoreError>(is_current && registry.has_root(root.root)?);
            let of_registry = inner.blocking.run(work).await;
            let may_be_of_others = !inner.chain.is_empty() || of_registry.unwrap_or(Err(StoreError::Panicked))?;
            inner.roots.remove(root, may_be_of_others).await
        });
        removing.await.unwrap_or(Err(StoreError::Panicked))
    }
}

/// What came of the items' checks; the outer error is that of followed data which cannot decide
/// now.
pub(super) type CheckedItems = Result<Vec<Result<EncodedClaim, ItemError>>, Unavailable>;

/// Whether an item failed because its root is unknown, or followed data could not decide.
pub(super) fn has_unknown_root(checked: &CheckedItems) -> bool {
    match checked {
        Ok(items) => items.iter().any(|item| item.as_ref().is_err_and(ItemError::is_unknown_root)),
        Err(_) => true,
    }
}

/// The roots of the items that failed because their root is unknown, as far as a chain could have
/// them: no chain has those of groups. All of them, when followed data could not decide.
pub(super) fn roots_to_look_for(
    proofs: &Proofs,
    environment: Environment,
    directory: &Directory,
    checked: &CheckedItems,
) -> HashSet<(RootUse, Root)> {
    let root_use = |credential| match credential {
        LegacyCredential::Public(identifier) => {
            directory.group_of(environment, credential).is_none().then_some(RootUse::Legacy(identifier))
        }
        LegacyCredential::Group(_) => None,
    };
    let roots: Vec<(Option<RootUse>, Root)> = match proofs {
        Proofs::Legacy { items, .. } => {
            items.iter().map(|item| (root_use(item.identifier), item.merkle_root)).collect()
        }
        Proofs::Uniqueness { items, .. } | Proofs::Session { items, .. } => {
            items.iter().map(|item| (Some(RootUse::Current), item.root)).collect()
        }
    };
    let is_unknown = |index: usize| match checked {
        Ok(items) => items[index].as_ref().is_err_and(ItemError::is_unknown_root),
        Err(_) => true,
    };
    let unknown = roots.into_iter().enumerate().filter(|(index, _)| is_unknown(*index));
    unknown.filter_map(|(_, (root_use, root))| Some((root_use?, root))).collect()
}
