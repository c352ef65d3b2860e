//! The journal in etcd.
//!
//! An append is one transaction: if the leader's key was created at the leader's term, and the
//! journal ends before the entry's place, then put the entry and the new end. The term is a
//! revision of etcd, so it is never used twice; the key of an old leader is gone, and its append
//! fails whatever its clock says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, GetResponse, KvClient, Txn, TxnOp, TxnOpResponse,
    WatchFilterType, WatchOptions,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{FutureExt, StreamExt};
use selfsame_storage::{AppendError, Journal, JournalEntry, JournalError, Position, Term};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::etcd::{Asked, Etcd, EtcdError, LARGEST_ANSWER, entry_value, head_prefix, head_text, read_entry, read_head};

/// The longest time that an append or a question waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// After this time without an entry, etcd is asked for the entries again. A member that was stopped
/// says nothing on a watch, and the question shows it.
const SILENCE: Duration = Duration::from_secs(1);

/// Entries that are read in one question.
const PAGE: i64 = 16;

/// Entries that are read ahead of their reader.
const READ_AHEAD: usize = 16;

/// The journal of one cluster.
pub struct EtcdJournal {
    etcd: Arc<Etcd>,
    /// What asks etcd, also for threads without a runtime.
    runtime: Handle,
}

impl EtcdJournal {
    /// The journal. Call it in the runtime that is to ask etcd.
    pub fn new(etcd: Arc<Etcd>) -> Self {
        Self { etcd, runtime: Handle::current() }
    }

    /// Does work in the runtime; `None` when it panics, or the runtime ends.
    fn work<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'_, Option<T>> {
        let working = self.runtime.spawn(work);
        async { working.await.ok() }.boxed()
    }
}

impl Journal for EtcdJournal {
    fn append(&self, at: Position, term: Term, entry: Bytes) -> BoxFuture<'_, Result<(), AppendError>> {
        let etcd = Arc::clone(&self.etcd);
        let appending = self.work(async move { append(&etcd, at, term, &entry).await });
        let ended = || AppendError::Unknown(ENDED.to_owned());
        async move { appending.await.unwrap_or_else(|| Err(ended())) }.boxed()
    }

    fn follow(&self, after: Position) -> BoxStream<'_, Result<JournalEntry, JournalError>> {
        let (sender, entries) = mpsc::channel(READ_AHEAD);
        let reader = Reader { etcd: Arc::clone(&self.etcd), position: after, sender };
        self.runtime.spawn(reader.run());
        unfold(entries, |mut entries| async { entries.recv().await.map(|entry| (entry, entries)) }).boxed()
    }

    fn head(&self) -> BoxFuture<'_, Result<(Position, Term), JournalError>> {
        let etcd = Arc::clone(&self.etcd);
        let asking = self.work(async move { head(&etcd).await });
        async move { asking.await.unwrap_or_else(|| Err(JournalError::Unavailable(ENDED.to_owned()))) }.boxed()
    }

    fn truncate(&self, below: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        let etcd = Arc::clone(&self.etcd);
        let removing = self.work(async move { truncate(&etcd, below).await });
        async move { removing.await.unwrap_or_else(|| Err(JournalError::Unavailable(ENDED.to_owned()))) }.boxed()
    }
}

const ENDED: &str = "the task that asks etcd ended";

fn unavailable(error: EtcdError) -> JournalError {
    JournalError::Unavailable(error.to_string())
}

fn kv_client(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(LARGEST_ANSWER)
}

