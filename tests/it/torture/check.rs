//! The check after a restart: everything that was recorded is true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::B256;
use selfsame_protocol::gateway::BlockResponse;
use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce};
use selfsame_protocol::indexer::RootResponse;
use selfsame_protocol::ledger::{RequestId, SealedHeader, SealedResult, SignedHead};
use selfsame_protocol::tree::Root;

use super::choices::CrashChoices;
use super::context::{CrashTestContext, DaemonGone, answered, lock, several};
use super::{registry, sign_in, verification};

/// How many requests and roots of earlier checks are checked again after a restart.
const SAMPLE: usize = 20;

/// Checks everything that was recorded since the last check and a part of the rest; or everything.
///
/// Requests that were sent and not answered are sent again first, as clients would do.
pub async fn check(context: Arc<CrashTestContext>, name: String, is_everything: bool) -> Result<(), DaemonGone> {
    let mut choices = context.choices(&name);
    expect_nothing_taken_back(&context).await?;
    registry::keep_head(&context).await?;
    settle(&context, &mut choices, is_everything).await?;
    let mut walk = context.walk.lock().await;
    if is_everything {
        *walk = LedgerWalk::default();
    }
    walk.go_on(&context).await?;
    walk.compare(&context).await?;
    expect_valid_roots(&context, &mut choices, is_everything).await?;
    expect_accounts(&context).await?;
    verification::check(&context, &mut choices, is_everything).await?;
    sign_in::check(&context, &mut choices, is_everything).await
}

/// Asserts that the first answers after a restart show what was shown before, even before all
/// blocks are applied again.
async fn expect_nothing_taken_back(context: &CrashTestContext) -> Result<(), DaemonGone> {
    let height = answered(context.client.root().await)?.height;
    let shown = lock(&context.registry.tips).iter().map(|tip| tip.height).max().unwrap_or_default();
    assert!(height >= shown, "the registry stood at block {shown}, and stands at {height}");
    let signed = lock(&context.registry.heads).keys().max().copied().unwrap_or_default();
    assert!(height >= signed, "the registry signed the head of block {signed}, and stands at {height}");
    let shown = |request: &registry::RecordedRequest| {
        let is_shown = !request.is_checked && request.was_final();
        request.request_id.filter(|_| is_shown)
    };
    let shown: Vec<RequestId> = lock(&context.registry.requests).iter().filter_map(shown).collect();
    several(shown.into_iter().map(|request_id| async move {
        let answer = answered(context.client.status(request_id, 0).await)?;
        assert!(answer.status.is_final(), "{request_id} was final: {answer:?}");
        Ok(())
    }))
    .await
}

/// Asserts that every request that was ever sent becomes final and has a valid receipt.
async fn settle(context: &CrashTestContext, choices: &mut CrashChoices, is_everything: bool) -> Result<(), DaemonGone> {
    let numbers = |choose: fn(&registry::RecordedRequest) -> bool| -> Vec<usize> {
        let requests = lock(&context.registry.requests);
        (0..requests.len()).filter(|number| choose(&requests[*number])).collect()
    };
    let unanswered = numbers(|request| request.request_id.is_none());
    several(unanswered.into_iter().map(|number| registry::send(context, number))).await?;
    let mut again = numbers(|request| request.is_checked);
    choices.shuffle(&mut again);
    again.truncate(if is_everything { usize::MAX } else { SAMPLE });
    // Sent again under its key, an answered request is the same request.
    several(again.clone().into_iter().take(SAMPLE).map(|number| registry::send(context, number))).await?;
    let unchecked = numbers(|request| !request.is_checked);
    several(unchecked.into_iter().chain(again).map(|number| settle_one(context, number))).await
}

async fn settle_one(context: &CrashTestContext, number: usize) -> Result<(), DaemonGone> {
    registry::expect_finalized(context, number).await?;
    registry::expect_receipt(context, number).await?;
    lock(&context.registry.requests)[number].is_checked = true;
    Ok(())
}

/// The blocks of the ledger that were read so far.
#[derive(Default)]
pub struct LedgerWalk {
    /// Hash of block and result, and the root, by height from 1 on.
    blocks: Vec<(B256, B256, Root)>,
    roots: BTreeSet<Root>,
    request_ids: BTreeSet<RequestId>,
}

