//! A replica's place among the others: it publishes how far it is, sees how far the others are,
//! and the leader forgets the part of the journal that enough of them have.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use alloy_primitives::{B256, hex};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use selfsame_actors::{ReplicaStatus, Service};
use selfsame_storage::{Journal, Membership, Position};
use tokio::time::{Instant, sleep, sleep_until};

use super::etcd::{ClusterRecord, Etcd, EtcdError, ReplicaRecord};
use super::journal::EtcdJournal;
use super::membership::{MembershipError, is_truncated, read, replicas};

/// Time from one record of a replica to its next one.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Time from one truncation of the journal to the next.
const TRUNCATE_INTERVAL: Duration = Duration::from_secs(10);

/// A replica that has written no record for this long is not running, or cut off.
pub const SILENT_AFTER: Duration = Duration::from_secs(5);

/// A leader that no other replica has reached for this long leaves the leadership to one that is
/// reached.
const UNREACHED_LIMIT: Duration = Duration::from_secs(10);

/// How long a daemon watches a record of its name before it takes the name over.
const NAME_PATIENCE: Duration = Duration::from_secs(3);

/// The part of its quota that etcd may use before nothing more is written, in percent.
const MOST_USED: u64 = 85;

/// How long a question to etcd waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a running replica ends.
#[derive(Debug, thiserror::Error)]
pub enum RemovedError {
    /// `selfsame cluster remove`.
    #[error(
        "this replica was removed from the cluster; it joins again when it is started with an empty data folder, or with \
         this one"
    )]
    Removed,
    /// etcd has nothing of the cluster any more.
    #[error(
        "etcd has lost the cluster's data; start again when etcd has them. If they are gone for good, make the replica that \
         led last alone with `selfsame cluster leave`, start it, and start the others with empty data folders"
    )]
    ClusterLost,
    /// Another replica has the name.
    #[error(transparent)]
    NameTaken(MembershipError),
    /// The journal no longer has what the store lacks.
    #[error(
        "the journal no longer has entry {0}, which the store lacks; the next start copies the store of another replica"
    )]
    LeftBehind(Position),
    /// Others have another result of a block.
    #[error(
        "the result of block {height} is {own:#x} here and {other:#x} at {replica}: the store of this replica, or its \
         program, is not like that of the others. Nothing more is served from it. Compare the versions, run `selfsame \
         registry fsck`, keep the data folder for the investigation, and start with an empty one"
    )]
    Apart {
        /// Height of the block.
        height: u64,
        /// Hash of its result here.
        own: B256,
        /// Hash of its result there.
        other: B256,
        /// Name of the other replica.
        replica: String,
    },
}

/// What a replica sees of another one.
#[derive(Clone, Debug)]
pub struct SeenReplica {
    /// What it published last.
    pub record: ReplicaRecord,
    /// When this was seen to change last.
    pub changed_at: Instant,
}

/// What a replica sees of its cluster.
pub struct ClusterView {
    etcd: Arc<Etcd>,
    name: String,
    replicas: Mutex<Vec<SeenReplica>>,
    /// The other replicas that run. Of one that the last attempt did not reach: since when, and
    /// why.
    reached: Mutex<BTreeMap<String, Option<(Instant, String)>>>,
    /// When this replica found itself among the replicas in etcd first.
    listed_at: OnceLock<Instant>,
}

impl ClusterView {
    /// The name of this replica.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes a replica from the cluster. When it runs, it ends; the others no longer wait for it
    /// before they forget a part of the journal. Returns whether there was one of this name.
    ///
    /// # Errors
    /// etcd gives no answer.
    pub async fn remove(&self, name: &str) -> Result<bool, EtcdError> {
        let key = self.etcd.keys().replica(name);
        let removed = self.etcd.ask(PATIENCE, async |client| client.kv_client().delete(key, None).await).await?;
        Ok(removed.deleted() > 0)
    }

    /// Whether the other replicas have had the time to see this one.
    pub fn is_known(&self) -> bool {
        self.listed_at.get().is_some_and(|listed_at| listed_at.elapsed() >= 2 * PUBLISH_INTERVAL)
    }

