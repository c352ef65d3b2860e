//! The election in etcd: the leader is the replica that created the leader's key.
//!
//! The key belongs to a lease. A leader that no longer keeps its lease alive loses the key, and
//! another replica creates it; the revision of etcd at which it does is the term.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use etcd_client::{Client, Compare, CompareOp, Error, KeyValue, PutOptions, Txn, TxnOp, WatchFilterType, WatchOptions};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::{Election, ElectionError, Leadership};
use selfsame_storage::Term;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::etcd::{Etcd, EtcdError, LeaderRecord};

/// How long a leader leads that etcd hears nothing of, in seconds. etcd rounds less than two
/// seconds up.
pub const LEASE_SECONDS: i64 = 3;

/// Time from one renewal of the lease to the next.
const RENEWAL_INTERVAL: Duration = Duration::from_millis(700);

/// How long a renewal waits for its answer, so that there is time to ask two other members.
const RENEWAL_PATIENCE: Duration = Duration::from_millis(700);

/// How long other questions wait for their answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// After this time without news of the leader's key, a candidate looks for itself. A member that
/// was stopped says nothing on a watch.
const SILENCE: Duration = Duration::from_secs(1);

/// The election of one cluster, as one replica takes part in it.
pub struct EtcdElection {
    etcd: Arc<Etcd>,
    record: LeaderRecord,
    /// Who led when etcd was asked last.
    seen: ArcSwapOption<LeaderRecord>,
    /// A lease of this process that ended here and could not be given back to etcd; 0 for no such
    /// lease. It can last longer than its time in etcd, where no lease ends while the members have
    /// no leader.
    left: Arc<AtomicI64>,
    lease_seconds: i64,
    /// Whether another replica runs that could lead.
    has_successor: Box<dyn Fn() -> bool + Send + Sync>,
}

impl EtcdElection {
    /// The election, for the replica that is described.
    pub fn new(etcd: Arc<Etcd>, record: LeaderRecord) -> Self {
        Self {
            etcd,
            record,
            seen: ArcSwapOption::empty(),
            left: Arc::default(),
            lease_seconds: LEASE_SECONDS,
            has_successor: Box::new(|| true),
        }
    }

    /// The election, for a replica that sees whether another one runs that could lead.
    pub fn with_successors(self, has_successor: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { has_successor: Box::new(has_successor), ..self }
    }

    /// The election, with another lease than that of the program.
    #[cfg(test)]
    pub fn with_lease(self, lease_seconds: i64) -> Self {
        Self { lease_seconds, ..self }
    }

    /// Who led when etcd was asked last; `None` when no replica did.
    pub fn last_seen(&self) -> Option<Arc<LeaderRecord>> {
        self.seen.load_full()
    }

    /// Asks etcd who leads.
    ///
    /// # Errors
    /// etcd gives no answer, or the value is not one of this program's.
    pub async fn look(&self) -> Result<Option<Arc<LeaderRecord>>, EtcdError> {
        self.leader_key().await?;
        Ok(self.last_seen())
    }

    async fn try_to_lead(&self) -> Result<Box<dyn Leadership>, EtcdError> {
        loop {
            match self.leader_key().await? {
                (Some(pair), _) if pair.lease() != 0 && pair.lease() == self.left.load(Ordering::Relaxed) => {
                    let id = pair.lease();
                    self.etcd.ask(PATIENCE, async |client| client.lease_client().revoke(id).await).await?;
                }
                (Some(_), revision) => self.await_end(revision + 1).await?,
                (None, _) => {
                    if let Some(lease) = self.create().await? {
                        return Ok(Box::new(lease));
                    }
                }
            }
        }
    }

    /// The leader's key, and the revision of etcd at which it was so.
    async fn leader_key(&self) -> Result<(Option<KeyValue>, i64), EtcdError> {
        let key = self.etcd.keys().leader();
        let question = async |client: Client| client.kv_client().get(key.clone(), None).await;
        let mut found = self.etcd.ask(PATIENCE, question).await?;
        let revision = found.header().map_or(0, |header| header.revision());
        let pair = found.take_kvs().pop();
        let record = pair.as_ref().map(|pair| serde_json::from_slice::<LeaderRecord>(pair.value()));
        self.seen.store(record.transpose().map_err(|_| EtcdError::Foreign { key: key.clone() })?.map(Arc::new));
        Ok((pair, revision))
    }

    /// Waits until the leader's key is deleted, at a revision of etcd or after, or for a while.
    async fn await_end(&self, revision: i64) -> Result<(), EtcdError> {
        let key = self.etcd.keys().leader();
        let options = WatchOptions::new().with_start_revision(revision).with_filters([WatchFilterType::NoPut]);
        let question = async |client: Client| client.watch_client().watch(key, Some(options)).await;
        let (mut watching, asked) = self.etcd.ask_of(PATIENCE, question).await?;
        let deleted = async {
            while let Ok(Some(change)) = watching.message().await {
                if change.canceled() || !change.events().is_empty() {
                    return;
                }
            }
            // The member ended the watch. It may not be well.
            self.etcd.leave(asked);
            sleep(RENEWAL_INTERVAL).await;
        };
        let _ = timeout(SILENCE, deleted).await;
        Ok(())
    }

