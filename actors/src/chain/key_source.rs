//! Follows the keys of one contract: the keys of the configured owners, read again at each step.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use selfsame_protocol::Bytes;
use selfsame_protocol::chain::contracts::{
    Answer, AnswerError, BlockTag, FollowedKey, Header, Question, issuer_key_call, oprf_key_call, read_issuer_key,
    read_oprf_key,
};
use selfsame_protocol::chain::deployment::InDeployment;
use selfsame_protocol::chain::followed::{FollowedKeys, KeyOwner, Unavailable};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{ChainRecords, KeySourceRecord, StoreError};

use super::contracts::{ChainError, FollowedOwner, KeyContract, KeySourceSettings};
use super::deployment::{CodeWatch, Location, Place, VerifierSource};
use super::follower::{Progress, durably};
use super::nodes::{Nodes, Refusal};
use crate::clock::Clock;

/// The most keys that one round trip asks for.
const KEYS_PER_QUESTION: usize = 100;

/// How far the stored time may be behind the read one, in seconds of the chain.
const STORE_INTERVAL: u64 = 300;

const WHAT: &str = "public keys";

/// The keys of one contract.
pub(super) struct KeySource {
    pub settings: KeySourceSettings,
    pub location: Location,
    pub code: CodeWatch,
    nodes: Arc<Nodes>,
    records: Arc<ChainRecords>,
    clock: Arc<dyn Clock>,
    /// Held while the keys are published, so that they are those of these owners.
    owners: Mutex<Vec<FollowedOwner>>,
    published: ArcSwap<FollowedKeys>,
    pub progress: Progress,
}

impl KeySource {
    /// The source as it is stored.
    pub fn load(
        settings: KeySourceSettings,
        chain_id: u64,
        verifier: Option<Arc<VerifierSource>>,
        nodes: Arc<Nodes>,
        records: Arc<ChainRecords>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let (kind, in_deployment): (_, InDeployment) = match settings.contract {
            KeyContract::Issuers => ("issuers", |deployment| deployment.issuers),
            KeyContract::OprfKeys => ("oprf keys", |deployment| deployment.oprf_keys),
        };
        let location = Location::new(&settings.name, chain_id, kind, settings.place, verifier, in_deployment);
        let code = CodeWatch::new(&settings.name, settings.code.clone(), Arc::clone(&records));
        let owners = Mutex::new(settings.owners.clone());
        let published = FollowedKeys {
            source: settings.name.as_str().into(),
            environment: settings.environment,
            stale_after: settings.freshness.stale_after.as_secs(),
            confirmed: None,
            keys: known_keys(&settings.owners, &HashMap::new()),
        };
        let (published, progress) = (ArcSwap::from_pointee(published), Progress::default());
        let source = Self { settings, location, code, nodes, records, clock, owners, published, progress };
        if let Some(place) = source.location.place() {
            source.publish_stored(place)?;
        }
        Ok(source)
    }

    /// Publishes the keys as they are stored for a contract.
    fn publish_stored(&self, place: Place) -> Result<(), StoreError> {
        let (confirmed, stored) = match self.records.key_source(place.id)? {
            Some(KeySourceRecord { confirmed, keys }) => (Some(confirmed), HashMap::from_iter(keys)),
            None => (None, HashMap::new()),
        };
        let owners = self.owners();
        let keys = known_keys(&owners, &stored);
        self.published.store(Arc::new(FollowedKeys { confirmed, keys, ..FollowedKeys::clone(&self.published()) }));
        Ok(())
    }

    /// Changes the owners whose keys are followed. The key of a new one is unknown until the next
    /// step.
    pub fn set_owners(&self, owners: Vec<FollowedOwner>) {
        let mut own = self.owners();
        let before = self.published();
        let read = before.keys.iter().filter_map(|(owner, key)| Some((*owner, (*key)?))).collect();
        let keys = known_keys(&owners, &read);
        self.published.store(Arc::new(FollowedKeys { keys, ..FollowedKeys::clone(&before) }));
        *own = owners;
    }

