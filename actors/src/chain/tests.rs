//! Following a chain in memory: what is published after each step, also when nodes lie, hang, are
//! behind or refuse, when the chain is reorganized, and when the service ends in between.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::chain::contracts::{FollowedKey, RootContract, WindowStart, recorded_at_call};
use selfsame_protocol::chain::followed::{KeyOwner, RootJudgement};
use selfsame_protocol::chain::rpc::{Answer, BlockTag, Header, Log, Question};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::roots::RootAge;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_protocol::{Address, B256, Bytes, U256, keccak256};
use selfsame_storage::{ChainRecords, GroupCommit, OpenOptions, Store};
use tempfile::TempDir;

use super::error::ChainError;
use super::key_source::KeySource;
use super::node::{ChainNode, NodeError, Refusal};
use super::nodes::Nodes;
use super::progress::Step;
use super::root_source::RootSource;
use super::settings::{
    CodeSettings, ContractPlace, FollowedOwner, Freshness, KeyContract, KeySourceSettings, RootSourceSettings,
};
use super::verifier_source::VerifierSource;
use crate::clock::ManualClock;

mod deployment;

const CHAIN: u64 = 480;
const CONTRACT: Address = Address::repeat_byte(0xc0);
const START: u64 = 1_800_000_000;
const BLOCK_TIME: u64 = 2;

/// The base point of BabyJubJub's subgroup of prime order, and its double: two valid keys.
const BASE: [&str; 2] = [
    "5299619240641551281634865583518297030282874472190772894086521144482721001553",
    "16950150798460657717958625567821834550301663161624707787222815936182638968203",
];

fn root(number: u64) -> Root {
    Root::from_number(U256::from(number))
}

fn word(value: u64) -> B256 {
    B256::from(U256::from(value))
}

fn returned(words: &[U256]) -> Answer {
    Answer::Returned(words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect())
}

#[derive(Clone)]
struct Block {
    header: Header,
    logs: Vec<Log>,
    /// What calls return after this block, by their data.
    calls: HashMap<Bytes, Answer>,
}

/// A chain in memory, and how its node fails.
struct TestChain {
    chain_id: u64,
    contract: RootContract,
    /// Where the contract is.
    address: Address,
    /// The implementation behind each contract.
    implementation: Address,
    blocks: Vec<Block>,
    fork: u64,
    /// The most blocks whose logs are given at a time.
    longest_range: u64,
    /// The newest block that the node names.
    shown: Option<u64>,
    hangs: bool,
    fails_with: Option<NodeError>,
    /// Whether the node refuses questions about storage.
    hides_code: bool,
    /// Roots whose logs the node keeps to itself.
    hidden: Vec<Root>,
    rounds: usize,
}

impl TestChain {
    fn new(contract: RootContract) -> Self {
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
            rounds: 0,
        };
        chain.mine(&[]);
        chain.set(contract.window_call(), returned(&[U256::from(600)]));
        chain
    }

    fn head(&self) -> Header {
        self.blocks[self.shown.map_or(self.blocks.len() - 1, |shown| shown as usize)].header
    }

    /// Adds a block in which these roots are published one after the other.
    fn mine(&mut self, roots: &[u64]) {
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

    fn mine_empty(&mut self, count: usize) {
        (0..count).for_each(|_| self.mine(&[]));
    }

    /// From the newest block on, a call returns this.
    fn set(&mut self, call: Bytes, answer: Answer) {
        self.blocks.last_mut().expect("a block").calls.insert(call, answer);
    }

    /// Takes blocks away; those that follow have other hashes.
    fn reorganize(&mut self, depth: usize) {
        self.blocks.truncate(self.blocks.len() - depth);
        self.fork += 1;
    }

    fn answer(&self, question: &Question) -> Result<Answer, Refusal> {
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

struct TestNode {
    name: String,
    chain: Mutex<TestChain>,
}

impl TestNode {
    fn new(name: &str, chain: TestChain) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), chain: Mutex::new(chain) })
    }

    fn chain(&self) -> MutexGuard<'_, TestChain> {
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
                chain.hangs
            };
            if hangs {
                std::future::pending::<()>().await;
            }
            let chain = self.chain();
            match &chain.fails_with {
                Some(error) => Err(error.clone()),
                None => Ok(questions.iter().map(|question| chain.answer(question)).collect()),
            }
        }
        .boxed()
    }
}