    /// Creates the leader's key; `None` when another replica was faster.
    async fn create(&self) -> Result<Option<Lease>, EtcdError> {
        let granting = Instant::now();
        let granting_lease = async |client: Client| client.lease_client().grant(self.lease_seconds, None).await;
        let granted = self.etcd.ask(PATIENCE, granting_lease).await?;
        let (id, lifetime) = (granted.id(), Duration::from_secs(granted.ttl().unsigned_abs()));
        let key = self.etcd.keys().leader();
        let value = serde_json::to_vec(&self.record).unwrap_or_default();
        let put = TxnOp::put(key.clone(), value, Some(PutOptions::new().with_lease(id)));
        let transaction = Txn::new().when([Compare::create_revision(key, CompareOp::Equal, 0)]).and_then([put]);
        let lease = |term| Lease {
            etcd: Arc::clone(&self.etcd),
            id,
            term,
            lifetime,
            ends: Mutex::new(granting + lifetime),
            left: Arc::clone(&self.left),
        };
        match self.etcd.ask(PATIENCE, async |client| client.kv_client().txn(transaction).await).await {
            Ok(answer) if !answer.succeeded() => {
                lease(Term::default()).resign().await;
                Ok(None)
            }
            // After an error, too, the key may have been created.
            answer => match self.leader_key().await {
                Ok((Some(pair), _)) if pair.lease() == id => {
                    Ok(Some(lease(Term(pair.create_revision().unsigned_abs()))))
                }
                _ => {
                    lease(Term::default()).resign().await;
                    answer.map(|_| None)
                }
            },
        }
    }
}

impl Election for EtcdElection {
    fn campaign(&self) -> BoxFuture<'_, Result<Box<dyn Leadership>, ElectionError>> {
        self.try_to_lead().map(|led| led.map_err(undecided)).boxed()
    }

    fn leader(&self) -> BoxFuture<'_, Result<Option<String>, ElectionError>> {
        async {
            let seen = self.look().await.map_err(undecided)?;
            Ok(seen.map(|record| record.name.clone()))
        }
        .boxed()
    }

    fn has_successor(&self) -> bool {
        (self.has_successor)()
    }
}

fn undecided(error: EtcdError) -> ElectionError {
    ElectionError(error.to_string())
}

/// A lease of etcd, with the leader's key.
struct Lease {
    etcd: Arc<Etcd>,
    id: i64,
    term: Term,
    lifetime: Duration,
    /// When it ends, unless it is renewed.
    ends: Mutex<Instant>,
    /// See [`EtcdElection`].
    left: Arc<AtomicI64>,
}

impl Lease {
    fn ends(&self) -> MutexGuard<'_, Instant> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn keep_alive(&self) -> ElectionError {
        let mut last_error = None;
        loop {
            let (asking, ends) = (Instant::now(), *self.ends());
            let id = self.id;
            // The first answer comes with the streams of the renewal.
            let renewing = self.etcd.ask(RENEWAL_PATIENCE, async |client| client.lease_client().keep_alive(id).await);
            match tokio::select! {
                renewed = renewing => renewed.map(drop),
                () = sleep_until(ends) => return ended(last_error),
            } {
                Ok(()) => {
                    *self.ends() = asking + self.lifetime;
                    last_error = None;
                    sleep_until(asking + RENEWAL_INTERVAL).await;
                }
                Err(EtcdError::Failed { error: Error::LeaseKeepAliveError(reason), .. }) => {
                    return ElectionError(reason);
                }
                Err(error) => {
                    last_error = Some(error);
                    sleep(RENEWAL_INTERVAL / 10).await;
                }
            }
        }
    }
}

fn ended(last_error: Option<EtcdError>) -> ElectionError {
    ElectionError(match last_error {
        Some(error) => format!("the lease could not be renewed: {error}"),
        None => "the lease was not renewed in time".to_owned(),
    })
}

impl Leadership for Lease {
    fn term(&self) -> Term {
        self.term
    }

    fn keep(&self) -> BoxFuture<'_, ElectionError> {
        self.keep_alive().boxed()
    }

    fn resign(&self) -> BoxFuture<'_, ()> {
        async {
            let id = self.id;
            let revoked = self.etcd.ask(PATIENCE, async |client| client.lease_client().revoke(id).await).await;
            if let Err(error) = revoked {
                self.left.store(id, Ordering::Relaxed);
                tracing::debug!(%error, "a lease could not be revoked, and ends by itself");
            }
        }
        .boxed()
    }
}
