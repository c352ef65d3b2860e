//! Follows the roots of one contract: one step after another, each durable before it is published.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use selfsame_protocol::chain::contracts::{RootContract, RootEvent, WindowStart, read_recorded_at, recorded_at_call};
use selfsame_protocol::chain::followed::{FollowedRoots, RootRule};
use selfsame_protocol::chain::history::{Position, PublishedRoot, RootHistory};
use selfsame_protocol::chain::rpc::{Answer, BlockTag, Header, Log, Question};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::roots::is_ahead;
use selfsame_protocol::{B256, Bytes};
use selfsame_storage::{ChainRecords, RootSourceRecord, RootSourceWrite, SourceId, StoreError};
use tokio::sync::oneshot;

use super::error::ChainError;
use super::node::Refusal;
use super::nodes::Nodes;
use super::progress::{Progress, Step};
use super::settings::{Freshness, RootSourceSettings, source_id};
use crate::clock::Clock;

/// The most blocks that one round trip asks for: a node that takes no batches answers one by one.
const HEADERS_PER_QUESTION: usize = 20;

/// How many blocks are read again with each step, because nodes index the logs of the newest blocks
/// with a delay.
const OVERLAP: u64 = 32;

/// Logs of blocks that are this close to the newest one are compared with the blocks' hashes: the
/// chain may be reorganized between two questions.
const UNSETTLED: u64 = 128;

/// How many blocks that were read are kept, to find the place of a reorganization in.
const KEPT_BLOCKS: usize = 256;

/// How far the stored place may be behind the read one, in seconds of the chain: a write for each
/// block would sync the disk every few seconds for nothing.
const STORE_INTERVAL: u64 = 300;

/// How often the contract's window and version are read again, in seconds of the chain.
const RULE_INTERVAL: u64 = 600;

/// After contradicting itself for so long, in seconds, the history is read again from nothing.
/// Nodes whose logs lag behind their blocks contradict themselves for a while.
const CONTRADICTION_PATIENCE: u64 = 600;

/// The roots of one contract.
pub(super) struct RootSource {
    pub settings: RootSourceSettings,
    id: SourceId,
    nodes: Arc<Nodes>,
    records: Arc<ChainRecords>,
    clock: Arc<dyn Clock>,
    published: ArcSwap<FollowedRoots>,
    /// `None` while a step has it, and after a failed step: the next one reads the stored state.
    state: Mutex<Option<RootState>>,
    /// The most blocks that the next question asks for the logs of; smaller after a refusal.
    range: AtomicU64,
    /// Since when the logs contradict the contract, in Unix seconds; 0 while they do not.
    contradicting_since: AtomicU64,
    pub progress: Progress,
}

/// What a step changes.
#[derive(Default)]
struct RootState {
    history: Arc<RootHistory>,
    /// The last block whose logs were read.
    read: Option<Header>,
    /// Earlier values of [`Self::read`], the latest last.
    read_before: VecDeque<Header>,
    /// The first block to read, while nothing was read.
    first: Option<u64>,
    /// The newest block at which the history was complete.
    confirmed: Option<Header>,
    /// [`Self::read`] as it is stored.
    stored: Option<Header>,
    rule: Option<Rule>,
}

/// How long the contract accepts a root, and when it was asked.
#[derive(Clone, Copy)]
struct Rule {
    window: u64,
    start: WindowStart,
    read_at: UnixSeconds,
}

impl RootSource {
    /// The source as it is stored.
    pub fn load(
        settings: RootSourceSettings,
        chain_id: u64,
        nodes: Arc<Nodes>,
        records: Arc<ChainRecords>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let id = source_id(chain_id, settings.address, contract_name(settings.contract));
        let range = AtomicU64::new(settings.blocks_per_question.max(1));
        let state = RootState::load(&records, id)?;
        let published = ArcSwap::from_pointee(state.followed(&settings));
        Ok(Self {
            settings,
            id,
            nodes,
            records,
            clock,
            published,
            state: Mutex::new(Some(state)),
            range,
            contradicting_since: AtomicU64::new(0),
            progress: Progress::default(),
        })
    }

