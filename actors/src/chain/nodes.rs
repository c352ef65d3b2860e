//! The nodes of a chain: one as following sees it, questions in and answers out, and several, of
//! which a number must agree.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use selfsame_protocol::chain::contracts::{Answer, BlockTag, Header, Question};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::roots::is_ahead;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::contracts::{ChainError, NodeFailure};
use super::pace::Pace;

// The node of a chain, as following sees it: questions in, answers out.

/// A node of a chain. A front-end implements it with a network client, a test with a chain in
/// memory.
pub trait ChainNode: Send + Sync + 'static {
    /// The name of the node in logs and status: its host, with the port where the URL has one. It
    /// is never the URL, which may hold an access key.
    fn name(&self) -> &str;

    /// Asks all questions in one round trip. The answers are in the order of the questions, one for
    /// each.
    ///
    /// An implementation bounds the time and the bytes of a round trip. It checks that an answer
    /// has the form that the question asks for, and keeps to the blocks, the contract and the
    /// topics that the question names; whether it is true is the caller's to check.
    ///
    /// # Errors
    /// When no question was answered. A refusal of one question is in its place among the answers.
    fn ask<'a>(&'a self, questions: &'a [Question]) -> BoxFuture<'a, Result<Vec<Result<Answer, Refusal>>, NodeError>>;
}

/// The node refused one question, for example because it does not keep the state of that block, or
/// because the range of blocks is too long for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", refused(.code, .message))]
pub struct Refusal {
    /// The code of the JSON-RPC error; 0 when the whole answer failed, which `message` then says.
    pub code: i64,
    /// The message of the JSON-RPC error: at most 200 characters, all of them printable.
    pub message: String,
}

fn refused(code: &i64, message: &str) -> String {
    match code {
        0 => message.to_owned(),
        code => format!("the node refused with code {code}: {message}"),
    }
}

/// A node's own text behind what this program says about it; nothing when the node gave none.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Why no question of a round trip was answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The connection could not be made, or broke before the answer was complete. The text is the
    /// operating system's or the TLS library's, without the URL.
    #[error("the node cannot be reached: {0}")]
    Unreachable(String),
    /// The answer was not complete within the time limit of a round trip.
    #[error("the node did not answer in time")]
    TimedOut,
    /// The node asks for fewer questions: status 429, status 503 with `Retry-After`, or a JSON-RPC
    /// error that says so.
    #[error("the node asks for fewer questions{}", quoted(.text))]
    RateLimited {
        /// How long the node asks to wait, if it says so in seconds.
        retry_after: Option<Duration>,
        /// What the node says, empty when it says nothing: at most 200 characters, all of them
        /// printable.
        text: String,
    },
    /// The answer is longer than the limit. Questions about fewer blocks get shorter answers.
    #[error("the node's answer is longer than {limit} bytes")]
    TooLarge {
        /// The longest answer that is read, in bytes.
        limit: usize,
    },
    /// The answer is not what the interface prescribes for these questions. The text says what is
    /// wrong, and how the answer begins: at most 200 characters each, all of them printable.
    #[error("the node's answer is malformed: {0}")]
    Malformed(String),
    /// The node answered with an HTTP status, and without an answer to the questions.
    #[error("the node answered with status {status}{}", quoted(.text))]
    Status {
        /// The status.
        status: u16,
        /// What the node says, empty when it says nothing or sends a page: at most 200 characters,
        /// all of them printable.
        text: String,
    },
}

// The nodes of a chain.

/// For how long a node is not asked that cannot be reached, or does not say which chain it is of.
const PAUSE: Duration = Duration::from_secs(5);

/// For how long a node is not asked, at least, that asks for fewer questions. Afterwards it is
/// asked more slowly.
const RATE_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause that a node can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// For how long a node of another chain is not asked.
const OTHER_CHAIN_PAUSE: Duration = Duration::from_secs(60);

/// How long the newest blocks of further nodes are waited for, once enough nodes have named theirs.
const GRACE: Duration = Duration::from_millis(300);

