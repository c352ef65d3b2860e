//! Work that blocks a thread, at once, one piece at a time or a few; tasks that end with their
//! owner; steps that are retried.

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinError, spawn_blocking};
use tracing::Span;

/// Where blocking work runs.
#[derive(Clone, Default)]
pub(crate) enum Blocking {
    /// On the runtime's threads for blocking work.
    #[default]
    Threads,
    /// On the simulation's only thread, so that all events happen in the same order in each run.
    /// The function returns the simulated time that passes before the work is done.
    #[cfg(feature = "simulation")]
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Blocking {
    /// Runs `work` inside the caller's span. The error means that `work` panicked.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let span = tracing::Span::current();
        let work = move || span.in_scope(work);
        match self {
            Self::Threads => spawn_blocking(work).await,
            #[cfg(feature = "simulation")]
            Self::Inline(pause) => {
                let pause = pause();
                let working = async move {
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    work()
                };
                tokio::spawn(working).await
            }
        }
    }

    /// Whether there are threads for blocking work. Without them, a read that is slower on the disk
    /// than in memory has no other way, and must not take one: in a simulation the order of events
    /// would depend on what RocksDB's own threads have written into files.
    pub fn has_threads(&self) -> bool {
        match self {
            Self::Threads => true,
            #[cfg(feature = "simulation")]
            Self::Inline(_) => false,
        }
    }

    /// [`Blocking::run`] for work that waits for what it hands in to the group commit.
    pub async fn run_and_commit<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, JoinError> {
        match self {
            Self::Threads => self.run(work).await,
            // The committer is on the same thread, so it could not run meanwhile.
            #[cfg(feature = "simulation")]
            Self::Inline(_) => self.run(move || selfsame_storage::commit_at_once(work)).await,
        }
    }
}

// Blocking work that runs one piece at a time, even when the actor that began a piece is killed.

/// Runs blocking work in series.
///
/// When an actor is killed, its blocking work continues: it is inside a commit, which cannot be
/// interrupted. The successor waits until that work ends before it reads the store, so that the
/// store does not change after the read.
#[derive(Default)]
pub(crate) struct SerialBlocking {
    permit: Arc<tokio::sync::Mutex<()>>,
    blocking: Blocking,
}

impl SerialBlocking {
    /// An idle instance whose work runs on `blocking`.
    pub fn new(blocking: Blocking) -> Self {
        Self { permit: Arc::default(), blocking }
    }

    /// Runs `work` after the work before it. The error means that `work` panicked.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let permit = Arc::clone(&self.permit).lock_owned().await;
        let work = move || {
            let result = work();
            drop(permit);
            result
        };
        self.blocking.run(work).await
    }

    /// Waits until no work is running.
    pub async fn until_idle(&self) {
        drop(self.permit.lock().await);
    }
}

// Short blocking work of many callers, of which a few pieces run at a time.

/// The work panicked, or the runtime ended before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs blocking work on at most so many threads, in the order in which it is handed in.
///
/// A thread goes on with the next piece that waits, and another one begins only when several pieces
/// wait for each that runs. To wake a thread for each piece costs more than a few microseconds of
/// work.
pub(crate) struct BoundedBlocking {
    blocking: Blocking,
    threads: usize,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Piece>,
    /// Threads that take from `waiting`. While pieces wait, there is at least one.
    running: usize,
}

type Piece = Box<dyn FnOnce() + Send>;

/// Another thread begins when more pieces than this wait for each thread that runs.
const WAITING_FOR_EACH: usize = 2;

impl BoundedBlocking {
    /// Work runs on at most `threads` of the threads of `blocking`.
    pub fn new(blocking: Blocking, threads: usize) -> Self {
        Self { blocking, threads: threads.max(1), queue: Arc::default() }
    }