/// A store, and a clock that stands at the time of the newest block until a test sets it.
struct Fixture {
    records: Arc<ChainRecords>,
    clock: Arc<ManualClock>,
    nodes: Vec<Arc<TestNode>>,
    _folder: TempDir,
}

impl Fixture {
    fn new(nodes: Vec<Arc<TestNode>>) -> Self {
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

    fn one(contract: RootContract) -> Self {
        Self::new(vec![TestNode::new("node", TestChain::new(contract))])
    }

    fn chain(&self) -> MutexGuard<'_, TestChain> {
        self.nodes[0].chain()
    }

    /// Sets the clock to the time of the newest block of all nodes.
    fn set_clock(&self) {
        let newest = self.nodes.iter().map(|node| node.chain().head().time.0).max();
        self.clock.set(Duration::from_secs(newest.unwrap_or(START)));
    }

    fn now(&self) -> UnixSeconds {
        use crate::clock::Clock;
        self.clock.unix_seconds()
    }

    fn nodes(&self, agree: usize) -> Arc<Nodes> {
        let nodes = self.nodes.iter().map(|node| Arc::clone(node) as Arc<dyn ChainNode>).collect();
        Arc::new(Nodes::new(CHAIN, agree, nodes))
    }

    /// The source as a starting service loads it.
    fn source(&self, agree: usize, change: impl FnOnce(&mut RootSourceSettings)) -> RootSource {
        self.source_of(None, agree, change)
    }