/// What a node answered to each question of a round trip.
type Answers = Vec<Result<Answer, Refusal>>;

/// The nodes of one chain.
pub(super) struct Nodes {
    chain_id: u64,
    /// How many nodes must give the same answer; at least 1.
    agree: usize,
    nodes: Vec<Member>,
    /// The node that is asked first when one answer is enough.
    preferred: AtomicUsize,
    /// Answers that were outvoted, since the start.
    outvoted: AtomicU64,
}

struct Member {
    node: Arc<dyn ChainNode>,
    state: Mutex<MemberState>,
    pace: Mutex<Pace>,
}

#[derive(Default)]
struct MemberState {
    /// Whether the node has named the chain's id since it last failed otherwise than by asking for
    /// fewer questions.
    is_checked: bool,
    /// When the node last answered.
    answered: Option<Instant>,
    /// The last failure, and until when the node is not asked.
    failure: Option<(String, Instant)>,
}

/// How a node is doing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NodeStatus {
    /// Its name: its host.
    pub name: String,
    /// Seconds since it last answered; null before the first time.
    pub answered_seconds_ago: Option<u64>,
    /// Why it did not answer the last time; null when it did.
    pub failure: Option<String>,
}

impl Nodes {
    /// The nodes of the chain with an id, of which `agree` must agree.
    pub fn new(chain_id: u64, agree: usize, nodes: Vec<Arc<dyn ChainNode>>) -> Self {
        let member = |node| Member { node, state: Mutex::default(), pace: Mutex::default() };
        let nodes = nodes.into_iter().map(member).collect();
        Self { chain_id, agree: agree.max(1), nodes, preferred: AtomicUsize::new(0), outvoted: AtomicU64::new(0) }
    }

    /// How each node is doing.
    pub fn status(&self) -> Vec<NodeStatus> {
        let status = |member: &Member| {
            let state = member.lock();
            NodeStatus {
                name: member.node.name().to_owned(),
                answered_seconds_ago: state.answered.map(|answered| answered.elapsed().as_secs()),
                failure: state.failure.as_ref().map(|(failure, _)| failure.clone()),
            }
        };
        self.nodes.iter().map(status).collect()
    }

    /// Answers that were outvoted, since the start.
    pub fn outvoted(&self) -> u64 {
        self.outvoted.load(Ordering::Relaxed)
    }

    /// The newest block with this tag that as many nodes have as must agree. Nodes whose newest
    /// block is from before `recent` count only when no others are left. A block that is ahead of
    /// `now` is an error.
    pub async fn head(&self, tag: BlockTag, recent: UnixSeconds, now: UnixSeconds) -> Result<Header, ChainError> {
        let head = self.newest_block(tag, recent).await?;
        if is_ahead(head.time, now) { Err(ChainError::Ahead(head.time.since(now))) } else { Ok(head) }
    }

    async fn newest_block(&self, tag: BlockTag, recent: UnixSeconds) -> Result<Header, ChainError> {
        let is_recent = |answers: &&Answers| header_in(answers).is_some_and(|header| header.time >= recent);
        let is_enough = |collected: &[Answers]| collected.iter().filter(is_recent).count() >= self.agree;
        let question = [Question::Block(tag)];
        let first = self.collect(&question, is_enough, GRACE).await?;
        match self.agreed_head(tag, &first).await {
            Ok(head) if head.time >= recent => return Ok(head),
            // All nodes that there are were asked already.
            outcome if self.agree == 1 => return outcome,
            _ => {}
        }
        // One of the first to answer is behind, or ahead on a fork of its own: ask them all.
        let all = self.collect(&question, |_| false, GRACE).await?;
        self.agreed_head(tag, &all).await
    }

