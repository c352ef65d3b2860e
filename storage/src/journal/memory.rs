//! A journal in memory that fails on demand, for tests and simulations.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use futures_util::future::{BoxFuture, poll_fn, ready};
use futures_util::stream::{BoxStream, unfold};
use futures_util::{FutureExt, StreamExt};

use super::{AppendError, Journal, JournalEntry, JournalError, LARGEST_ENTRY, Position, Term};

/// A journal that lasts as long as its clones. Replicas reach it through [`MemoryJournal::client`].
#[derive(Clone, Default)]
pub struct MemoryJournal {
    state: Arc<Mutex<State>>,
    /// The most bytes of an entry, if it is another number than usual.
    largest_entry: Option<usize>,
}

#[derive(Default)]
struct State {
    term: Term,
    entries: VecDeque<JournalEntry>,
    /// The last entry that was removed, and its term.
    truncated: (Position, Term),
    /// Appends whose senders gave up waiting.
    late: Vec<JournalEntry>,
    followers: Vec<Waker>,
}

impl State {
    fn head(&self) -> (Position, Term) {
        self.entries.back().map_or(self.truncated, |entry| (entry.position, entry.term))
    }

    fn append(&mut self, entry: JournalEntry) -> Result<(), AppendError> {
        if entry.term != self.term {
            return Err(AppendError::Fenced);
        }
        if entry.position != self.head().0.next() {
            return Err(AppendError::Taken);
        }
        self.entries.push_back(entry);
        self.followers.drain(..).for_each(Waker::wake);
        Ok(())
    }

    /// The entry after a position, if there is one.
    fn after(&self, position: Position) -> Option<Result<JournalEntry, JournalError>> {
        let (truncated, _) = self.truncated;
        if position < truncated {
            return Some(Err(JournalError::Truncated(truncated.next())));
        }
        self.entries.get((position.0 - truncated.0) as usize).cloned().map(Ok)
    }
}

/// A call that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalCall {
    /// [`Journal::append`].
    Append,
    /// [`Journal::head`], or the next entry of [`Journal::follow`].
    Read,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFault {
    /// Nothing.
    None,
    /// The journal is not reached, and the caller knows it.
    NotSent,
    /// The journal does not get the call, and the caller cannot know.
    RequestLost,
    /// The journal gets the call when [`MemoryJournal::deliver_late`] is called, and the caller has
    /// no answer.
    RequestLate,
    /// The journal gets the call, and the caller has no answer.
    AnswerLost,
}

type Faults = Arc<dyn Fn(JournalCall) -> JournalFault + Send + Sync>;

impl MemoryJournal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A journal that takes entries of at most so many bytes.
    pub fn of_entries_up_to(largest_entry: usize) -> Self {
        Self { largest_entry: Some(largest_entry), ..Self::default() }
    }

    /// Ends the term before, and begins the next one.
    pub fn begin_term(&self) -> Term {
        let mut state = self.state();
        state.term = Term(state.term.0 + 1);
        state.term
    }

    /// Every entry that was not removed.
    pub fn entries(&self) -> Vec<JournalEntry> {
        self.state().entries.iter().cloned().collect()
    }

    /// Delivers the appends that are late, in the order in which they were made.
    pub fn deliver_late(&self) {
        let mut state = self.state();
        for entry in std::mem::take(&mut state.late) {
            // Its sender no longer waits.
            let _ = state.append(entry);
        }
    }

    /// The journal as one replica reaches it. `faults` decides about each of its calls.
    pub fn client(&self, faults: impl Fn(JournalCall) -> JournalFault + Send + Sync + 'static) -> Arc<dyn Journal> {
        Arc::new(Client { journal: self.clone(), faults: Arc::new(faults) })
    }
}

struct Client {
    journal: MemoryJournal,
    faults: Faults,
}

impl Client {
    fn check_read(&self) -> Result<(), JournalError> {
        check_read(&self.faults)
    }
}

fn check_read(faults: &Faults) -> Result<(), JournalError> {
    match faults(JournalCall::Read) {
        JournalFault::None => Ok(()),
        fault => Err(JournalError::Unavailable(format!("{fault:?}"))),
    }
}

impl Journal for Client {
    fn append(&self, position: Position, term: Term, bytes: Bytes) -> BoxFuture<'_, Result<(), AppendError>> {
        let entry = JournalEntry { position, term, bytes };
        let unknown = |fault: JournalFault| Err(AppendError::Unknown(format!("{fault:?}")));
        let answer = match (self.faults)(JournalCall::Append) {
            JournalFault::None => self.journal.state().append(entry),
            fault @ JournalFault::NotSent => Err(AppendError::Unavailable(format!("{fault:?}"))),
            fault @ JournalFault::RequestLost => unknown(fault),
            fault @ JournalFault::RequestLate => {
                self.journal.state().late.push(entry);
                unknown(fault)
            }
            fault @ JournalFault::AnswerLost => {
                let _ = self.journal.state().append(entry);
                unknown(fault)
            }
        };
        ready(answer).boxed()
    }

    fn follow(&self, after: Position) -> BoxStream<'_, Result<JournalEntry, JournalError>> {
        let (journal, faults) = (self.journal.clone(), Arc::clone(&self.faults));
        let entries = unfold(Some(after), move |position| {
            let (journal, faults) = (journal.clone(), Arc::clone(&faults));
            async move {
                let position = position?;
                if let Err(error) = check_read(&faults) {
                    return Some((Err(error), None));
                }
                let next = poll_fn(|context| {
                    let mut state = journal.state();
                    match state.after(position) {
                        Some(entry) => Poll::Ready(entry),
                        None => {
                            state.followers.push(context.waker().clone());
                            Poll::Pending
                        }
                    }
                });
                let next = next.await;
                let position = next.as_ref().ok().map(|entry| entry.position);
                Some((next, position))
            }
        });
        entries.boxed()
    }

    fn head(&self) -> BoxFuture<'_, Result<(Position, Term), JournalError>> {
        ready(self.check_read().map(|()| self.journal.state().head())).boxed()
    }

    fn truncate(&self, below: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        let truncated = self.check_read().map(|()| {
            let mut state = self.journal.state();
            while state.entries.front().is_some_and(|entry| entry.position < below) {
                if let Some(entry) = state.entries.pop_front() {
                    state.truncated = (entry.position, entry.term);
                }
            }
        });
        ready(truncated).boxed()
    }

    fn largest_entry(&self) -> usize {
        self.journal.largest_entry.unwrap_or(LARGEST_ENTRY)
    }
}
