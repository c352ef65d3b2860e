//! What a replica asks of the others: messages to the one that leads, and reads that must show what
//! another replica has acknowledged.
//!
//! A replica that does not lead decides nothing: it sends what is to be decided to the leader. The
//! answer names a position of the journal, and the caller gets it when the store of this replica
//! has the entries up to there, so that it reads here what was written there.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use selfsame_protocol::encoding::{DecodeError, Encoding, decode, encode};
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::{encode_enum, encode_fields};
use selfsame_storage::{Decision, Forward, JournalError, OnDecided, Position, Replica, ReplicaError, StoreError};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::source_limits::{SourceLimiter, TooManyRequests};

/// How long the leader's answer is waited for.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// How long it is waited for what the answer depends on.
const APPLIED_PATIENCE: Duration = Duration::from_secs(5);

/// Why the leader's answer is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderError {
    /// The message was not sent, or the receiver refused to look at it.
    #[error("it was not reached: {0}")]
    Unsent(String),
    /// The message was sent, and no answer came.
    #[error("it gave no answer: {0}")]
    Unanswered(String),
}

/// Carries messages to the replica that leads.
///
/// The leader hands a message to [`crate::Service::answer_replica`], and sends back what that
/// returns. It checks no sender: let only replicas reach it.
pub trait LeaderConnection: Send + Sync + 'static {
    /// Sends a message to the leader, and returns its answer.
    ///
    /// # Errors
    /// No replica leads, or the one that does was not reached or did not answer.
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>>;
}

/// What the leader is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionKind {
    /// To decide about a conditional write.
    Write,
    /// To admit a request to the registry.
    Submit,
}

encode_enum!(QuestionKind { Write = 0, Submit = 1 } of "a question to the leader");

/// A message to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub kind: QuestionKind,
    pub content: Vec<u8>,
}

encode_fields!(Question { kind, content } version 1 of "message to the leader");

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has answered.
    Answered {
        /// The store shows what the answer depends on when it has the journal up to here.
        position: u64,
        content: Vec<u8>,
    },
    /// It has no answer.
    Failed {
        /// Whether nothing was written, or will be.
        is_certain: bool,
        reason: String,
    },
}

impl Encoding for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Answered { position, content } => {
                out.push(0);
                position.encode(out);
                content.encode(out);
            }
            Self::Failed { is_certain, reason } => {
                out.push(1);
                is_certain.encode(out);
                reason.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Answered { position: u64::decode(input)?, content: Vec::decode(input)? }),
            1 => Ok(Self::Failed { is_certain: bool::decode(input)?, reason: String::decode(input)? }),
            tag => Err(DecodeError::UnknownTag { kind: "an answer of the leader", tag }),
        }
    }
}

/// The content of an answer about a conditional write.
pub(crate) fn decision_content(decision: Decision) -> Vec<u8> {
    encode(&(decision == Decision::Written))
}

/// Sends messages to the leader, and waits for what their answers depend on.
pub(crate) struct Forwarding {
    connection: Arc<dyn LeaderConnection>,
    replica: Arc<Replica>,
    /// What waits for the answers of callers without a runtime.
    runtime: Handle,
}

impl Forwarding {
    /// Forwards what the replica may not decide. Call it in the runtime that is to wait for the
    /// answers.
    pub fn new(connection: Arc<dyn LeaderConnection>, replica: Arc<Replica>) -> Arc<Self> {
        Arc::new(Self { connection, replica, runtime: Handle::current() })
    }