    /// The highest of the blocks in these answers that as many nodes have as must agree.
    async fn agreed_head(&self, tag: BlockTag, answers: &[Answers]) -> Result<Header, ChainError> {
        let what = newest_of(tag);
        let mut heads: Vec<Header> = answers.iter().filter_map(|answers| header_in(answers)).collect();
        if heads.len() < self.agree {
            let refusal = answers.iter().find_map(|answers| answers.first()?.as_ref().err()).cloned();
            return Err(refusal.map_or(ChainError::NoBlock(what), |refusal| ChainError::Refused { what, refusal }));
        }
        heads.sort_by_key(|header| std::cmp::Reverse(header.number));
        if self.agree == 1 {
            return heads.first().copied().ok_or(ChainError::NoBlock(what));
        }
        let mut numbers: Vec<u64> = heads.iter().skip(self.agree - 1).map(|header| header.number).collect();
        numbers.dedup();
        let mut outcome = Err(ChainError::NoBlock(what));
        for number in numbers {
            outcome = self.block(number, what).await.and_then(|block| block.ok_or(ChainError::NoBlock(what)));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The block of a height; `None` when the nodes have none.
    pub async fn block(&self, number: u64, what: &'static str) -> Result<Option<Header>, ChainError> {
        match self.ask_one(Question::Block(BlockTag::Number(number)), what).await? {
            Answer::Block(header) => Ok(header),
            _ => Err(ChainError::NoBlock(what)),
        }
    }

    /// Asks one question that the nodes must not refuse.
    pub async fn ask_one(&self, question: Question, what: &'static str) -> Result<Answer, ChainError> {
        let mut answers = self.ask(&[question], what).await?;
        let answer = answers.pop().ok_or(ChainError::NoBlock(what))?;
        answer.map_err(|refusal| ChainError::Refused { what, refusal })
    }

    /// Asks questions in one round trip. The answers are in the order of the questions. A question
    /// is refused when too few nodes answered it the same and one of them refused it.
    pub async fn ask(&self, questions: &[Question], what: &'static str) -> Result<Answers, ChainError> {
        let is_decided = |collected: &[Answers]| {
            (0..questions.len()).all(|index| self.winner(collected, index).is_some_and(|answer| !is_nothing(answer)))
        };
        let collected = self.collect(questions, is_decided, Duration::ZERO).await?;
        let decide = |index| match self.winner(&collected, index) {
            Some(answer) => {
                let others =
                    collected.iter().filter(|answers| answers[index].as_ref().is_ok_and(|other| other != answer));
                self.outvoted.fetch_add(others.count() as u64, Ordering::Relaxed);
                Ok(Ok(answer.clone()))
            }
            None => match collected.iter().find_map(|answers| answers[index].as_ref().err()) {
                Some(refusal) => Ok(Err(refusal.clone())),
                None => Err(ChainError::Disagreement { agree: self.agree, what }),
            },
        };
        (0..questions.len()).map(decide).collect()
    }

    /// The answer that as many nodes gave as must agree. That there is no such block counts only
    /// when no other answer does, because a node that is behind says so, too.
    fn winner<'a>(&self, collected: &'a [Answers], index: usize) -> Option<&'a Answer> {
        let given = || collected.iter().filter_map(|answers| answers[index].as_ref().ok());
        let agreed = || given().filter(|answer| given().filter(|other| other == answer).count() >= self.agree);
        agreed().find(|answer| !is_nothing(answer)).or_else(|| agreed().next())
    }

