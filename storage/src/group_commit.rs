//! Group commit: many writers, one synced write.
//!
//! A sync costs far more than the bytes it makes durable, so whoever waits for one shares it: a thread takes everything that has
//! been handed in since its last write, writes it as one batch with one sync, and tells each writer. An idle store commits a
//! single change at once; nobody waits for a group to fill.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::database::{Changes, Store};
use crate::error::StoreError;

/// Called once the changes are durable, or were refused. Runs on the committing thread: it must not block.
pub type Durable = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The most changes that share a sync: bounds the memory of one batch and the wait of the first in it.
const LARGEST_GROUP: usize = 4096;

struct Job {
    changes: Changes,
    durable: Durable,
}

/// Hands changes to the committing thread. They become durable in the order they were handed in, and what one call hands in
/// stays together. Clones share the thread; it ends, after everything handed in is durable, when the last one is dropped.
#[derive(Clone)]
pub struct GroupCommit {
    jobs: Sender<Job>,
}

impl GroupCommit {
    /// Starts the committing thread. Joining the handle waits until everything is durable and all clones are gone.
    pub fn start(store: Store) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (jobs, handed_in) = channel();
        let thread = std::thread::Builder::new()
            .name("group-commit".to_owned())
            .spawn(move || commit_all(&store, &handed_in))
            .map_err(|_| StoreError::Closing)?;
        Ok((Self { jobs }, thread))
    }

    /// Hands in changes; `durable` is called when they are on disk or cannot be. The caller bounds how much is handed in and
    /// not yet durable.
    pub fn commit(&self, changes: Changes, durable: Durable) {
        if let Err(refused) = self.jobs.send(Job { changes, durable }) {
            (refused.0.durable)(Err(StoreError::Closing));
        }
    }

    /// Waits until everything that was handed in before is durable. Blocks the thread.
    pub fn barrier(&self) -> Result<(), StoreError> {
        let (passed, barrier) = channel();
        let durable = move |result| drop(passed.send(result));
        self.commit(Changes::default(), Box::new(durable));
        barrier.recv().unwrap_or(Err(StoreError::Closing))
    }
}

fn commit_all(store: &Store, handed_in: &Receiver<Job>) {
    while let Ok(first) = handed_in.recv() {
        let mut changes = first.changes;
        let mut waiting = vec![first.durable];
        while waiting.len() < LARGEST_GROUP
            && let Ok(job) = handed_in.try_recv()
        {
            changes.append(job.changes);
            waiting.push(job.durable);
        }
        let result = store.database().write(changes, true);
        if let Err(error) = &result {
            tracing::error!(%error, requests = waiting.len(), "a group commit failed");
        }
        for durable in waiting {
            durable(result.clone());
        }
    }
}