impl LedgerWalk {
    /// Reads on to the newest block, following the links.
    async fn go_on(&mut self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        let tip = answered(context.client.root().await)?;
        while (self.blocks.len() as u64) < tip.height {
            let height = self.blocks.len() as u64 + 1;
            let block = answered(context.client.block(height).await)?;
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

    /// Asserts that the ledger has every request that was sent, and no others. Every recorded root
    /// and tip belongs to one of its blocks.
    async fn compare(&self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        let (sent, created) = sent(context);
        let strange: Vec<_> = self.request_ids.symmetric_difference(&sent).collect();
        assert!(strange.is_empty(), "sent, or in the ledger, but not both: {strange:?}");
        for root in lock(&context.registry.roots).iter() {
            assert!(self.roots.contains(root), "{root:#x} had an inclusion proof, and no block has it");
        }
        for tip in lock(&context.registry.tips).iter() {
            let height = tip.height as usize;
            let known = height.checked_sub(1).and_then(|index| self.blocks.get(index));
            assert_eq!(known.copied().unwrap_or_default(), state(tip), "block {height} was another one");
        }
        for SignedHead { head, .. } in lock(&context.registry.heads).values().filter(|signed| signed.head.height > 0) {
            let known = self.blocks.get(head.height as usize - 1).copied();
            let signed = (head.block_hash, head.result_hash, head.root);
            assert_eq!(known, Some(signed), "the signed head of block {} is of another block", head.height);
        }
        let tip = answered(context.client.root().await)?;
        assert_eq!(tip.leaf_count, 1 + created as u64, "as many accounts as were made");
        Ok(())
    }
}

/// The ids of all requests, and how many of them create accounts.
fn sent(context: &CrashTestContext) -> (BTreeSet<RequestId>, usize) {
    let requests = lock(&context.registry.requests);
    let request_ids: BTreeSet<RequestId> = requests.iter().filter_map(|request| request.request_id).collect();
    assert_eq!(request_ids.len(), requests.len(), "every request has an id of its own");
    let creations = requests.iter().filter(|request| request.operation.leaf_index().is_none());
    (request_ids, creations.count())
}

/// Block, result and root of a tip; zeros before the first block.
fn state(tip: &RootResponse) -> (B256, B256, Root) {
    match tip.height {
        0 => Default::default(),
        _ => (tip.block_hash, tip.result_hash, tip.root),
    }
}

/// Asserts that recorded roots are valid; the window is as long as the run.
async fn expect_valid_roots(
    context: &CrashTestContext,
    choices: &mut CrashChoices,
    is_everything: bool,
) -> Result<(), DaemonGone> {
    let mut roots: Vec<Root> = lock(&context.registry.roots).iter().copied().collect();
    choices.shuffle(&mut roots);
    roots.truncate(if is_everything { usize::MAX } else { SAMPLE });
    several(roots.into_iter().map(|root| async move {
        assert!(answered(context.client.is_valid_root(root).await)?, "{root:#x} was a root");
        Ok(())
    }))
    .await
}

/// Asserts that a changed account has one nonce for each change, and the keys of the last change.
async fn expect_accounts(context: &CrashTestContext) -> Result<(), DaemonGone> {
    let mut changed = BTreeMap::<LeafIndex, (u64, Commitment)>::new();
    for request in lock(&context.registry.requests).iter() {
        if let Some(leaf_index) = request.operation.leaf_index() {
            let (changes, commitment) = changed.entry(leaf_index).or_default();
            (*changes, *commitment) = (*changes + 1, request.commitment);
        }
    }
    several(changed.into_iter().map(|(leaf_index, (changes, commitment))| async move {
        let nonce = answered(context.client.signature_nonce(leaf_index).await)?;
        assert_eq!(nonce, Nonce::from(changes), "the nonce of account {leaf_index}");
        let account = answered(context.client.authenticators(leaf_index).await)?;
        assert_eq!(account.offchain_signer_commitment, commitment, "the keys of account {leaf_index}");
        Ok(())
    }))
    .await
}