async fn append(etcd: &Etcd, at: Position, term: Term, entry: &[u8]) -> Result<(), AppendError> {
    let keys = etcd.keys();
    let (head_key, leader) = (keys.head(), keys.leader());
    if term == Term::default() {
        // A key that does not exist has the create revision 0.
        return Err(AppendError::Fenced);
    }
    let mut conditions = vec![Compare::create_revision(leader.clone(), CompareOp::Equal, term.0 as i64)];
    if at == Position(1) {
        conditions.push(Compare::create_revision(head_key.clone(), CompareOp::Equal, 0));
    } else {
        let before = Position(at.0.saturating_sub(1));
        conditions.push(Compare::value(head_key.clone(), CompareOp::Greater, head_prefix(before)));
        conditions.push(Compare::value(head_key.clone(), CompareOp::Less, head_prefix(at)));
    }
    let puts =
        [TxnOp::put(keys.entry(at), entry_value(term, entry), None), TxnOp::put(head_key, head_text(at, term), None)];
    let transaction = Txn::new().when(conditions).and_then(puts).or_else([TxnOp::get(leader, None)]);
    let answer = etcd.ask(PATIENCE, async |client| kv_client(&client).txn(transaction).await).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.is_full() => return Err(append_to_full(etcd, at, &error).await),
        Err(error) if error.is_too_large() => return Err(AppendError::TooLarge { length: entry.len() }),
        Err(error) if error.is_refusal() => return Err(AppendError::Unavailable(error.to_string())),
        Err(error) => return Err(AppendError::Unknown(error.to_string())),
    };
    if answer.succeeded() {
        return Ok(());
    }
    let leads = gets(answer.op_responses()).any(|found| is_created_at(&found, term));
    Err(if leads { AppendError::Taken } else { AppendError::Fenced })
}

/// The outcome of an append that etcd, being full, answered with an error. It may have made the
/// transaction all the same; whether it did is settled.
async fn append_to_full(etcd: &Etcd, at: Position, error: &EtcdError) -> AppendError {
    match head(etcd).await {
        Ok((end, _)) if end < at => AppendError::Unavailable(error.to_string()),
        Ok(_) => AppendError::Taken,
        Err(_) => AppendError::Unknown(error.to_string()),
    }
}

fn gets(responses: Vec<TxnOpResponse>) -> impl Iterator<Item = GetResponse> {
    responses.into_iter().filter_map(|response| match response {
        TxnOpResponse::Get(found) => Some(found),
        _ => None,
    })
}

fn is_created_at(found: &GetResponse, term: Term) -> bool {
    found.kvs().iter().any(|pair| pair.create_revision() == term.0 as i64)
}

async fn head(etcd: &Etcd) -> Result<(Position, Term), JournalError> {
    let key = etcd.keys().head();
    let found = etcd.ask(PATIENCE, async |client| client.kv_client().get(key, None).await).await;
    read_end(etcd, &found.map_err(unavailable)?)
}

/// The journal's end as etcd answered.
fn read_end(etcd: &Etcd, found: &GetResponse) -> Result<(Position, Term), JournalError> {
    match found.kvs().first() {
        None => Ok(Default::default()),
        Some(pair) => {
            read_head(pair.value()).ok_or_else(|| unavailable(EtcdError::Foreign { key: etcd.keys().head() }))
        }
    }
}

async fn truncate(etcd: &Etcd, below: Position) -> Result<(), JournalError> {
    let keys = etcd.keys();
    let (first, end) = (keys.entry(Position(0)), keys.entry(below));
    let kept = GetOptions::new().with_range(keys.after_entries()).with_limit(1).with_keys_only();
    let removed = etcd_client::DeleteOptions::new().with_range(end.clone());
    let transaction = Txn::new().and_then([TxnOp::delete(first, Some(removed)), TxnOp::get(end, Some(kept))]);
    let answer = etcd.ask(PATIENCE, async |client| client.kv_client().txn(transaction).await).await;
    let answer = answer.map_err(unavailable)?;
    let now = answer.header().map_or(0, |header| header.revision());
    // Followers of what is kept watch from its first entry on, or from later.
    let first_kept = gets(answer.op_responses()).find_map(|found| Some(found.kvs().first()?.create_revision()));
    let revision = first_kept.unwrap_or(now);
    let compacted = etcd.ask(PATIENCE, async |client| client.kv_client().compact(revision, None).await).await;
    match compacted {
        Ok(_) => Ok(()),
        Err(error) if error.is_compacted() => Ok(()),
        Err(error) => Err(unavailable(error)),
    }
}

/// Reads the entries after a position for one follower.
struct Reader {
    etcd: Arc<Etcd>,
    /// The last entry that was sent.
    position: Position,
    sender: mpsc::Sender<Result<JournalEntry, JournalError>>,
}

/// Why a reader stops.
enum Stop {
    /// The follower was dropped.
    Unread,
    Failed(JournalError),
}

impl From<EtcdError> for Stop {
    fn from(error: EtcdError) -> Self {
        Self::Failed(unavailable(error))
    }
}

