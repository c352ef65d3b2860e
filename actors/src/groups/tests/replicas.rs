//! Three replicas on one journal: acts at each of them, leaders that are replaced and do not know
//! it, and one that dies. What a replica has answered counts there from the answer on; another one
//! that has not seen it looks for it before it refuses; and at the end all readers agree.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::groups::enrolment::EnrolmentError;
use selfsame_protocol::groups::names::{FieldNumber, MemberNumber, RollName, SealedHandle, SecretHash};
use selfsame_protocol::groups::sealed::SealedError;
use selfsame_protocol::groups::wire::{
    HexText, InvitedMembers, NewSealed, SealedContent, SealedPermit, SealedSlot, SlotKind,
};
use selfsame_storage::{JournalCall, JournalFault, MemoryJournal, OpenOptions, Store};
use tempfile::TempDir;
use tokio::time::timeout;

use super::super::handle::{EnrolmentAnswer, GroupError, GroupsHandle, RollError};
use super::community::{
    DOMAIN, PATIENCE, START, group, join, leaf, leaves, member, replace, settings, with_marked_proofs,
};
use crate::clock::{Clock, ManualClock, SystemRandom};
use crate::{ClusterParts, LeaderConnection, LeaderError, Service, ServiceParts};

pub const REPLICAS: usize = 3;
const PERSONS: u64 = 18;

type Faults = Arc<dyn Fn(JournalCall) -> JournalFault + Send + Sync>;

/// The replicas of a cluster, and which of them leads.
pub struct Cluster {
    pub journal: MemoryJournal,
    faults: Faults,
    name: &'static str,
    running: Mutex<Vec<Option<Arc<Service>>>>,
    leader: AtomicUsize,
    pub clock: Arc<ManualClock>,
    folders: Vec<TempDir>,
}

/// Carries messages to the replica that leads.
struct ToLeader(Arc<Cluster>);

impl LeaderConnection for ToLeader {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>> {
        async move {
            let leader = self.0.service(self.0.leader.load(Ordering::SeqCst));
            let leader = leader.ok_or_else(|| LeaderError::Unsent("it does not run".to_owned()))?;
            Ok(leader.answer_replica(&message).await)
        }
        .boxed()
    }
}

impl Cluster {
    async fn start() -> Arc<Self> {
        Self::start_on(MemoryJournal::default(), "group-replica", Arc::new(|_| JournalFault::None)).await
    }

    pub async fn start_on(journal: MemoryJournal, name: &'static str, faults: Faults) -> Arc<Self> {
        let cluster = Arc::new(Self {
            journal,
            faults,
            name,
            running: Mutex::default(),
            leader: AtomicUsize::new(0),
            clock: Arc::new(ManualClock::at(Duration::from_secs(START))),
            folders: (0..REPLICAS).map(|_| tempfile::tempdir().expect("a folder for temporary files")).collect(),
        });
        for replica in 0..REPLICAS {
            let service = cluster.start_replica(replica).await;
            cluster.lock().push(Some(service));
        }
        cluster
    }

