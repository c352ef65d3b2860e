//! What is followed from chains, as verification and front-ends read it, and as status and metrics
//! show it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::FollowedKey;
use selfsame_protocol::chain::deployment::{Deployment, RegisteredParty};
use selfsame_protocol::chain::followed::{FollowedRoots, KeyOwner, RootJudgement, Unavailable};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::roots::{RootAge, UntrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use selfsame_storage::{Metrics, Samples};
use serde::Serialize;
use tokio::time::Instant;

use super::contracts::{FollowedOwner, KeyContract};
use super::deployment::{CodeWatch, party_state};
use super::follower::{ChainState, Contract, FollowedChain, FollowedSource, FollowerMessage};
use super::key_source::state_name;
use super::nodes::NodeStatus;
use super::root_source::RootSource;
use crate::clock::Clock;

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
pub(crate) type UnseenContracts = HashSet<Arc<str>>;

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
        unseen: &UnseenContracts,
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
        unseen: &UnseenContracts,
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
    ) -> UnseenContracts {
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

    /// Adds the numbers of each followed contract to `metrics`; `clock` gives the time of ages.
    pub(crate) fn register(&self, metrics: &mut Metrics, clock: Arc<dyn Clock>) {
        let chain = self.clone();
        metrics.add_group(move |samples| write_metrics(&chain.status(clock.unix_seconds()), samples));
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

// What is followed from chains, as status and metrics show it.

/// The state of a contract that is up to date.
const FOLLOWING: &str = "following";

/// A chain, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct ChainStatus {
    /// Its configured name.
    pub name: String,
    /// The number that its transactions are signed with.
    pub chain_id: u64,
    /// How many nodes must give the same answer.
    pub agree: usize,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
    /// Answers of single nodes that were outvoted, since the start.
    pub outvoted: u64,
    /// The contracts.
    pub sources: Vec<SourceStatus>,
}

/// A followed contract, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct SourceStatus {
    /// Its configured name.
    pub name: String,
    /// Where it is; null before the verifier contract said so.
    pub address: Option<Address>,
    /// The address that the verifier contract names, when it is not the configured one, which
    /// counts; null otherwise.
    pub elsewhere: Option<Address>,
    /// The environment whose proofs it is for.
    pub environment: Environment,
    /// `reading` until it was read up to the newest block, then `following`; `stale` when its data
    /// is so old that proofs are refused; `stopped` while proofs are refused because of code that
    /// was not accepted.
    pub state: &'static str,
    /// The newest block that the nodes named, and the last one that was read.
    pub head: u64,
    /// The last block that was read.
    pub read: u64,
    /// The age of the newest block at which the data was complete, in seconds; null before the
    /// first one.
    pub confirmed_seconds_ago: Option<u64>,
    /// From this age on proofs are refused, in seconds.
    pub stale_after: u64,
    /// Seconds since the last good step of this run; null before it.
    pub answered_seconds_ago: Option<u64>,
    /// Why the last step failed; null when it did not.
    pub failure: Option<String>,
    /// The implementation behind the contract, the zero address when it is not a proxy; null when
    /// it was not read.
    pub implementation: Option<Address>,
    /// What of the contract's code was not accepted; null when all was.
    pub alarm: Option<String>,
    /// What needs the operator's attention although the contract is followed: that roots are known
    /// for less time than they are kept. Null when nothing does.
    pub warning: Option<String>,
    /// Reorganizations that were followed, since the start.
    pub reorganizations: u64,
    /// What is followed.
    #[serde(flatten)]
    pub data: SourceData,
}

impl SourceStatus {
    /// Whether the contract was read, and its data is not so old that proofs are refused.
    pub fn is_usable(&self) -> bool {
        self.state == FOLLOWING
    }
}

/// What is followed of a contract, in the status.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SourceData {
    /// Roots.
    Roots {
        /// The credentials of a legacy tree; empty for current roots.
        identifiers: Vec<LegacyIdentifier>,
        /// How many roots are kept.
        roots: usize,
        /// The newest root; null before the first one.
        newest_root: Option<Root>,
        /// The age of the newest root, in seconds.
        newest_root_seconds_ago: Option<u64>,
        /// For how long back every published root is known, in seconds; null before the roots were
        /// read. It may be more than `reach`, of which older roots are forgotten.
        known_for_seconds: Option<u64>,
        /// For how long back roots are kept and should be known, in seconds.
        reach_seconds: u64,
        /// How often the history was read again from nothing since the start, because it
        /// contradicted itself.
        restarts: u64,
    },
    /// Keys.
    Keys {
        /// The keys of the followed owners.
        keys: Vec<KeyStatus>,
    },
    /// Where the contracts of a deployment are.
    Verifier {
        /// What the verifier contract said last; null before the first time.
        deployment: Option<DeploymentStatus>,
    },
    /// Relying parties.
    RelyingParties {
        /// The configured relying parties.
        relying_parties: Vec<PartyStatus>,
    },
}

/// The contracts that a verifier contract names, in the status.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeploymentStatus {
    /// The registry of accounts.
    pub registry: Address,
    /// The registry of issuers.
    pub issuers: Address,
    /// The registry of OPRF keys.
    pub oprf_keys: Address,
    /// The contract that checks the proof itself.
    pub proof_verifier: Address,
}

/// A relying party in its registry, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct PartyStatus {
    /// Its numeric id.
    pub rp_id: RelyingPartyId,
    /// `active`, `inactive` or `unregistered`.
    pub state: &'static str,
    /// The address whose key signs its requests for proofs; null when it is not registered.
    pub signer: Option<Address>,
}

