//! Nodes that refuse for a moment, or for good: what is refused once is never taken for a fact, and
//! what nodes say stands in the errors.

use std::sync::Mutex;

use selfsame_protocol::chain::contracts::Question;
use tokio::time::Instant;

use super::*;
use crate::chain::nodes::Refusal;

const REACH: Duration = Duration::from_secs(1800);

/// A chain of 1,500 blocks, of which each 25th has a root.
fn long_chain() -> TestChain {
    let mut chain = TestChain::new(RootContract::IdentityManager);
    for number in 1..1500_u64 {
        chain.mine(if number.is_multiple_of(25) { &[0] } else { &[] });
    }
    chain
}

fn refusal(code: i64, message: &str) -> Refusal {
    Refusal { code, message: message.to_owned() }
}

fn old_block(question: &Question, below: u64) -> Option<u64> {
    match question {
        Question::Block(BlockTag::Number(number)) if *number < below => Some(*number),
        _ => None,
    }
}

/// Takes steps until there is nothing more to read, with a second after each failed one. Returns
/// why steps failed.
async fn follow(fixture: &Fixture, source: &RootSource, most: usize) -> Vec<String> {
    let mut failures = Vec::new();
    while failures.len() < most {
        match source.step().await {
            Ok(Step::More) => {}
            Ok(Step::Done) => return failures,
            Err(error) => {
                failures.push(error.to_string());
                tokio::time::advance(Duration::from_secs(1)).await;
                fixture.clock.advance(Duration::from_secs(1));
            }
        }
    }
    failures
}

