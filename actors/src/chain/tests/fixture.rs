//! A chain in memory with a node that fails as a test asks, and a store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::chain::contracts::{
    Answer, BlockTag, Header, Log, Question, RootContract, WindowStart, recorded_at_call,
};
use selfsame_protocol::chain::deployment::ContractCode;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_protocol::{Address, B256, Bytes, U256, keccak256};
use selfsame_storage::{ChainRecords, GroupCommit, OpenOptions, SourceId, Store};
use tempfile::TempDir;

use crate::chain::contracts::{ChainError, CodeSettings, ContractPlace, Freshness, RootSourceSettings};
use crate::chain::deployment::VerifierSource;
use crate::chain::follower::{Step, durably};
use crate::chain::nodes::{ChainNode, NodeError, Nodes, Refusal};
use crate::chain::root_source::RootSource;
use crate::clock::ManualClock;

pub(super) const CHAIN: u64 = 480;
pub(super) const CONTRACT: Address = Address::repeat_byte(0xc0);
pub(super) const START: u64 = 1_800_000_000;
pub(super) const BLOCK_TIME: u64 = 2;

/// The base point of BabyJubJub's subgroup of prime order, and its double: two valid keys.
pub(super) const BASE: [&str; 2] = [
    "5299619240641551281634865583518297030282874472190772894086521144482721001553",
    "16950150798460657717958625567821834550301663161624707787222815936182638968203",
];

pub(super) fn root(number: u64) -> Root {
    Root::from_number(U256::from(number))
}

pub(super) fn word(value: u64) -> B256 {
    B256::from(U256::from(value))
}

pub(super) fn returned(words: &[U256]) -> Answer {
    Answer::Returned(words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect())
}

#[derive(Clone)]
pub(super) struct Block {
    pub header: Header,
    pub logs: Vec<Log>,
    /// What calls return after this block, by their data.
    pub calls: HashMap<Bytes, Answer>,
}

/// What a node does with a question instead of answering it. An error fails the whole round trip.
pub(super) type Habit = Box<dyn FnMut(&Question) -> Option<Result<Result<Answer, Refusal>, NodeError>> + Send>;

/// A chain in memory, and how its node fails.
pub(super) struct TestChain {
    pub chain_id: u64,
    pub contract: RootContract,
    /// Where the contract is.
    pub address: Address,
    /// The implementation behind each contract.
    pub implementation: Address,
    pub blocks: Vec<Block>,
    pub fork: u64,
    /// The most blocks whose logs are given at a time.
    pub longest_range: u64,
    /// The newest block that the node names.
    pub shown: Option<u64>,
    pub hangs: bool,
    pub fails_with: Option<NodeError>,
    /// Whether the node refuses questions about storage.
    pub hides_code: bool,
    /// Roots whose logs the node keeps to itself.
    pub hidden: Vec<Root>,
    pub habit: Option<Habit>,
    /// The node does not answer round trips with such a question.
    pub hangs_at: Option<fn(&Question) -> bool>,
    pub rounds: usize,
    /// The questions so far, in their order.
    pub asked: Vec<Question>,
}

impl TestChain {
    pub fn new(contract: RootContract) -> Self {
        let mut chain = Self {
            chain_id: CHAIN,
            contract,
            address: CONTRACT,
            implementation: Address::ZERO,
            blocks: Vec::new(),
            fork: 0,
            longest_range: u64::MAX,
            shown: None,
            hangs: false,
            fails_with: None,
            hides_code: false,
            hidden: Vec::new(),
            habit: None,
            hangs_at: None,
            rounds: 0,
            asked: Vec::new(),
        };
        chain.mine(&[]);
        chain.set(contract.window_call(), returned(&[U256::from(600)]));
        chain
    }

    pub fn head(&self) -> Header {
        self.blocks[self.shown.map_or(self.blocks.len() - 1, |shown| shown as usize)].header
    }

