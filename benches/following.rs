//! The cost of following a contract: reading a long history at the first start, and looking at a
//! chain that makes a block at each look. The node is in memory, so the figures are the daemon's
//! own work and its disk's; docs/benchmarks-parts.md explains the lines.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark ends when a step fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_sol_types::{SolCall, SolEvent};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::{
    ChainNode, ChainSettings, CodeSettings, ContractPlace, Freshness, ManualClock, NodeError, Refusal,
    RootSourceSettings, Service, ServiceParts, Settings, SourceStatus,
};
use selfsame_protocol::chain::contracts::{Answer, BlockTag, Header, Log, Question, RootContract, abi};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_protocol::{Address, B256, Bytes, U256, keccak256};
use selfsame_storage::{OpenOptions, Store};

/// Events that are read at the first start; each is in a block of its own.
const EVENTS: u64 = 100_000;

const CONTRACT: Address = Address::repeat_byte(0xc0);
const START: u64 = 1_800_000_000;
const BLOCK_TIME: u64 = 2;

fn main() {
    // `cargo test --benches` passes no `--bench`: there is nothing to test here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for contract in [RootContract::Registry, RootContract::IdentityManager] {
        runtime.block_on(measure(contract));
    }
}

async fn measure(contract: RootContract) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
    let node = Arc::new(LongChain { contract, blocks: AtomicU64::new(EVENTS), rounds: 0.into(), questions: 0.into() });
    let clock = Arc::new(ManualClock::at(Duration::from_secs(START + (EVENTS + 100) * BLOCK_TIME)));
    let settings = Settings { chains: vec![chain(contract, &node)], ..Settings::for_instance(format!("{contract:?}")) };
    let before = resident_memory();
    let begun = Instant::now();
    let service = Service::start(ServiceParts::new(settings, store).clock(clock.clone())).await.expect("started");
    let status = || source(&service, clock.as_ref());
    while status().confirmed_seconds_ago.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (took, memory) = (begun.elapsed(), resident_memory().saturating_sub(before));
    let (rounds, questions) = (node.rounds.load(Ordering::Relaxed), node.questions.load(Ordering::Relaxed));
    println!(
        "{contract:?}: read {EVENTS} events in {:.1} s ({:.0} a second), {} MiB more memory, {rounds} round trips, \
         {questions} questions",
        took.as_secs_f64(),
        EVENTS as f64 / took.as_secs_f64(),
        memory >> 20,
    );
    // A block with an event at each look.
    let begun = Instant::now();
    let looks = 20;
    for _ in 0..looks {
        let block = node.blocks.fetch_add(1, Ordering::Relaxed) + 1;
        while status().read < block {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let (more_rounds, more_questions) =
        (node.rounds.load(Ordering::Relaxed) - rounds, node.questions.load(Ordering::Relaxed) - questions);
    println!(
        "{contract:?}: a look at a new block with an event: {} round trips, {} questions; {looks} looks in {:.1} s",
        more_rounds / looks,
        more_questions / looks,
        begun.elapsed().as_secs_f64(),
    );
    service.stop().await;
}

fn chain(contract: RootContract, node: &Arc<LongChain>) -> ChainSettings {
    let is_legacy = contract != RootContract::Registry;
    let source = RootSourceSettings {
        name: "bench/roots".to_owned(),
        contract,
        place: ContractPlace::At(CONTRACT),
        code: CodeSettings::default(),
        environment: Environment::Production,
        identifiers: if is_legacy { vec![LegacyIdentifier::Orb] } else { Vec::new() },
        head: BlockTag::Latest,
        freshness: Freshness {
            interval: Duration::from_millis(100),
            stale_after: Duration::from_secs(1 << 30),
            fresh_for: Duration::from_secs(1 << 30),
        },
        reach: Duration::from_secs(30 * 24 * 3600),
        start_block: Some(0),
        blocks_per_question: 1000,
    };
    ChainSettings {
        name: "bench".to_owned(),
        chain_id: 480,
        nodes: vec![Arc::clone(node) as Arc<dyn ChainNode>],
        agree: 1,
        roots: vec![source],
        ..ChainSettings::default()
    }
}

fn source(service: &Service, clock: &dyn selfsame_actors::Clock) -> SourceStatus {
    service.chain().status(clock.unix_seconds()).remove(0).sources.remove(0)
}

/// A chain with an event in each block, made up when it is asked.
struct LongChain {
    contract: RootContract,
    blocks: AtomicU64,
    rounds: AtomicU64,
    questions: AtomicU64,
}

impl LongChain {
    fn header(number: u64) -> Header {
        Header { number, hash: keccak256(number.to_be_bytes()), time: UnixSeconds(START + number * BLOCK_TIME) }
    }

    fn log(&self, number: u64) -> Log {
        let Header { hash: block_hash, time, .. } = Self::header(number);
        let (root, replaced) = (U256::from(number + 1), U256::from(number));
        let data = match self.contract {
            RootContract::IdentityManager => {
                abi::TreeChanged { preRoot: replaced, kind: 0, postRoot: root }.encode_log_data()
            }
            RootContract::Bridge => abi::RootAdded { root, timestamp: time.0.into() }.encode_log_data(),
            RootContract::Registry => abi::RootRecorded { root, timestamp: U256::from(time.0) }.encode_log_data(),
        };
        let topics = data.topics().to_vec();
        Log { address: CONTRACT, topics, data: data.data, block_number: number, block_hash, log_index: 0 }
    }

    fn answer(&self, question: &Question) -> Answer {
        let newest = self.blocks.load(Ordering::Relaxed);
        let word = |number: u64| Answer::Returned(Bytes::from(U256::from(number).to_be_bytes::<32>()));
        match question {
            Question::ChainId => Answer::ChainId(480),
            Question::Block(BlockTag::Number(number)) => {
                Answer::Block((*number <= newest).then(|| Self::header(*number)))
            }
            Question::Block(_) => Answer::Block(Some(Self::header(newest))),
            Question::Logs { from, to, .. } => Answer::Logs((*from..=*to).map(|number| self.log(number)).collect()),
            Question::Call { data, .. } if *data == self.contract.window_call() => word(3600),
            Question::Call { data, .. } if data.starts_with(&abi::getRootExpirationCall::SELECTOR) => word(0),
            Question::Call { .. } => word(newest + 1),
            Question::Storage { .. } => Answer::Storage(B256::ZERO),
        }
    }
}

impl ChainNode for LongChain {
    fn name(&self) -> &str {
        "memory"
    }

    fn ask<'a>(&'a self, questions: &'a [Question]) -> BoxFuture<'a, Result<Vec<Result<Answer, Refusal>>, NodeError>> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.questions.fetch_add(questions.len() as u64, Ordering::Relaxed);
        async move { Ok(questions.iter().map(|question| Ok(self.answer(question))).collect()) }.boxed()
    }
}

/// The memory of this process that is in use, in bytes.
fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}
