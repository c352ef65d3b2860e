//! The applied blocks as a stream, while the actors behind it fail.

use std::pin::pin;

use futures_util::StreamExt;
use selfsame_protocol::ledger::Outcome;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_gets_every_block_once_and_in_order_from_any_height() {
    const ACCOUNTS: u64 = 60;
    let running = start_with("followed", |settings| settings.batch.max_operations = 3).await;
    let registry = running.service.registry();
    let mut tips = registry.watch_tip();
    let following = {
        let registry = registry.clone();
        tokio::spawn(async move {
            let mut blocks = Vec::new();
            let mut accounts = 0;
            let mut stream = pin!(registry.follow(0));
            while accounts < ACCOUNTS {
                let followed = stream.next().await.expect("the stream does not end").expect("the read succeeds");
                accounts += followed.outcomes.len() as u64;
                blocks.push(followed);
            }
            blocks
        })
    };
    let creating = (0..ACCOUNTS).map(|number| {
        let registry = registry.clone();
        tokio::spawn(async move { submit(&registry, number).await })
    });
    let creating: Vec<_> = creating.collect();
    for _ in 0..3 {
        running.kill("tree-maintainer").await;
    }
    for creation in creating {
        creation.await.expect("every call got an answer");
    }
    let blocks = timeout(PATIENCE, following).await.expect("all blocks come").expect("no panic");

    let heights: Vec<u64> = blocks.iter().map(|followed| followed.block.header.height).collect();
    assert_eq!(heights, (1..=heights.len() as u64).collect::<Vec<_>>(), "each height once, in order");
    for (one, next) in blocks.iter().zip(&blocks[1..]) {
        assert_eq!(next.result.root_before, one.result.root_after);
        assert_eq!(next.result.previous_result_hash, one.result.hash());
    }
    let created: Vec<u64> = blocks.iter().flat_map(|followed| &followed.outcomes).map(leaf_index).collect();
    assert_eq!(created, (1..=ACCOUNTS).collect::<Vec<_>>(), "the accounts in the order of their creation");

    let last = blocks.last().expect("a block");
    let is_last = |tip: &selfsame_protocol::ledger::Tip| tip.seal.height == last.block.header.height;
    let tip = *timeout(PATIENCE, tips.wait_for(is_last)).await.expect("the tip comes").expect("the service runs");
    assert_eq!(tip.root, last.result.root_after);

    // A reader that noted a height goes on after it.
    let height = heights.len() as u64 / 2;
    let mut rest = pin!(registry.follow(height + 1));
    for expected in &blocks[height as usize..] {
        assert_eq!(rest.next().await.expect("the stream goes on").expect("the read succeeds"), *expected);
    }
    // Beyond the last block the stream waits for the next one.
    let writer = registry.clone();
    let next = tokio::spawn(async move { submit(&writer, ACCOUNTS).await });
    let followed = timeout(PATIENCE, rest.next()).await.expect("the next block comes").expect("the stream goes on");
    assert_eq!(followed.expect("the read succeeds").block.entries[0].request_id, next.await.expect("it is accepted"));
    drop(tips);
}

fn leaf_index(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Applied { leaf_index } => leaf_index.0,
        Outcome::Failed { rule, .. } => panic!("an operation broke the rule {rule}"),
    }
}