    /// Asks the nodes until `is_enough`: one after the other when one answer is enough, otherwise
    /// all at once, so that a node that hangs delays nothing once enough others agree. Then the
    /// answers that come within `grace` are collected, too.
    async fn collect(
        &self,
        questions: &[Question],
        is_enough: impl Fn(&[Answers]) -> bool,
        grace: Duration,
    ) -> Result<Vec<Answers>, ChainError> {
        let (mut collected, mut reasons) = (Vec::new(), Vec::new());
        let preferred = self.preferred.load(Ordering::Relaxed).min(self.nodes.len());
        let order = (preferred..self.nodes.len()).chain(0..preferred);
        let asked = order.map(|index| async move { (index, self.nodes[index].ask(questions, self.chain_id).await) });
        let mut keep = |(index, answers): (usize, Result<Answers, NodeFailure>)| match answers {
            Ok(answers) => {
                collected.push(answers);
                let is_enough = is_enough(&collected);
                if is_enough {
                    self.preferred.store(index, Ordering::Relaxed);
                }
                is_enough
            }
            Err(failure) => {
                reasons.push(format!("{}: {failure}", self.nodes[index].node.name()));
                false
            }
        };
        if self.agree == 1 {
            for asking in asked {
                if keep(asking.await) {
                    break;
                }
            }
        } else {
            let mut asked: FuturesUnordered<_> = asked.collect();
            let mut deadline = None;
            while let Some(answered) = next_until(&mut asked, deadline).await {
                if keep(answered) && deadline.is_none() {
                    deadline = Some(Instant::now() + grace);
                }
            }
        }
        if collected.len() < self.agree {
            let reasons = reasons.join("; ");
            return Err(ChainError::TooFew { answered: collected.len(), agree: self.agree, reasons });
        }
        Ok(collected)
    }
}

/// The next answer, if it comes before the deadline.
async fn next_until<F: Future>(asked: &mut FuturesUnordered<F>, deadline: Option<Instant>) -> Option<F::Output> {
    match deadline {
        None => asked.next().await,
        Some(deadline) => timeout_at(deadline, asked.next()).await.ok().flatten(),
    }
}

/// The block in the answer to a single question.
fn header_in(answers: &[Result<Answer, Refusal>]) -> Option<Header> {
    match answers.first() {
        Some(Ok(Answer::Block(header))) => *header,
        _ => None,
    }
}

/// The newest block with a tag, for messages.
fn newest_of(tag: BlockTag) -> &'static str {
    match tag {
        BlockTag::Latest | BlockTag::Number(_) => "the newest block",
        BlockTag::Safe => "the newest block that is `safe`",
        BlockTag::Finalized => "the newest block that is `finalized`",
    }
}

/// Whether an answer says that there is no such block.
fn is_nothing(answer: &Answer) -> bool {
    *answer == Answer::Block(None)
}

fn has_logs(questions: &[Question]) -> bool {
    questions.iter().any(|question| matches!(question, Question::Logs { .. }))
}

/// Whether a failure has nothing to do with what was asked.
fn is_about_the_node(error: &NodeError) -> bool {
    matches!(error, NodeError::Unreachable(_) | NodeError::RateLimited { .. })
}

/// A place in the pace of a node, which is given back when it is dropped unused: the caller stops
/// waiting when enough other nodes have answered.
struct Reservation<'a> {
    member: &'a Member,
    at: Instant,
    questions: usize,
    is_used: bool,
}

impl<'a> Reservation<'a> {
    fn take(member: &'a Member, questions: usize) -> Self {
        let at = member.lock_pace().reserve(questions, Instant::now());
        Self { member, at, questions, is_used: false }
    }

    /// The questions are put.
    fn use_up(mut self) {
        self.is_used = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.member.lock_pace().give_back(self.at, self.questions);
        }
    }
}

impl Member {
    /// Asks the node, after it has named the chain's id, in as many round trips as its pace wants.
    async fn ask(&self, questions: &[Question], chain_id: u64) -> Result<Answers, NodeFailure> {
        let is_checked = self.lock().ready()?;
        let answered = match self.check_chain(is_checked, chain_id).await {
            Ok(()) => self.ask_all(questions).await,
            Err(failure) => Err(failure),
        };
        let mut state = self.lock();
        match answered {
            // A failure for one range of blocks is shown, and is no reason to ask nothing else.
            Ok((answers, failure)) => {
                state.is_checked = true;
                if failure.is_none() {
                    state.answered = Some(Instant::now());
                }
                // An answer that was on its way ends no pause.
                if state.ready().is_ok() {
                    state.failure = failure.map(|failure| (failure, Instant::now()));
                }
                Ok(answers)
            }
            Err(failure) => Err(state.fail(failure)),
        }
    }