#[tokio::test(start_paused = true)]
async fn one_refusal_while_the_first_block_is_looked_for_cuts_no_history() {
    let nothing = || Ok(Answer::Block(None));
    type Refused = Box<dyn Fn() -> Result<Answer, Refusal> + Send + Sync>;
    let cases: [(&str, Refused); 3] = [
        ("null", Box::new(nothing)),
        ("a rate limit", Box::new(|| Err(refusal(-32005, "project ID request rate exceeded")))),
        ("another node behind the address", Box::new(|| Err(refusal(-32000, "header not found")))),
    ];
    for (name, refused) in cases {
        let refused = Arc::new(refused);
        for which in 1..=4 {
            let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
            let (mut old_questions, refused) = (0, Arc::clone(&refused));
            fixture.chain().habit = Some(Box::new(move |question| {
                let is_old = old_block(question, 1400).is_some();
                old_questions += u32::from(is_old);
                (is_old && old_questions == which).then(|| Ok(refused()))
            }));
            let source = fixture.source(1, |settings| (settings.reach, settings.blocks_per_question) = (REACH, 100));
            follow(&fixture, &source, 20).await;
            let first = fixture.chain().asked.iter().find_map(|question| match question {
                Question::Logs { from, .. } => Some(*from),
                _ => None,
            });
            assert!(first.is_some_and(|first| first <= 1499 - 900), "{name}, the old block {which}: {first:?}");
            assert_eq!(source.published().history.len(), 36, "{name}, the old block {which}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_old_blocks_is_passed_over() {
    let [mut poor, rich] = [(); 2].map(|()| long_chain());
    poor.habit = Some(Box::new(|question| old_block(question, 1400).map(|_| Ok(Ok(Answer::Block(None))))));
    let fixture = Fixture::new(vec![TestNode::new("poor", poor), TestNode::new("rich", rich)]);
    let source = fixture.source(1, |settings| settings.reach = REACH);
    assert_eq!(follow(&fixture, &source, 1).await, [""; 0]);
    assert_eq!(source.published().history.len(), 36);
}

#[tokio::test(start_paused = true)]
async fn blocks_that_no_node_keeps_are_missed_after_a_while_and_the_status_says_so() {
    let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
    fixture.chain().habit =
        Some(Box::new(|question| old_block(question, 1201).map(|_| Ok(Err(refusal(4444, "pruned history"))))));
    let change = |settings: &mut RootSourceSettings| settings.reach = REACH;
    let source = fixture.source(1, change);
    let failures = follow(&fixture, &source, 300).await;
    assert!(failures.len() > 100, "it is no fact for two minutes: {failures:?}");
    let expected = "asked for an old block, the node refused with code 4444: pruned history";
    assert!(failures.iter().all(|failure| failure == expected), "{failures:?}");
    assert_eq!(source.published().history.len(), 11);
    let restarted = fixture.source(1, change);
    for source in [&source, &restarted] {
        let warning = source.missing_history(fixture.now()).expect("less than an hour is known");
        let known = fixture.now().0 - (START + 1201 * BLOCK_TIME);
        let start = format!("roots are known only from block 1201 on, for the last {known} s, and `reach` is 1800 s");
        assert!(warning.starts_with(&start), "{warning}");
    }
    // In time all that is kept is known.
    fixture.chain().mine_empty(603);
    fixture.set_clock();
    catch_up(&source).await.expect("read");
    assert_eq!(source.missing_history(fixture.now()), None);
}

#[tokio::test(start_paused = true)]
async fn blocks_that_are_missing_now_and_then_are_asked_for_again() {
    let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
    let mut count = 0_u32;
    fixture.chain().habit = Some(Box::new(move |question| {
        count += u32::from(matches!(question, Question::Block(_)));
        (matches!(question, Question::Block(_)) && count.is_multiple_of(3)).then_some(Ok(Ok(Answer::Block(None))))
    }));
    let source = fixture.source(1, |settings| settings.reach = REACH);
    follow(&fixture, &source, 30).await;
    assert_eq!(source.published().history.len(), 36);
    assert_eq!(source.missing_history(fixture.now()), None);
}

#[tokio::test(start_paused = true)]
async fn a_history_with_a_configured_start_says_how_long_it_is() {
    for (start, is_short) in [(0, false), (1, false), (599, false), (600, true), (1499, true), (9999, true)] {
        let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
        let source = fixture.source(1, |settings| (settings.reach, settings.start_block) = (REACH, Some(start)));
        catch_up(&source).await.expect("read");
        assert_eq!(source.missing_history(fixture.now()).is_some(), is_short, "{start}");
        let first = fixture.chain().asked.iter().find_map(|question| match question {
            Question::Logs { from, .. } => Some(*from),
            _ => None,
        });
        assert_eq!(first, Some(start.min(1499)));
    }
}

#[tokio::test]
async fn a_block_that_a_node_does_not_give_takes_no_more_roots_back() {
    let fixture = Fixture::one(RootContract::IdentityManager);
    let source = fixture.source(1, |_| {});
    for number in 1..=40 {
        fixture.chain().mine(&[number]);
        fixture.set_clock();
        catch_up(&source).await.expect("read");
    }
    {
        let mut chain = fixture.chain();
        chain.reorganize(2);
        (0..3).for_each(|number| chain.mine(&[100 + number]));
        // Once, for a block below the fork.
        let mut is_given = false;
        chain.habit = Some(Box::new(move |question| {
            let is_odd = old_block(question, 30).is_some() && !std::mem::replace(&mut is_given, true);
            is_odd.then_some(Ok(Ok(Answer::Block(None))))
        }));
    }
    fixture.set_clock();
    let mut undone = source.step().await;
    if undone.is_err() {
        undone = source.step().await;
    }
    assert_eq!(undone.expect("undone"), Step::More);
    assert_eq!(source.published().history.len(), 38, "two roots were above the fork");
    assert_eq!(source.progress.reorganizations.load(Ordering::Relaxed), 1);
    catch_up(&source).await.expect("read");
    assert_eq!((fixture.newest(&source), source.published().history.len()), (Some(root(102)), 41));
}

#[tokio::test(start_paused = true)]
async fn every_failed_answer_about_logs_makes_ranges_shorter() {
    for failure in [
        NodeError::Status { status: 504, text: String::new() },
        NodeError::Status { status: 502, text: String::new() },
        NodeError::Status { status: 413, text: String::new() },
        NodeError::Malformed("expected value at line 1 column 1".to_owned()),
        NodeError::TooLarge { limit: 7 },
        NodeError::TimedOut,
    ] {
        let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
        let error = failure.clone();
        fixture.chain().habit = Some(Box::new(move |question| match question {
            Question::Logs { from, to, .. } if to - from >= 100 => Some(Err(error.clone())),
            _ => None,
        }));
        let source = fixture.source(1, |settings| settings.reach = REACH);
        follow(&fixture, &source, 5).await;
        assert_eq!(source.published().history.len(), 36, "{failure}: {:?}", fixture.chain().ranges());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_away_is_asked_for_as_many_blocks_when_it_is_back() {
    for failure in [
        NodeError::Unreachable("connection refused".to_owned()),
        NodeError::RateLimited { retry_after: None, text: String::new() },
    ] {
        let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
        let (error, mut left) = (failure.clone(), 3);
        fixture.chain().habit = Some(Box::new(move |question| {
            let fails = matches!(question, Question::Logs { .. }) && left > 0;
            left -= u32::from(fails);
            fails.then(|| Err(error.clone()))
        }));
        let source = fixture.source(1, |settings| settings.reach = REACH);
        follow(&fixture, &source, 60).await;
        assert_eq!(source.published().history.len(), 36);
        assert!(fixture.chain().ranges().iter().all(|range| *range > 800), "{failure}: {:?}", fixture.chain().ranges());
    }
}

/// A node that answers five questions a second, and refuses more.
fn with_a_rate(mut chain: TestChain) -> (TestChain, Arc<Mutex<usize>>) {
    let refused = Arc::new(Mutex::new(0));
    let (counted, mut tokens, mut last) = (Arc::clone(&refused), 5.0_f64, Instant::now());
    chain.habit = Some(Box::new(move |_| {
        let now = Instant::now();
        tokens = (tokens + now.duration_since(last).as_secs_f64() * 5.0).min(5.0);
        last = now;
        if tokens < 1.0 {
            *counted.lock().expect("no panic") += 1;
            return Some(Err(NodeError::RateLimited { retry_after: None, text: String::new() }));
        }
        tokens -= 1.0;
        None
    }));
    (chain, refused)
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_small_rate_gets_through_its_first_start() {
    let (chain, refused) = with_a_rate(long_chain());
    let fixture = Fixture::new(vec![TestNode::new("node", chain)]);
    let source = fixture.source(1, |settings| settings.reach = REACH);
    let began = Instant::now();
    let failures = follow(&fixture, &source, 60).await;
    assert_eq!(source.published().history.len(), 36, "{failures:?}");
    assert!(Instant::now() - began < Duration::from_secs(60), "{:?}", Instant::now() - began);
    assert!(*refused.lock().expect("no panic") <= 3, "{failures:?}");
    let chain_ids = fixture.chain().asked.iter().filter(|question| **question == Question::ChainId).count();
    assert_eq!(chain_ids, 1, "a node that asks for fewer questions gets no further one");
}

#[tokio::test]
async fn the_words_of_nodes_stand_in_errors() {
    for (asked, method) in [("the id of its chain", 0), ("the newest block that is `finalized`", 1)] {
        let fixture = Fixture::one(RootContract::IdentityManager);
        fixture.chain().mine(&[1]);
        fixture.chain().habit = Some(Box::new(move |question| {
            let is_asked = match question {
                Question::ChainId => method == 0,
                Question::Block(tag) => method == 1 && *tag == BlockTag::Finalized,
                _ => false,
            };
            is_asked.then(|| Ok(Err(refusal(-32602, "hex string without 0x prefix"))))
        }));
        let source = fixture.source(1, |settings| settings.head = BlockTag::Finalized);
        let error = source.step().await.expect_err("the node refuses").to_string();
        let words = "the node refused with code -32602: hex string without 0x prefix";
        assert!(error.contains(asked) && error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_refused_question_about_the_code_ends_no_alarm() {
    let fixture = Fixture::one(RootContract::Registry);
    fixture.chain().mine(&[1]);
    fixture.set_clock();
    let source = fixture.source(1, |_| {});
    catch_up(&source).await.expect("read");
    fixture.chain().implementation = Address::repeat_byte(0xbb);
    for is_refused in [false, true, true] {
        fixture.chain().hides_code = is_refused;
        fixture.chain().mine_empty(310);
        fixture.set_clock();
        catch_up(&source).await.expect("read");
        assert!(source.code.unaccepted().is_some(), "refused: {is_refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_not_done_in_time_reads_fewer_blocks_the_next_time() {
    let fixture = Fixture::new(vec![TestNode::new("node", long_chain())]);
    let source = fixture.source(1, |settings| settings.reach = REACH);
    fixture.chain().hangs_at = Some(|question| matches!(question, Question::Logs { .. }));
    for _ in 0..2 {
        assert!(tokio::time::timeout(Duration::from_secs(60), source.step()).await.is_err());
    }
    fixture.chain().hangs_at = None;
    assert_eq!(follow(&fixture, &source, 1).await, [""; 0]);
    assert_eq!(source.published().history.len(), 36);
    let old_questions = fixture.chain().asked.iter().filter(|question| old_block(question, 700).is_some()).count();
    assert!(old_questions < 20, "the first block is looked for once: {old_questions}");
    assert_eq!(fixture.chain().ranges()[..3], [901, 500, 250]);
}

#[tokio::test]
async fn a_key_that_is_refused_for_a_moment_is_not_gone() {
    use selfsame_protocol::chain::contracts::issuer_key_call;
    let fixture = Fixture::one(RootContract::Registry);
    let owner = |id| FollowedOwner { owner: KeyOwner::Issuer(id), configured: None };
    let settings = KeySourceSettings {
        name: "test/issuers".to_owned(),
        contract: KeyContract::Issuers,
        place: ContractPlace::At(CONTRACT),
        code: CodeSettings::default(),
        environment: Environment::Production,
        owners: vec![owner(1), owner(2)],
        added_at: BlockTag::Safe,
        freshness: freshness(),
    };
    let (nodes, records, clock) = (fixture.nodes(1), Arc::clone(&fixture.records), Arc::clone(&fixture.clock));
    let source = KeySource::load(settings, CHAIN, None, nodes, records, clock).expect("loaded");
    let key = || source.published().get(KeyOwner::Issuer(1), fixture.now());
    for id in [1, 2] {
        fixture.chain().set(issuer_key_call(id), key_answer(&public_key()));
    }
    fixture.chain().mine_empty(10);
    fixture.set_clock();
    source.step().await.expect("read");
    let present = Ok(Some(FollowedKey::Present(public_key())));
    assert_eq!(key(), present);
    // Refused at the settled block, and given at the newest.
    let newest = fixture.chain().head().hash;
    let refused = move |at_newest: bool| -> Habit {
        Box::new(move |question| match question {
            Question::Call { data, at, .. } if *data == issuer_key_call(1) && (*at == newest) == at_newest => {
                Some(Ok(Err(refusal(-32000, "header not found"))))
            }
            _ => None,
        })
    };
    fixture.chain().habit = Some(refused(false));
    source.step().await.expect("read");
    assert_eq!(key(), present);
    // Refused at the newest one: it is not known, and the step says so.
    fixture.chain().habit = Some(refused(true));
    let error = source.step().await.expect_err("a key is not known").to_string();
    assert_eq!(error, "asked for public keys, the node refused with code -32000: header not found");
    assert!(key().is_err());
    fixture.chain().habit = None;
    source.step().await.expect("read");
    assert_eq!(key(), present);
}
