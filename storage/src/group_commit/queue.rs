//! The queue between the handles of a group commit and its committing thread.

use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::{PoisonError, RwLock};

/// Where jobs are handed in. The handles of a group commit share it.
pub(crate) struct Intake<Job> {
    /// `None` when it is closed. A job is sent under the lock, so none is sent after the close.
    jobs: RwLock<Option<Sender<Job>>>,
}

/// The jobs that wait, in the order in which they were handed in.
pub(crate) struct Queue<Job> {
    jobs: Receiver<Job>,
    /// A job that did not fit into the group before. It is older than all of `jobs`.
    held_back: Option<Job>,
}

impl<Job> Intake<Job> {
    /// An open intake and its queue.
    pub fn new() -> (Self, Queue<Job>) {
        let (sender, jobs) = channel();
        (Self { jobs: RwLock::new(Some(sender)) }, Queue { jobs, held_back: None })
    }

    /// Hands in a job. The queue gives it out before it ends.
    ///
    /// # Errors
    /// The intake is closed, or the queue is dropped. The caller gets the job back.
    pub fn hand_in(&self, job: Job) -> Result<(), Job> {
        match self.jobs.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(jobs) => jobs.send(job).map_err(|refused| refused.0),
            None => Err(job),
        }
    }

    /// Refuses what is handed in from now on. The queue ends after what was handed in before.
    pub fn close(&self) {
        self.jobs.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl<Job> Queue<Job> {
    /// The next job; `None` when the intake is closed or dropped and no job is left. Blocks the
    /// thread.
    pub fn wait(&mut self) -> Option<Job> {
        self.held_back.take().or_else(|| self.jobs.recv().ok())
    }

    /// The next job, if one waits.
    pub fn take(&mut self) -> Option<Job> {
        self.held_back.take().or_else(|| self.jobs.try_recv().ok())
    }

    /// Puts back the job that was taken last, as the next one.
    pub fn hold_back(&mut self, job: Job) {
        self.held_back = Some(job);
    }
}