    /// The replicas that run, as far as this one sees; `None` before it has looked.
    pub fn running(&self) -> Option<Vec<String>> {
        self.listed_at.get()?;
        let seen = self.replicas().into_iter().filter(|seen| seen.changed_at.elapsed() <= SILENT_AFTER);
        Some(seen.map(|seen| seen.record.name).collect())
    }

    /// Whether another replica runs that could lead in place of this one.
    pub fn has_successor(&self) -> bool {
        self.running_others().iter().any(|record| !record.unfit)
    }

    /// How long this replica has not reached another one, and why; `None` when it has, and for one
    /// that does not run.
    pub fn unreached(&self, name: &str) -> Option<(Duration, String)> {
        let (since, reason) = self.reached().get(name)?.clone()?;
        Some((since.elapsed(), reason))
    }

    /// Takes over the outcome of an attempt to reach each of the other replicas that run.
    pub fn note_reached(&self, outcomes: impl Iterator<Item = (String, Result<(), String>)>) {
        let mut reached = self.reached();
        let now = Instant::now();
        let noted = outcomes.map(|(name, outcome)| {
            let failing_since = reached.get(&name).and_then(Option::as_ref).map_or(now, |(since, _)| *since);
            (name, outcome.err().map(|reason| (failing_since, reason)))
        });
        *reached = noted.collect();
    }

    /// [`ReplicaRecord::unreached`] of this replica.
    fn unreached_seconds(&self) -> BTreeMap<String, u64> {
        let seconds = |failing: &Option<(Instant, String)>| {
            // An attempt that has just failed is no success.
            failing.as_ref().map_or(0, |(since, _)| since.elapsed().as_secs().max(1))
        };
        self.reached().iter().map(|(name, failing)| (name.clone(), seconds(failing))).collect()
    }

    fn reached(&self) -> MutexGuard<'_, BTreeMap<String, Option<(Instant, String)>>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the other replicas that run have published.
    fn running_others(&self) -> Vec<ReplicaRecord> {
        let others = self.replicas().into_iter().filter(|seen| seen.changed_at.elapsed() <= SILENT_AFTER);
        others.map(|seen| seen.record).filter(|record| record.name != self.name).collect()
    }

    /// The replicas, in the order of their names.
    pub fn replicas(&self) -> Vec<SeenReplica> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, mut found: Vec<ReplicaRecord>) {
        let now = Instant::now();
        let mut seen = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let replicas = found.into_iter().map(|record| {
            let before = seen.iter().find(|before| before.record == record);
            let changed_at = before.map_or(now, |before| before.changed_at);
            SeenReplica { record, changed_at }
        });
        *seen = replicas.collect();
        if seen.iter().any(|seen| seen.record.name == self.name) {
            self.listed_at.get_or_init(|| now);
        }
    }
}

/// A replica that is registered in etcd.
pub struct Registration {
    etcd: Arc<Etcd>,
    journal: EtcdJournal,
    record: ReplicaRecord,
    /// The revision of etcd at which the record was created; 0 while it is not.
    created: i64,
    view: Arc<ClusterView>,
    /// How long an entry stays in the journal at least, for replicas that are restarted or copied.
    retention: Duration,
    /// etcd's quota in bytes.
    quota: u64,
    /// Whether etcd did not say how full it is, the last time.
    is_room_unknown: bool,
    /// Ends of the journal, with the times at which they were seen, the oldest first.
    ends: Vec<(Instant, Position)>,
    /// The replicas that had the same results when they were compared last.
    alike: HashSet<String>,
}

impl Registration {
    /// Registers a replica. Waits for a while when another one has the name.
    ///
    /// # Errors
    /// [`MembershipError::NameTaken`] when that one runs.
    pub async fn begin(
        etcd: Arc<Etcd>,
        name: &str,
        address: String,
        membership: &Membership,
        (retention, quota): (Duration, u64),
    ) -> Result<Self, MembershipError> {
        let record = ReplicaRecord {
            name: name.to_owned(),
            store_id: hex::encode(membership.store),
            address,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ReplicaRecord::default()
        };
        let journal = EtcdJournal::new(Arc::clone(&etcd));
        let view = ClusterView {
            etcd: Arc::clone(&etcd),
            name: name.to_owned(),
            replicas: Mutex::default(),
            reached: Mutex::default(),
            listed_at: OnceLock::new(),
        };
        let (ends, alike, view) = (Vec::new(), HashSet::new(), Arc::new(view));
        let registration =
            Self { etcd, journal, record, created: 0, view, retention, quota, is_room_unknown: false, ends, alike };
        match registration.is_name_taken().await {
            Ok(true) => return Err(MembershipError::NameTaken { name: name.to_owned() }),
            Ok(false) => {}
            // A replica answers reads without etcd.
            Err(error) => tracing::warn!(%error, "etcd does not say whether another replica has this name"),
        }
        Ok(registration)
    }