impl Reader {
    async fn run(mut self) {
        let sender = self.sender.clone();
        let stopped = tokio::select! {
            stopped = self.read() => stopped,
            () = sender.closed() => return,
        };
        if let Stop::Failed(error) = stopped {
            let _ = sender.send(Err(error)).await;
        }
    }

    async fn read(&mut self) -> Stop {
        loop {
            let read = async {
                let revision = self.read_pages().await?;
                self.watch(revision + 1).await
            };
            if let Err(stop) = read.await {
                return stop;
            }
        }
    }

    /// Sends the entries that there are. Returns the revision of etcd at which these were all.
    async fn read_pages(&mut self) -> Result<i64, Stop> {
        loop {
            let keys = self.etcd.keys();
            let options = GetOptions::new().with_range(keys.after_entries()).with_limit(PAGE);
            let entries = TxnOp::get(keys.entry(self.position.next()), Some(options));
            let transaction = Txn::new().and_then([TxnOp::get(keys.head(), None), entries]);
            let question = async |client: Client| kv_client(&client).txn(transaction).await;
            let answer = self.etcd.ask(PATIENCE, question).await?;
            let revision = answer.header().map_or(0, |header| header.revision());
            let found: Vec<_> = gets(answer.op_responses()).collect();
            let [head, page] = &*found else { return Err(self.foreign(self.etcd.keys().head())) };
            let (end, _) = read_end(&self.etcd, head).map_err(Stop::Failed)?;
            if page.kvs().is_empty() {
                return match end > self.position {
                    true => Err(Stop::Failed(JournalError::Truncated(end.next()))),
                    false => Ok(revision),
                };
            }
            for pair in page.kvs() {
                self.send(pair.key(), pair.value()).await?;
            }
            if !page.more() {
                return Ok(revision);
            }
        }
    }

    /// Sends the entries that are put, from a revision of etcd on. Returns after a while without
    /// one, and when etcd no longer has what comes next as a change.
    async fn watch(&mut self, revision: i64) -> Result<(), Stop> {
        let keys = self.etcd.keys();
        let options = WatchOptions::new()
            .with_range(keys.after_entries())
            .with_start_revision(revision)
            .with_filters([WatchFilterType::NoDelete])
            .with_fragment();
        let first = keys.entry(Position(0));
        let question = async |client: Client| {
            client.watch_client().max_decoding_message_size(LARGEST_ANSWER).watch(first, Some(options)).await
        };
        let (mut watching, asked) = self.etcd.ask_of(PATIENCE, question).await?;
        loop {
            let change = match timeout(SILENCE, watching.message()).await {
                Err(_) => return Ok(()),
                Ok(Ok(Some(change))) => change,
                Ok(Ok(None)) => return Err(self.unwatched(asked, "the member closed it")),
                Ok(Err(error)) => return Err(self.unwatched(asked, &error.to_string())),
            };
            for event in change.events() {
                if let (EventType::Put, Some(pair)) = (event.event_type(), event.kv()) {
                    self.send(pair.key(), pair.value()).await?;
                }
            }
            if change.canceled() {
                return match change.compact_revision() {
                    0 => Err(self.unwatched(asked, change.cancel_reason())),
                    _ => Ok(()),
                };
            }
        }
    }

    /// The member ended the watch, so another one is asked next.
    fn unwatched(&self, asked: Asked, reason: &str) -> Stop {
        self.etcd.leave(asked);
        Stop::Failed(JournalError::Unavailable(format!("the watch of etcd ended: {reason}")))
    }

    /// Sends an entry, unless it was sent before.
    async fn send(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        let name = || String::from_utf8_lossy(key).into_owned();
        let position = self.etcd.keys().position(key).ok_or_else(|| self.foreign(name()))?;
        if position <= self.position {
            return Ok(());
        }
        if position != self.position.next() {
            return Err(Stop::Failed(JournalError::Truncated(position)));
        }
        let entry = read_entry(position, value).ok_or_else(|| self.foreign(name()))?;
        self.sender.send(Ok(entry)).await.map_err(|_| Stop::Unread)?;
        self.position = position;
        Ok(())
    }

    fn foreign(&self, key: String) -> Stop {
        EtcdError::Foreign { key }.into()
    }
}