    async fn start_replica(self: &Arc<Self>, replica: usize) -> Arc<Service> {
        let store = Store::open(self.folders[replica].path(), &OpenOptions::new(DOMAIN)).expect("the store opens");
        let faults = Arc::clone(&self.faults);
        let faults = move |call| faults(call);
        let parts = ClusterParts {
            journal: self.journal.client(faults),
            election: None,
            leader: Some(Arc::new(ToLeader(Arc::clone(self)))),
            staleness: Duration::from_secs(2),
            bridge_peers: None,
        };
        let parts = ServiceParts::new(settings(&format!("{}-{replica}", self.name)), store).replica_of(parts);
        let service = Service::start(parts.clock(self.clock.clone()).random(Arc::new(SystemRandom)));
        Arc::new(service.await.expect("the service starts"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Arc<Service>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn service(&self, replica: usize) -> Option<Arc<Service>> {
        self.lock().get(replica)?.clone()
    }

    /// A replica that runs: this one, or the next.
    fn running(&self, replica: usize) -> Arc<Service> {
        let running = self.lock();
        let service = (0..REPLICAS).find_map(|next| running[(replica + next) % REPLICAS].clone());
        service.expect("a replica runs")
    }

    pub fn groups(&self, replica: usize) -> GroupsHandle {
        with_marked_proofs(&self.running(replica).groups())
    }

    /// Makes a replica the leader. The one before learns it when it writes.
    pub async fn lead(&self, replica: usize) {
        let service = self.service(replica).expect("it runs");
        let leading = async {
            while service.lead(self.journal.begin_term()).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, leading).await.expect("it leads");
        self.leader.store(replica, Ordering::SeqCst);
    }

    pub async fn stop(&self, replica: usize) {
        let service = self.lock()[replica].take();
        let Some(mut service) = service else { return };
        let alone = async {
            loop {
                match Arc::try_unwrap(service) {
                    Ok(service) => return service,
                    Err(shared) => service = shared,
                }
                tokio::task::yield_now().await;
            }
        };
        let service = timeout(PATIENCE, alone).await.expect("its calls end");
        timeout(PATIENCE, service.stop()).await.expect("it stops");
    }
}

/// Calls replicas, one after the other, until the outcome is known. Returns whether an earlier call
/// may have done it, and the groups that answered.
pub async fn certain<T, F: Future<Output = Result<T, GroupError>>>(
    cluster: &Cluster,
    first: usize,
    call: impl Fn(GroupsHandle) -> F,
) -> (Result<T, GroupError>, bool, GroupsHandle) {
    let calling = async {
        let mut attempt = 0;
        loop {
            let groups = cluster.groups(first + attempt);
            match call(groups.clone()).await {
                Err(GroupError::Unavailable { .. }) => tokio::task::yield_now().await,
                outcome => return (outcome, attempt > 0, groups),
            }
            attempt += 1;
        }
    };
    timeout(PATIENCE, calling).await.expect("an answer in time")
}

/// What became of a person: the number of the live leaf, if there is one.
type Fates = BTreeMap<MemberNumber, Option<u64>>;

/// Makes a sealed copy at the next replica, and reads it at the one after that.
async fn keep_copy(cluster: &Cluster, at: usize, permit: SealedPermit) {
    let handle = SealedHandle([at as u8; 32]);
    let slot = SealedSlot { kind: SlotKind::Code, iv: HexText(vec![1; 12]), key: HexText(vec![2; 48]) };
    let content = SealedContent { iv: HexText(vec![3; 12]), sealed: HexText(vec![4; 100]), slots: vec![slot] };
    let new = NewSealed {
        content: content.clone(),
        handles: vec![handle],
        write_key_hash: SecretHash::of(&[at as u8; 32]),
        permit: Some(permit),
    };
    let made = certain(cluster, at + 1, |groups| {
        let new = new.clone();
        async move { groups.create_sealed(handle, new, None).await }
    });
    let (made, is_again, _) = made.await;
    let is_made = matches!(&made, Err(GroupError::Sealed(SealedError::HandleTaken)) if is_again);
    assert!(made.is_ok() || is_made, "{made:?}");
    let (read, _, _) = certain(cluster, at + 2, |groups| async move { groups.sealed(&handle, None).await }).await;
    assert_eq!(read.expect("it is found").content, content);
}

/// One person: is invited at a replica, keeps a sealed copy, joins at the next, replaces at
/// another, and some are removed.
async fn live(cluster: Arc<Cluster>, person: u64) -> (MemberNumber, Option<u64>) {
    let (at, number) = (person as usize, member(person));
    let (invited, _, _) = certain(&cluster, at, |groups| {
        let number = number.clone();
        async move { groups.invite(&group(), vec![number], InvitedMembers::All).await }
    })
    .await;
    let code = invited.expect("it is invited").invitations.remove(0).1.code;
    keep_copy(&cluster, at, SealedPermit::Code { group: group(), code: code.clone() }).await;
    let (seed, first, second) = (person, 10 * person + 1_000, 10 * person + 1_001);
    for request in [join(&code, seed, first), replace(first, seed, second)] {
        for next in 1..=2 {
            // The second call repeats the first, at another replica.
            let enrolled = certain(&cluster, at + next, |groups| {
                let request = request.clone();
                async move { groups.enrol(&group(), request, None).await }
            });
            let (enrolled, _, _) = enrolled.await;
            assert!(matches!(enrolled, Ok(EnrolmentAnswer::At(_))), "{enrolled:?}");
        }
    }
    let wrong = certain(&cluster, at, |groups| {
        let request = replace(first, seed, second + 1);
        async move { groups.enrol(&group(), request, None).await }
    });
    let (wrong, _, _) = wrong.await;
    assert!(matches!(wrong, Err(GroupError::Enrolment(EnrolmentError::ReplacementSecretWrong))), "{wrong:?}");
    if !person.is_multiple_of(3) {
        return (number, Some(second));
    }
    let before = cluster.groups(at).describe(&group()).ok();
    let had_leaf = match &before {
        Some(before) => leaves(&cluster.groups(at), before).await.is_some_and(|leaves| leaves.contains(&leaf(second))),
        None => false,
    };
    let (removed, is_again, groups) = certain(&cluster, at, |groups| {
        let number = number.clone();
        async move { groups.remove(&group(), number).await }
    })
    .await;
    assert!(removed.expect("an answer") || is_again);
    // At the replica that answered no root counts that has the leaf.
    let now = cluster.clock.unix_seconds();
    if let Some(before) = before.filter(|_| had_leaf) {
        assert_eq!(groups.root_age(&group(), before.root, now), None);
    }
    if let Ok(described) = groups.describe(&group())
        && let Some(leaves) = leaves(&groups, &described).await
    {
        assert!(!leaves.contains(&leaf(second)));
    }
    (number, None)
}

/// Waits until every replica shows the same, and returns it.
pub async fn agreed(cluster: &Cluster) -> selfsame_protocol::groups::wire::GroupResponse {
    let agreeing = async {
        loop {
            let shown: Vec<_> = (0..REPLICAS).map(|replica| cluster.groups(replica).describe(&group())).collect();
            let shown: Result<Vec<_>, _> = shown.into_iter().collect();
            if let Ok(shown) = shown
                && shown.iter().all(|one| *one == shown[0])
            {
                return shown[0].clone();
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, agreeing).await.expect("the replicas agree")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_agree_after_acts_at_each_and_the_death_of_leaders() {
    let cluster = Cluster::start().await;
    cluster.lead(0).await;
    // The keeper of a leader makes the groups that are not there at its next look for them.
    cluster.clock.advance(Duration::from_secs(10));
    let before = agreed(&cluster).await;
    assert_eq!((before.size, before.version), (0, 0), "the group is made once, and every replica has it");
    let living: Vec<_> = (1..=PERSONS).map(|person| tokio::spawn(live(Arc::clone(&cluster), person))).collect();
    // Another one leads while they act, and the first one does not know; then it dies.
    cluster.lead(1).await;
    cluster.stop(0).await;
    cluster.lead(2).await;
    let mut fates = Fates::new();
    for one in living {
        let (number, fate) = one.await.unwrap_or_else(|error| panic!("{error}"));
        fates.insert(number, fate);
    }
    let again = cluster.start_replica(0).await;
    cluster.lock()[0] = Some(again);
    cluster.lead(0).await;
    let name: RollName = "vote".parse().expect("a name");
    let (taken, is_again, _) = certain(&cluster, 1, |groups| {
        let name = name.clone();
        async move { groups.take_roll(&group(), name).await }
    })
    .await;
    let is_taken = matches!(&taken, Err(GroupError::Roll(RollError::Taken(_))) if is_again);
    assert!(taken.is_ok() || is_taken, "{taken:?}");

    // One group, whose leaves are the live ones, at every replica.
    let described = loop {
        let described = agreed(&cluster).await;
        if described.rolls.len() == 1 {
            break described;
        }
    };
    assert_eq!((u64::from(described.size), described.group_key), (PERSONS, before.group_key));
    assert_eq!(described.members as usize, fates.values().flatten().count());
    for replica in 0..REPLICAS {
        let groups = cluster.groups(replica);
        let leaves = leaves(&groups, &described).await.expect("its pages");
        for (number, record) in groups.members(&group()).await.expect("the members") {
            let position = record.position.expect("a position") as usize;
            let expected = fates[&number].map_or(FieldNumber::ZERO, leaf);
            assert_eq!(leaves[position], expected, "{number} at replica {replica}");
        }
        assert_eq!(groups.roll_root(&group(), &name), Some(described.root));
        let page = groups.page(&group(), described.rolls[0].page_roots[0], None).await.expect("it is read");
        assert!(page.is_some(), "replica {replica} has the roll's page");
    }
    for replica in 0..REPLICAS {
        cluster.stop(replica).await;
    }
}