    /// Asks the leader. Returns the content of its answer when the store of this replica has what
    /// the answer depends on.
    ///
    /// # Errors
    /// [`ReplicaError::is_certain`] says whether the leader may have done what it was asked.
    pub async fn ask(&self, kind: QuestionKind, content: Vec<u8>) -> Result<Vec<u8>, ReplicaError> {
        let unanswered = |reason: String| ReplicaError::Unanswered { reason };
        let sending = self.connection.send(encode(&Question { kind, content }));
        let answer = match timeout(ANSWER_PATIENCE, sending).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error @ LeaderError::Unsent(_))) => {
                return Err(ReplicaError::NoLeader { reason: error.to_string() });
            }
            Ok(Err(error @ LeaderError::Unanswered(_))) => return Err(unanswered(error.to_string())),
            Err(_) => return Err(unanswered(format!("it gave no answer within {} s", ANSWER_PATIENCE.as_secs()))),
        };
        match decode(&answer) {
            Ok(Answer::Answered { position, content }) => {
                let position = Position(position);
                let applied = timeout(APPLIED_PATIENCE, self.replica.applied(position)).await;
                applied.map_err(|_| ReplicaError::Lagging { position })?;
                Ok(content)
            }
            Ok(Answer::Failed { is_certain: true, reason }) => Err(ReplicaError::NoLeader { reason }),
            Ok(Answer::Failed { is_certain: false, reason }) => Err(unanswered(reason)),
            Err(error) => Err(unanswered(format!("its answer cannot be read: {error}"))),
        }
    }

    async fn decide(&self, write: Vec<u8>) -> Result<Decision, ReplicaError> {
        let content = self.ask(QuestionKind::Write, write).await?;
        match decode(&content) {
            Ok(true) => Ok(Decision::Written),
            Ok(false) => Ok(Decision::Changed),
            Err(error) => Err(ReplicaError::Unanswered { reason: format!("its answer cannot be read: {error}") }),
        }
    }
}

/// The forwarding of a service as the group commit sees it.
pub(crate) struct ForwardedWrites(pub Arc<Forwarding>);

impl Forward for ForwardedWrites {
    fn forward(&self, write: Vec<u8>, decided: OnDecided) {
        let forwarding = Arc::clone(&self.0);
        self.0.runtime.spawn(async move { decided(forwarding.decide(write).await.map_err(Into::into)) });
    }
}

// Reads that must show what another replica has acknowledged.
//
// A replica shows what the others have written a moment later. When a handle does not find a
// record that its caller may have from another replica, it asks the journal for its end, waits
// until the store has the entries up to there, and reads once more. The question costs a round
// trip to the journal, so only what is missing is looked for in this way, one question at a time:
// all callers that wait for the next one share its answer. So callers who ask for what does not
// exist take no turn from others. They are counted by source, because each of them is kept waiting
// for a round trip.

/// How long the journal and its entries are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most records that a source may ask for and that no replica has. A client that asks for what
/// exists does not come near: what is found is not counted.
const MISSES_PER_SOURCE: RateLimit = RateLimit { count: 6000, window: Duration::from_secs(60) };

/// What the journal has is not known, or not in the store yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica cannot learn in time what the others have written")]
pub(crate) struct NotCaughtUp;

/// Why it is not known whether another replica has a record.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AwaitError {
    /// The source has asked for too much that does not exist.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The store cannot be read, or the journal gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Brings the store up to the journal's end, for reads that miss a record.
#[derive(Clone)]
pub(crate) struct CatchingUp {
    /// `None` for a service that is alone, which shows everything that it has acknowledged.
    replica: Option<Arc<Replica>>,
    questions: Arc<Questions<Result<Position, NotCaughtUp>>>,
    misses: Arc<SourceLimiter>,
}

impl CatchingUp {
    /// For the replica, if there is one.
    pub fn new(replica: Option<Arc<Replica>>) -> Self {
        Self { replica, questions: Arc::default(), misses: Arc::new(SourceLimiter::new(Some(MISSES_PER_SOURCE))) }
    }

    /// Whether there are other replicas.
    pub fn is_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Waits until the store has what the journal has now, for a read that misses a record.
    ///
    /// # Errors
    /// The journal gave no answer in time, so it is not known whether there is such a record.
    pub async fn find(&self) -> Result<(), ReplicaError> {
        let late = |_| JournalError::Unavailable("it gave no answer in time".to_owned()).into();
        self.catch_up().await.map_err(late)
    }