    /// Adds a block in which these roots are published one after the other.
    pub fn mine(&mut self, roots: &[u64]) {
        let number = self.blocks.len() as u64;
        let parent = self.blocks.last().map_or(B256::ZERO, |block| block.header.hash);
        let hash = keccak256([parent.as_slice(), &number.to_be_bytes(), &self.fork.to_be_bytes()].concat());
        // The blocks of a fork come later than those that they replace.
        let time = UnixSeconds(START + number * BLOCK_TIME + self.fork * 300);
        let header = Header { number, hash, time };
        let mut calls = self.blocks.last().map(|block| block.calls.clone()).unwrap_or_default();
        let mut logs = Vec::new();
        let newest_call = self.contract.newest_root_call();
        for (log_index, new) in (0..).zip(roots) {
            let before = match calls.get(&newest_call) {
                Some(Answer::Returned(data)) => B256::from_slice(data),
                _ => word(0),
            };
            let topic = self.contract.topic();
            let (topics, data) = match self.contract {
                RootContract::IdentityManager => (vec![topic, before, word(0), word(*new)], Bytes::new()),
                RootContract::Registry => (vec![topic, word(*new)], word(header.time.0).to_vec().into()),
                RootContract::Bridge => (vec![topic], [word(*new), word(header.time.0)].concat().into()),
            };
            logs.push(Log { address: self.address, topics, data, block_number: number, block_hash: hash, log_index });
            calls.insert(newest_call.clone(), returned(&[U256::from(*new)]));
            calls.insert(WindowStart::call(root(*new)), returned(&[U256::ZERO]));
            calls.insert(recorded_at_call(root(*new)), returned(&[U256::from(header.time.0)]));
        }
        self.blocks.push(Block { header, logs, calls });
    }

    pub fn mine_empty(&mut self, count: usize) {
        (0..count).for_each(|_| self.mine(&[]));
    }

    /// From the newest block on, a call returns this.
    pub fn set(&mut self, call: Bytes, answer: Answer) {
        self.blocks.last_mut().expect("a block").calls.insert(call, answer);
    }

    /// Takes blocks away; those that follow have other hashes.
    pub fn reorganize(&mut self, depth: usize) {
        self.blocks.truncate(self.blocks.len() - depth);
        self.fork += 1;
    }

    fn answer_by_habit(&mut self, question: &Question) -> Result<Result<Answer, Refusal>, NodeError> {
        self.asked.push(question.clone());
        let odd = self.habit.as_mut().and_then(|habit| habit(question));
        odd.unwrap_or_else(|| Ok(self.answer(question)))
    }

    /// How many blocks each question for logs was about.
    pub fn ranges(&self) -> Vec<u64> {
        let range = |question: &Question| match question {
            Question::Logs { from, to, .. } => Some(to - from + 1),
            _ => None,
        };
        self.asked.iter().filter_map(range).collect()
    }

    pub fn answer(&self, question: &Question) -> Result<Answer, Refusal> {
        let refuse = |message: &str| Err(Refusal { code: -32000, message: message.to_owned() });
        let head = self.head().number;
        match question {
            Question::ChainId => Ok(Answer::ChainId(self.chain_id)),
            Question::Block(tag) => {
                let number = match tag {
                    BlockTag::Latest => head,
                    BlockTag::Safe => head.saturating_sub(4),
                    BlockTag::Finalized => head.saturating_sub(8),
                    BlockTag::Number(number) => *number,
                };
                let block = self.blocks.get(number as usize).filter(|_| number <= head);
                Ok(Answer::Block(block.map(|block| block.header)))
            }
            Question::Logs { from, to, .. } if to - from >= self.longest_range => refuse("too many blocks"),
            Question::Logs { from, to, address, .. } => {
                let blocks = self.blocks.iter().filter(|block| (*from..=*to).contains(&block.header.number));
                let is_shown = |log: &&Log| {
                    log.address == *address && !self.hidden.iter().any(|root| log.topics.contains(&root.0))
                };
                Ok(Answer::Logs(blocks.flat_map(|block| &block.logs).filter(is_shown).cloned().collect()))
            }
            Question::Call { data, at, .. } => {
                let Some(block) = self.blocks.iter().find(|block| block.header.hash == *at) else {
                    return refuse("no such block");
                };
                Ok(block.calls.get(data).cloned().unwrap_or(Answer::Returned(Bytes::new())))
            }
            Question::Storage { .. } if self.hides_code => refuse("the method does not exist"),
            Question::Storage { .. } => Ok(Answer::Storage(self.implementation.into_word())),
        }
    }
}

pub(super) struct TestNode {
    pub name: String,
    pub chain: Mutex<TestChain>,
}

impl TestNode {
    pub fn new(name: &str, chain: TestChain) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), chain: Mutex::new(chain) })
    }

    pub fn chain(&self) -> MutexGuard<'_, TestChain> {
        self.chain.lock().expect("no test panicked")
    }
}