    /// The owners whose configured key is not the followed one.
    pub fn differing(&self) -> Vec<KeyOwner> {
        let published = self.published();
        let differs = |owner: &&FollowedOwner| {
            let followed = published.keys.get(&owner.owner).copied().flatten();
            owner.configured.is_some_and(|key| followed.is_some_and(|followed| followed != FollowedKey::Present(key)))
        };
        self.owners().iter().filter(differs).map(|owner| owner.owner).collect()
    }

    fn owners(&self) -> MutexGuard<'_, Vec<FollowedOwner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing of the contract counts: it, or the verifier of its deployment, runs code that
    /// was not accepted.
    pub fn halt(&self) -> Option<Unavailable> {
        self.location.halt().or_else(|| self.code.halt())
    }

    /// The keys, as verification reads them.
    pub fn published(&self) -> Arc<FollowedKeys> {
        self.published.load_full()
    }

    /// Reads all keys. Call one at a time.
    pub async fn step(&self) -> Result<(), ChainError> {
        let place = self.location.find().await?;
        if self.location.place() != Some(place) {
            self.publish_stored(place)?;
            self.location.move_to(place);
        }
        let now = self.clock.unix_seconds();
        let recent = now.minus(self.settings.freshness.fresh_for.as_secs());
        let head = self.nodes.head(BlockTag::Latest, recent, now).await?;
        self.progress.head.store(head.number, Ordering::Relaxed);
        let before = self.published();
        if let Some(confirmed) = before.confirmed
            && confirmed.time > head.time
        {
            // Nodes behind one address are not always at the same block.
            let behind = ChainError::Behind { head: head.number, known: confirmed.number };
            return if head.time >= recent { Ok(()) } else { Err(behind) };
        }
        self.code.look(&self.nodes, place, head, None).await?;
        let (newest, refusal) = self.read_keys(place, head).await?;
        let settled = match self.settings.added_at {
            BlockTag::Latest => Ok(None),
            tag => self.read_settled_keys(place, tag, now).await.map(Some),
        };
        // A new key waits until its block is settled; a key that is gone does not count any more.
        let counts = |(owner, newest): (&KeyOwner, &FollowedKey)| {
            let is_settled = match settled.as_ref().map(|settled| settled.as_ref().map(|keys| keys.get(owner))) {
                Ok(None) => true,
                Ok(Some(Some(settled))) => settled == newest,
                // A key that the nodes refused to tell may be there.
                Ok(Some(None)) | Err(_) => before.keys.get(owner) == Some(&Some(*newest)),
            };
            let is_present = matches!(newest, FollowedKey::Present(_));
            (*owner, if is_present && !is_settled { FollowedKey::Absent } else { *newest })
        };
        let keys: HashMap<_, _> = newest.iter().map(counts).collect();
        let is_changed = keys.iter().any(|(owner, key)| before.keys.get(owner) != Some(&Some(*key)));
        let is_due = before.confirmed.is_none_or(|confirmed| head.time.since(confirmed.time) >= STORE_INTERVAL);
        if is_due || is_changed {
            self.store(place, head, &keys).await?;
        }
        self.publish(head, &keys);
        settled?;
        refusal.map_or(Ok(()), |refusal| Err(ChainError::Refused { what: WHAT, refusal }))
    }

    /// Publishes the keys of the owners that are followed now.
    fn publish(&self, head: Header, keys: &HashMap<KeyOwner, FollowedKey>) {
        let owners = self.owners();
        let before = self.published();
        self.log_changes(&owners, &before.keys, keys);
        self.progress.read.store(head.number, Ordering::Relaxed);
        let keys = known_keys(&owners, keys);
        self.published.store(Arc::new(FollowedKeys { confirmed: Some(head), keys, ..FollowedKeys::clone(&before) }));
    }

    async fn read_settled_keys(
        &self,
        place: Place,
        tag: BlockTag,
        now: UnixSeconds,
    ) -> Result<HashMap<KeyOwner, FollowedKey>, ChainError> {
        let settled = self.nodes.head(tag, UnixSeconds(0), now).await?;
        Ok(self.read_keys(place, settled).await?.0)
    }

