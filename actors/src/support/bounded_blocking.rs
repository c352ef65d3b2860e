//! Short blocking work of many callers, of which a few pieces run at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::Span;

use super::blocking::Blocking;

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

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
        let (panicked, others) = futures_util::future::join(panicking, futures_util::future::join_all(others)).await;
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