impl ChainNode for TestNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask<'a>(&'a self, questions: &'a [Question]) -> BoxFuture<'a, Result<Vec<Result<Answer, Refusal>>, NodeError>> {
        async move {
            let hangs = {
                let mut chain = self.chain();
                chain.rounds += 1;
                let hangs_at = chain.hangs_at.is_some_and(|hangs| questions.iter().any(hangs));
                if hangs_at {
                    chain.asked.extend_from_slice(questions);
                }
                chain.hangs || hangs_at
            };
            if hangs {
                std::future::pending::<()>().await;
            }
            let mut chain = self.chain();
            match &chain.fails_with {
                Some(error) => Err(error.clone()),
                None => questions.iter().map(|question| chain.answer_by_habit(question)).collect(),
            }
        }
        .boxed()
    }
}

/// A store, and a clock that stands at the time of the newest block until a test sets it.
pub(super) struct Fixture {
    pub records: Arc<ChainRecords>,
    pub clock: Arc<ManualClock>,
    pub nodes: Vec<Arc<TestNode>>,
    pub _folder: TempDir,
}

impl Fixture {
    pub fn new(nodes: Vec<Arc<TestNode>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
        let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
        let (group_commit, _) = GroupCommit::start(store.clone()).expect("the committing thread starts");
        let records = Arc::new(ChainRecords::new(store, group_commit));
        let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
        let fixture = Self { records, clock, nodes, _folder: folder };
        fixture.set_clock();
        fixture
    }

    /// Waits until everything that was handed to the store is on disk.
    pub async fn sync(&self) {
        let code = ContractCode { implementation: None, proof_verifier: None };
        let nothing = SourceId { hash: B256::ZERO };
        durably(&self.records, |records, durable| records.write_first_code(nothing, &code, durable))
            .await
            .expect("written");
    }

    pub fn one(contract: RootContract) -> Self {
        Self::new(vec![TestNode::new("node", TestChain::new(contract))])
    }

    pub fn chain(&self) -> MutexGuard<'_, TestChain> {
        self.nodes[0].chain()
    }

    /// Sets the clock to the time of the newest block of all nodes.
    pub fn set_clock(&self) {
        let newest = self.nodes.iter().map(|node| node.chain().head().time.0).max();
        self.clock.set(Duration::from_secs(newest.unwrap_or(START)));
    }

    pub fn now(&self) -> UnixSeconds {
        use crate::clock::Clock;
        self.clock.unix_seconds()
    }

    pub fn nodes(&self, agree: usize) -> Arc<Nodes> {
        let nodes = self.nodes.iter().map(|node| Arc::clone(node) as Arc<dyn ChainNode>).collect();
        Arc::new(Nodes::new(CHAIN, agree, nodes))
    }

    /// The source as a starting service loads it.
    pub fn source(&self, agree: usize, change: impl FnOnce(&mut RootSourceSettings)) -> RootSource {
        self.source_of(None, agree, change)
    }

    /// The same, with the verifier of its deployment.
    pub fn source_of(
        &self,
        verifier: Option<Arc<VerifierSource>>,
        agree: usize,
        change: impl FnOnce(&mut RootSourceSettings),
    ) -> RootSource {
        let contract = self.chain().contract;
        let is_legacy = contract != RootContract::Registry;
        let mut settings = RootSourceSettings {
            name: "test/roots".to_owned(),
            contract,
            place: ContractPlace::At(CONTRACT),
            code: CodeSettings::default(),
            environment: Environment::Production,
            identifiers: if is_legacy { vec![LegacyIdentifier::Orb] } else { Vec::new() },
            head: BlockTag::Latest,
            freshness: freshness(),
            reach: Duration::from_secs(3600),
            start_block: None,
            blocks_per_question: 1000,
        };
        change(&mut settings);
        let clock = Arc::clone(&self.clock);
        RootSource::load(settings, CHAIN, verifier, self.nodes(agree), Arc::clone(&self.records), clock)
            .expect("loaded")
    }

    /// The newest published root, when the source is up to date with the newest block.
    pub fn newest(&self, source: &RootSource) -> Option<Root> {
        source.published().history.newest().map(|(_, published)| published.root)
    }
}

pub(super) fn freshness() -> Freshness {
    Freshness {
        interval: Duration::from_secs(3),
        stale_after: Duration::from_secs(900),
        fresh_for: Duration::from_secs(60),
    }
}

/// Takes steps until there is nothing more to read.
pub(super) async fn catch_up(source: &RootSource) -> Result<(), ChainError> {
    while source.step().await? == Step::More {}
    Ok(())
}
