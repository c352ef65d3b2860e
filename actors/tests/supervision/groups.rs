//! Groups while the steps of their keeper fail, are slow or are stalled, and while the process dies
//! before or after one is written.
//!
//! The members with leaves are put into the store before a service is started on it: their joining
//! needs no link proof then.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan, run_plan_of_environment};
use selfsame_actors::{AwaitedRoll, GroupDefinition, GroupError, GroupsHandle, RollError, Settings};
use selfsame_protocol::U256;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{EnrolmentRequest, Step};
use selfsame_protocol::groups::identity::{Act, Token};
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, RollName, SecretHash};
use selfsame_protocol::groups::records::{GroupRecord, Standing};
use selfsame_protocol::groups::wire::{InvitedMembers, SentCommitment};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::Environment;
use selfsame_storage::{Decision, GroupCommit, GroupRecords, OnDecided, OpenOptions, Store};
use tokio::time::timeout;

use super::{
    DOMAIN, FAULTS, FaultTestService, Folder, PATIENCE, expect_struck, lock_exclusive, start_in, survived, wait_until,
    work_under,
};

/// The points of a step.
const STEP: [FaultPoint; 2] = [FaultPoint::GroupStepBefore, FaultPoint::GroupStepAfter];

/// When the services of these tests begin.
const BEGIN: UnixSeconds = UnixSeconds(1_800_000_000);

/// How many members have a leaf before a service is started.
const JOINED: u32 = 6;

fn id() -> GroupId {
    "members".parse().expect("an id")
}

/// Gives a service a group.
pub fn configure(settings: &mut Settings) {
    settings.groups.groups = vec![GroupDefinition {
        id: id(),
        name: "Members of the cooperative".to_owned(),
        environment: Environment::Staging,
        legacy_identifier: None,
        link_days: 30,
        rolls: Vec::new(),
        actions: Vec::new(),
    }];
}

/// A member with a leaf.
fn joined(number: u32) -> MemberNumber {
    format!("joined {number}").parse().expect("a member number")
}

/// A member who is invited by the test.
fn invited(number: u32) -> MemberNumber {
    format!("invited {number}").parse().expect("a member number")
}

fn roll(number: u32) -> RollName {
    format!("roll-{number}").parse().expect("a name")
}

fn written(write: impl FnOnce(OnDecided)) {
    let (sender, decision) = channel();
    write(Box::new(move |decided| sender.send(decided).expect("the test waits")));
    assert_eq!(decision.recv().expect("decided").expect("written"), Decision::Written);
}

/// Makes a store with a group whose members have leaves; returns its root.
fn populate(folder: &Path) -> Root {
    let store = Store::open(&folder.join("store"), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let records = GroupRecords::new(store, group_commit);
    written(|decided| records.create(&id(), &GroupRecord::new(GroupKey([7; 32])), decided));
    let loaded = records.load(&id()).expect("the read succeeds").expect("the group is there");
    let (group, today) = (id(), Day::of(BEGIN));
    let changes = {
        let reader = records.reader(&group);
        let mut step = Step::new(&group, &loaded, &reader, today);
        for number in 0..JOINED {
            let code = || Code::from_random_bytes([number as u8 + 1; 17]);
            step.invite(&joined(number), InvitedMembers::New, today, code)
                .expect("the read succeeds")
                .expect("invited");
            let request = EnrolmentRequest {
                act: Act::Join,
                token: Token::Code(code()),
                commitment: SentCommitment(U256::from(1000 + number)),
                nullifier: FieldNumber(U256::from(2000 + number)),
                proof: [U256::ZERO; 8],
                replacement_hash: SecretHash::of(&[number as u8; 32]),
                copy: None,
            };
            step.enrol(&request).expect("the read succeeds").expect("joined");
        }
        step.finish(BEGIN).expect("the members have joined")
    };
    written(|decided| records.write(&group, &changes, &[], decided));
    drop(records);
    committing.join().expect("the committing thread ends");
    changes.after.root
}

/// A service with a group whose members have leaves, and the group's root.
async fn start_with_members(change: impl FnOnce(&mut Settings)) -> (FaultTestService, Root) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let root = populate(folder.path());
    (start_in(Folder::Own(folder), change).await, root)
}

