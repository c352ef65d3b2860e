//! Receipts of final requests.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use selfsame_protocol::ledger::{BlockReceipts, Receipt, RequestId};

use super::RegistryHandle;
use crate::registry::reader::Reads;
use crate::registry::submission::ReceiptError;

/// The most blocks that are kept with their receipts. A large block takes a few megabytes.
const BLOCKS_WITH_RECEIPTS: usize = 4;

impl RegistryHandle {
    /// The receipt of a final request; `None` when the request is unknown or not final. Receipts
    /// never expire. Blocks the thread: see [`RegistryHandle::reading`].
    ///
    /// # Errors
    /// [`ReceiptError::RateLimited`] when the receipt has to be computed, which takes the hashes of
    /// its whole block, and `source` has had as many computed as the limit of requests by source
    /// allows. An embedder's own calls pass no source.
    pub fn receipt(&self, request_id: &RequestId, source: Option<IpAddr>) -> Result<Option<Receipt>, ReceiptError> {
        let reader = &self.inner.reader;
        let Some(place) = reader.place(request_id, Reads::Disk)? else { return Ok(None) };
        if place.height > reader.publication.height() {
            return Ok(None);
        }
        let receipts = self.receipts_of(place.height, source)?;
        Ok(receipts.and_then(|receipts| receipts.receipt(place.position)))
    }

    /// The receipts of a block. Clients usually ask for them one after the other, so the handle
    /// keeps those of the last blocks.
    fn receipts_of(&self, height: u64, source: Option<IpAddr>) -> Result<Option<Arc<BlockReceipts>>, ReceiptError> {
        let lock = || self.inner.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, receipts)) = lock().iter().find(|(kept, _)| *kept == height) {
            return Ok(Some(Arc::clone(receipts)));
        }
        if let Some(source) = source {
            let charged = self.inner.receipts_per_source.charge(source, self.inner.reader.clock.now());
            charged.map_err(ReceiptError::RateLimited)?;
        }
        let block = self.inner.reader.block(height)?;
        let Some((block, applied)) = block.zip(self.inner.reader.applied_block(height)?) else { return Ok(None) };
        let receipts = Arc::new(BlockReceipts::new(block, applied.result, applied.outcomes));
        let mut kept = lock();
        // Another caller may have added the block in the meantime.
        if kept.iter().all(|(kept, _)| *kept != height) {
            kept.truncate(BLOCKS_WITH_RECEIPTS - 1);
            kept.push_front((height, Arc::clone(&receipts)));
        }
        Ok(Some(receipts))
    }
}
