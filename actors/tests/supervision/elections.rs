//! Services on one journal, the leader of which is elected.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{Election, ElectionError, Leadership, Submission, SubmitError};
use selfsame_storage::{JournalCall, JournalFault, MemoryJournal, Term};
use tokio::sync::watch;

use super::replicas::{RunningReplica, expect_everywhere, start_with_client};
use super::{create, expect_finalized, expect_struck, lock_exclusive, submit, wait_until, work_under};

/// Who leads in a test.
#[derive(Clone)]
struct TestElection {
    journal: MemoryJournal,
    leader: watch::Sender<Option<(String, Term)>>,
    /// How many candidates gave their leadership up.
    resigned: Arc<AtomicU64>,
    /// How many candidates panic.
    panics: Arc<AtomicU64>,
    /// Whether each candidate knows of another one.
    has_successor: Arc<AtomicBool>,
}

struct Candidacy {
    election: TestElection,
    name: String,
}

struct TestLeadership {
    election: TestElection,
    term: Term,
}

impl TestElection {
    fn new(journal: &MemoryJournal) -> Self {
        let (resigned, panics) = Default::default();
        let has_successor = Arc::new(AtomicBool::new(true));
        Self { journal: journal.clone(), leader: watch::Sender::new(None), resigned, panics, has_successor }
    }

    async fn start(&self, name: &str) -> RunningReplica {
        let candidacy = Candidacy { election: self.clone(), name: name.to_owned() };
        start_with_client(self.journal.client(|_| JournalFault::None), Some(Arc::new(candidacy))).await
    }

    /// Two replicas, of which `a` leads.
    async fn start_two(&self) -> Vec<RunningReplica> {
        let mut replicas = vec![self.start("a").await];
        assert_eq!(leader_of(self, &replicas).await, 0);
        replicas.push(self.start("b").await);
        replicas
    }

    fn is_led_by(&self, name: &str) -> bool {
        self.leader.borrow().as_ref().is_some_and(|(leader, _)| leader == name)
    }

    /// Ends the leadership without its leader's knowledge of the journal.
    fn depose(&self) {
        self.leader.send_replace(None);
    }
}

impl Election for Candidacy {
    fn campaign(&self) -> BoxFuture<'_, Result<Box<dyn Leadership>, ElectionError>> {
        async {
            let panics = &self.election.panics;
            if panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                panic!("the election panics");
            }
            loop {
                let mut term = None;
                self.election.leader.send_if_modified(|leader| {
                    if leader.is_none() {
                        let begun = self.election.journal.begin_term();
                        (term, *leader) = (Some(begun), Some((self.name.clone(), begun)));
                    }
                    term.is_some()
                });
                if let Some(term) = term {
                    return Ok(
                        Box::new(TestLeadership { election: self.election.clone(), term }) as Box<dyn Leadership>
                    );
                }
                let _ = self.election.leader.subscribe().wait_for(Option::is_none).await;
            }
        }
        .boxed()
    }

    fn leader(&self) -> BoxFuture<'_, Result<Option<String>, ElectionError>> {
        async { Ok(self.election.leader.borrow().as_ref().map(|(name, _)| name.clone())) }.boxed()
    }

    fn has_successor(&self) -> bool {
        self.election.has_successor.load(Ordering::Relaxed)
    }
}

impl Leadership for TestLeadership {
    fn term(&self) -> Term {
        self.term
    }

    fn keep(&self) -> BoxFuture<'_, ElectionError> {
        async {
            let is_another =
                |leader: &Option<(String, Term)>| leader.as_ref().is_none_or(|(_, term)| *term != self.term);
            let _ = self.election.leader.subscribe().wait_for(is_another).await;
            ElectionError("deposed".to_owned())
        }
        .boxed()
    }

    fn resign(&self) -> BoxFuture<'_, ()> {
        async {
            let is_own = |leader: &mut Option<(String, Term)>| leader.take_if(|(_, term)| *term == self.term).is_some();
            if self.election.leader.send_if_modified(is_own) {
                self.election.resigned.fetch_add(1, Ordering::Relaxed);
            }
        }
        .boxed()
    }
}