    /// The roots, as verification reads them.
    pub fn published(&self) -> Arc<FollowedRoots> {
        self.published.load_full()
    }

    /// Reads what is new since the step before. Call one at a time.
    pub async fn step(&self) -> Result<Step, ChainError> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = match taken {
            Some(state) => state,
            None => RootState::load(&self.records, self.id)?,
        };
        let (head, place) = match self.look_at_head(&state).await {
            Ok(looked) => looked,
            Err(error) => {
                // Nothing was changed, so the stored state need not be read again.
                *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
                return Err(error);
            }
        };
        let outcome = self.advance(&mut state, head, place).await;
        match &outcome {
            Ok(_) => {
                self.contradicting_since.store(0, Relaxed);
                *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            }
            Err(error) if error.is_contradiction() => {
                let now = self.clock.unix_seconds();
                let since = self.contradicting_since.load(Relaxed);
                if since == 0 {
                    self.contradicting_since.store(now.0, Relaxed);
                } else if now.since(UnixSeconds(since)) >= CONTRADICTION_PATIENCE {
                    self.start_again().await?;
                }
            }
            Err(_) => {}
        }
        outcome
    }

    /// The newest block, and where it stands to what was read.
    async fn look_at_head(&self, state: &RootState) -> Result<(Header, Place), ChainError> {
        let now = self.clock.unix_seconds();
        let recent = now.minus(self.settings.freshness.fresh_for.as_secs());
        let head = self.nodes.head(self.settings.head, recent).await?;
        if is_ahead(head.time, now) {
            return Err(ChainError::Ahead(head.time.since(now)));
        }
        self.progress.head.store(head.number, Relaxed);
        let place = self.place(state, head, now).await?;
        Ok((head, place))
    }

    async fn advance(&self, state: &mut RootState, head: Header, place: Place) -> Result<Step, ChainError> {
        match place {
            Place::Unchanged => Ok(Step::Done),
            Place::Continued => self.read_on(state, head).await,
            Place::Forked => {
                self.undo(state, head).await?;
                Ok(Step::More)
            }
        }
    }

    /// Where the newest block stands to what was read.
    async fn place(&self, state: &RootState, head: Header, now: UnixSeconds) -> Result<Place, ChainError> {
        let Some(read) = state.read else { return Ok(Place::Continued) };
        let behind = ChainError::Behind { head: head.number, known: read.number };
        match head.number.cmp(&read.number) {
            // Time passes along a chain, so a lower block that is younger is one of another fork.
            Ordering::Less if head.time > read.time => Ok(Place::Forked),
            // Nodes behind one address are not always at the same block.
            Ordering::Less if now.since(head.time) <= self.settings.freshness.fresh_for.as_secs() => {
                Ok(Place::Unchanged)
            }
            Ordering::Less => Err(behind),
            Ordering::Equal if head.hash == read.hash => Ok(Place::Unchanged),
            Ordering::Equal => Ok(Place::Forked),
            // The hash of a block fixes all blocks before it, so one comparison is enough.
            Ordering::Greater => match self.nodes.block(read.number, "the last read block").await? {
                Some(here) if here.hash == read.hash => Ok(Place::Continued),
                Some(_) => Ok(Place::Forked),
                None => Err(behind),
            },
        }
    }

    /// Takes back what stands above the last known block that is still part of the chain.
    async fn undo(&self, state: &mut RootState, head: Header) -> Result<(), ChainError> {
        self.progress.reorganizations.fetch_add(1, Relaxed);
        let fork = self.last_common_block(state, head).await?;
        let undone = match fork {
            None => std::mem::take(Arc::make_mut(&mut state.history)).into_positions(),
            Some(fork) if state.history.newest().is_some_and(|(newest, _)| newest.block > fork.number) => {
                Arc::make_mut(&mut state.history).undo_above(fork.number)
            }
            Some(_) => Vec::new(),
        };
        tracing::warn!(
            source = self.settings.name,
            roots = undone.len(),
            last_common_block = fork.map(|fork| fork.number),
            "the chain was reorganized; roots of blocks that are no longer part of it do not count"
        );
        state.read = fork;
        state.first = None;
        state.read_before.retain(|read| fork.is_some_and(|fork| read.number < fork.number));
        // Without a change of the roots, what was confirmed stays true of the same time.
        if !undone.is_empty() {
            state.confirmed = state.confirmed.and(fork);
        }
        self.store(state, Vec::new(), undone).await?;
        self.publish(state);
        Ok(())
    }

    /// The highest block that was read, or has a root, and is still part of the chain. Everything
    /// below such a block is part of the chain, too, so that halving finds it.
    async fn last_common_block(&self, state: &RootState, head: Header) -> Result<Option<Header>, ChainError> {
        let read = state.read_before.iter().map(|header| (header.number, header.hash));
        let mut known: Vec<(u64, B256)> = state.history.blocks_backwards().chain(read).collect();
        known.retain(|(number, _)| *number <= head.number);
        known.sort_unstable();
        known.dedup();
        let (mut low, mut high, mut common) = (0, known.len(), None);
        while low < high {
            let middle = low + (high - low) / 2;
            let (number, hash) = known[middle];
            match self.nodes.block(number, "a known block").await? {
                Some(here) if here.hash == hash => (common, low) = (Some(here), middle + 1),
                _ => high = middle,
            }
        }
        Ok(common)
    }

    /// Reads the logs of the blocks that follow, and publishes the roots when they are all read.
    async fn read_on(&self, state: &mut RootState, head: Header) -> Result<Step, ChainError> {
        let first = match (state.read, state.first) {
            (Some(read), _) => read.number + 1,
            (None, Some(first)) => first,
            (None, None) => *state.first.insert(self.first_block(head).await?),
        };
        let Some((publications, last)) = self.read_range(state, first, head).await? else {
            // The next step asks for fewer blocks, from the same one on.
            return Ok(Step::More);
        };
        let is_last = last.number == head.number;
        let mut added = Vec::new();
        for Publication { position, published, .. } in &publications {
            // Verification reads the published history, so a change copies it.
            if state.history.at(*position) != Some(*published) {
                Arc::make_mut(&mut state.history).insert(*position, *published)?;
                added.push((*position, *published));
            }
        }
        for Publication { position, replaces, .. } in &publications {
            replaces.map_or(Ok(()), |replaced| state.history.check_replaced(*position, replaced))?;
        }
        if is_last {
            added.extend(self.confirm(state, head).await?);
        }
        let outdated = last.time.minus(self.settings.reach.as_secs());
        let removed = match state.history.first_replacement() {
            Some(replaced) if replaced < outdated => Arc::make_mut(&mut state.history).forget_replaced_before(outdated),
            _ => Vec::new(),
        };
        if let Some(read) = state.read.replace(last) {
            state.read_before.push_back(read);
            let surplus = state.read_before.len().saturating_sub(KEPT_BLOCKS);
            state.read_before.drain(..surplus);
        }
        self.progress.read.store(last.number, Relaxed);
        let is_due = state.stored.is_none_or(|stored| last.time.since(stored.time) >= STORE_INTERVAL);
        if !added.is_empty() || !removed.is_empty() || !is_last || is_due {
            self.store(state, added, removed).await?;
        }
        if is_last {
            self.publish(state);
        }
        Ok(if is_last { Step::Done } else { Step::More })
    }

    /// The first block of the time that roots are kept for. Nodes do not keep all old blocks, so
    /// the search goes back from the newest one in growing steps.
    async fn first_block(&self, head: Header) -> Result<u64, ChainError> {
        if let Some(start) = self.settings.start_block {
            return Ok(start.min(head.number));
        }
        let earliest = head.time.minus(self.settings.reach.as_secs());
        let (mut low, mut high, mut distance) = (0, head.number, self.settings.blocks_per_question.max(1));
        while low < high {
            let back = head.number.saturating_sub(distance);
            let middle = if low == 0 && back > 0 { back } else { low + (high - low) / 2 };
            distance = distance.saturating_mul(2);
            match self.nodes.block(middle, "an old block").await {
                Ok(Some(header)) if header.time >= earliest => high = middle,
                Ok(_) | Err(ChainError::Refused { .. }) => low = middle + 1,
                Err(error) => return Err(error),
            }
        }
        Ok(low)
    }

    /// The roots that were published from the block `first` on and shortly before it, and the last
    /// block that they were read from: at most the newest one. `None` when fewer blocks must be
    /// asked for.
    async fn read_range(
        &self,
        state: &RootState,
        first: u64,
        head: Header,
    ) -> Result<Option<(Vec<Publication>, Header)>, ChainError> {
        const WHAT: &str = "the contract's logs";
        let RootSourceSettings { contract, address, blocks_per_question, .. } = self.settings;
        let range = self.range.load(Relaxed);
        let overlap = if state.read.is_some() { OVERLAP.min(range / 2).min(first) } else { 0 };
        let from = first - overlap;
        let to = head.number.min(from.saturating_add(range - 1));
        let logs = Question::Logs { address, topics: vec![contract.topic()], from, to };
        let questions = [logs, Question::Block(BlockTag::Number(to))];
        let answers = self.nodes.ask(&questions, WHAT).await?;
        let answers: [Result<Answer, Refusal>; 2] = answers.try_into().map_err(|_| ChainError::NoBlock(WHAT))?;
        let (logs, last) = match answers {
            [Err(_), _] if range > 1 => {
                self.range.store((to - from).div_ceil(2).max(1), Relaxed);
                return Ok(None);
            }
            [Err(refusal), _] | [_, Err(refusal)] => return Err(ChainError::Refused { what: WHAT, refusal }),
            [Ok(Answer::Logs(logs)), Ok(Answer::Block(Some(last)))] => (logs, last),
            _ => return Err(ChainError::NoBlock("the last block of a range")),
        };
        if to == head.number && last.hash != head.hash {
            return Err(ChainError::Moved);
        }
        let publications = self.publications(&state.history, &logs, last, head).await?;
        // A node's limit is approached slowly, because each refusal costs a question.
        let grown = range.saturating_add((range / 8).max(1));
        self.range.store(grown.min(blocks_per_question.max(1)), Relaxed);
        Ok(Some((publications, last)))
    }

    /// The roots in logs, with the times of their blocks. Logs that the history has already need no
    /// question: the last read block is still part of the chain, and so are all before it.
    async fn publications(
        &self,
        history: &RootHistory,
        logs: &[Log],
        last: Header,
        head: Header,
    ) -> Result<Vec<Publication>, ChainError> {
        let RootSourceSettings { contract, address, .. } = self.settings;
        let read = |log| contract.read_event(address, log).map_err(|error| ChainError::Answer { what: "logs", error });
        let events: Vec<RootEvent> = logs.iter().map(read).collect::<Result<_, _>>()?;
        let unsettled = head.number.saturating_sub(UNSETTLED);
        let known = |log: &Log, event: &RootEvent| {
            let known = history.at(position_of(log))?;
            (known.block_hash == log.block_hash && known.root == event.root).then_some(known)
        };
        let is_asked = |(log, event): &(&Log, &RootEvent)| {
            let is_checked = event.time.is_some() && log.block_number <= unsettled;
            log.block_number != last.number && !is_checked && known(log, event).is_none()
        };
        let mut asked: Vec<u64> = logs.iter().zip(&events).filter(is_asked).map(|(log, _)| log.block_number).collect();
        asked.dedup();
        let mut headers = HashMap::from([(last.number, last)]);
        for numbers in asked.chunks(HEADERS_PER_QUESTION) {
            let found = self.headers(numbers).await?;
            headers.extend(found.into_iter().flatten().map(|header| (header.number, header)));
        }
        let publication = |(log, event): (&Log, RootEvent)| {
            let (position, replaces) = (position_of(log), event.replaces);
            if let Some(published) = known(log, &event) {
                return Ok(Publication { position, published, replaces });
            }
            let header = headers.get(&log.block_number);
            let is_of_the_chain = header.map_or(log.block_number <= unsettled, |header| {
                header.hash == log.block_hash && event.time.is_none_or(|time| time == header.time)
            });
            let time = event.time.or(header.map(|header| header.time)).filter(|_| is_of_the_chain);
            let published =
                PublishedRoot { root: event.root, block_hash: log.block_hash, time: time.ok_or(ChainError::Moved)? };
            Ok(Publication { position, published, replaces })
        };
        logs.iter().zip(events).map(publication).collect()
    }

    /// Compares the newest root with the one that the contract returns at the newest block. A
    /// contract without a root in the read blocks gets the returned one, which is then returned
    /// here.
    async fn confirm(
        &self,
        state: &mut RootState,
        head: Header,
    ) -> Result<Option<(Position, PublishedRoot)>, ChainError> {
        const WHAT: &str = "the newest root";
        let contract = self.settings.contract;
        let answer = self.call(contract.newest_root_call(), head, WHAT).await?;
        let newest = contract.read_newest_root(&answer).map_err(|error| ChainError::Answer { what: WHAT, error })?;
        let added = match (state.history.newest(), newest) {
            (None, Some(root)) => {
                let time = self.time_of_old_root(root, head).await?;
                let position = Position { block: head.number, log_index: u64::MAX };
                let published = PublishedRoot { root, block_hash: head.hash, time };
                Arc::make_mut(&mut state.history).insert(position, published)?;
                Some((position, published))
            }
            (known, newest) if known.map(|(_, known)| known.root) == newest => None,
            _ => return Err(ChainError::NewestRoot),
        };
        if let Some(newest) = newest
            && state.rule.is_none_or(|rule| head.time.since(rule.read_at) >= RULE_INTERVAL)
        {
            state.rule = Some(self.read_rule(newest, head).await?);
        }
        state.confirmed = Some(head);
        Ok(added)
    }

    /// When the newest root of a contract was published that published none in the read blocks.
    async fn time_of_old_root(&self, root: Root, head: Header) -> Result<UnixSeconds, ChainError> {
        const WHAT: &str = "the time of the newest root";
        if self.settings.contract != RootContract::Registry {
            return Ok(head.time.minus(self.settings.reach.as_secs()));
        }
        let answer = self.call(recorded_at_call(root), head, WHAT).await?;
        let time = read_recorded_at(&answer).map_err(|error| ChainError::Answer { what: WHAT, error })?;
        time.ok_or(ChainError::NewestRoot)
    }

    async fn read_rule(&self, newest: Root, head: Header) -> Result<Rule, ChainError> {
        const WHAT: &str = "the validity of roots";
        let contract = self.settings.contract;
        let wrong = |error| ChainError::Answer { what: WHAT, error };
        let window = contract.read_window(&self.call(contract.window_call(), head, WHAT).await?).map_err(wrong)?;
        let start = match contract {
            RootContract::Registry => {
                let answer = self.call(WindowStart::call(newest), head, WHAT).await?;
                WindowStart::read(&answer).map_err(wrong)?
            }
            RootContract::IdentityManager | RootContract::Bridge => WindowStart::Replaced,
        };
        Ok(Rule { window, start, read_at: head.time })
    }

    async fn call(&self, data: Bytes, head: Header, what: &'static str) -> Result<Answer, ChainError> {
        self.nodes.ask_one(Question::Call { to: self.settings.address, data, at: head.hash }, what).await
    }

    /// The blocks of heights, in one round trip; `None` for those that the nodes do not have.
    async fn headers(&self, numbers: &[u64]) -> Result<Vec<Option<Header>>, ChainError> {
        const WHAT: &str = "blocks with roots";
        let questions: Vec<_> = numbers.iter().map(|number| Question::Block(BlockTag::Number(*number))).collect();
        let header = |answer| match answer {
            Ok(Answer::Block(header)) => Ok(header),
            Ok(_) => Err(ChainError::NoBlock(WHAT)),
            Err(refusal) => Err(ChainError::Refused { what: WHAT, refusal }),
        };
        self.nodes.ask(&questions, WHAT).await?.into_iter().map(header).collect()
    }

    /// Makes a change durable.
    async fn store(
        &self,
        state: &mut RootState,
        added: Vec<(Position, PublishedRoot)>,
        removed: Vec<Position>,
    ) -> Result<(), ChainError> {
        fault_point!(ChainStoreBefore);
        let write = RootSourceWrite { record: state.record(), added, removed };
        let (written, durable) = oneshot::channel();
        self.records.write_roots(self.id, &write, Box::new(move |result| drop(written.send(result))));
        durable.await.unwrap_or(Err(StoreError::Closing))?;
        fault_point!(ChainStoreAfter);
        state.stored = state.read;
        Ok(())
    }

    fn publish(&self, state: &RootState) {
        self.published.store(Arc::new(state.followed(&self.settings)));
    }

    /// Forgets the history, so that the next step reads it again. What is published stays until it
    /// is too old.
    async fn start_again(&self) -> Result<(), ChainError> {
        tracing::error!(
            source = self.settings.name,
            "the roots contradict the contract; they are read again from nothing"
        );
        self.progress.restarts.fetch_add(1, Relaxed);
        self.contradicting_since.store(0, Relaxed);
        let stored = self.records.published_roots(self.id)?;
        let mut empty = RootState::default();
        let removed = stored.into_iter().map(|(position, _)| position).collect();
        self.store(&mut empty, Vec::new(), removed).await
    }
}