/// Does an act until it is acknowledged. Each call must get an answer, which can be an error.
async fn until_done<T, Acting>(groups: &GroupsHandle, act: impl Fn(GroupsHandle) -> Acting) -> Result<T, RollError>
where
    T: Send + 'static,
    Acting: Future<Output = Result<T, GroupError>> + Send + 'static,
{
    let doing = async {
        loop {
            match survived(act(groups.clone())).await {
                Some(Ok(done)) => return Ok(done),
                Some(Err(GroupError::Roll(error))) => return Err(error),
                // Clients wait a moment before they retry, too.
                None | Some(Err(GroupError::Unavailable { .. })) => tokio::time::sleep(Duration::from_millis(2)).await,
                Some(Err(error)) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, doing).await.expect("every call gets an answer, and one does the act")
}

async fn invite(groups: &GroupsHandle, number: u32) {
    let act =
        |groups: GroupsHandle| async move { groups.invite(&id(), vec![invited(number)], InvitedMembers::New).await };
    until_done(groups, act).await.expect("no roll is asked for");
}

async fn remove(groups: &GroupsHandle, member: MemberNumber) {
    let act = |groups: GroupsHandle| {
        let member = member.clone();
        async move { groups.remove(&id(), member).await }
    };
    until_done(groups, act).await.expect("no roll is asked for");
}

/// Takes a roll. An earlier call may have taken it and been told that it failed.
async fn take_roll(groups: &GroupsHandle, number: u32) {
    let taken = until_done(groups, |groups| async move { groups.take_roll(&id(), roll(number)).await }).await;
    assert!(matches!(&taken, Ok(_) | Err(RollError::Taken(_))), "{taken:?}");
}

async fn standings(groups: &GroupsHandle) -> BTreeMap<MemberNumber, Standing> {
    let members = groups.members(&id()).await.expect("the members are read");
    members.into_iter().map(|(member, record)| (member, record.standing)).collect()
}

/// Invites, removes and takes rolls, and checks that all of it is there.
async fn use_group(groups: &GroupsHandle) {
    for number in 0..JOINED {
        invite(groups, number).await;
        take_roll(groups, number).await;
        remove(groups, joined(number)).await;
    }
    let removed = until_done(groups, |groups| async move { groups.remove_roll(&id(), roll(0)).await }).await;
    assert!(matches!(&removed, Ok(()) | Err(RollError::Unknown(_))), "{removed:?}");
    let standings = standings(groups).await;
    assert_eq!(standings.len() as u32, 2 * JOINED);
    for number in 0..JOINED {
        assert_eq!(standings[&invited(number)], Standing::Invited);
        assert_eq!(standings[&joined(number)], Standing::Removed);
    }
    let rolls = groups.rolls(&id()).expect("the group is read");
    assert_eq!(
        rolls.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
        (1..JOINED).map(roll).collect::<Vec<_>>()
    );
    let status = groups.status();
    assert_eq!((status[0].members, status[0].invited, status[0].open_codes), (0, 2 * JOINED, JOINED));
    assert_eq!(status[0].failure, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_works_while_each_point_of_a_step_fails_is_slow_or_is_stalled() {
    let _guard = lock_exclusive().await;
    for point in STEP {
        for fault in FAULTS {
            let (running, _) = start_with_members(|_| {}).await;
            let groups = running.service.groups();
            // A stalled step keeps the next ones waiting.
            let times = if fault == Fault::Stall { 1 } else { 3 };
            let plan = Plan::new().strike_times(point, fault, 0, times);
            work_under(plan, [(point, times)], use_group(&groups)).await;
            drop(groups);
            running.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_was_written_and_told_as_failed_is_seen_by_readers() {
    let _guard = lock_exclusive().await;
    let (running, root) = start_with_members(|_| {}).await;
    let groups = running.service.groups();
    assert!(groups.root_age(&id(), root, BEGIN).is_some(), "the root is live");
    let plan = Plan::new().strike_always(FaultPoint::GroupStepAfter, Fault::Error).run();
    let refused = groups.take_roll(&id(), roll(1)).await;
    assert!(matches!(refused, Err(GroupError::Unavailable { .. })), "{refused:?}");
    assert_eq!(groups.roll_root(&id(), &roll(1)), Some(root));
    let refused = groups.invite(&id(), vec![invited(1)], InvitedMembers::New).await;
    assert!(matches!(refused, Err(GroupError::Unavailable { .. })), "{refused:?}");
    assert_eq!(groups.status()[0].invited, JOINED + 1);
    let refused = groups.remove(&id(), joined(1)).await;
    assert!(matches!(refused, Err(GroupError::Unavailable { .. })), "{refused:?}");
    assert_eq!(groups.root_age(&id(), root, BEGIN), None, "the removed member's root has ended");
    expect_struck(&plan, FaultPoint::GroupStepAfter, 3).await;
    drop((plan, groups));
    running.stop().await;
}

/// Nothing of it is in the answer of the call: the step has panicked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_panicked_is_read_again() {
    let _guard = lock_exclusive().await;
    for (point, is_written) in [(FaultPoint::GroupStepBefore, false), (FaultPoint::GroupStepAfter, true)] {
        let (running, root) = start_with_members(|_| {}).await;
        let groups = running.service.groups();
        let plan = Plan::new().strike_times(point, Fault::Panic, 0, 1).run();
        let refused = groups.remove(&id(), joined(1)).await;
        assert!(matches!(refused, Err(GroupError::Unavailable { .. })), "{refused:?}");
        expect_struck(&plan, point, 1).await;
        drop(plan);
        wait_until("readers see what was written", || groups.root_age(&id(), root, BEGIN).is_none() == is_written)
            .await;
        assert_eq!(groups.remove(&id(), joined(1)).await.expect("the keeper goes on"), !is_written);
        drop(groups);
        running.stop().await;
    }
}

/// The keeper dies with calls that wait for it: they get an answer, and the next ones work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_keeper_loses_nothing_that_was_acknowledged() {
    let _guard = lock_exclusive().await;
    let (running, root) = start_with_members(|_| {}).await;
    let groups = running.service.groups();
    take_roll(&groups, 1).await;
    let plan = Plan::new().strike_times(FaultPoint::GroupKeeperHandle, Fault::Panic, 0, 1).run();
    invite(&groups, 1).await;
    expect_struck(&plan, FaultPoint::GroupKeeperHandle, 1).await;
    drop(plan);
    let keepers = || running.service.actors().into_iter().filter(|actor| actor.name.ends_with("group-keeper"));
    wait_until("the keeper is started again", || keepers().any(|actor| actor.restarts == 1)).await;
    assert_eq!(groups.roll_root(&id(), &roll(1)), Some(root));
    invite(&groups, 2).await;
    assert_eq!(groups.status()[0].invited, JOINED + 2);
    drop(groups);
    running.stop().await;
}

/// Before its time a roll is not taken; acts that come after it are not in it, also when it cannot
/// be taken at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_has_the_members_of_its_moment() {
    let _guard = lock_exclusive().await;
    for fault in [None, Some(Fault::Error), Some(Fault::Panic)] {
        let awaited = AwaitedRoll { name: roll(1), at: UnixSeconds(BEGIN.0 + 3600) };
        let (running, root) = start_with_members(|settings| settings.groups.groups[0].rolls = vec![awaited]).await;
        let groups = running.service.groups();
        assert_eq!(groups.roll_root(&id(), &roll(1)), None);
        let plan = fault.map(|fault| Plan::new().strike_times(FaultPoint::GroupStepBefore, fault, 0, 2).run());
        running.clock.advance(Duration::from_secs(3601));
        remove(&groups, joined(1)).await;
        assert_eq!(groups.roll_root(&id(), &roll(1)), Some(root), "{fault:?}");
        if let Some(plan) = plan {
            expect_struck(&plan, FaultPoint::GroupStepBefore, 2).await;
        }
        drop(groups);
        running.stop().await;
    }
}

/// One that the operator takes before its time is not taken again, also after it was removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_that_was_taken_before_its_time_is_not_taken_again() {
    let _guard = lock_exclusive().await;
    let awaited = AwaitedRoll { name: roll(1), at: UnixSeconds(BEGIN.0 + 3600) };
    let (running, _) = start_with_members(|settings| settings.groups.groups[0].rolls = vec![awaited]).await;
    let groups = running.service.groups();
    take_roll(&groups, 1).await;
    groups.remove_roll(&id(), roll(1)).await.expect("removed");
    running.clock.advance(Duration::from_secs(3601));
    remove(&groups, joined(1)).await;
    assert_eq!(groups.roll_root(&id(), &roll(1)), None);
    drop(groups);
    running.stop().await;
}

// Processes that die at a step. Each is this test program, which is started again for the test of a
// life; the service of this process continues on the store that is left.

/// Variable with the path of the folder in which a life has its store.
const FOLDER: &str = "SUPERVISION_GROUPS_FOLDER";

/// The instance of every life, which the plans name.
const INSTANCE: &str = "crashing-groups";

/// What a life prints before an act that was acknowledged.
const DONE: &str = "done: ";

/// SIGABRT.
const ABORTED: Option<i32> = Some(6);

async fn start_life(folder: Folder) -> FaultTestService {
    start_in(folder, |settings| settings.instance = INSTANCE.to_owned()).await
}

/// Invites, removes and takes rolls until a fault ends the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the next test starts it, in processes of their own"]
async fn a_life_of_a_group_that_a_fault_ends() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let _faults = run_plan_of_environment().expect("the plan is well formed");
    let running = start_life(Folder::Other(PathBuf::from(folder))).await;
    let groups = running.service.groups();
    for number in 0..JOINED {
        invite(&groups, number).await;
        println!("{DONE}invite {number}");
        remove(&groups, joined(number)).await;
        println!("{DONE}remove {number}");
        take_roll(&groups, number).await;
        println!("{DONE}roll {number}");
    }
    // Points of the keeper are passed with each ping.
    tokio::time::sleep(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_process_dies_at_a_step_of_a_group() {
    let _guard = lock_exclusive().await;
    let coverage = tempfile::tempdir().expect("a folder for temporary files");
    // Marks for the coverage of this run, if it is asked for.
    let coverage = std::env::var_os("FAULT_COVERAGE").map_or_else(|| coverage.path().to_owned(), PathBuf::from);
    // The first three steps are an invitation, a removal and a roll.
    for (point, skip) in STEP.into_iter().flat_map(|point| [3, 4, 5].map(|skip| (point, skip))) {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let root = populate(folder.path());
        let life = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--ignored", "--nocapture", "groups::a_life_of_a_group_that_a_fault_ends"])
            .env("FAILPOINTS", format!("{INSTANCE}/{}={skip}*off->return(crash)", point.name()))
            .env("FAULT_COVERAGE", &coverage)
            .env(FOLDER, folder.path())
            .stderr(Stdio::inherit())
            .output()
            .expect("the life begins");
        assert_eq!(life.status.signal(), ABORTED, "{}: {:?}", point.name(), life.status);
        assert!(coverage.join(format!("{}=crash", point.name())).exists(), "{} has left a mark", point.name());

        let output = String::from_utf8(life.stdout).expect("text");
        let done: BTreeSet<_> = output.lines().filter_map(|line| Some(line.split_once(DONE)?.1)).collect();
        assert_eq!(done.len(), skip, "{}: each step but the last is acknowledged", point.name());
        let running = start_life(Folder::Own(folder)).await;
        let groups = running.service.groups();
        let standings = standings(&groups).await;
        for act in &done {
            let (what, number) = act.split_once(' ').expect("an act and its number");
            let number: u32 = number.parse().expect("a number");
            match what {
                "invite" => assert_eq!(standings.get(&invited(number)), Some(&Standing::Invited), "{act}"),
                "remove" => assert_eq!(standings.get(&joined(number)), Some(&Standing::Removed), "{act}"),
                _ => assert!(groups.roll_root(&id(), &roll(number)).is_some(), "{act}"),
            }
        }
        assert_eq!(groups.root_age(&id(), root, BEGIN), None, "a member of it was removed");
        // What was not acknowledged is there or not; the group works on either.
        use_group(&groups).await;
        drop(groups);
        running.stop().await;
    }
}