    /// The same for a record that `source` asks for, at `now` (time since the Unix epoch), and
    /// counts it; a caller that then has the record calls [`CatchingUp::found`]. A service that is
    /// alone counts nothing, because it waits for nothing.
    ///
    /// # Errors
    /// Also when the source has asked for too many records that do not exist.
    pub async fn find_for(&self, source: Option<IpAddr>, now: Duration) -> Result<(), AwaitError> {
        if !self.is_replica() {
            return Ok(());
        }
        if let Some(source) = source {
            self.misses.charge(source, now)?;
        }
        // That the journal gave no answer says nothing about the record.
        self.find().await.inspect_err(|_| self.found(source)).map_err(StoreError::from)?;
        Ok(())
    }

    /// Takes back what [`CatchingUp::find_for`] has counted for a record that has come.
    pub fn found(&self, source: Option<IpAddr>) {
        if let Some(source) = source.filter(|_| self.is_replica()) {
            self.misses.refund(source);
        }
    }

    /// Waits until the store has what the journal has now.
    ///
    /// # Errors
    /// The journal gave no answer in time.
    pub async fn catch_up(&self) -> Result<(), NotCaughtUp> {
        let Some(replica) = &self.replica else { return Ok(()) };
        let catching_up = async {
            let asked = Arc::clone(replica);
            let end = self.questions.ask(async move { asked.end().await.map_err(|_| NotCaughtUp) }).await?;
            replica.applied(end).await;
            Ok(())
        };
        timeout(PATIENCE, catching_up).await.unwrap_or(Err(NotCaughtUp))
    }
}