/// A followed key, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct KeyStatus {
    /// Whose key it is.
    pub owner: String,
    /// `present`, `absent`, `deleted`, `unusable`, or `unread` before it was read.
    pub state: &'static str,
    /// Whether the configuration has another key, which then counts.
    pub differs_from_configuration: bool,
}

impl FollowedChain {
    pub(super) fn status(&self, now: UnixSeconds) -> ChainStatus {
        ChainStatus {
            name: self.name.clone(),
            chain_id: self.chain_id,
            agree: self.agree,
            nodes: self.nodes.status(),
            outvoted: self.nodes.outvoted(),
            sources: self.sources.iter().map(|source| source.status(now)).collect(),
        }
    }
}

impl FollowedSource {
    fn status(&self, now: UnixSeconds) -> SourceStatus {
        let progress = self.contract.progress();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let data = match &self.contract {
            Contract::Roots(source) => {
                let followed = source.published();
                let newest = followed.history.newest().map(|(_, published)| published);
                SourceData::Roots {
                    identifiers: followed.identifiers().to_vec(),
                    roots: followed.history.len(),
                    newest_root: newest.map(|published| published.root),
                    newest_root_seconds_ago: newest.map(|published| now.since(published.time)),
                    known_for_seconds: source.known_from().map(|known_from| now.since(known_from.time)),
                    reach_seconds: source.settings.reach.as_secs(),
                    restarts: count(&progress.restarts),
                }
            }
            Contract::Keys(source) => {
                let followed = source.published();
                let differing = source.differing();
                let mut keys: Vec<_> = followed.keys.iter().collect();
                keys.sort_by_key(|(owner, _)| **owner);
                let status = |(owner, key): (&KeyOwner, &Option<FollowedKey>)| KeyStatus {
                    owner: owner.to_string(),
                    state: key.as_ref().map_or("unread", state_name),
                    differs_from_configuration: differing.contains(owner),
                };
                SourceData::Keys { keys: keys.into_iter().map(status).collect() }
            }
            Contract::Verifier(source) => {
                SourceData::Verifier { deployment: source.deployment().map(deployment_status) }
            }
            Contract::RelyingParties(source) => {
                let status = |(party, registered): &(RelyingPartyId, Option<RegisteredParty>)| PartyStatus {
                    rp_id: *party,
                    state: party_state(registered.as_ref()),
                    signer: registered.map(|registered| registered.signer),
                };
                SourceData::RelyingParties { relying_parties: source.published().parties.iter().map(status).collect() }
            }
        };
        let stale_after = self.contract.freshness().stale_after.as_secs();
        let age = self.contract.confirmed().map(|header| now.since(header.time));
        let (answered_seconds_ago, failure) = self.health();
        let code = self.contract.code();
        SourceStatus {
            name: self.contract.name().to_owned(),
            address: self.contract.address(),
            elsewhere: self.contract.elsewhere(),
            environment: self.contract.environment(),
            state: match (age, self.contract.halt()) {
                (_, Some(Unavailable::Unaccepted { .. })) => "stopped",
                (None, _) | (_, Some(_)) => "reading",
                (Some(age), None) if age > stale_after => "stale",
                (Some(_), None) => FOLLOWING,
            },
            head: count(&progress.head),
            read: count(&progress.read),
            confirmed_seconds_ago: age,
            stale_after,
            answered_seconds_ago,
            failure,
            implementation: code.and_then(CodeWatch::now).and_then(|code| code.implementation),
            alarm: code.and_then(CodeWatch::unaccepted).map(|code| code.to_string()),
            warning: match &self.contract {
                Contract::Roots(source) => source.missing_history(now),
                _ => None,
            },
            reorganizations: count(&progress.reorganizations),
            data,
        }
    }
}

fn deployment_status(deployment: Deployment) -> DeploymentStatus {
    let Deployment { registry, issuers, oprf_keys, proof_verifier } = deployment;
    DeploymentStatus { registry, issuers, oprf_keys, proof_verifier }
}

fn write_metrics(chains: &[ChainStatus], samples: &mut Samples<'_>) -> fmt::Result {
    let sources: Vec<&SourceStatus> = chains.iter().flat_map(|chain| &chain.sources).collect();
    let ages = |age: fn(&SourceStatus) -> Option<u64>| {
        sources.iter().filter_map(move |source| Some(([("source", source.name.as_str())], age(source)?)))
    };
    let help = "Age of the last block at which a contract's data was complete";
    samples.gauges("selfsame_chain_confirmed_age_seconds", help, ages(|source| source.confirmed_seconds_ago))?;
    let help = "Age of a contract's newest root";
    samples.gauges("selfsame_chain_newest_root_age_seconds", help, ages(newest_root_age))?;
    let flags = |flag: fn(&SourceStatus) -> bool| {
        sources.iter().map(move |source| ([("source", source.name.as_str())], u64::from(flag(source))))
    };
    let help = "1 while a contract's data is unread or too old, so that proofs are refused";
    samples.gauges("selfsame_chain_stale", help, flags(|source| !source.is_usable()))?;
    let help = "1 while the last look at a contract failed";
    samples.gauges("selfsame_chain_failing", help, flags(|source| source.failure.is_some()))?;
    let help = "1 while a contract runs code that was not accepted";
    samples.gauges("selfsame_chain_alarm", help, flags(|source| source.alarm.is_some()))?;
    let reorganizations = sources.iter().map(|source| ([("source", source.name.as_str())], source.reorganizations));
    samples.counters("selfsame_chain_reorganizations", "Reorganizations that were followed", reorganizations)
}

fn newest_root_age(source: &SourceStatus) -> Option<u64> {
    match source.data {
        SourceData::Roots { newest_root_seconds_ago, .. } => newest_root_seconds_ago,
        _ => None,
    }
}