/// Where the newest block stands to what was read.
enum Place {
    /// There is nothing new.
    Unchanged,
    /// Blocks follow the last one that was read.
    Continued,
    /// The last block that was read is not part of the chain any more.
    Forked,
}

/// A root in the logs of a contract.
struct Publication {
    position: Position,
    published: PublishedRoot,
    replaces: Option<Root>,
}

impl RootState {
    fn load(records: &ChainRecords, id: SourceId) -> Result<Self, StoreError> {
        let Some(record) = records.root_source(id)? else { return Ok(Self::default()) };
        let RootSourceRecord { read, confirmed, rule } = record;
        Ok(Self {
            history: Arc::new(RootHistory::from_stored(records.published_roots(id)?)),
            read: Some(read),
            read_before: VecDeque::new(),
            first: None,
            confirmed,
            stored: Some(read),
            rule: rule.map(|(window, start)| Rule { window, start, read_at: UnixSeconds(0) }),
        })
    }

    /// How far the contract is followed; `None` before the first block was read.
    fn record(&self) -> Option<RootSourceRecord> {
        let rule = self.rule.map(|Rule { window, start, .. }| (window, start));
        self.read.map(|read| RootSourceRecord { read, confirmed: self.confirmed, rule })
    }

    fn followed(&self, settings: &RootSourceSettings) -> FollowedRoots {
        let Freshness { stale_after, fresh_for, .. } = settings.freshness;
        let start = self.rule.map_or(WindowStart::Recorded, |rule| rule.start);
        FollowedRoots {
            source: settings.name.as_str().into(),
            environment: settings.environment,
            rule: match settings.contract {
                RootContract::Registry => RootRule::Current { start },
                RootContract::IdentityManager | RootContract::Bridge => {
                    RootRule::Legacy { of: settings.identifiers.clone() }
                }
            },
            window: self.rule.map_or(0, |rule| rule.window),
            stale_after: stale_after.as_secs(),
            fresh_for: fresh_for.as_secs(),
            confirmed: self.confirmed,
            history: Arc::clone(&self.history),
        }
    }
}

fn position_of(log: &Log) -> Position {
    Position { block: log.block_number, log_index: log.log_index }
}

fn contract_name(contract: RootContract) -> &'static str {
    match contract {
        RootContract::IdentityManager => "identity manager",
        RootContract::Bridge => "bridge",
        RootContract::Registry => "registry",
    }
}
