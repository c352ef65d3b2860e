//! What is followed from chains, as verification and front-ends read it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use selfsame_protocol::chain::contracts::FollowedKey;
use selfsame_protocol::chain::deployment::RegisteredParty;
use selfsame_protocol::chain::followed::{FollowedRoots, KeyOwner, RootJudgement, Unavailable};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::roots::{RootAge, UntrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use tokio::time::Instant;

use super::contract::Contract;
use super::messages::FollowerMessage;
use super::root_source::RootSource;
use super::settings::{FollowedOwner, KeyContract};
use super::state::{ChainState, FollowedSource};
use super::status::ChainStatus;

/// The longest time that a proof waits because its root is looked for.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// What is followed from chains. Cheap to clone. The handle stays valid when its actors restart.
#[derive(Clone)]
pub struct ChainHandle {
    state: Arc<ChainState>,
}

/// The proofs that a root is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RootUse {
    /// Legacy proofs for a credential.
    Legacy(LegacyIdentifier),
    /// Current proofs.
    Current,
}

/// The names of the contracts that could not be looked at.
pub(crate) type Unseen = HashSet<Arc<str>>;

impl ChainHandle {
    pub(crate) fn new(state: Arc<ChainState>) -> Self {
        Self { state }
    }

    /// The age of a legacy root that a contract published for a credential; `None` when no contract
    /// is followed for the credential. The root is the newest when no contract of the credential
    /// has a later one; its age is the time since one had. `unseen` are the contracts that could
    /// not be looked at for the root.
    ///
    /// # Errors
    /// The contracts that may have published the root cannot decide now.
    pub(crate) fn legacy_age(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        root: Root,
        now: UnixSeconds,
        unseen: &Unseen,
    ) -> Result<Option<Result<RootAge, UntrustedRoot>>, Unavailable> {
        let (mut best, mut unknown_to, mut unavailable) = (None, None, None);
        for (followed, halt) in self.roots_for(environment, RootUse::Legacy(identifier)) {
            match halt.map_or_else(|| followed.legacy_age(root, now), Err) {
                Ok(RootJudgement::Published(RootAge::Newest)) => {
                    // Another contract of the credential may have a later root.
                    let own = followed.history.newest().map(|(_, published)| published.time);
                    match own.and_then(|own| self.first_legacy_after(environment, identifier, own)) {
                        Some(replaced_at) => {
                            let age = now.since(replaced_at);
                            best = Some(best.map_or(age, |best: u64| best.min(age)));
                        }
                        None => return Ok(Some(Ok(RootAge::Newest))),
                    }
                }
                Ok(RootJudgement::Published(RootAge::Seconds(age))) => {
                    best = Some(best.map_or(age, |best: u64| best.min(age)));
                }
                Ok(RootJudgement::Unknown) if unseen.contains(&followed.source) => {
                    unavailable = Some(followed.unavailable(now));
                }
                Ok(RootJudgement::Unknown) => unknown_to = Some(Arc::clone(&followed.source)),
                Err(error) => unavailable = Some(error),
            }
        }
        match (best, unavailable, unknown_to) {
            (Some(age), ..) => Ok(Some(Ok(RootAge::Seconds(age)))),
            (None, Some(error), _) => Err(error),
            (None, None, Some(source_name)) => Ok(Some(Err(self.untrusted(environment, root, source_name)))),
            (None, None, None) => Ok(None),
        }
    }

    /// Whether a current root counts that a contract published; `None` when no contract is
    /// followed in the environment. `unseen` are the contracts that could not be looked at for the
    /// root.
    ///
    /// # Errors
    /// The contracts that may have published the root cannot decide now.
    pub(crate) fn is_current(
        &self,
        environment: Environment,
        root: Root,
        now: UnixSeconds,
        unseen: &Unseen,
    ) -> Result<Option<bool>, Unavailable> {
        let (mut decided, mut unavailable) = (None, None);
        for (followed, halt) in self.roots_for(environment, RootUse::Current) {
            match halt.map_or_else(|| followed.is_valid(root, now), Err) {
                Ok(RootJudgement::Published(true)) => return Ok(Some(true)),
                Ok(RootJudgement::Unknown) if unseen.contains(&followed.source) => {
                    unavailable = Some(followed.unavailable(now));
                }
                Ok(RootJudgement::Published(false) | RootJudgement::Unknown) => decided = Some(false),
                Err(error) => unavailable = Some(error),
            }
        }
        unavailable.map_or(Ok(decided), Err)
    }

    /// The time of the first followed current root that is later than a time.
    pub(crate) fn first_current_after(&self, environment: Environment, time: UnixSeconds) -> Option<UnixSeconds> {
        let sources = self.roots_for(environment, RootUse::Current);
        sources.filter_map(|(followed, _)| followed.history.first_after(time)).min()
    }

