//! The tree maintainer: applies blocks. The only writer of accounts, addresses, tree and roots.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::Address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::{Block, Entry, apply_block, recover_signers};
use selfsame_protocol::signature::SignatureFault;
use selfsame_storage::StoreError;

use crate::registry::batcher::BatcherMessage;
use crate::registry::handle::Shared;
use crate::registry::request_tracker::RequestTrackerMessage;
use crate::support::retry::RETRY;

/// What the tree maintainer is told.
pub(crate) enum TreeMaintainerMessage {
    /// The ledger has blocks that are not applied yet.
    Follow,
    /// Applying failed a while ago; try again.
    Retry,
    /// Answer, to show that you are not stuck.
    Ping(RpcReplyPort<()>),
}

/// The actor; its state is in the store.
pub(crate) struct TreeMaintainer;

/// What the tree maintainer remembers.
pub(crate) struct TreeMaintainerState {
    shared: Arc<Shared>,
    /// Applying failed and rests: being told of blocks in the meantime changes nothing.
    is_resting: bool,
}

impl Actor for TreeMaintainer {
    type Msg = TreeMaintainerMessage;
    type State = TreeMaintainerState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<Shared>,
    ) -> Result<TreeMaintainerState, ActorProcessingErr> {
        shared.tree_maintainer.occupy(myself.clone());
        fault_point!(TreeMaintainerStart);
        // A predecessor may have died between its commit and its publication, or before it told of it, or be in its last commit.
        shared.applying.idle().await;
        shared.publication.publish(shared.store.snapshot()?);
        shared.publication.waiters.wake_all();
        myself.cast(TreeMaintainerMessage::Follow)?;
        Ok(TreeMaintainerState { shared, is_resting: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut TreeMaintainerState,
    ) -> Result<(), ActorProcessingErr> {
        fault_point!(TreeMaintainerHandle);
        match message {
            TreeMaintainerMessage::Ping(reply) => drop(reply.send(())),
            TreeMaintainerMessage::Follow if state.is_resting => {}
            TreeMaintainerMessage::Retry => {
                state.is_resting = false;
                state.follow(&myself).await?;
            }
            TreeMaintainerMessage::Follow => state.follow(&myself).await?,
        }
        Ok(())
    }
}

impl TreeMaintainerState {
    /// Applies the next block, if there is one.
    async fn follow(&mut self, myself: &ActorRef<TreeMaintainerMessage>) -> Result<(), ActorProcessingErr> {
        let shared = Arc::clone(&self.shared);
        match self.shared.applying.run(move || apply_next(&shared)).await? {
            Ok(Some(block)) => {
                self.shared.applying_step.succeeded();
                fault_point!(TreeMaintainerPublished);
                self.shared.publication.waiters.wake(&block);
                self.shared.batcher.cast(BatcherMessage::Wake);
                self.shared.request_tracker.cast(RequestTrackerMessage::Applied(block));
                // One block a message, so that pings are answered in between.
                myself.cast(TreeMaintainerMessage::Follow)?;
            }
            Ok(None) => self.shared.applying_step.succeeded(),
            // The store is further than what is published: starting again begins there.
            Err(error @ StoreError::StaleCommit { .. }) => return Err(error.into()),
            Err(error) => {
                self.shared.applying_step.failed(error);
                self.is_resting = true;
                myself.send_after(RETRY, || TreeMaintainerMessage::Retry);
            }
        }
        Ok(())
    }
}

/// Applies what the ledger has, before anybody is answered. What applying a block changes is not synced, as the sealed block is: a
/// loss of power may have taken what was shown already, and it must not be missed for a moment. Where it fails, the tree
/// maintainer goes on trying.
pub(crate) async fn catch_up(shared: &Arc<Shared>) {
    while shared.publication.height() < shared.ledger_height.load(Ordering::Relaxed) {
        let applying = Arc::clone(shared);
        match shared.applying.run(move || apply_next(&applying)).await {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(error)) => return tracing::warn!(%error, "a sealed block cannot be applied at the start"),
        }
    }
}

/// Applies the block after the last applied one, if there is one, and publishes the new state.
fn apply_next(shared: &Shared) -> Result<Option<Arc<Block>>, StoreError> {
    let snapshot = shared.publication.snapshot();
    let Some(block) = shared.ledger.block(snapshot.tip().seal.height + 1)? else { return Ok(None) };
    let started = std::time::Instant::now();
    let signers = recover_in_parallel(&block.entries, &shared.store.domain());
    let effects = apply_block(&block, &signers, snapshot.as_ref(), snapshot.tip())?;
    blocking_fault_point!(TreeMaintainerApply);
    shared.store.commit_block(&block, &effects)?;
    // Counted first: who has seen a final state finds it in the statistics.
    shared.counters.applied(&effects.outcomes);
    shared.publication.publish(shared.store.snapshot()?);
    tracing::debug!(
        height = block.header.height,
        operations = block.header.count,
        micros = started.elapsed().as_micros() as u64,
        root = %effects.tip.root,
        "applied a block"
    );
    Ok(Some(Arc::new(block)))
}

/// Signatures below this number are recovered on the calling thread: a thread costs about as much as one of them.
const WORTH_A_THREAD: usize = 8;

/// [`recover_signers`] on all cores.
fn recover_in_parallel(entries: &[Entry], domain: &RegistryDomain) -> Vec<Option<Result<Address, SignatureFault>>> {
    let signed = entries.iter().filter(|entry| entry.operation.signature().is_some()).count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(signed / WORTH_A_THREAD);
    if threads < 2 {
        return recover_signers(entries, domain);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = entries
            .chunks(entries.len().div_ceil(threads))
            .map(|chunk| scope.spawn(move || recover_signers(chunk, domain)))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
