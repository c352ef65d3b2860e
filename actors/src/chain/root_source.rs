//! Follows the roots of one contract: one step after another, each durable before it is published.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use selfsame_protocol::chain::contracts::{
    Answer, BlockTag, Header, Log, Question, RootContract, RootEvent, WindowStart, read_recorded_at, recorded_at_call,
};
use selfsame_protocol::chain::followed::{FollowedRoots, Position, PublishedRoot, Unavailable};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::{B256, Bytes};
use selfsame_storage::{ChainRecords, KnownFrom, RootSourceWrite, StoreError};

use super::contracts::{ChainError, RootSourceSettings};
use super::deployment::{CodeWatch, Location, Place, VerifierSource};
use super::follower::{Progress, Step, durably};
use super::nodes::Nodes;
use super::root_history::{FirstBlock, RootState, Rule, missing_history, unread};
use crate::clock::Clock;

/// The most blocks that one round trip asks for: a node that takes no batches answers one by one.
const HEADERS_PER_QUESTION: usize = 20;

/// After so many round trips without any of the blocks that were asked for, a step fails.
const ATTEMPTS: u32 = 3;

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
    pub location: Location,
    pub code: CodeWatch,
    nodes: Arc<Nodes>,
    records: Arc<ChainRecords>,
    clock: Arc<dyn Clock>,
    published: ArcSwap<FollowedRoots>,
    /// `None` while a step has it, and after a failed step: the next one reads the stored state.
    state: Mutex<Option<RootState>>,
    /// From where on the published roots are known.
    known_from: Mutex<Option<KnownFrom>>,
    first_block: FirstBlock,
    /// The most blocks that the next question asks for the logs of; smaller after a refusal.
    range: AtomicU64,
    /// Whether a range is read, or the step that read one did not end in time.
    is_reading: AtomicBool,
    /// Since when the logs contradict the contract, in Unix seconds; 0 while they do not.
    contradicting_since: AtomicU64,
    pub progress: Progress,
}

/// The newest root of a contract, for messages.
const NEWEST_ROOT: &str = "the newest root";

impl RootSource {
    /// The source as it is stored.
    pub fn load(
        settings: RootSourceSettings,
        chain_id: u64,
        verifier: Option<Arc<VerifierSource>>,
        nodes: Arc<Nodes>,
        records: Arc<ChainRecords>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        // Only current roots belong to a deployment that a verifier names.
        let verifier = verifier.filter(|_| settings.contract == RootContract::Registry);
        let kind = contract_name(settings.contract);
        let location =
            Location::new(&settings.name, chain_id, kind, settings.place, verifier, |deployment| deployment.registry);
        let code = CodeWatch::new(&settings.name, settings.code.clone(), Arc::clone(&records));
        let range = AtomicU64::new(settings.blocks_per_question.max(1));
        let state = location.place().map(|place| RootState::load(&records, place)).transpose()?;
        let published = state.as_ref().map_or_else(|| unread(&settings), |state| state.followed(&settings));
        let known_from = Mutex::new(state.as_ref().and_then(|state| state.known_from));
        Ok(Self {
            settings,
            location,
            code,
            nodes,
            records,
            clock,
            published: ArcSwap::from_pointee(published),
            state: Mutex::new(state),
            known_from,
            first_block: FirstBlock::default(),
            range,
            is_reading: AtomicBool::new(false),
            contradicting_since: AtomicU64::new(0),
            progress: Progress::default(),
        })
    }

    /// Why nothing of the contract counts: it, or the verifier of its deployment, runs code that
    /// was not accepted.
    pub fn halt(&self) -> Option<Unavailable> {
        self.location.halt().or_else(|| self.code.halt())
    }

    /// The roots, as verification reads them.
    pub fn published(&self) -> Arc<FollowedRoots> {
        self.published.load_full()
    }

    /// From where on the published roots are known; `None` before they were read.
    pub fn known_from(&self) -> Option<KnownFrom> {
        *lock(&self.known_from)
    }

    /// From when on roots are known, as a sentence, while that is less than they are kept for.
    pub fn missing_history(&self, now: UnixSeconds) -> Option<String> {
        // Times of blocks are compared: the clock may be ahead of them, or behind.
        let newest = self.published().confirmed.map_or(now, |confirmed| confirmed.time);
        missing_history(self.known_from()?, newest, self.settings.reach.as_secs(), now)
    }