    /// What this replica sees of its cluster.
    pub fn view(&self) -> Arc<ClusterView> {
        Arc::clone(&self.view)
    }

    /// Publishes, looks and truncates until this replica must end.
    pub async fn run(mut self, service: Arc<Service>) -> RemovedError {
        let mut next_truncation = Instant::now();
        let mut has_failed = false;
        loop {
            let next = Instant::now() + PUBLISH_INTERVAL;
            match self.step(&service, &mut next_truncation).await {
                Ok(None) => has_failed = false,
                Ok(Some(removed)) => return removed,
                // A failure in a row is logged once.
                Err(error) if has_failed => tracing::debug!(%error, "etcd does not say how far the replicas are"),
                Err(error) => {
                    has_failed = true;
                    tracing::warn!(%error, "etcd does not say how far the replicas are");
                }
            }
            sleep_until(next).await;
        }
    }

    async fn step(
        &mut self,
        service: &Service,
        next_truncation: &mut Instant,
    ) -> Result<Option<RemovedError>, EtcdError> {
        let Some(status) = service.replica_status() else { return Ok(None) };
        let snapshot = service.registry().snapshot();
        self.record.position = status.position.0;
        self.record.synced = status.synced.0;
        self.record.height = snapshot.tip().seal.height;
        self.record.result = snapshot.tip().result_hash;
        self.record.beat += 1;
        self.record.unreached = self.view.unreached_seconds();
        self.record.unfit = status.is_unfit;
        drop(snapshot);
        if let Some(end) = status.end {
            self.note_end(end);
        }
        if status.leading.is_some() && Instant::now() >= *next_truncation {
            // Also while etcd is so full that it takes nothing: this makes room.
            *next_truncation = Instant::now() + TRUNCATE_INTERVAL;
            self.truncate().await;
        }
        service.hold_writes(self.shortage().await);
        if let Some(removed) = self.publish().await? {
            return Ok(Some(removed));
        }
        self.view.update(replicas(&self.etcd).await?);
        if status.leading.is_some() && should_give_way(&self.record, &self.view.running_others()) {
            let seconds = UNREACHED_LIMIT.as_secs();
            tracing::warn!(seconds, "no other replica reaches this one, which leads: it leaves that to another one");
            service.step_down();
        }
        if let Some(apart) = self.compare(service, status.leading.is_some()) {
            return Ok(Some(apart));
        }
        if is_behind(&status) && is_truncated(&self.journal, status.position).await {
            return Ok(Some(RemovedError::LeftBehind(status.position.next())));
        }
        Ok(None)
    }

    /// Writes this replica's record, if it is still that of this one.
    async fn publish(&mut self) -> Result<Option<RemovedError>, EtcdError> {
        let key = self.etcd.keys().replica(&self.record.name);
        let value = serde_json::to_vec(&self.record).unwrap_or_default();
        let is_mine =
            (self.created != 0).then(|| Compare::create_revision(key.clone(), CompareOp::Equal, self.created));
        let transaction = Txn::new().when(Vec::from_iter(is_mine)).and_then([TxnOp::put(key.clone(), value, None)]);
        let answer = self.etcd.ask(PATIENCE, async |client| client.kv_client().txn(transaction).await).await?;
        if !answer.succeeded() {
            return Ok(Some(match self.find().await? {
                Some(other) if other.store_id != self.record.store_id => {
                    RemovedError::NameTaken(MembershipError::NameTaken { name: self.record.name.clone() })
                }
                _ if read::<ClusterRecord>(&self.etcd, self.etcd.keys().cluster()).await?.is_none() => {
                    RemovedError::ClusterLost
                }
                _ => RemovedError::Removed,
            }));
        }
        if self.created == 0 {
            let question = async |client: Client| client.kv_client().get(key, None).await;
            let found = self.etcd.ask(PATIENCE, question).await?;
            self.created = found.kvs().first().map_or(0, etcd_client::KeyValue::create_revision);
        }
        Ok(None)
    }

