//! The followed contracts, with the slots of their followers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_storage::{ChainRecords, StoreError};
use tokio::time::Instant;

use super::error::ChainError;
use super::key_source::KeySource;
use super::messages::FollowerMessage;
use super::nodes::Nodes;
use super::progress::{Progress, Step};
use super::root_source::RootSource;
use super::settings::ChainSettings;
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
    pub(super) contract: Contract,
    /// Held during a step: one that a stopped follower began may not have ended.
    stepping: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
}

/// What is followed of a contract.
pub(super) enum Contract {
    Roots(Box<RootSource>),
    Keys(Box<KeySource>),
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
        Ok(Self { chains: chains.collect::<Result<_, _>>()? })
    }

    /// Every followed contract.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<FollowedSource>> {
        self.chains.iter().flat_map(|chain| &chain.sources)
    }

    /// The contracts whose roots are followed.
    pub(super) fn root_sources(&self) -> impl Iterator<Item = &RootSource> {
        self.sources().filter_map(|source| match &source.contract {
            Contract::Roots(roots) => Some(&**roots),
            Contract::Keys(_) => None,
        })
    }

    /// The contracts whose keys are followed.
    pub(super) fn key_sources(&self) -> impl Iterator<Item = &KeySource> {
        self.sources().filter_map(|source| match &source.contract {
            Contract::Keys(keys) => Some(&**keys),
            Contract::Roots(_) => None,
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
        let ChainSettings { name, chain_id, nodes, agree, roots, keys } = settings;
        let nodes = Arc::new(Nodes::new(chain_id, agree, nodes));
        let (nodes_of, records_of, clock_of) = (|| Arc::clone(&nodes), || Arc::clone(records), || Arc::clone(clock));
        let mut contracts = Vec::with_capacity(roots.len() + keys.len());
        for roots in roots {
            let source = RootSource::load(roots, chain_id, nodes_of(), records_of(), clock_of())?;
            contracts.push(Contract::Roots(Box::new(source)));
        }
        for keys in keys {
            let source = KeySource::load(keys, chain_id, nodes_of(), records_of(), clock_of())?;
            contracts.push(Contract::Keys(Box::new(source)));
        }
        let source = |contract: Contract| {
            let slot = Arc::new(Slot::new(format!("{instance}/chain/{}", contract.name()), None));
            let (stepping, health) = (tokio::sync::Mutex::default(), Mutex::default());
            Arc::new(FollowedSource { slot, contract, stepping, health })
        };
        let sources = contracts.into_iter().map(source).collect();
        Ok(Self { name, chain_id, agree: agree.max(1), nodes, sources })
    }
}

impl Contract {
    pub fn name(&self) -> &str {
        match self {
            Self::Roots(roots) => &roots.settings.name,
            Self::Keys(keys) => &keys.settings.name,
        }
    }

    pub fn progress(&self) -> &Progress {
        match self {
            Self::Roots(roots) => &roots.progress,
            Self::Keys(keys) => &keys.progress,
        }
    }
}

impl FollowedSource {
    /// Time between two steps.
    pub fn interval(&self) -> Duration {
        match &self.contract {
            Contract::Roots(roots) => roots.settings.freshness.interval,
            Contract::Keys(keys) => keys.settings.freshness.interval,
        }
    }

    /// Reads what is new.
    pub async fn step(&self) -> Result<Step, ChainError> {
        let _stepping = self.stepping.lock().await;
        match &self.contract {
            Contract::Roots(roots) => roots.step().await,
            Contract::Keys(keys) => keys.step().await.map(|()| Step::Done),
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
