//! A follower of a contract while each of its steps fails: what is published is right at any time,
//! nothing is lost or read twice, and a restart continues from the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{
    ChainNode, ChainSettings, CodeSettings, ContractPlace, Freshness, NodeError, Refusal, RootSourceSettings, Service,
    ServiceParts, Settings, SourceData, SourceStatus,
};
use selfsame_protocol::chain::contracts::{Answer, BlockTag, Header, Log, Question, RootContract, WindowStart};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{Address, B256, U256, keccak256};
use tokio::time::Instant;

use super::{FAULTS, FaultTestService, PATIENCE, lock_exclusive, start_with, work_under};

const CONTRACT: Address = Address::repeat_byte(0xc0);
const START: u64 = 1_800_000_000;
const REGISTRY: RootContract = RootContract::Registry;

/// A node of a chain with a root in each block: in block n the root n + 1.
struct RootNode {
    newest: AtomicU64,
    fails: AtomicBool,
}

impl RootNode {
    fn header(number: u64) -> Header {
        // All blocks have the time of the tests' clock.
        Header { number, hash: keccak256(number.to_be_bytes()), time: UnixSeconds(START) }
    }

    fn answer(&self, question: &Question) -> Answer {
        let newest = self.newest.load(Ordering::Relaxed);
        let number_of =
            |hash: &B256| (0..=newest).find(|number| Self::header(*number).hash == *hash).unwrap_or_default();
        let word = |number: u64| B256::from(U256::from(number));
        match question {
            Question::ChainId => Answer::ChainId(480),
            Question::Block(BlockTag::Number(number)) => {
                Answer::Block((*number <= newest).then(|| Self::header(*number)))
            }
            Question::Block(_) => Answer::Block(Some(Self::header(newest))),
            Question::Logs { from, to, .. } => Answer::Logs(
                (*from..=*to)
                    .map(|number| Log {
                        address: CONTRACT,
                        topics: vec![REGISTRY.topic(), word(number + 1)],
                        data: word(START).to_vec().into(),
                        block_number: number,
                        block_hash: Self::header(number).hash,
                        log_index: 0,
                    })
                    .collect(),
            ),
            Question::Call { data, .. } if *data == REGISTRY.window_call() => returned(word(3600)),
            Question::Call { data, at, .. } if *data == REGISTRY.newest_root_call() => {
                returned(word(number_of(at) + 1))
            }
            Question::Call { data, at, .. } => {
                assert_eq!(*data, WindowStart::call(Root(word(number_of(at) + 1))));
                returned(word(0))
            }
            Question::Storage { .. } => Answer::Storage(B256::ZERO),
        }
    }
}

fn returned(word: B256) -> Answer {
    Answer::Returned(word.to_vec().into())
}

impl ChainNode for RootNode {
    fn name(&self) -> &str {
        "node"
    }

    fn ask<'a>(&'a self, questions: &'a [Question]) -> BoxFuture<'a, Result<Vec<Result<Answer, Refusal>>, NodeError>> {
        async move {
            match self.fails.load(Ordering::Relaxed) {
                true => Err(NodeError::TimedOut),
                false => Ok(questions.iter().map(|question| Ok(self.answer(question))).collect()),
            }
        }
        .boxed()
    }
}

fn follow(settings: &mut Settings, node: &Arc<RootNode>) {
    settings.chains = vec![ChainSettings {
        name: "chain".to_owned(),
        chain_id: 480,
        nodes: vec![Arc::clone(node) as Arc<dyn ChainNode>],
        agree: 1,
        roots: vec![RootSourceSettings {
            name: "chain/registry".to_owned(),
            contract: REGISTRY,
            place: ContractPlace::At(CONTRACT),
            code: CodeSettings::default(),
            environment: Environment::Production,
            identifiers: Vec::new(),
            head: BlockTag::Latest,
            freshness: Freshness {
                interval: Duration::from_millis(5),
                stale_after: Duration::from_secs(3600),
                fresh_for: Duration::from_secs(60),
            },
            reach: Duration::from_secs(3600),
            start_block: Some(0),
            blocks_per_question: 4,
        }],
        ..ChainSettings::default()
    }];
}

fn source(service: &Service) -> SourceStatus {
    service.chain().status(UnixSeconds(START)).remove(0).sources.remove(0)
}

/// Number and newest of the published roots.
fn roots(service: &Service) -> (usize, Option<Root>) {
    match source(service).data {
        SourceData::Roots { roots, newest_root, .. } => (roots, newest_root),
        _ => panic!("the source has roots"),
    }
}

/// Waits until every root up to the newest block is published, each once. Meanwhile what is
/// published is never ahead of what is complete.
async fn expect_followed(service: &Service, node: &RootNode) {
    let newest = node.newest.load(Ordering::Relaxed);
    let expected = (newest as usize + 1, Some(Root(B256::from(U256::from(newest + 1)))));
    let deadline = Instant::now() + PATIENCE;
    while roots(service) != expected {
        let status = source(service);
        assert!(status.state == "reading" || roots(service).0 > 0, "{status:?}");
        assert!(Instant::now() < deadline, "{status:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_fails_at_any_step_continues() {
    let _exclusive = lock_exclusive().await;
    let (handle, start) = (FaultPoint::ChainFollowerHandle, FaultPoint::ChainFollowerStart);
    let (before, after) = (FaultPoint::ChainStoreBefore, FaultPoint::ChainStoreAfter);
    let mut plans = Vec::new();
    for (number, fault) in FAULTS.into_iter().enumerate() {
        // What is stalled does not come to the point again.
        let times = if fault == Fault::Stall { 1 } else { 2 };
        for point in [handle, before, after] {
            plans.push((point, times, Plan::new().strike_times(point, fault, number % 2, times)));
        }
        let dies = Plan::new().strike_times(handle, Fault::Panic, 2, 1);
        plans.push((start, 1, dies.strike_times(start, fault, 1, 1)));
    }
    for (number, (point, times, plan)) in plans.into_iter().enumerate() {
        let node = Arc::new(RootNode { newest: 10.into(), fails: false.into() });
        let running = work_under(plan, [(point, times)], async {
            let running = start_with(|settings| follow(settings, &node)).await;
            expect_followed(&running.service, &node).await;
            node.newest.fetch_add(3, Ordering::Relaxed);
            expect_followed(&running.service, &node).await;
            running
        });
        let running = running.await;

        // A service that starts on this store, without a node, has the same roots.
        let FaultTestService { service, store, ledger, clock, .. } = running;
        service.stop().await;
        node.fails.store(true, Ordering::Relaxed);
        let mut settings = Settings::for_instance(format!("follower-after-{number}"));
        follow(&mut settings, &node);
        let parts = ServiceParts::new(settings, store).ledger(ledger).clock(clock);
        let again = Service::start(parts).await.expect("it starts");
        assert_eq!(roots(&again), (14, Some(Root(B256::from(U256::from(14))))), "{point:?}");
        assert_eq!(source(&again).state, "following");
        again.stop().await;
    }
}