    /// Reads what is new since the step before. Call one at a time.
    pub async fn step(&self) -> Result<Step, ChainError> {
        let place = self.location.find().await?;
        let taken = lock(&self.state).take().filter(|state| state.place == place);
        let mut state = match taken {
            Some(state) => state,
            None => RootState::load(&self.records, place)?,
        };
        if self.location.place() != Some(place) {
            self.publish(&state);
            self.location.move_to(place);
        }
        let looked = self.look(&mut state).await;
        self.is_reading.store(false, Relaxed);
        let looked = match looked {
            Ok(looked) => looked,
            Err(error) => {
                // Nothing was changed, so the stored state need not be read again.
                *lock(&self.state) = Some(state);
                return Err(error);
            }
        };
        let outcome = self.take_over(&mut state, looked).await;
        match &outcome {
            Ok(_) => {
                self.contradicting_since.store(0, Relaxed);
                *lock(&self.state) = Some(state);
            }
            Err(error) if error.is_contradiction() => {
                let now = self.clock.unix_seconds();
                let since = self.contradicting_since.load(Relaxed);
                if since == 0 {
                    self.contradicting_since.store(now.0, Relaxed);
                } else if now.since(UnixSeconds(since)) >= CONTRADICTION_PATIENCE {
                    self.start_again(place).await?;
                }
            }
            Err(_) => {}
        }
        outcome
    }

    /// Asks the nodes what is new: for the newest block, and, when blocks follow the last one that
    /// was read, for all else in one round trip.
    async fn look(&self, state: &mut RootState) -> Result<LookOutcome, ChainError> {
        let now = self.clock.unix_seconds();
        let fresh_for = self.settings.freshness.fresh_for.as_secs();
        let head = self.nodes.head(self.settings.head, now.minus(fresh_for), now).await?;
        self.progress.head.store(head.number, Relaxed);
        let Some(read) = state.read else {
            let known_from = match state.known_from {
                Some(known_from) => known_from,
                None => {
                    let found =
                        self.first_block.find(&self.settings, state.place, &self.nodes, head, &*self.clock).await?;
                    *state.known_from.insert(found)
                }
            };
            return self.read_range(state, known_from.block, head).await;
        };
        match head.number.cmp(&read.number) {
            // Time passes along a chain, so a lower block that is younger is one of another fork.
            Ordering::Less if head.time > read.time => Ok(LookOutcome::Forked { head }),
            // Nodes behind one address are not always at the same block.
            Ordering::Less if now.since(head.time) <= fresh_for => Ok(LookOutcome::Unchanged),
            Ordering::Less => Err(ChainError::Behind { head: head.number, known: read.number }),
            Ordering::Equal if head.hash == read.hash => Ok(LookOutcome::Unchanged),
            Ordering::Equal => Ok(LookOutcome::Forked { head }),
            Ordering::Greater => self.read_range(state, read.number + 1, head).await,
        }
    }

    async fn take_over(&self, state: &mut RootState, looked: LookOutcome) -> Result<Step, ChainError> {
        match looked {
            LookOutcome::Unchanged => Ok(Step::Done),
            LookOutcome::Forked { head } => {
                self.undo(state, head).await?;
                Ok(Step::More)
            }
            // The next step asks for fewer blocks, from the same one on.
            LookOutcome::Refused => Ok(Step::More),
            LookOutcome::Read(range) => self.read_on(state, range).await,
        }
    }