    /// Runs `work` inside the caller's span. It runs to its end also when its caller no longer
    /// waits.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Panicked> {
        if !self.blocking.has_threads() {
            return self.blocking.run(work).await.map_err(|_| Panicked);
        }
        let (done, result) = oneshot::channel();
        let span = Span::current();
        // An error of `send` means that the caller no longer waits.
        self.hand_in(Box::new(move || drop(done.send(span.in_scope(work)))));
        result.await.map_err(|_| Panicked)
    }

    fn hand_in(&self, piece: Piece) {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(piece);
        let is_late = queue.running == 0 || queue.waiting.len() > WAITING_FOR_EACH * queue.running;
        let begins = is_late && queue.running < self.threads;
        queue.running += usize::from(begins);
        // A runtime that has ended drops the worker at once, which locks the queue.
        drop(queue);
        if begins {
            let worker = Worker { queue: Arc::clone(&self.queue), is_counted: true };
            drop(spawn_blocking(move || worker.run()));
        }
    }
}

/// One of the threads, until nothing waits.
struct Worker {
    queue: Arc<Mutex<Queue>>,
    is_counted: bool,
}

impl Worker {
    fn run(mut self) {
        while let Some(piece) = self.next() {
            // A piece that panics drops the sender of its result, and its caller sees that.
            drop(catch_unwind(AssertUnwindSafe(piece)));
        }
    }

    /// The next piece; `None` when nothing waits. Under the same lock the worker is counted no
    /// longer, so that a piece that is handed in then gets a worker of its own.
    fn next(&mut self) -> Option<Piece> {
        let mut queue = lock(&self.queue);
        let piece = queue.waiting.pop_front();
        if piece.is_none() {
            queue.running -= 1;
            self.is_counted = false;
        }
        piece
    }
}

impl Drop for Worker {
    /// The runtime ended before the worker ran. What waits is dropped, because there may be no
    /// other worker for it.
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let mut queue = lock(&self.queue);
        queue.running -= 1;
        let left = if queue.running == 0 { std::mem::take(&mut queue.waiting) } else { VecDeque::new() };
        drop(queue);
        drop(left);
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

// Tasks that end with their owner.

/// A task that is aborted when this is dropped.
pub(crate) struct OwnedTask(pub AbortHandle);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// Steps that are retried while they fail: a full disk, a record that cannot be read.
//
// An actor whose step fails does not stop. It records the failure, retries after
// [`RETRY_INTERVAL`], and continues when the step succeeds. Until then the registry refuses
// requests; reads continue.

/// Time from a failure to the next attempt.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A step that is retried while it fails.
pub(crate) struct RetriedStep {
    name: &'static str,
    failure: ArcSwapOption<String>,
}

impl RetriedStep {
    /// A step that has not failed. `name` completes "… fails".
    pub fn new(name: &'static str) -> Self {
        Self { name, failure: ArcSwapOption::empty() }
    }

    /// Records a failure. It is logged only when the step worked before.
    pub fn record_failure(&self, error: &dyn Display) {
        if self.failure.load().is_none() {
            tracing::error!(step = self.name, %error, "a step failed and is retried");
        }
        self.failure.store(Some(error.to_string().into()));
    }

    /// Records that the step succeeded.
    pub fn record_success(&self) {
        if self.failure.load().is_some() {
            tracing::info!(step = self.name, "a step works again");
            self.failure.store(None);
        }
    }

    /// The step's name while it fails; `None` while it works.
    pub fn failing(&self) -> Option<&'static str> {
        self.failure.load().as_ref().map(|_| self.name)
    }