/// Questions that are all the same, of which one is asked at a time. A caller gets the answer to a
/// question that begins after its call: one that is on its way may have been answered before. All
/// that wait for the next one share it.
struct Questions<T: Clone> {
    /// The question that has not begun.
    next: Arc<Mutex<Option<Shared<BoxFuture<'static, T>>>>>,
    /// Held while a question is on its way.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<T: Clone> Default for Questions<T> {
    fn default() -> Self {
        Self { next: Arc::default(), turn: Arc::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> Questions<T> {
    /// The answer to the next question. If no question waits yet, `question` becomes the next one.
    /// The callers that wait for the answer poll it; it ends with the last of them.
    fn ask(&self, question: impl Future<Output = T> + Send + 'static) -> Shared<BoxFuture<'static, T>> {
        let mut waiting = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = &*waiting {
            return next.clone();
        }
        let (next, turn) = (Arc::clone(&self.next), Arc::clone(&self.turn));
        let asking = async move {
            let _turn = turn.lock().await;
            // Who calls from now on may need to know more than this question's answer.
            let begun = next.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(begun);
            question.await
        };
        let asking = asking.boxed().shared();
        *waiting = Some(asking.clone());
        asking
    }
}

// When a replica has last had news of its journal.

/// How fresh what a replica reads is.
pub(crate) struct Freshness {
    /// The store has everything that the journal had at this time.
    current_at: Mutex<Option<Instant>>,
    /// How old an answer may be that must not be old.
    limit: Duration,
}

impl Freshness {
    /// Nothing is known yet.
    pub fn new(limit: Duration) -> Self {
        Self { current_at: Mutex::default(), limit }
    }

    /// Notes that the store has everything that the journal had at a time.
    pub fn note(&self, current_at: Instant) {
        *self.current_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(current_at);
    }

    /// How long ago that was last so; `None` while it was never.
    pub fn age(&self) -> Option<Duration> {
        self.current_at.lock().unwrap_or_else(PoisonError::into_inner).map(|time| time.elapsed())
    }

    /// Refuses a read that must not be old.
    ///
    /// # Errors
    /// [`ReplicaError::Stale`].
    pub fn check(&self) -> Result<(), ReplicaError> {
        match self.age() {
            Some(age) if age <= self.limit => Ok(()),
            _ => Err(ReplicaError::Stale { limit: self.limit }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::replica::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        let answered = Answer::Answered { position: 7, content: decision_content(Decision::Changed) };
        for answer in [answered, Answer::Failed { is_certain: true, reason: "no".to_owned() }] {
            assert_eq!(decode::<Answer>(&encode(&answer)), Ok(answer));
        }
        assert!(decode::<Answer>(&[2]).is_err());
    }

    mod catching_up {
        use std::sync::atomic::{AtomicU64, Ordering};

        use tokio::sync::Semaphore;

        use super::super::*;

        /// Answers with the number of the question, when the test lets it.
        #[derive(Clone)]
        struct Journal {
            asked: Arc<AtomicU64>,
            answers: Arc<Semaphore>,
        }

        impl Journal {
            fn new() -> Self {
                Self { asked: Arc::default(), answers: Arc::new(Semaphore::new(0)) }
            }

            fn question(&self) -> impl Future<Output = u64> + Send + 'static {
                let Self { asked, answers } = self.clone();
                async move {
                    let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
                    answers.acquire().await.expect("it is not closed").forget();
                    number
                }
            }

            fn asked(&self) -> u64 {
                self.asked.load(Ordering::Relaxed)
            }
        }

        #[tokio::test]
        async fn all_that_wait_share_one_question_which_begins_after_their_call() {
            let (journal, questions) = (Journal::new(), Questions::<u64>::default());
            let mut first = Box::pin(questions.ask(journal.question()));
            assert!((&mut *first).now_or_never().is_none());
            assert_eq!(journal.asked(), 1);
            // These come while the first is on its way.
            let mut others: Vec<_> = (0..5000).map(|_| Box::pin(questions.ask(journal.question()))).collect();
            for other in &mut others {
                assert!(other.now_or_never().is_none());
            }
            assert_eq!(journal.asked(), 1, "the next question waits for its turn");
            journal.answers.add_permits(1);
            assert_eq!(first.await, 1);
            assert!((&mut others[7]).now_or_never().is_none());
            assert_eq!(journal.asked(), 2);
            let mut late = Box::pin(questions.ask(journal.question()));
            assert!((&mut *late).now_or_never().is_none());
            journal.answers.add_permits(2);
            for other in others {
                assert_eq!(other.await, 2, "one question for all of them");
            }
            assert_eq!(late.await, 3, "a caller gets no answer that was on its way before the call");
            assert_eq!(journal.asked(), 3);
        }

        /// Callers that give up, as at the end of a connection, take no answer from the others.
        #[tokio::test]
        async fn callers_that_give_up_leave_the_questions_of_others_alone() {
            let (journal, questions) = (Journal::new(), Questions::<u64>::default());
            let mut first = Box::pin(questions.ask(journal.question()));
            assert!((&mut *first).now_or_never().is_none());
            let mut second = Box::pin(questions.ask(journal.question()));
            assert!((&mut *second).now_or_never().is_none());
            // The question that waits for its turn is abandoned, then the one on its way.
            drop(second);
            drop(first);
            let mut third = Box::pin(questions.ask(journal.question()));
            assert!((&mut *third).now_or_never().is_none());
            journal.answers.add_permits(1);
            assert_eq!(third.await, 2, "the first question got no answer");
            journal.answers.add_permits(1);
            assert_eq!(questions.ask(journal.question()).await, 3);
        }

        #[tokio::test]
        async fn a_service_that_is_alone_waits_for_nothing_and_counts_nothing() {
            let catching_up = CatchingUp::new(None);
            let source = Some([192, 0, 2, 1].into());
            for _ in 0..=MISSES_PER_SOURCE.count {
                catching_up.find_for(source, Duration::ZERO).await.expect("nothing is counted");
            }
            assert_eq!(catching_up.misses.refused.get(), 0);
        }
    }
}
