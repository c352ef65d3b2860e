//! The check after a restart: what was written down is so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::B256;
use selfsame_protocol::gateway::BlockResponse;
use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce};
use selfsame_protocol::indexer::RootResponse;
use selfsame_protocol::ledger::{RequestId, SealedHeader, SealedResult};
use selfsame_protocol::tree::Root;

use super::chance::Chance;
use super::desk::{Desk, Gone, answered, lock, several};
use super::{registry, sign_in, verification};

/// How many requests and roots that were checked before are checked again after a restart.
const SAMPLE: usize = 20;

/// Checks what was written down since the last check and some of what was before; or everything.
///
/// Requests that were sent and not answered are sent again first, as clients would.
pub async fn check(desk: Arc<Desk>, name: String, is_everything: bool) -> Result<(), Gone> {
    let mut chance = desk.chance(&name);
    expect_nothing_taken_back(&desk).await?;
    settle(&desk, &mut chance, is_everything).await?;
    let mut walk = desk.walk.lock().await;
    if is_everything {
        *walk = Walk::default();
    }
    walk.go_on(&desk).await?;
    walk.compare(&desk).await?;
    expect_valid_roots(&desk, &mut chance, is_everything).await?;
    expect_accounts(&desk).await?;
    verification::check(&desk, &mut chance, is_everything).await?;
    sign_in::check(&desk, &mut chance, is_everything).await
}

/// What was shown before the daemon ended is there with its first answers, not only when it has gone over its blocks.
async fn expect_nothing_taken_back(desk: &Desk) -> Result<(), Gone> {
    let height = answered(desk.client.root().await)?.height;
    let shown = lock(&desk.registry.tips).iter().map(|tip| tip.height).max().unwrap_or_default();
    assert!(height >= shown, "the registry stood at block {shown}, and stands at {height}");
    let shown = |request: &registry::Request| {
        let is_shown = !request.is_checked && request.was_final();
        request.request_id.filter(|_| is_shown)
    };
    let shown: Vec<RequestId> = lock(&desk.registry.requests).iter().filter_map(shown).collect();
    several(shown.into_iter().map(|request_id| async move {
        let answer = answered(desk.client.status(request_id, 0).await)?;
        assert!(answer.status.is_final(), "{request_id} was final: {answer:?}");
        Ok(())
    }))
    .await
}

/// Every request that was ever sent becomes final; its receipt holds.
async fn settle(desk: &Desk, chance: &mut Chance, is_everything: bool) -> Result<(), Gone> {
    let numbers = |choose: fn(&registry::Request) -> bool| -> Vec<usize> {
        let requests = lock(&desk.registry.requests);
        (0..requests.len()).filter(|number| choose(&requests[*number])).collect()
    };
    let unanswered = numbers(|request| request.request_id.is_none());
    several(unanswered.into_iter().map(|number| registry::send(desk, number))).await?;
    let mut again = numbers(|request| request.is_checked);
    chance.shuffle(&mut again);
    again.truncate(if is_everything { usize::MAX } else { SAMPLE });
    // Under its key a request that was answered is the same request, too.
    several(again.clone().into_iter().take(SAMPLE).map(|number| registry::send(desk, number))).await?;
    let unchecked = numbers(|request| !request.is_checked);
    several(unchecked.into_iter().chain(again).map(|number| settle_one(desk, number))).await
}

async fn settle_one(desk: &Desk, number: usize) -> Result<(), Gone> {
    registry::expect_finalized(desk, number).await?;
    registry::expect_receipt(desk, number).await?;
    lock(&desk.registry.requests)[number].is_checked = true;
    Ok(())
}

/// What a walk along the ledger has seen.
#[derive(Default)]
pub struct Walk {
    /// Hash of block and result, and the root, by height from 1 on.
    blocks: Vec<(B256, B256, Root)>,
    roots: BTreeSet<Root>,
    request_ids: BTreeSet<RequestId>,
}

impl Walk {
    /// Walks on to the newest block, from link to link.
    async fn go_on(&mut self, desk: &Desk) -> Result<(), Gone> {
        let tip = answered(desk.client.root().await)?;
        while (self.blocks.len() as u64) < tip.height {
            let height = self.blocks.len() as u64 + 1;
            let block = answered(desk.client.block(height).await)?;
            self.take(height, block);
        }
        assert_eq!(self.blocks.last().copied().unwrap_or_default(), state(&tip), "the newest root is the last block's");
        Ok(())
    }

