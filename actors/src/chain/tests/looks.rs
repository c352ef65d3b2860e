//! When proofs name roots that the follower of a contract does not know, it looks at the contract
//! once for all of them, at most once a second, and after a failure not before the next regular
//! step.

use futures_util::future::join_all;
use ractor::Actor;
use tokio::time::{Instant, advance};

use super::*;
use crate::chain::contracts::ChainSettings;
use crate::chain::follower::{ChainState, FollowedSource, Follower, FollowerMessage};
use crate::chain::nodes::ChainNode;
use crate::support::surroundings::Surroundings;

/// Whether the contract was looked at.
async fn look(source: &FollowedSource) -> bool {
    source.slot.call(FollowerMessage::Look, Instant::now() + Duration::from_secs(20)).await.expect("the actor answers")
}

/// How often the node was asked since the last time.
fn new_rounds(fixture: &Fixture) -> usize {
    std::mem::take(&mut fixture.chain().rounds)
}

#[tokio::test]
async fn looks_are_shared_a_second_apart_and_wait_after_a_failure() {
    let fixture = Fixture::one(RootContract::IdentityManager);
    fixture.chain().mine(&[1]);
    fixture.set_clock();
    // Regular steps come every three seconds.
    let chain = ChainSettings {
        name: "test".to_owned(),
        chain_id: CHAIN,
        nodes: vec![Arc::clone(&fixture.nodes[0]) as Arc<dyn ChainNode>],
        roots: vec![fixture.source(1, |_| {}).settings.clone()],
        ..ChainSettings::default()
    };
    let surroundings = Surroundings { clock: Arc::clone(&fixture.clock) as _, ..Surroundings::for_test("looks") };
    let state = ChainState::load(&surroundings, vec![chain], &fixture.records).expect("loaded");
    let source = state.sources().next().expect("a contract");
    let (follower, _) = Actor::spawn(None, Follower, Arc::clone(source)).await.expect("the follower starts");
    while !look(source).await {}
    // From here on nothing new is found and stored, so nothing waits for a thread.
    tokio::time::pause();
    new_rounds(&fixture);

    assert!(join_all([(); 40].map(|()| look(source))).await.into_iter().all(|was_seen| was_seen));
    assert_eq!(new_rounds(&fixture), 0, "it was just looked at");
    for _ in 0..2 {
        advance(Duration::from_millis(1001)).await;
        assert!(join_all([(); 40].map(|()| look(source))).await.into_iter().all(|was_seen| was_seen));
        assert_eq!(new_rounds(&fixture), 1, "all share one look");
        advance(Duration::from_millis(998)).await;
        assert!(look(source).await);
        assert_eq!(new_rounds(&fixture), 0, "less than a second after a look");
    }

    fixture.chain().fails_with = Some(NodeError::TimedOut);
    advance(Duration::from_millis(1001)).await;
    assert!(!look(source).await, "the look failed");
    assert_eq!(new_rounds(&fixture), 1);
    fixture.chain().fails_with = None;
    for _ in 0..2 {
        advance(Duration::from_millis(1001)).await;
        assert!(!look(source).await, "the next regular step has not come");
        assert_eq!(new_rounds(&fixture), 0, "a look does not follow a failed one");
    }
    let failed_at = Instant::now() - Duration::from_millis(2002);
    while !look(source).await {
        advance(Duration::from_millis(10)).await;
    }
    assert!(failed_at.elapsed() >= Duration::from_millis(2900), "{:?}", failed_at.elapsed());
    follower.stop_and_wait(None, None).await.expect("the follower stops");
}