    /// Takes back what stands above the last known block that is still part of the chain.
    async fn undo(&self, state: &mut RootState, head: Header) -> Result<(), ChainError> {
        let fork = self.last_common_block(state, head).await?;
        self.progress.reorganizations.fetch_add(1, Relaxed);
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
        state.known_from = state.known_from.filter(|_| fork.is_some());
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
                Some(_) => high = middle,
                // The chain has a block of this height, so the nodes do not say which.
                None => return Err(ChainError::NoOldBlock(number)),
            }
        }
        Ok(common)
    }

    /// Takes over the roots of the blocks that follow, and publishes them when they are all read.
    async fn read_on(&self, state: &mut RootState, range: Range) -> Result<Step, ChainError> {
        let Range { head, publications, last, newest } = range;
        let is_last = newest.is_some();
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
        if let Some(newest) = newest {
            added.extend(self.confirm(state, head, newest).await?);
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
        self.first_block.forget();
        let is_due = state.stored.is_none_or(|stored| last.time.since(stored.time) >= STORE_INTERVAL);
        if !added.is_empty() || !removed.is_empty() || !is_last || is_due {
            self.store(state, added, removed).await?;
        }
        if is_last {
            self.publish(state);
        }
        Ok(if is_last { Step::Done } else { Step::More })
    }

    /// The roots that were published from the block `first` on and shortly before it.
    async fn read_range(&self, state: &RootState, first: u64, head: Header) -> Result<LookOutcome, ChainError> {
        const WHAT: &str = "the contract's logs";
        let RootSourceSettings { contract, blocks_per_question, .. } = self.settings;
        let address = state.place.address;
        if self.is_reading.swap(true, Relaxed) {
            // The roots of so many blocks were too many for one step.
            self.range.store((self.range.load(Relaxed) / 2).max(1), Relaxed);
        }
        let range = self.range.load(Relaxed);
        let overlap = if state.read.is_some() { OVERLAP.min(range / 2).min(first) } else { 0 };
        let from = first - overlap;
        let to = head.number.min(from.saturating_add(range - 1));
        let newest = Question::Call { to: address, data: contract.newest_root_call(), at: head.hash };
        let mut questions = vec![
            Question::Logs { address, topics: vec![contract.topic()], from, to },
            Question::Block(BlockTag::Number(to)),
        ];
        questions.extend(state.read.map(|read| Question::Block(BlockTag::Number(read.number))));
        questions.extend((to == head.number).then_some(newest));
        let mut answers = self.nodes.ask(&questions, WHAT).await?.into_iter();
        let mut next = || answers.next().ok_or(ChainError::NoBlock(WHAT));
        let refused = |what| move |refusal| ChainError::Refused { what, refusal };
        let (logs, last) = (next()?, next()?);
        if let Some(read) = state.read {
            match next()?.map_err(refused("the last read block")) {
                // The hash of a block fixes all blocks before it, so one comparison is enough.
                Ok(Answer::Block(Some(here))) if here.hash == read.hash => {}
                Ok(Answer::Block(Some(_))) => return Ok(LookOutcome::Forked { head }),
                Ok(_) => return Err(ChainError::NoOldBlock(read.number)),
                Err(_) if logs.is_err() && range > 1 => {}
                Err(error) => return Err(error),
            }
        }
        let logs = match logs {
            Ok(Answer::Logs(logs)) => logs,
            Ok(_) => return Err(ChainError::NoBlock(WHAT)),
            Err(_) if range > 1 => {
                self.range.store((to - from).div_ceil(2).max(1), Relaxed);
                return Ok(LookOutcome::Refused);
            }
            Err(refusal) => return Err(refused(WHAT)(refusal)),
        };
        let Answer::Block(Some(last)) = last.map_err(refused(WHAT))? else {
            return Err(ChainError::NoBlock("the last block of a range"));
        };
        if to == head.number && last.hash != head.hash {
            return Err(ChainError::Moved);
        }
        let newest = answers.next().transpose().map_err(refused(NEWEST_ROOT))?;
        let publications = self.publications(state, &logs, last, head).await?;
        // A node's limit is approached slowly, because each refusal costs a question.
        let grown = range.saturating_add((range / 8).max(1));
        self.range.store(grown.min(blocks_per_question.max(1)), Relaxed);
        Ok(LookOutcome::Read(Range { head, publications, last, newest }))
    }

    /// The roots in logs, with the times of their blocks. Logs that the history has already need no
    /// question: the last read block is still part of the chain, and so are all before it.
    async fn publications(
        &self,
        state: &RootState,
        logs: &[Log],
        last: Header,
        head: Header,
    ) -> Result<Vec<Publication>, ChainError> {
        let (contract, address, history) = (self.settings.contract, state.place.address, &state.history);
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
            headers.extend(self.headers(numbers).await?.into_iter().map(|header| (header.number, header)));
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
        newest: Answer,
    ) -> Result<Option<(Position, PublishedRoot)>, ChainError> {
        let wrong = |error| ChainError::Answer { what: NEWEST_ROOT, error };
        let newest = self.settings.contract.read_newest_root(&newest).map_err(wrong)?;
        let added = match (state.history.newest(), newest) {
            (None, Some(root)) => {
                let time = self.time_of_old_root(state.place, root, head).await?;
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
            state.rule = Some(self.read_rule(state.place, newest, head).await?);
        }
        self.code.look(&self.nodes, state.place, head, None).await?;
        state.confirmed = Some(head);
        Ok(added)
    }

    /// When the newest root of a contract was published that published none in the read blocks.
    async fn time_of_old_root(&self, place: Place, root: Root, head: Header) -> Result<UnixSeconds, ChainError> {
        const WHAT: &str = "the time of the newest root";
        if self.settings.contract != RootContract::Registry {
            return Ok(head.time.minus(self.settings.reach.as_secs()));
        }
        let answer = self.call(place, recorded_at_call(root), head, WHAT).await?;
        let time = read_recorded_at(&answer).map_err(|error| ChainError::Answer { what: WHAT, error })?;
        time.ok_or(ChainError::NewestRoot)
    }

    async fn read_rule(&self, place: Place, newest: Root, head: Header) -> Result<Rule, ChainError> {
        const WHAT: &str = "the validity of roots";
        let contract = self.settings.contract;
        let wrong = |error| ChainError::Answer { what: WHAT, error };
        let window =
            contract.read_window(&self.call(place, contract.window_call(), head, WHAT).await?).map_err(wrong)?;
        let start = match contract {
            RootContract::Registry => {
                let answer = self.call(place, WindowStart::call(newest), head, WHAT).await?;
                WindowStart::read(&answer).map_err(wrong)?
            }
            RootContract::IdentityManager | RootContract::Bridge => WindowStart::Replaced,
        };
        Ok(Rule { window, start, read_at: head.time })
    }

    async fn call(&self, place: Place, data: Bytes, head: Header, what: &'static str) -> Result<Answer, ChainError> {
        self.nodes.ask_one(Question::Call { to: place.address, data, at: head.hash }, what).await
    }

    /// The blocks of heights. All of them are below the newest one, so those that are missing in
    /// the answers are asked for again.
    async fn headers(&self, numbers: &[u64]) -> Result<Vec<Header>, ChainError> {
        const WHAT: &str = "blocks with roots";
        let (mut found, mut missing, mut attempts) = (Vec::with_capacity(numbers.len()), numbers.to_vec(), 0);
        loop {
            let questions: Vec<_> = missing.iter().map(|number| Question::Block(BlockTag::Number(*number))).collect();
            let (mut still_missing, mut failure) = (Vec::new(), None);
            for (number, answer) in missing.iter().zip(self.nodes.ask(&questions, WHAT).await?) {
                let failed = match answer {
                    Ok(Answer::Block(Some(header))) => {
                        found.push(header);
                        continue;
                    }
                    Ok(_) => ChainError::NoOldBlock(*number),
                    Err(refusal) => ChainError::Refused { what: WHAT, refusal },
                };
                still_missing.push(*number);
                failure = Some(failed);
            }
            let Some(failure) = failure else { return Ok(found) };
            attempts = if still_missing.len() < missing.len() { 0 } else { attempts + 1 };
            if attempts == ATTEMPTS {
                return Err(failure);
            }
            missing = still_missing;
        }
    }

    /// Makes a change durable.
    async fn store(
        &self,
        state: &mut RootState,
        added: Vec<(Position, PublishedRoot)>,
        removed: Vec<Position>,
    ) -> Result<(), ChainError> {
        let write = RootSourceWrite { record: state.record(), added, removed };
        durably(&self.records, |records, durable| records.write_roots(state.place.id, &write, durable)).await?;
        state.stored = state.confirmed;
        Ok(())
    }

    fn publish(&self, state: &RootState) {
        *lock(&self.known_from) = state.known_from;
        self.published.store(Arc::new(state.followed(&self.settings)));
    }

    /// Forgets the history, so that the next step reads it again. What is published stays until it
    /// is too old.
    async fn start_again(&self, place: Place) -> Result<(), ChainError> {
        tracing::error!(
            source = self.settings.name,
            "the roots contradict the contract; they are read again from nothing"
        );
        self.progress.restarts.fetch_add(1, Relaxed);
        self.contradicting_since.store(0, Relaxed);
        let stored = self.records.published_roots(place.id)?;
        let mut empty = RootState::empty(place);
        let removed = stored.into_iter().map(|(position, _)| position).collect();
        self.store(&mut empty, Vec::new(), removed).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the nodes said.
enum LookOutcome {
    /// There is nothing new.
    Unchanged,
    /// The last block that was read is not part of the chain any more.
    Forked { head: Header },
    /// The nodes refused to give the logs of so many blocks.
    Refused,
    /// Blocks follow the last one that was read.
    Read(Range),
}

/// What blocks have that follow the last one that was read.
struct Range {
    head: Header,
    publications: Vec<Publication>,
    /// The last of the blocks.
    last: Header,
    /// The newest root, as the contract returns it after the newest block, when the blocks reach
    /// up to it.
    newest: Option<Answer>,
}

/// A root in the logs of a contract.
struct Publication {
    position: Position,
    published: PublishedRoot,
    replaces: Option<Root>,
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