    /// Whether another replica of this name runs. It is watched for a while: one that runs writes
    /// its record again.
    async fn is_name_taken(&self) -> Result<bool, EtcdError> {
        let is_other = |record: &ReplicaRecord| record.store_id != self.record.store_id;
        let Some(other) = self.find().await?.filter(is_other) else { return Ok(false) };
        sleep(NAME_PATIENCE).await;
        Ok(self.find().await?.is_some_and(|later| later != other))
    }

    async fn find(&self) -> Result<Option<ReplicaRecord>, EtcdError> {
        let found = replicas(&self.etcd).await?;
        Ok(found.into_iter().find(|record| record.name == self.record.name))
    }

    /// Compares the results of blocks with those of the others. Where the replicas do not agree,
    /// the smaller part ends, or, of equal parts, the one that does not lead.
    fn compare(&mut self, service: &Service, is_leading: bool) -> Option<RemovedError> {
        let (mut alike, mut different) = (1, Vec::new());
        for SeenReplica { record, changed_at } in self.view.replicas() {
            if record.name == self.record.name || record.height == 0 || changed_at.elapsed() > SILENT_AFTER {
                continue;
            }
            match service.registry().result_hash(record.height) {
                Ok(Some(own)) if own == record.result => {
                    self.alike.insert(record.name);
                    alike += 1;
                }
                Ok(Some(own)) => {
                    self.alike.remove(&record.name);
                    different.push((record, own));
                }
                // It is ahead of this one, and was alike before.
                _ if self.alike.contains(&record.name) => alike += 1,
                // Nothing can be decided before this one has that block.
                _ => return None,
            }
        }
        let (record, own) = different.first()?;
        let ends = alike < different.len() || (alike == different.len() && !is_leading);
        let (height, other, replica) = (record.height, record.result, record.name.clone());
        if !ends {
            tracing::error!(height, %own, %other, replica, "a replica has another result of a block");
            return None;
        }
        Some(RemovedError::Apart { height, own: *own, other, replica })
    }

    /// Why nothing more should be written to etcd; `None` while it has room.
    async fn shortage(&mut self) -> Option<String> {
        let status = self.etcd.ask(PATIENCE, async |client| client.maintenance_client().status().await).await;
        // An etcd that says nothing about its room may still take entries. Some versions tell it to
        // the role root alone.
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                if !std::mem::replace(&mut self.is_room_unknown, true) {
                    tracing::warn!(%error, "etcd does not say how full it is, so writes do not stop before it is full");
                }
                return None;
            }
        };
        self.is_room_unknown = false;
        // Pages that are free are used again, without etcd's file growing.
        let used = status.raft_used_db_size().unsigned_abs();
        let most = self.quota / 100 * MOST_USED;
        (used > most).then(|| {
            format!(
                "etcd uses {} of {} MiB; give its members a greater --quota-backend-bytes and set cluster.etcd_quota_mib, \
                 or shorten cluster.journal_retention",
                used >> 20,
                self.quota >> 20
            )
        })
    }

    /// Notes an end of the journal, and forgets those that are older than is of use.
    fn note_end(&mut self, end: Position) {
        let now = Instant::now();
        self.ends.push((now, end));
        // Of the old ones, the newest is of use.
        let old = self.ends.iter().take_while(|(seen_at, _)| now.duration_since(*seen_at) >= self.retention).count();
        self.ends.drain(..old.saturating_sub(1));
    }

    /// Removes the entries that a majority of the replicas has on its disks, and that are old.
    async fn truncate(&self) {
        let old = self.ends.first().filter(|(seen_at, _)| seen_at.elapsed() >= self.retention);
        let Some((_, old)) = old.copied() else { return };
        let synced = self.view.replicas().iter().map(|seen| Position(seen.record.synced)).collect();
        let below = old.min(synced_by_a_majority(synced)).next();
        if let Err(error) = self.journal.truncate(below).await {
            tracing::warn!(%error, "the journal cannot be truncated");
        }
    }
}

