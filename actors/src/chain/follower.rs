//! The follower of one contract: an actor that takes a step after each interval, later after
//! failures, and at once when a proof names a root that is unknown.
//!
//! A step runs in a task of its own, so that the actor answers while a node does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::Header;
use selfsame_protocol::chain::followed::Unavailable;
use selfsame_protocol::verification::Environment;
use selfsame_storage::{ChainRecords, FaultScope, OnDurable, SourceId, StoreError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

use super::contracts::{ChainError, ChainSettings, Freshness};
use super::deployment::{CodeWatch, PartySource, VerifierSource};
use super::key_source::KeySource;
use super::nodes::Nodes;
use super::root_source::RootSource;
use crate::support::slot::{OpenedMessage, Ping, Slot, TracedMessage, actor_span};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::OwnedTask;

// The messages to the followers of contracts.

/// A message to a follower.
pub(crate) enum FollowerMessage {
    /// The time for a step has come.
    Poll,
    /// Answer whether the contract was looked at after this message or a moment before it: at once
    /// when that is known, otherwise when the step has ended.
    Look(RpcReplyPort<bool>),
    /// A step has ended.
    Stepped(Result<Step, ChainError>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for FollowerMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

// What a step of following did, and how far it has come.

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The source is up to date.
    Done,
    /// There is more to read at once.
    More,
}

/// How far a contract was followed, for the status.
#[derive(Default)]
pub(super) struct Progress {
    /// The newest block that the nodes named.
    pub head: AtomicU64,
    /// The last block whose logs were read.
    pub read: AtomicU64,
    /// Reorganizations since the start.
    pub reorganizations: AtomicU64,
    /// How often the history was read again from nothing, because it contradicted itself.
    pub restarts: AtomicU64,
}

// The followed contracts, with the slots of their followers.

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
    /// The state of a service whose followers have not started.
    pub fn load(
        surroundings: &Surroundings,
        chains: Vec<ChainSettings>,
        records: &Arc<ChainRecords>,
    ) -> Result<Self, StoreError> {
        let chains = chains.into_iter().map(|chain| FollowedChain::load(surroundings, chain, records));
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
        surroundings: &Surroundings,
        settings: ChainSettings,
        records: &Arc<ChainRecords>,
    ) -> Result<Self, StoreError> {
        let ChainSettings { name, chain_id, nodes, agree, roots, keys, verifiers, relying_parties } = settings;
        let nodes = Arc::new(Nodes::new(chain_id, agree, nodes));
        let (nodes_of, records_of) = (|| Arc::clone(&nodes), || Arc::clone(records));
        let clock_of = || Arc::clone(&surroundings.clock);
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
            let slot = Arc::new(Slot::new(surroundings.name_of(&format!("chain/{}", contract.name())), None));
            let fault_scope = surroundings.fault_scope();
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

// A followed contract of any kind, as status and verification ask about it.

/// What is followed of a contract.
pub(super) enum Contract {
    Roots(Box<RootSource>),
    Keys(Box<KeySource>),
    Verifier(Arc<VerifierSource>),
    RelyingParties(Box<PartySource>),
}

impl Contract {
    pub fn name(&self) -> &str {
        match self {
            Self::Roots(roots) => &roots.settings.name,
            Self::Keys(keys) => &keys.settings.name,
            Self::Verifier(verifier) => &verifier.settings.name,
            Self::RelyingParties(parties) => &parties.settings.name,
        }
    }

    pub fn progress(&self) -> &Progress {
        match self {
            Self::Roots(roots) => &roots.progress,
            Self::Keys(keys) => &keys.progress,
            Self::Verifier(verifier) => &verifier.progress,
            Self::RelyingParties(parties) => &parties.progress,
        }
    }

    pub fn freshness(&self) -> Freshness {
        match self {
            Self::Roots(roots) => roots.settings.freshness,
            Self::Keys(keys) => keys.settings.freshness,
            Self::Verifier(verifier) => verifier.settings.freshness,
            Self::RelyingParties(parties) => parties.settings.freshness,
        }
    }

    pub fn environment(&self) -> Environment {
        match self {
            Self::Roots(roots) => roots.settings.environment,
            Self::Keys(keys) => keys.settings.environment,
            Self::Verifier(verifier) => verifier.settings.environment,
            Self::RelyingParties(parties) => parties.settings.environment,
        }
    }

    /// Where the contract is; `None` before the verifier was asked for the first time.
    pub fn address(&self) -> Option<Address> {
        match self {
            Self::Roots(roots) => roots.location.place().map(|place| place.address),
            Self::Keys(keys) => keys.location.place().map(|place| place.address),
            Self::Verifier(verifier) => Some(verifier.settings.address),
            Self::RelyingParties(parties) => Some(parties.settings.address),
        }
    }

    /// The id under which what is followed is stored, where it is.
    pub fn stored_as(&self) -> Option<SourceId> {
        match self {
            Self::Roots(roots) => roots.location.place().map(|place| place.id),
            Self::Keys(keys) => keys.location.place().map(|place| place.id),
            Self::Verifier(verifier) => Some(verifier.place().id),
            Self::RelyingParties(_) => None,
        }
    }

    /// The address that the verifier names, when it is not the configured one, which counts.
    pub fn elsewhere(&self) -> Option<Address> {
        match self {
            Self::Roots(roots) => roots.location.elsewhere(),
            Self::Keys(keys) => keys.location.elsewhere(),
            Self::Verifier(_) | Self::RelyingParties(_) => None,
        }
    }

    /// The code that the contract runs, where it is watched.
    pub fn code(&self) -> Option<&CodeWatch> {
        match self {
            Self::Roots(roots) => Some(&roots.code),
            Self::Keys(keys) => Some(&keys.code),
            Self::Verifier(verifier) => Some(&verifier.code),
            Self::RelyingParties(_) => None,
        }
    }

    /// The newest block at which the data was complete.
    pub fn confirmed(&self) -> Option<Header> {
        match self {
            Self::Roots(roots) => roots.published().confirmed,
            Self::Keys(keys) => keys.published().confirmed,
            Self::Verifier(verifier) => verifier.published().map(|record| record.confirmed),
            Self::RelyingParties(parties) => parties.published().confirmed,
        }
    }

    /// Why nothing of the contract counts: it, or the verifier of its deployment, runs code that
    /// was not accepted.
    pub fn halt(&self) -> Option<Unavailable> {
        match self {
            Self::Roots(roots) => roots.halt(),
            Self::Keys(keys) => keys.halt(),
            Self::Verifier(verifier) => verifier.code.halt(),
            Self::RelyingParties(_) => None,
        }
    }
}

// The actor.

/// The longest time that a step may take.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The longest time between two steps after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The shortest time between a step and the next one that an unknown root causes; of a contract
/// that is asked seldom, a quarter of its interval.
const SHORTEST_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The actor.
pub(crate) struct Follower;

/// State of a follower.
pub(crate) struct FollowerState {
    shared: Arc<FollowedSource>,
    /// The step that runs. It ends with the actor.
    running: Option<OwnedTask>,
    /// The callers that wait for the end of the step.
    looking: Vec<RpcReplyPort<bool>>,
    /// Whether a step follows the running one at once.
    again: bool,
    /// What the last step did; `None` after a failure and before the first one.
    last: Option<Step>,
    /// Failed steps since the last good one.
    failures: u32,
    /// When the last step ended.
    ended: Option<Instant>,
    timer: Option<JoinHandle<Result<(), ractor::MessagingErr<TracedMessage<FollowerMessage>>>>>,
}

impl Actor for Follower {
    type Msg = TracedMessage<FollowerMessage>;
    type State = FollowerState;
    type Arguments = Arc<FollowedSource>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<FollowedSource>,
    ) -> Result<FollowerState, ActorProcessingErr> {
        shared.slot.occupy(myself.clone());
        fault_point!(shared.fault_scope, ChainFollowerStart);
        shared.slot.cast(FollowerMessage::Poll);
        let (running, timer, ended, last) = (None, None, None, None);
        Ok(FollowerState { shared, running, looking: Vec::new(), again: false, last, failures: 0, ended, timer })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut FollowerState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.shared.slot.name());
        async {
            fault_point!(state.shared.fault_scope, ChainFollowerHandle);
            state.handle(message, &myself);
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl FollowerState {
    /// Handles a message without waiting. An error of `send` means that the caller no longer waits.
    fn handle(&mut self, message: FollowerMessage, myself: &ActorRef<TracedMessage<FollowerMessage>>) {
        match message {
            FollowerMessage::Ping(reply) => drop(reply.send(())),
            FollowerMessage::Poll if self.running.is_some() => self.again = true,
            FollowerMessage::Poll => self.begin_step(),
            FollowerMessage::Look(reply) => self.look(reply),
            FollowerMessage::Stepped(outcome) => self.finish_step(outcome, myself),
        }
    }

    fn look(&mut self, reply: RpcReplyPort<bool>) {
        let interval = SHORTEST_LOOK_INTERVAL.max(self.shared.interval() / 4);
        let was_just_looked_at = self.ended.is_some_and(|ended| ended.elapsed() < interval);
        // After a failure the next step waits: unknown roots must not flood a node that fails.
        // While old blocks are read, the newest root is not known for a long time.
        let cannot_be_now = self.failures > 0 || self.last == Some(Step::More);
        if cannot_be_now || (was_just_looked_at && self.running.is_none()) {
            drop(reply.send(!cannot_be_now));
            return;
        }
        self.looking.retain(|waiting| !waiting.is_closed());
        self.looking.push(reply);
        self.begin_step();
    }

    fn begin_step(&mut self) {
        if self.running.is_some() {
            return;
        }
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        let shared = Arc::clone(&self.shared);
        // Not below the span of a caller that looks: a step serves all.
        let span = actor_span(&Span::none(), shared.slot.name());
        let step = tokio::spawn(async move { timeout(STEP_LIMIT, shared.step()).await }.instrument(span));
        self.running = Some(OwnedTask(step.abort_handle()));
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let outcome = match step.await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(ChainError::Overdue(STEP_LIMIT)),
                Err(error) if error.is_cancelled() => return,
                Err(_) => Err(ChainError::Panicked),
            };
            shared.slot.cast(FollowerMessage::Stepped(outcome));
        });
    }

    fn finish_step(&mut self, outcome: Result<Step, ChainError>, myself: &ActorRef<TracedMessage<FollowerMessage>>) {
        self.running = None;
        self.ended = Some(Instant::now());
        self.shared.record(&outcome, self.failures);
        let interval = self.shared.interval();
        let pause = match outcome {
            Ok(Step::More) => Duration::ZERO,
            Ok(Step::Done) => interval,
            Err(_) => (interval * 2_u32.saturating_pow(self.failures.min(10))).min(LONGEST_PAUSE.max(interval)),
        };
        self.failures = if outcome.is_ok() { 0 } else { self.failures.saturating_add(1) };
        self.last = outcome.ok();
        let was_looked_at = self.last == Some(Step::Done);
        self.looking.drain(..).for_each(|reply| drop(reply.send(was_looked_at)));
        let pause = if std::mem::take(&mut self.again) { Duration::ZERO } else { pause };
        if pause.is_zero() {
            self.begin_step();
        } else {
            self.timer = Some(myself.send_after(pause, || FollowerMessage::Poll.into()));
        }
    }
}

// Makes what was followed durable.

/// Writes to the records, and waits until that is on disk.
pub(super) async fn durably(
    records: &ChainRecords,
    write: impl FnOnce(&ChainRecords, OnDurable),
) -> Result<(), ChainError> {
    fault_point!(records.fault_scope(), ChainStoreBefore);
    let (written, durable) = oneshot::channel();
    write(records, Box::new(move |result| drop(written.send(result))));
    durable.await.unwrap_or(Err(StoreError::Panicked))?;
    fault_point!(records.fault_scope(), ChainStoreAfter);
    Ok(())
}