/// The index of the replica that is elected, once it leads.
async fn leader_of(election: &TestElection, replicas: &[RunningReplica]) -> usize {
    let elected = Cell::new(None);
    wait_until("the elected replica leads", || {
        let term = election.leader.borrow().as_ref().map(|(_, term)| *term);
        let leads = |replica: &RunningReplica| term.is_some() && replica.service.leading() == term;
        elected.set(replicas.iter().position(leads));
        elected.get().is_some()
    })
    .await;
    elected.get().expect("it is elected")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_elected_replica_leads_until_it_is_deposed_or_stopped() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let election = TestElection::new(&journal);
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(election.start(name).await);
    }
    for number in 0..3 {
        let leader = leader_of(&election, &replicas).await;
        let request_id = submit(&replicas[leader].registry(), number).await;
        expect_everywhere(&replicas, &request_id).await;
        let name = election.leader.borrow().clone().map(|(name, _)| Ok(name));
        for replica in &replicas {
            wait_until("every replica knows the leader", || {
                let status = replica.service.replica_status().expect("it is a replica");
                status.leader == name && status.end >= Some(status.position) && status.staleness.is_some()
            })
            .await;
        }
        election.depose();
    }
    assert_eq!(election.resigned.load(Ordering::Relaxed), 0);

    // A stop gives the leadership up; the others need not wait until it ends.
    let leader = leader_of(&election, &replicas).await;
    replicas.swap_remove(leader).stop().await;
    assert_eq!(election.resigned.load(Ordering::Relaxed), 1);
    let next = leader_of(&election, &replicas).await;
    let request_id = submit(&replicas[next].registry(), 3).await;
    expect_everywhere(&replicas, &request_id).await;
    for replica in replicas {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_cannot_write_leaves_the_leadership_to_others() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let election = TestElection::new(&journal);
    // Two panics of the leadership actor are nothing that a supervisor gives up for.
    election.panics.store(2, Ordering::Relaxed);
    let replicas = election.start_two().await;
    let plan = Plan::new().strike_times(FaultPoint::GroupCommitAfter, Fault::Error, 0, 1).run();
    let submission = Submission::from(create(0));
    let unknown = replicas[0].registry().submit(submission).await.expect_err("the write fails");
    drop(plan);
    let SubmitError::Unknown { request_id: Some(request_id), .. } = unknown else { panic!("{unknown:?}") };
    wait_until("the other one leads", || election.is_led_by("b")).await;
    expect_everywhere(&replicas, &request_id).await;
    let restarts = replicas[0].service.actors().into_iter().find(|actor| actor.name.ends_with("/leadership"));
    assert_eq!(restarts.expect("it is an actor").restarts, 2);
    for replica in replicas {
        replica.stop().await;
    }
}

/// The lease of such a leader lives: what keeps it takes another way than the entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_appends_get_no_answer_gives_the_leadership_up() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let election = TestElection::new(&journal);
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let client = journal.client(move |call| match call {
        JournalCall::Append if is_cut.load(Ordering::Relaxed) => JournalFault::RequestLost,
        _ => JournalFault::None,
    });
    let candidacy = Candidacy { election: election.clone(), name: "a".to_owned() };
    let mut replicas = vec![start_with_client(client, Some(Arc::new(candidacy))).await];
    assert_eq!(leader_of(&election, &replicas).await, 0);
    replicas.push(election.start("b").await);
    cut.store(true, Ordering::Relaxed);
    let registry = replicas[0].registry();
    let unanswered = tokio::spawn(async move { registry.submit(Submission::from(create(0))).await });
    wait_until("the other one leads", || election.is_led_by("b")).await;
    let leader = leader_of(&election, &replicas).await;
    let request_id = submit(&replicas[leader].registry(), 1).await;
    expect_everywhere(&replicas, &request_id).await;
    let error = unanswered.await.expect("no panic").expect_err("the entry was lost");
    assert!(matches!(error, SubmitError::Unknown { .. } | SubmitError::Unavailable { .. }), "{error:?}");
    for replica in replicas {
        replica.stop().await;
    }
}

/// The lease of such a leader lives, too: what keeps it does not touch the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_gives_no_answer_gives_the_leadership_up_when_another_replica_runs() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let election = TestElection::new(&journal);
    let replicas = election.start_two().await;
    election.has_successor.store(false, Ordering::Relaxed);
    let plan = Plan::for_instance(replicas[0].service.instance());
    let plan = plan.strike_times(FaultPoint::GroupCommitAfter, Fault::Stall, 0, 1).run();
    let registry = replicas[0].registry();
    let unanswered = tokio::spawn(async move { registry.submit(Submission::from(create(0))).await });
    let is_delayed = || replicas[0].service.failures().iter().any(|failure| failure.contains("a commit has been"));
    wait_until("the commit is seen to take long", is_delayed).await;
    // No other replica is known to it that could write.
    assert!(replicas[0].service.leading().is_some());
    assert!(!replicas[0].service.replica_status().expect("a replica").is_unfit);
    election.has_successor.store(true, Ordering::Relaxed);
    wait_until("the other one leads", || election.is_led_by("b")).await;
    assert_eq!(leader_of(&election, &replicas).await, 1);
    let request_id = submit(&replicas[1].registry(), 1).await;
    expect_finalized(&replicas[1].registry(), &request_id).await;
    assert!(replicas[0].service.replica_status().expect("a replica").is_unfit);
    // The disk answers again: the store gets what the journal has.
    drop(plan);
    expect_everywhere(&replicas, &request_id).await;
    let _ = unanswered.await.expect("no panic");
    for replica in replicas {
        replica.stop().await;
    }
}