    /// The answers, and why an answer with logs failed.
    async fn ask_all(&self, questions: &[Question]) -> Result<(Answers, Option<String>), NodeFailure> {
        let (mut answers, mut failed) = (Answers::with_capacity(questions.len()), None);
        let mut rest = questions;
        while !rest.is_empty() {
            let most = self.lock_pace().most_questions().min(rest.len());
            let (asked, later) = rest.split_at(most);
            rest = later;
            match self.ask_at_pace(asked).await {
                Ok(given) => answers.extend(given),
                // The question may be too much for the node, or for a gateway in front of it, which
                // can say so in any way. Questions about fewer blocks get shorter answers sooner.
                Err(NodeFailure::Node(error)) if has_logs(asked) && !is_about_the_node(&error) => {
                    let refusal = Refusal { code: 0, message: error.to_string() };
                    failed = Some(refusal.message.clone());
                    answers.extend(vec![Err(refusal); asked.len()]);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok((answers, failed))
    }

    /// Asks in one round trip, when it is time to.
    async fn ask_at_pace(&self, questions: &[Question]) -> Result<Answers, NodeFailure> {
        let reserved = Reservation::take(self, questions.len());
        let at = reserved.at;
        if at > Instant::now() {
            sleep_until(at).await;
            // The node may have failed meanwhile.
            self.lock().ready()?;
        }
        reserved.use_up();
        match self.node.ask(questions).await {
            Ok(answers) if answers.len() == questions.len() => Ok(answers),
            Ok(_) => Err(NodeError::Malformed("it does not answer each question".to_owned()).into()),
            Err(error) => {
                if matches!(error, NodeError::RateLimited { .. }) {
                    self.lock_pace().slow_down(at, Instant::now());
                }
                Err(error.into())
            }
        }
    }

    async fn check_chain(&self, is_checked: bool, expected: u64) -> Result<(), NodeFailure> {
        if is_checked {
            return Ok(());
        }
        match self.ask_at_pace(&[Question::ChainId]).await?.pop() {
            Some(Ok(Answer::ChainId(found))) if found == expected => Ok(()),
            Some(Ok(Answer::ChainId(found))) => Err(NodeFailure::OtherChain { found, expected }),
            Some(Err(refusal)) => Err(NodeFailure::ChainId(refusal)),
            _ => Err(NodeFailure::NoChainId),
        }
    }

    fn lock(&self) -> MutexGuard<'_, MemberState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemberState {
    /// Whether the node has named its chain; an error while it is not asked.
    fn ready(&self) -> Result<bool, NodeFailure> {
        match &self.failure {
            Some((failure, until)) if *until > Instant::now() => Err(NodeFailure::Waiting(failure.clone())),
            _ => Ok(self.is_checked),
        }
    }

    /// Records a failure. The node names its chain again before it is asked anything else: behind
    /// its address there may be another one by then. A node that asks for fewer questions gets no
    /// further one.
    fn fail(&mut self, failure: NodeFailure) -> NodeFailure {
        let pause = match &failure {
            // It was not asked.
            NodeFailure::Waiting(_) => return failure,
            NodeFailure::Node(NodeError::RateLimited { retry_after, .. }) => {
                retry_after.unwrap_or_default().clamp(RATE_PAUSE, LONGEST_PAUSE)
            }
            NodeFailure::OtherChain { .. } => OTHER_CHAIN_PAUSE,
            NodeFailure::Node(NodeError::Unreachable(_)) | NodeFailure::ChainId(_) | NodeFailure::NoChainId => PAUSE,
            // The answer to one question says nothing about others: contracts share a node.
            _ => Duration::ZERO,
        };
        self.is_checked &= matches!(failure, NodeFailure::Node(NodeError::RateLimited { .. }));
        self.failure = Some((failure.to_string(), Instant::now() + pause));
        failure
    }
}