    /// The step and its failure, for operators; `None` while it works.
    pub fn describe_failure(&self) -> Option<String> {
        self.failure.load().as_ref().map(|error| format!("{} fails: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    mod serial_blocking {
        use std::sync::mpsc::channel;

        use tokio::task::spawn_blocking;

        use super::super::*;

        #[tokio::test]
        async fn work_waits_for_the_work_of_a_killed_caller() {
            let serial = Arc::new(SerialBlocking::default());
            let (begin, begun) = channel();
            let (finish, finished) = channel::<()>();
            let caller = tokio::spawn({
                let serial = Arc::clone(&serial);
                async move {
                    let work = move || {
                        begin.send(()).expect("the test receives the start");
                        finished.recv().expect("the test finishes it");
                    };
                    serial.run(work).await.expect("no panic");
                }
            });
            spawn_blocking(move || begun.recv().expect("the work has started")).await.expect("no panic");
            caller.abort();
            assert!(caller.await.expect_err("the caller was killed").is_cancelled());
            assert!(serial.permit.try_lock().is_err(), "the work continues");
            finish.send(()).expect("the work waits for its end");
            serial.until_idle().await;
            assert_eq!(serial.run(|| 7).await.expect("no panic"), 7);
        }
    }

    mod bounded_blocking {
        use std::sync::mpsc::channel;

        use super::super::*;

        #[tokio::test]
        async fn what_waits_is_done_in_order_by_the_thread_that_ends_its_work() {
            let bounded = Arc::new(BoundedBlocking::new(Blocking::default(), 1));
            let (finish, finished) = channel::<()>();
            let first = bounded.run(move || finished.recv().expect("the test finishes it"));
            let (order, done) = channel();
            let later = (0..3).map(|number| {
                let order = order.clone();
                bounded.run(move || order.send(number).expect("the test receives it"))
            });
            // `join` begins them in this order.
            let waiting = futures_util::future::join(first, futures_util::future::join_all(later));
            let finishing = async {
                assert_eq!(lock(&bounded.queue).running, 1);
                finish.send(()).expect("the first piece waits");
            };
            let ((first, later), ()) = futures_util::future::join(waiting, finishing).await;
            assert_eq!((first, later), (Ok(()), vec![Ok(()); 3]));
            assert_eq!(done.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        }

        #[tokio::test]
        async fn another_thread_does_what_waits_for_a_piece_that_hangs_up_to_the_limit() {
            let bounded = BoundedBlocking::new(Blocking::default(), 2);
            let (finish, finished) = channel::<()>();
            let hanging = bounded.run(move || finished.recv().expect("the test finishes it"));
            let later = (0..=WAITING_FOR_EACH + 1).map(|number| bounded.run(move || number));
            let others = async {
                let done = futures_util::future::join_all(later).await;
                assert!(lock(&bounded.queue).running <= 2);
                finish.send(()).expect("the first piece hangs");
                done
            };
            let (hanging, others) = futures_util::future::join(hanging, others).await;
            assert_eq!(hanging, Ok(()));
            assert_eq!(others, (0..=WAITING_FOR_EACH + 1).map(Ok).collect::<Vec<_>>());
        }

        #[tokio::test]
        async fn a_panic_ends_its_piece_alone_and_no_piece_is_left_behind() {
            let bounded = BoundedBlocking::new(Blocking::default(), 2);
            let panicking = bounded.run(|| -> u32 { panic!("a panic that the test wants") });
            let others = (0..1000).map(|number| bounded.run(move || number));
            let (panicked, others) =
                futures_util::future::join(panicking, futures_util::future::join_all(others)).await;
            assert_eq!(panicked, Err(Panicked));
            assert_eq!(others, (0..1000).map(Ok).collect::<Vec<_>>());
            for number in 0..1000 {
                assert_eq!(bounded.run(move || number).await, Ok(number), "handed in while a worker ends");
            }
        }

        #[test]
        fn a_runtime_that_has_ended_drops_what_waits() {
            let bounded = BoundedBlocking::new(Blocking::default(), 1);
            let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
            let handle = runtime.handle().clone();
            runtime.shutdown_background();
            let _entered = handle.enter();
            for _ in 0..2 {
                assert_eq!(futures_executor::block_on(bounded.run(|| 7)), Err(Panicked));
            }
        }
    }
}