/// The journal has the entry then, so the other replica has it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_own_write_fails_is_unfit_and_one_that_was_told_to_step_down_is_not() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let election = TestElection::new(&journal);
    let replicas = election.start_two().await;
    let is_unfit = |at: usize| replicas[at].service.replica_status().expect("a replica").is_unfit;
    let plan = Plan::for_instance(replicas[0].service.instance());
    let plan = plan.strike_times(FaultPoint::GroupCommitAfter, Fault::Error, 0, 1).run();
    let failed = replicas[0].registry().submit(Submission::from(create(0))).await;
    assert!(failed.is_err(), "{failed:?}");
    wait_until("the other one leads", || election.is_led_by("b")).await;
    drop(plan);
    assert_eq!(leader_of(&election, &replicas).await, 1);
    let request_id = submit(&replicas[1].registry(), 1).await;
    expect_everywhere(&replicas, &request_id).await;
    assert!(is_unfit(0));

    replicas[1].service.step_down();
    wait_until("the first one leads again", || election.is_led_by("a")).await;
    assert_eq!(leader_of(&election, &replicas).await, 0);
    assert!(!is_unfit(1));
    for replica in replicas {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_clock_was_set_forward_gives_the_leadership_up() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let election = TestElection::new(&journal);
    let replicas = election.start_two().await;
    let request_id = submit(&replicas[0].registry(), 0).await;
    expect_everywhere(&replicas, &request_id).await;
    replicas[0].clock.step_forward(Duration::from_secs(600));
    // It is admitted, and a leader with the right time seals it.
    let request_id = submit(&replicas[0].registry(), 1).await;
    wait_until("the other one leads", || election.is_led_by("b")).await;
    expect_everywhere(&replicas, &request_id).await;
    for replica in replicas {
        replica.stop().await;
    }
}

/// A leadership that the actor had when it failed ends by a time-out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leadership_actor_that_failed_leads_again() {
    let _guard = lock_exclusive().await;
    for fault in [Fault::Panic, Fault::Error] {
        let journal = MemoryJournal::default();
        let election = TestElection::new(&journal);
        let replicas = [election.start("a").await];
        assert_eq!(leader_of(&election, &replicas).await, 0);
        let plan = Plan::new()
            .strike_times(FaultPoint::LeadershipHandle, fault, 0, 1)
            .strike_times(FaultPoint::LeadershipStart, fault, 0, 1)
            .run();
        expect_struck(&plan, FaultPoint::LeadershipStart, 1).await;
        drop(plan);
        let has_stopped = || replicas[0].service.leading().is_none();
        wait_until("the next actor does not lead for the one before", has_stopped).await;
        election.depose();
        leader_of(&election, &replicas).await;
        let request_id = submit(&replicas[0].registry(), 0).await;
        expect_everywhere(&replicas, &request_id).await;
        for replica in replicas {
            replica.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leadership_actor_that_is_slow_or_is_stalled_leads_on() {
    let _guard = lock_exclusive().await;
    let (handle, start) = (FaultPoint::LeadershipHandle, FaultPoint::LeadershipStart);
    for fault in [Fault::Delay(Duration::from_millis(20)), Fault::Stall] {
        let journal = MemoryJournal::default();
        let election = TestElection::new(&journal);
        let replicas = [election.start("a").await];
        assert_eq!(leader_of(&election, &replicas).await, 0);
        let term = replicas[0].service.leading();
        work_under(Plan::new().strike_times(handle, fault, 0, 1), [(handle, 1)], async {
            let request_id = submit(&replicas[0].registry(), 0).await;
            expect_everywhere(&replicas, &request_id).await;
        })
        .await;
        assert_eq!(replicas[0].service.leading(), term);

        // The start after a death is slow.
        let plan = Plan::new().strike_times(handle, Fault::Panic, 0, 1).strike_times(start, fault, 0, 1);
        work_under(plan, [(handle, 1), (start, 1)], async {}).await;
        let has_stopped = || replicas[0].service.leading().is_none();
        wait_until("the next actor does not lead for the one before", has_stopped).await;
        election.depose();
        leader_of(&election, &replicas).await;
        let request_id = submit(&replicas[0].registry(), 1).await;
        expect_everywhere(&replicas, &request_id).await;
        for replica in replicas {
            replica.stop().await;
        }
    }
}