    /// The keys of the owners. An owner is missing whose key the nodes refused to tell, with the
    /// refusal; one unusable key does not keep the others from being read.
    async fn read_keys(
        &self,
        place: Place,
        at: Header,
    ) -> Result<(HashMap<KeyOwner, FollowedKey>, Option<Refusal>), ChainError> {
        let owners: Vec<_> = self.owners().iter().map(|owner| owner.owner).collect();
        let (mut keys, mut refused) = (HashMap::with_capacity(owners.len()), None);
        for owners in owners.chunks(KEYS_PER_QUESTION) {
            let call = |owner: &KeyOwner| Question::Call { to: place.address, data: key_call(*owner), at: at.hash };
            let questions: Vec<_> = owners.iter().map(call).collect();
            for (owner, answer) in owners.iter().zip(self.nodes.ask(&questions, WHAT).await?) {
                match answer.map(|answer| read_key(*owner, &answer)) {
                    Ok(Ok(key)) => drop(keys.insert(*owner, key)),
                    Ok(Err(AnswerError::Key(_) | AnswerError::Reverted { .. })) => {
                        keys.insert(*owner, FollowedKey::Unusable);
                    }
                    Ok(Err(error)) => return Err(ChainError::Answer { what: WHAT, error }),
                    Err(refusal) => refused = Some(refusal),
                }
            }
        }
        match refused {
            Some(refusal) if keys.is_empty() => Err(ChainError::Refused { what: WHAT, refusal }),
            refused => Ok((keys, refused)),
        }
    }

    async fn store(
        &self,
        place: Place,
        confirmed: Header,
        keys: &HashMap<KeyOwner, FollowedKey>,
    ) -> Result<(), ChainError> {
        let mut keys: Vec<_> = keys.iter().map(|(owner, key)| (*owner, *key)).collect();
        keys.sort_by_key(|(owner, _)| *owner);
        let record = KeySourceRecord { confirmed, keys };
        durably(&self.records, |records, durable| records.write_keys(place.id, &record, durable)).await
    }

    /// Logs what changed, and names the configured keys that are not the contract's.
    fn log_changes(
        &self,
        owners: &[FollowedOwner],
        before: &HashMap<KeyOwner, Option<FollowedKey>>,
        keys: &HashMap<KeyOwner, FollowedKey>,
    ) {
        let source = &self.settings.name;
        for FollowedOwner { owner, configured } in owners {
            let Some(key) = keys.get(owner).filter(|key| before.get(owner) != Some(&Some(**key))) else { continue };
            let state = state_name(key);
            tracing::info!(source, %owner, state, "a followed key was read for the first time or changed");
            if configured.is_some_and(|configured| *key != FollowedKey::Present(configured)) {
                tracing::warn!(source, %owner, "the configured public key is not the contract's; the configured one counts");
            }
        }
    }
}

/// The keys of these owners, as far as they are known.
fn known_keys(
    owners: &[FollowedOwner],
    known: &HashMap<KeyOwner, FollowedKey>,
) -> HashMap<KeyOwner, Option<FollowedKey>> {
    owners.iter().map(|owner| (owner.owner, known.get(&owner.owner).copied())).collect()
}

fn key_call(owner: KeyOwner) -> Bytes {
    match owner {
        KeyOwner::Issuer(id) => issuer_key_call(id),
        KeyOwner::RelyingParty(rp_id) => oprf_key_call(rp_id.0),
    }
}

fn read_key(owner: KeyOwner, answer: &Answer) -> Result<FollowedKey, AnswerError> {
    match owner {
        KeyOwner::Issuer(_) => read_issuer_key(answer),
        KeyOwner::RelyingParty(_) => read_oprf_key(answer),
    }
}

/// The state of a key in a word, for logs and status.
pub(super) fn state_name(key: &FollowedKey) -> &'static str {
    match key {
        FollowedKey::Present(_) => "present",
        FollowedKey::Absent => "absent",
        FollowedKey::Deleted => "deleted",
        FollowedKey::Unusable => "unusable",
    }
}