    fn take(&mut self, height: u64, answer: BlockResponse) {
        let BlockResponse { block: SealedHeader { header, hash }, result, request_ids } = answer;
        let SealedResult { result, hash: result_hash } = result.expect("every block is applied when all is final");
        let empty = (B256::ZERO, B256::ZERO, Root::empty());
        let (previous_block, previous_result, root) = self.blocks.last().copied().unwrap_or(empty);
        assert_eq!((header.height, header.previous_hash), (height, previous_block));
        assert_eq!((hash, result_hash), (header.hash(), result.hash()), "block {height}");
        let before = (result.block_hash, result.previous_result_hash, result.root_before);
        assert_eq!(before, (hash, previous_result, root), "block {height}");
        assert_eq!(header.count as usize, request_ids.len(), "block {height}");
        for request_id in request_ids {
            assert!(self.request_ids.insert(request_id), "{request_id} is in block {height}, and was in one before");
        }
        self.roots.insert(result.root_after);
        self.blocks.push((hash, result_hash, result.root_after));
    }

    /// The ledger has every request that was sent, and no other. What was read along the way is of one of its blocks.
    async fn compare(&self, desk: &Desk) -> Result<(), Gone> {
        let (sent, created) = sent(desk);
        let strange: Vec<_> = self.request_ids.symmetric_difference(&sent).collect();
        assert!(strange.is_empty(), "sent, or in the ledger, but not both: {strange:?}");
        for root in lock(&desk.registry.roots).iter() {
            assert!(self.roots.contains(root), "{root:#x} had an inclusion proof, and no block has it");
        }
        for tip in lock(&desk.registry.tips).iter() {
            let height = tip.height as usize;
            let known = height.checked_sub(1).and_then(|index| self.blocks.get(index));
            assert_eq!(known.copied().unwrap_or_default(), state(tip), "block {height} was another one");
        }
        let tip = answered(desk.client.root().await)?;
        assert_eq!(tip.leaf_count, 1 + created as u64, "as many accounts as were made");
        Ok(())
    }
}

/// The ids of all requests, each its own, and how many of them make accounts.
fn sent(desk: &Desk) -> (BTreeSet<RequestId>, usize) {
    let requests = lock(&desk.registry.requests);
    let request_ids: BTreeSet<RequestId> = requests.iter().filter_map(|request| request.request_id).collect();
    assert_eq!(request_ids.len(), requests.len(), "every request has an id of its own");
    let creations = requests.iter().filter(|request| request.operation.leaf_index().is_none());
    (request_ids, creations.count())
}

/// Block, result and root of a tip; nothing before the first block.
fn state(tip: &RootResponse) -> (B256, B256, Root) {
    match tip.height {
        0 => Default::default(),
        _ => (tip.block_hash, tip.result_hash, tip.root),
    }
}

/// The roots that were served are valid, as long as the window is.
async fn expect_valid_roots(desk: &Desk, chance: &mut Chance, is_everything: bool) -> Result<(), Gone> {
    let mut roots: Vec<Root> = lock(&desk.registry.roots).iter().copied().collect();
    chance.shuffle(&mut roots);
    roots.truncate(if is_everything { usize::MAX } else { SAMPLE });
    several(roots.into_iter().map(|root| async move {
        assert!(answered(desk.client.is_valid_root(root).await)?, "{root:#x} was a root");
        Ok(())
    }))
    .await
}

/// Accounts that were changed have a nonce for each change, and the keys that the last one left.
async fn expect_accounts(desk: &Desk) -> Result<(), Gone> {
    let mut changed = BTreeMap::<LeafIndex, (u64, Commitment)>::new();
    for request in lock(&desk.registry.requests).iter() {
        if let Some(leaf_index) = request.operation.leaf_index() {
            let (changes, commitment) = changed.entry(leaf_index).or_default();
            (*changes, *commitment) = (*changes + 1, request.commitment);
        }
    }
    several(changed.into_iter().map(|(leaf_index, (changes, commitment))| async move {
        let nonce = answered(desk.client.signature_nonce(leaf_index).await)?;
        assert_eq!(nonce, Nonce::from(changes), "the nonce of account {leaf_index}");
        let account = answered(desk.client.authenticators(leaf_index).await)?;
        assert_eq!(account.offchain_signer_commitment, commitment, "the keys of account {leaf_index}");
        Ok(())
    }))
    .await
}