/// Whether another replica should lead, because none of the others that run has reached the leader
/// for a while, and one of them is reached. Where no replica reaches any other one, a new leader
/// would be cut off like the old one.
fn should_give_way(leader: &ReplicaRecord, others: &[ReplicaRecord]) -> bool {
    let misses = |record: &ReplicaRecord| {
        record.unreached.get(&leader.name).is_some_and(|seconds| *seconds >= UNREACHED_LIMIT.as_secs())
    };
    let is_reached = |record: &ReplicaRecord| {
        let mut from = others.iter().chain([leader]).filter(|from| from.name != record.name);
        from.any(|from| from.unreached.get(&record.name) == Some(&0))
    };
    !others.is_empty() && others.iter().all(misses) && others.iter().any(|record| !record.unfit && is_reached(record))
}

/// Whether the store has lacked something for a while.
fn is_behind(status: &ReplicaStatus) -> bool {
    status.end.is_some_and(|end| end > status.position) && status.staleness.is_none_or(|age| age > SILENT_AFTER)
}

/// The last position that a majority of the replicas, and at least two of several, has synced.
fn synced_by_a_majority(mut synced: Vec<Position>) -> Position {
    synced.sort_unstable_by(|one, other| other.cmp(one));
    let needed = (synced.len() / 2 + 1).clamp(1, synced.len().max(1));
    synced.get(needed - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a replica, with the seconds since it reached each of the others.
    fn record(name: &str, unreached: &[(&str, u64)]) -> ReplicaRecord {
        let unreached = unreached.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect();
        ReplicaRecord { name: name.to_owned(), unreached, ..ReplicaRecord::default() }
    }

    #[test]
    fn a_leader_gives_way_when_no_other_replica_reaches_it_and_one_of_them_is_reached() {
        let of_leader = |unreached: &[(&str, u64)]| record("a", unreached);
        let reaches_both = of_leader(&[("b", 0), ("c", 0)]);
        let cut_off = of_leader(&[("b", 12), ("c", 12)]);
        let [b, c] = [record("b", &[("a", 11), ("c", 0)]), record("c", &[("a", 10), ("b", 0)])];
        let table: [(&ReplicaRecord, Vec<ReplicaRecord>, bool, &str); 9] = [
            (&reaches_both, vec![b.clone(), c.clone()], true, "the others miss it, and reach each other"),
            (&cut_off, vec![b.clone(), c.clone()], true, "in both directions"),
            (&reaches_both, vec![], false, "no other one runs"),
            (&reaches_both, vec![b.clone(), record("c", &[("a", 9), ("b", 0)])], false, "not for long enough"),
            (&reaches_both, vec![b.clone(), record("c", &[])], false, "an earlier version does not say"),
            (&reaches_both, vec![record("b", &[("a", 11)])], true, "of two, the other one is reached"),
            (&of_leader(&[("b", 12)]), vec![record("b", &[("a", 11)])], false, "of two, none is reached"),
            (
                &cut_off,
                vec![record("b", &[("a", 11), ("c", 11)]), record("c", &[("a", 11), ("b", 11)])],
                false,
                "no replica reaches any other one",
            ),
            (
                &reaches_both,
                vec![ReplicaRecord { unfit: true, ..b.clone() }, ReplicaRecord { unfit: true, ..c.clone() }],
                false,
                "none of the others could do its work",
            ),
        ];
        for (leader, others, expected, text) in table {
            assert_eq!(should_give_way(leader, &others), expected, "{text}");
        }
    }

    #[test]
    fn a_majority_has_synced_what_is_forgotten() {
        let table: [(&[u64], u64); 6] =
            [(&[], 0), (&[7], 7), (&[7, 3], 3), (&[9, 2, 7], 7), (&[9, 8, 7, 0], 7), (&[1, 5, 3, 4, 2], 3)];
        for (synced, expected) in table {
            let positions = synced.iter().copied().map(Position).collect();
            assert_eq!(synced_by_a_majority(positions), Position(expected), "{synced:?}");
        }
    }
}
