//! Following a chain in memory: what is published after each step, also when nodes lie, hang, are
//! behind or refuse, when the chain is reorganized, and when the service ends in between.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use selfsame_protocol::chain::contracts::{Answer, BlockTag, FollowedKey, RootContract};
use selfsame_protocol::chain::followed::{KeyOwner, RootJudgement};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::roots::RootAge;
use selfsame_protocol::{Address, Bytes, U256};

use super::contracts::{
    ChainError, CodeSettings, ContractPlace, FollowedOwner, KeyContract, KeySourceSettings, RootSourceSettings,
};
use super::deployment::VerifierSource;
use super::follower::Step;
use super::key_source::KeySource;
use super::nodes::NodeError;
use super::root_source::RootSource;
use fixture::*;

mod deployment;
mod fixture;
mod looks;
mod refusals;

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
                // Block 22 has the root that followed.
                let expected = (fixture.chain().head().number - 22) * BLOCK_TIME;
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