    /// The same, with the verifier of its deployment.
    fn source_of(
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
    fn newest(&self, source: &RootSource) -> Option<Root> {
        source.published().history.newest().map(|(_, published)| published.root)
    }
}

fn freshness() -> Freshness {
    Freshness {
        interval: Duration::from_secs(3),
        stale_after: Duration::from_secs(900),
        fresh_for: Duration::from_secs(60),
    }
}

/// Takes steps until there is nothing more to read.
async fn catch_up(source: &RootSource) -> Result<(), ChainError> {
    while source.step().await? == Step::More {}
    Ok(())
}

#[tokio::test]
async fn roots_appear_are_replaced_and_survive_a_restart() {
    for contract in [RootContract::IdentityManager, RootContract::Bridge, RootContract::Registry] {
        let fixture = Fixture::one(contract);
        let source = fixture.source(1, |settings| settings.blocks_per_question = 7);
        {
            let mut chain = fixture.chain();
            chain.mine(&[1]);
            chain.mine_empty(20);
            chain.mine(&[2, 3]);
            chain.mine_empty(3);
        }
        fixture.set_clock();
        assert!(source.published().confirmed.is_none());
        catch_up(&source).await.expect("read");
        let followed = source.published();
        assert_eq!(followed.confirmed, Some(fixture.chain().head()));
        assert_eq!((followed.history.len(), followed.window), (3, 600), "{contract:?}");
        assert_eq!(fixture.newest(&source), Some(root(3)));

        // Nothing new: nothing is asked but the newest block.
        let rounds = fixture.chain().rounds;
        assert_eq!(source.step().await.expect("read"), Step::Done);
        assert_eq!(fixture.chain().rounds, rounds + 1);

        // A new block: its number, then all else at once. The time of an event in the last block
        // needs no further question.
        fixture.chain().mine(&[4]);
        fixture.set_clock();
        let rounds = fixture.chain().rounds;
        catch_up(&source).await.expect("read");
        assert_eq!(fixture.chain().rounds, rounds + 2, "{contract:?}");
        let restarted = fixture.source(1, |_| {});
        assert_eq!(*restarted.published(), *source.published(), "{contract:?}");
        assert_eq!(fixture.newest(&restarted), Some(root(4)));
        match contract {
            RootContract::Registry => {
                let followed = restarted.published();
                assert_eq!(followed.is_valid(root(3), fixture.now()), Ok(RootJudgement::Published(true)));
                let later = UnixSeconds(fixture.now().0 + 60);
                assert_eq!(followed.is_valid(root(9), later), Ok(RootJudgement::Unknown));
            }
            _ => {
                let age = restarted.published().legacy_age(root(1), fixture.now());
                let expected = (fixture.chain().head().number - 1) * BLOCK_TIME;
                assert_eq!(age, Ok(RootJudgement::Published(RootAge::Seconds(expected))), "{contract:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_contract_at_rest_has_the_root_that_it_returns() {
    for contract in [RootContract::IdentityManager, RootContract::Registry] {
        let fixture = Fixture::one(contract);
        fixture.chain().mine(&[1]);
        fixture.chain().mine_empty(2000);
        fixture.set_clock();
        let source = fixture.source(1, |_| {});
        catch_up(&source).await.expect("read");
        // Its log is further back than logs are read.
        let known = source.published().history.get(root(1)).expect("the newest root");
        let recorded = START + BLOCK_TIME;
        match contract {
            RootContract::Registry => assert_eq!(known.time, UnixSeconds(recorded)),
            _ => assert_eq!(known.time, UnixSeconds(fixture.now().0 - 3600)),
        }
        // The next log continues it.
        fixture.chain().mine(&[2]);
        fixture.set_clock();
        catch_up(&source).await.expect("read");
        assert_eq!((fixture.newest(&source), source.published().history.len()), (Some(root(2)), 2));
    }
    // A bridge may have no root at all.
    let fixture = Fixture::one(RootContract::Bridge);
    let no_roots = Answer::Reverted(Bytes::from_static(&[0x5b, 0x8d, 0xab, 0xb7]));
    fixture.chain().set(RootContract::Bridge.newest_root_call(), no_roots);
    let source = fixture.source(1, |_| {});
    catch_up(&source).await.expect("read");
    assert!(source.published().confirmed.is_some() && source.published().history.is_empty());
}

#[tokio::test]
async fn a_reorganization_takes_back_the_roots_above_the_fork() {
    for depth in [1, 20, 60] {
        let fixture = Fixture::one(RootContract::IdentityManager);
        let source = fixture.source(1, |_| {});
        for number in 1..=50 {
            fixture.chain().mine(&[number]);
        }
        fixture.set_clock();
        catch_up(&source).await.expect("read");
        let depth = depth.min(fixture.chain().blocks.len() - 1);
        {
            let mut chain = fixture.chain();
            chain.reorganize(depth);
            // The node that follows the longer fork.
            (0..=depth as u64).for_each(|number| chain.mine(&[1000 + number]));
        }
        fixture.set_clock();
        let forked = 50 - depth as u64;
        assert_eq!(source.step().await.expect("undone"), Step::More);
        let undone = source.published();
        assert!(undone.history.get(root(forked + 1)).is_none(), "{depth}");
        assert_eq!(undone.history.len() as u64, forked);
        // Between the fork and what follows it, a restart begins at the fork.
        let restarted = fixture.source(1, |_| {});
        assert_eq!(restarted.published().history, undone.history);
        catch_up(&source).await.expect("read");
        assert_eq!(fixture.newest(&source), Some(root(1000 + depth as u64)));
        assert_eq!(source.published().confirmed, Some(fixture.chain().head()));
        catch_up(&restarted).await.expect("read");
        assert_eq!(restarted.published().history, source.published().history);
    }
}

#[tokio::test]
async fn a_chain_that_becomes_shorter_is_a_reorganization() {
    let fixture = Fixture::one(RootContract::Registry);
    let source = fixture.source(1, |_| {});
    (1..=20).for_each(|number| fixture.chain().mine(&[number]));
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    fixture.chain().reorganize(10);
    fixture.chain().mine(&[99]);
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    assert_eq!((fixture.newest(&source), source.published().history.len()), (Some(root(99)), 11));
    assert!(source.published().history.get(root(11)).is_none());
}

#[tokio::test]
async fn a_chain_without_any_known_block_is_read_from_the_beginning() {
    let fixture = Fixture::one(RootContract::IdentityManager);
    let source = fixture.source(1, |_| {});
    // Each block is read in a step of its own, so that what follows continues far from the first.
    for number in 1..=20 {
        fixture.chain().mine(&[number]);
        fixture.set_clock();
        catch_up(&source).await.expect("read");
    }
    // Also the blocks that were read before any root are other ones.
    let mut other = TestChain::new(RootContract::IdentityManager);
    other.reorganize(1);
    other.mine(&[]);
    other.set(RootContract::IdentityManager.window_call(), returned(&[U256::from(600)]));
    (1..=30).for_each(|number| other.mine(&[100 + number]));
    *fixture.chain() = other;
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    assert_eq!((fixture.newest(&source), source.published().history.len()), (Some(root(130)), 30));
}

#[tokio::test]
async fn a_failed_look_at_the_newest_block_changes_nothing() {
    let fixture = Fixture::one(RootContract::Registry);
    let source = fixture.source(1, |_| {});
    fixture.chain().mine(&[1]);
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    // The second step is not stored, because it found no root.
    fixture.chain().mine_empty(2);
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    fixture.chain().fails_with = Some(NodeError::TimedOut);
    assert!(source.step().await.is_err());
    fixture.chain().fails_with = None;
    let rounds = fixture.chain().rounds;
    assert_eq!(source.step().await.expect("read"), Step::Done);
    assert!(fixture.chain().rounds <= rounds + 2, "the chain's id and the newest block, and nothing is read again");
}

#[tokio::test]
async fn a_node_that_is_behind_takes_nothing_back_and_confirms_nothing() {
    let fixture = Fixture::one(RootContract::Registry);
    let source = fixture.source(1, |_| {});
    (1..=10).for_each(|number| fixture.chain().mine(&[number]));
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    let before = source.published();
    fixture.chain().shown = Some(4);
    assert_eq!(source.step().await.expect("read"), Step::Done);
    assert_eq!(*source.published(), *before);
}

#[tokio::test]
async fn fewer_blocks_are_asked_for_after_a_refusal() {
    let fixture = Fixture::one(RootContract::Bridge);
    let source = fixture.source(1, |_| {});
    (1..=100).for_each(|number| fixture.chain().mine(&[number]));
    fixture.chain().longest_range = 5;
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    assert_eq!(source.published().history.len(), 100);
    // A node that refuses one block cannot be followed.
    fixture.chain().longest_range = 0;
    fixture.chain().mine(&[101]);
    fixture.set_clock();
    let mut outcome = Ok(Step::More);
    for _ in 0..12 {
        outcome = source.step().await;
    }
    assert!(matches!(outcome, Err(ChainError::Refused { .. })), "{outcome:?}");
    // It recovers when the node does.
    fixture.chain().longest_range = u64::MAX;
    catch_up(&source).await.expect("read");
    assert_eq!(fixture.newest(&source), Some(root(101)));
}

#[tokio::test]
async fn logs_that_are_missing_are_noticed_and_read_again() {
    for contract in [RootContract::IdentityManager, RootContract::Registry] {
        let fixture = Fixture::one(contract);
        let source = fixture.source(1, |_| {});
        fixture.chain().mine(&[1]);
        fixture.set_clock();
        catch_up(&source).await.expect("read");
        {
            let mut chain = fixture.chain();
            chain.mine(&[2]);
            chain.mine(&[3]);
            chain.hidden = vec![root(3)];
        }
        fixture.set_clock();
        for _ in 0..2 {
            let outcome = catch_up(&source).await;
            assert!(outcome.as_ref().is_err_and(ChainError::is_contradiction), "{outcome:?}");
            assert_eq!(fixture.newest(&source), Some(root(1)), "what is published stays");
        }
        fixture.chain().hidden.clear();
        catch_up(&source).await.expect("read");
        assert_eq!((fixture.newest(&source), source.published().history.len()), (Some(root(3)), 3));
    }
}

#[tokio::test]
async fn a_history_that_contradicts_the_contract_is_read_again_from_nothing() {
    let fixture = Fixture::one(RootContract::IdentityManager);
    let source = fixture.source(1, |_| {});
    (1..=3).for_each(|number| fixture.chain().mine(&[number]));
    fixture.chain().hidden = vec![root(3)];
    // The contract returns what the logs do not have, until a node with all logs is asked.
    fixture.set_clock();
    for _ in 0..3 {
        assert!(catch_up(&source).await.is_err());
    }
    assert_eq!(source.progress.restarts.load(Ordering::Relaxed), 0, "nodes index logs with a delay");
    fixture.clock.advance(Duration::from_secs(600));
    assert!(catch_up(&source).await.is_err());
    assert_eq!(source.progress.restarts.load(Ordering::Relaxed), 1);
    assert!(source.published().confirmed.is_none());
    fixture.chain().hidden.clear();
    catch_up(&source).await.expect("read");
    assert_eq!(source.published().history.len(), 3);
}

fn honest_and(change: impl FnOnce(&mut TestChain)) -> Fixture {
    let chain = || {
        let mut chain = TestChain::new(RootContract::Registry);
        (1..=5).for_each(|number| chain.mine(&[number]));
        chain
    };
    let mut other = chain();
    change(&mut other);
    let nodes = [TestNode::new("other", other), TestNode::new("first", chain()), TestNode::new("second", chain())];
    let fixture = Fixture::new(nodes.into());
    let honest = fixture.nodes[1].chain().head().time.0;
    fixture.clock.set(Duration::from_secs(honest));
    fixture
}

#[tokio::test(start_paused = true)]
async fn two_honest_nodes_outvote_one_that_is_not() {
    type Change = Box<dyn Fn(&mut TestChain)>;
    let cases: [(&str, Change); 8] = [
        ("another newest root", Box::new(|chain| chain.mine(&[99]))),
        (
            "a root that never was",
            Box::new(|chain| {
                chain.reorganize(1);
                chain.mine(&[66]);
            }),
        ),
        (
            "a longer chain of its own",
            Box::new(|chain| {
                chain.reorganize(3);
                (0..50).for_each(|_| chain.mine(&[66]));
            }),
        ),
        ("hidden logs", Box::new(|chain| chain.hidden = vec![root(2)])),
        ("no answer", Box::new(|chain| chain.hangs = true)),
        ("another chain", Box::new(|chain| chain.chain_id = 1)),
        ("far behind", Box::new(|chain| chain.shown = Some(1))),
        ("garbage", Box::new(|chain| chain.fails_with = Some(NodeError::Malformed("no JSON".to_owned())))),
    ];
    for (name, change) in cases {
        let fixture = honest_and(change);
        let source = fixture.source(2, |_| {});
        // Commits are made by a thread, which does not move the paused time.
        tokio::time::resume();
        let caught_up = tokio::time::timeout(Duration::from_secs(20), catch_up(&source)).await;
        tokio::time::pause();
        caught_up.expect("one node delays nothing").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(fixture.newest(&source), Some(root(5)), "{name}");
        assert_eq!(source.published().history.len(), 5, "{name}");
        let honest = fixture.nodes[1].chain().head();
        assert_eq!(source.published().confirmed, Some(honest), "{name}");
    }
}

#[tokio::test]
async fn nothing_is_published_when_too_few_nodes_agree() {
    let fixture = honest_and(|chain| chain.chain_id = 1);
    fixture.nodes[1].chain().fails_with = Some(NodeError::TimedOut);
    let source = fixture.source(2, |_| {});
    let error = catch_up(&source).await.expect_err("one node is not enough");
    let text = error.to_string();
    assert!(text.starts_with("1 of the 2 nodes that must agree answered: "), "{text}");
    assert!(text.contains("other: its chain has the id 1, not 480") && text.contains("first: "), "{text}");
    assert!(source.published().confirmed.is_none());
    // Two nodes that contradict each other.
    let fixture = honest_and(|chain| {
        chain.reorganize(2);
        chain.mine(&[66]);
        chain.mine(&[67]);
    });
    fixture.nodes[1].chain().fails_with = Some(NodeError::TimedOut);
    let source = fixture.source(2, |_| {});
    let error = catch_up(&source).await.expect_err("they do not agree");
    assert!(matches!(error, ChainError::Disagreement { .. }), "{error}");
}

#[tokio::test]
async fn one_answer_is_enough_and_another_node_takes_over() {
    let fixture = honest_and(|_| {});
    let source = fixture.source(1, |_| {});
    catch_up(&source).await.expect("read");
    for failing in 0..2 {
        fixture.nodes[failing].chain().fails_with = Some(NodeError::Unreachable("refused".to_owned()));
        fixture.nodes.iter().for_each(|node| node.chain().mine(&[10 + failing as u64]));
        fixture.set_clock();
        catch_up(&source).await.expect("another node answers");
        assert_eq!(fixture.newest(&source), Some(root(10 + failing as u64)));
    }
}

#[tokio::test]
async fn a_block_from_the_future_is_refused() {
    let fixture = Fixture::one(RootContract::Registry);
    fixture.chain().mine(&[1]);
    fixture.clock.set(Duration::from_secs(START - 100));
    let source = fixture.source(1, |_| {});
    assert!(matches!(source.step().await, Err(ChainError::Ahead(_))));
}

fn public_key() -> PublicKey {
    let [x, y] = BASE.map(|text| text.parse::<U256>().expect("a number"));
    PublicKey::from_coordinates(&x, &y).expect("a key")
}

fn key_answer(key: &PublicKey) -> Answer {
    let (x, y) = key.coordinates();
    returned(&[x, y])
}

#[tokio::test]
async fn keys_are_added_changed_and_removed() {
    use selfsame_protocol::chain::contracts::issuer_key_call;
    let fixture = Fixture::one(RootContract::Registry);
    let owner = |id| FollowedOwner { owner: KeyOwner::Issuer(id), configured: None };
    let load = |added_at, owners| {
        let settings = KeySourceSettings {
            name: "test/issuers".to_owned(),
            contract: KeyContract::Issuers,
            place: ContractPlace::At(CONTRACT),
            code: CodeSettings::default(),
            environment: Environment::Production,
            owners,
            added_at,
            freshness: freshness(),
        };
        let clock = Arc::clone(&fixture.clock);
        KeySource::load(settings, CHAIN, None, fixture.nodes(1), Arc::clone(&fixture.records), clock).expect("loaded")
    };
    let source = load(BlockTag::Latest, vec![owner(1), owner(2)]);
    let settled = load(BlockTag::Safe, vec![owner(1), owner(2)]);
    let key = |source: &KeySource, id| source.published().get(KeyOwner::Issuer(id), fixture.now());
    assert!(key(&source, 1).is_err(), "no key was read");
    let nothing = returned(&[U256::ZERO, U256::ZERO]);
    let present = key_answer(&public_key());
    for (answer, expected, when_settled) in [
        (&nothing, FollowedKey::Absent, FollowedKey::Absent),
        (&present, FollowedKey::Present(public_key()), FollowedKey::Absent),
        (&present, FollowedKey::Present(public_key()), FollowedKey::Present(public_key())),
        // A removal counts at once.
        (&nothing, FollowedKey::Absent, FollowedKey::Absent),
    ] {
        fixture.chain().mine(&[]);
        fixture.chain().set(issuer_key_call(1), answer.clone());
        fixture.chain().set(issuer_key_call(2), nothing.clone());
        if when_settled != FollowedKey::Absent {
            fixture.chain().mine_empty(5);
        }
        fixture.set_clock();
        if fixture.chain().head().number >= 5 {
            settled.step().await.expect("read");
            assert_eq!(key(&settled, 1), Ok(Some(when_settled)));
        }
        source.step().await.expect("read");
        assert_eq!(key(&source, 1), Ok(Some(expected)));
        assert_eq!(key(&load(BlockTag::Latest, vec![owner(1)]), 1), Ok(Some(expected)), "it survives a restart");
    }
    // A key that the configuration has is compared, and a new owner is unknown until it is read.
    source.set_owners(vec![
        FollowedOwner { owner: KeyOwner::Issuer(1), configured: Some(public_key()) },
        FollowedOwner { owner: KeyOwner::Issuer(3), configured: None },
    ]);
    assert_eq!(key(&source, 2), Ok(None), "it is not followed any more");
    assert!(key(&source, 3).is_err(), "it was not read yet");
    assert_eq!(source.differing(), [KeyOwner::Issuer(1)]);
    fixture.chain().mine_empty(1);
    fixture.chain().set(issuer_key_call(3), present);
    fixture.set_clock();
    source.step().await.expect("read");
    assert_eq!(key(&source, 3), Ok(Some(FollowedKey::Present(public_key()))));
}
