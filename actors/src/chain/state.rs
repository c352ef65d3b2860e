//! The followed contracts, with the slots of their followers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_storage::{ChainRecords, FaultScope, StoreError};
use tokio::time::Instant;

use super::contract::Contract;
use super::error::ChainError;
use super::key_source::KeySource;
use super::messages::FollowerMessage;
use super::nodes::Nodes;
use super::party_source::PartySource;
use super::progress::{Progress, Step};
use super::root_source::RootSource;
use super::settings::ChainSettings;
use super::verifier_source::VerifierSource;
use crate::clock::Clock;
use crate::support::slot::Slot;

/// How many steps in a row fail before the log says so, and how often it repeats it. A step fails
/// now and then when nodes behind one address are not at the same block.
const LOG_FROM: u32 = 2;
const LOG_EVERY: u32 = 30;

/// All chains that are followed.
#[derive(Default)]
pub(crate) struct ChainState {
    pub(super) chains: Vec<FollowedChain>,
}

/// A chain with its contracts.
pub(super) struct FollowedChain {
    pub name: String,
    pub chain_id: u64,
    pub agree: usize,
    pub nodes: Arc<Nodes>,
    pub sources: Vec<Arc<FollowedSource>>,
}

/// A contract, and where its follower is reached.
pub(crate) struct FollowedSource {
    pub slot: Arc<Slot<FollowerMessage>>,
    pub fault_scope: FaultScope,
    pub(super) contract: Contract,
    /// Held during a step: one that a stopped follower began may not have ended.
    stepping: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
}

#[derive(Clone, Default)]
struct Health {
    /// When the last good step ended.
    succeeded: Option<Instant>,
    /// Why the last step failed.
    failure: Option<String>,
}

impl ChainState {
    /// The state of an instance whose followers have not started.
    pub fn load(
        instance: &str,
        chains: Vec<ChainSettings>,
        records: &Arc<ChainRecords>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let chains = chains.into_iter().map(|chain| FollowedChain::load(instance, chain, records, clock));
        let state = Self { chains: chains.collect::<Result<_, _>>()? };
        let followed: Vec<_> = state.sources().filter_map(|source| source.contract.stored_as()).collect();
        // What is not removed now is removed at a later start.
        records.forget_others(&followed, Box::new(drop))?;
        Ok(state)
    }

    /// Every followed contract.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<FollowedSource>> {
        self.chains.iter().flat_map(|chain| &chain.sources)
    }

    /// The contracts whose roots are followed.
    pub(super) fn root_sources(&self) -> impl Iterator<Item = &RootSource> {
        self.sources().filter_map(|source| match &source.contract {
            Contract::Roots(roots) => Some(&**roots),
            _ => None,
        })
    }

    /// The contracts whose keys are followed.
    pub(super) fn key_sources(&self) -> impl Iterator<Item = &KeySource> {
        self.sources().filter_map(|source| match &source.contract {
            Contract::Keys(keys) => Some(&**keys),
            _ => None,
        })
    }
}

impl FollowedChain {
    fn load(
        instance: &str,
        settings: ChainSettings,
        records: &Arc<ChainRecords>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let ChainSettings { name, chain_id, nodes, agree, roots, keys, verifiers, relying_parties } = settings;
        let nodes = Arc::new(Nodes::new(chain_id, agree, nodes));
        let (nodes_of, records_of, clock_of) = (|| Arc::clone(&nodes), || Arc::clone(records), || Arc::clone(clock));
        let load = |verifier| VerifierSource::load(verifier, chain_id, nodes_of(), records_of(), clock_of());
        let verifiers: Vec<_> =
            verifiers.into_iter().map(|verifier| load(verifier).map(Arc::new)).collect::<Result<_, _>>()?;
        let verifier_of = |environment| {
            verifiers.iter().find(|verifier| verifier.settings.environment == environment).map(Arc::clone)
        };
        let mut contracts: Vec<Contract> =
            verifiers.iter().map(|verifier| Contract::Verifier(Arc::clone(verifier))).collect();
        for roots in roots {
            let verifier = verifier_of(roots.environment);
            let source = RootSource::load(roots, chain_id, verifier, nodes_of(), records_of(), clock_of())?;
            contracts.push(Contract::Roots(Box::new(source)));
        }
        for keys in keys {
            let verifier = verifier_of(keys.environment);
            let source = KeySource::load(keys, chain_id, verifier, nodes_of(), records_of(), clock_of())?;
            contracts.push(Contract::Keys(Box::new(source)));
        }
        for parties in relying_parties {
            let source = PartySource::new(parties, nodes_of(), clock_of());
            contracts.push(Contract::RelyingParties(Box::new(source)));
        }
        let source = |contract: Contract| {
            let slot = Arc::new(Slot::new(format!("{instance}/chain/{}", contract.name()), None));
            let fault_scope = FaultScope::of_instance(instance);
            let (stepping, health) = (tokio::sync::Mutex::default(), Mutex::default());
            Arc::new(FollowedSource { slot, fault_scope, contract, stepping, health })
        };
        let sources = contracts.into_iter().map(source).collect();
        Ok(Self { name, chain_id, agree: agree.max(1), nodes, sources })
    }
}

impl FollowedSource {
    /// Time between two steps.
    pub fn interval(&self) -> Duration {
        self.contract.freshness().interval
    }

    /// Reads what is new.
    pub async fn step(&self) -> Result<Step, ChainError> {
        let _stepping = self.stepping.lock().await;
        match &self.contract {
            Contract::Roots(roots) => roots.step().await,
            Contract::Keys(keys) => keys.step().await.map(|()| Step::Done),
            Contract::Verifier(verifier) => verifier.step().await.map(|()| Step::Done),
            Contract::RelyingParties(parties) => parties.step().await.map(|()| Step::Done),
        }
    }

    /// Records how a step ended, after `failures` failed ones.
    pub fn record(&self, outcome: &Result<Step, ChainError>, failures: u32) {
        let source = self.contract.name();
        let mut health = self.lock();
        match outcome {
            Ok(step) => {
                if failures > LOG_FROM {
                    tracing::info!(source, failures, "the contract is followed again");
                }
                *health = Health { succeeded: Some(Instant::now()), failure: None };
                if *step == Step::More {
                    let Progress { head, read, .. } = self.contract.progress();
                    let (head, read) = (head.load(Ordering::Relaxed), read.load(Ordering::Relaxed));
                    tracing::debug!(source, read, head, "read a range of blocks");
                }
            }
            Err(error) => {
                if failures >= LOG_FROM && (failures - LOG_FROM).is_multiple_of(LOG_EVERY) {
                    tracing::warn!(source, %error, failures, "the contract could not be followed");
                }
                health.failure = Some(error.to_string());
            }
        }
    }

    /// Seconds since the last good step, and why the last one failed.
    pub(super) fn health(&self) -> (Option<u64>, Option<String>) {
        let Health { succeeded, failure } = self.lock().clone();
        (succeeded.map(|succeeded| succeeded.elapsed().as_secs()), failure)
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
