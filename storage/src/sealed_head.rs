//! The end of the ledger in a store: its last block's seal, and who is told of the next block.

use selfsame_protocol::ledger::Seal;

use crate::database::Database;
use crate::error::StoreError;
use crate::schema::family;
use crate::sync::{Mutex, PoisonError, RwLock};

/// Callback that gets the height of each block that becomes durable.
pub(crate) type Listener = Box<dyn Fn(u64) + Send + Sync>;

/// The last block's seal, kept in memory.
#[derive(Default)]
pub(crate) struct SealedHead {
    head: Mutex<Head>,
    listeners: RwLock<Vec<Listener>>,
}

#[derive(Default)]
struct Head {
    seal: Seal,
    /// False before the first read, while a block is written, and after a write that failed: the
    /// next reader then reads the seal from the store again.
    is_current: bool,
    /// The height of the last block whose write began. Until the store has it, what a reader finds
    /// there can be outdated a moment later.
    begun: u64,
}

impl SealedHead {
    /// The seal of the last block; zeros before the first. When it is not known, it is read from
    /// the store, and a changed one is reported to the listeners.
    pub fn current(&self, database: &Database) -> Result<Seal, StoreError> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if !head.is_current {
            let last = database.last(&family::BLOCKS)?;
            let seal = last.map_or_else(Seal::default, |(_, block)| Seal::of(&block.header));
            let is_new = seal != head.seal;
            *head = Head { seal, is_current: seal.height >= head.begun, ..*head };
            if is_new {
                self.notify_listeners(seal.height);
            }
        }
        Ok(head.seal)
    }

    /// The seal that was known last, which may not be that of the last block.
    pub fn last_known(&self) -> Seal {
        self.head.lock().unwrap_or_else(PoisonError::into_inner).seal
    }

    /// The block with this height is about to be written. Until it is there, only the store knows
    /// the last block.
    pub fn begin(&self, height: u64) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        *head = Head { is_current: false, begun: head.begun.max(height), ..*head };
    }

    /// The write of a block failed: only the store knows whether it is there.
    pub fn forget(&self) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        *head = Head { is_current: false, begun: 0, ..*head };
    }

    /// The block with this seal is durable. The store's last block may be a later one already.
    pub fn advance(&self, seal: Seal) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if seal.height >= head.seal.height {
            *head = Head { seal, is_current: seal.height >= head.begun, ..*head };
        }
        drop(head);
        self.notify_listeners(seal.height);
    }

    /// Adds a listener, which must return quickly and must not ask for the head.
    pub fn listen(&self, listener: Listener) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    fn notify_listeners(&self, height: u64) {
        for listener in self.listeners.read().unwrap_or_else(PoisonError::into_inner).iter() {
            listener(height);
        }
    }
}