    /// The key of an owner, with the name of the contract that it is followed from; `None` when it
    /// is not followed.
    ///
    /// # Errors
    /// The contract cannot decide now.
    pub(crate) fn key(
        &self,
        environment: Environment,
        owner: KeyOwner,
        now: UnixSeconds,
    ) -> Result<Option<(FollowedKey, Arc<str>)>, Unavailable> {
        let (mut decided, mut unavailable) = (None, None);
        for source in self.state.key_sources() {
            let followed = source.published();
            if followed.environment != environment {
                continue;
            }
            let key = match source.halt() {
                Some(halt) if followed.keys.contains_key(&owner) => Err(halt),
                _ => followed.get(owner, now),
            };
            match key {
                Ok(Some(key @ FollowedKey::Present(_))) => return Ok(Some((key, Arc::clone(&followed.source)))),
                Ok(key) => decided = decided.or(key.map(|key| (key, Arc::clone(&followed.source)))),
                Err(error) => unavailable = Some(error),
            }
        }
        unavailable.map_or(Ok(decided), Err)
    }

    /// The time of the first followed root of a credential that is later than a time.
    pub(crate) fn first_legacy_after(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        time: UnixSeconds,
    ) -> Option<UnixSeconds> {
        let sources = self.roots_for(environment, RootUse::Legacy(identifier));
        sources.filter_map(|(followed, _)| followed.history.first_after(time)).min()
    }

    /// Looks at the contracts again that may have published these roots and do not have them, for
    /// at most a second. Many callers cause one look. Returns the contracts that could not be
    /// looked at, which therefore cannot say that a root does not exist.
    pub(crate) async fn look_for(
        &self,
        environment: Environment,
        wanted: &HashSet<(RootUse, Root)>,
        deadline: Instant,
    ) -> Unseen {
        let lacks = |source: &&RootSource| {
            let followed = source.published();
            let is_wanted =
                |(of, root): &(RootUse, Root)| is_for(&followed, *of) && followed.history.get(*root).is_none();
            followed.environment == environment && wanted.iter().any(is_wanted)
        };
        let deadline = deadline.min(Instant::now() + LOOK_LIMIT);
        let look = |source: &Arc<FollowedSource>| {
            let (source, name) = (Arc::clone(source), source.contract.name().into());
            async move {
                let was_seen = source.slot.call(FollowerMessage::Look, deadline).await;
                (!matches!(was_seen, Ok(true))).then_some(name)
            }
        };
        let looks = self.state.sources().filter(|source| match &source.contract {
            Contract::Roots(roots) => lacks(&&**roots),
            _ => false,
        });
        join_all(looks.map(look)).await.into_iter().flatten().collect()
    }

    /// Changes the owners whose keys are followed in an environment, from the next step on, which
    /// this causes.
    pub fn set_owners(&self, environment: Environment, contract: KeyContract, owners: &[FollowedOwner]) {
        for source in self.state.sources() {
            match &source.contract {
                Contract::Keys(keys)
                    if (keys.settings.environment, keys.settings.contract) == (environment, contract) =>
                {
                    keys.set_owners(owners.to_vec());
                }
                Contract::RelyingParties(parties)
                    if (parties.settings.environment, KeyContract::OprfKeys) == (environment, contract) =>
                {
                    parties.set_parties(owners.iter().filter_map(|owner| owner.owner.relying_party()).collect());
                }
                _ => continue,
            }
            source.slot.cast(FollowerMessage::Poll);
        }
    }

    /// What the registry of relying parties of an environment said last about one: the inner `None`
    /// when it is not registered, the outer one when no registry was asked about it.
    pub(crate) fn relying_party(
        &self,
        environment: Environment,
        rp_id: RelyingPartyId,
    ) -> Option<Option<RegisteredParty>> {
        self.state.sources().find_map(|source| match &source.contract {
            Contract::RelyingParties(parties) if parties.settings.environment == environment => {
                parties.published().parties.iter().find(|(asked, _)| *asked == rp_id).map(|(_, found)| *found)
            }
            _ => None,
        })
    }

    /// Whether nothing is followed.
    pub fn is_empty(&self) -> bool {
        self.state.chains.is_empty()
    }

    /// The chains with their contracts, as they are at `now`, the service's time.
    pub fn status(&self, now: UnixSeconds) -> Vec<ChainStatus> {
        self.state.chains.iter().map(|chain| chain.status(now)).collect()
    }

    /// The followed roots for some proofs, each with the reason why they do not count.
    fn roots_for(
        &self,
        environment: Environment,
        of: RootUse,
    ) -> impl Iterator<Item = (Arc<FollowedRoots>, Option<Unavailable>)> {
        let published = self.state.root_sources().map(|source| (source.published(), source.halt()));
        published.filter(move |(followed, _)| followed.environment == environment && is_for(followed, of))
    }

    /// Why a root that no contract of its credential published does not count.
    fn untrusted(&self, environment: Environment, root: Root, source_name: Arc<str>) -> UntrustedRoot {
        let sources = self.state.root_sources().map(RootSource::published);
        let publisher = sources
            .filter(|followed| followed.environment == environment && !followed.is_current())
            .find(|followed| followed.history.get(root).is_some());
        match publisher {
            Some(publisher) => UntrustedRoot::OtherIdentifiers(publisher.identifiers().to_vec()),
            None => UntrustedRoot::Unpublished { source_name },
        }
    }
}

fn is_for(followed: &FollowedRoots, of: RootUse) -> bool {
    match of {
        RootUse::Legacy(identifier) => followed.identifiers().contains(&identifier),
        RootUse::Current => followed.is_current(),
    }
}
