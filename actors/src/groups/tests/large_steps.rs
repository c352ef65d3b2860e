//! Steps that are larger than an entry of a cluster's journal: they are written in parts, at the
//! leader and at replicas that ask it, and a single act that no entry can hold is refused by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use selfsame_protocol::groups::names::{MemberNumber, RollName};
use selfsame_protocol::groups::records::Standing;
use selfsame_protocol::groups::wire::InvitedMembers;
use selfsame_storage::{JournalCall, JournalFault, LARGEST_ENTRY, MemoryJournal};
use tokio::time::timeout;

use super::super::group_keeper::GATHERING_SECONDS;
use super::super::handle::{EnrolmentAnswer, GroupError, GroupsHandle, Invited};
use super::community::{PATIENCE, group, join, leave, leaves, member};
use super::replicas::{Cluster, REPLICAS, agreed};
use crate::clock::Clock;

/// A cluster with a leader and a group, whose journal takes entries of at most so many bytes.
async fn cluster(largest_entry: usize, name: &'static str) -> Arc<Cluster> {
    with_faults(largest_entry, name, |_| JournalFault::None).await
}

async fn with_faults(
    largest_entry: usize,
    name: &'static str,
    faults: impl Fn(JournalCall) -> JournalFault + Send + Sync + 'static,
) -> Arc<Cluster> {
    let journal = MemoryJournal::of_entries_up_to(largest_entry);
    let cluster = Cluster::start_on(journal, name, Arc::new(faults)).await;
    cluster.lead(0).await;
    // The keeper of a leader makes the groups that are not there at its next look for them.
    cluster.clock.advance(Duration::from_secs(10));
    agreed(&cluster).await;
    cluster
}

async fn stop(cluster: &Cluster, largest_entry: usize) {
    let lengths: Vec<_> = cluster.journal.entries().iter().map(|entry| entry.bytes.len()).collect();
    assert!(lengths.iter().all(|length| *length <= largest_entry), "{lengths:?}");
    for replica in 0..REPLICAS {
        cluster.stop(replica).await;
    }
}

fn numbers(count: u64) -> Vec<MemberNumber> {
    (1..=count).map(member).collect()
}

async fn invite(groups: &GroupsHandle, count: u64, of: InvitedMembers) -> Invited {
    groups.invite(&group(), numbers(count), of).await.expect("they are invited")
}

/// Invites so many persons and has all join at once, at a replica that does not lead.
async fn join_all_of(groups: &GroupsHandle, count: u64) {
    let invited = invite(groups, count, InvitedMembers::New).await;
    let joining = invited.invitations.iter().zip(1..).map(|((_, invitation, _), person)| {
        let request = join(&invitation.code, person, person);
        async move { groups.enrol(&group(), request, None).await }
    });
    // The keeper takes so many calls at a time.
    let joining: Vec<_> = joining.collect();
    let mut joining = joining.into_iter().peekable();
    while joining.peek().is_some() {
        for enrolled in join_all(joining.by_ref().take(500)).await {
            assert!(matches!(enrolled, Ok(EnrolmentAnswer::At(_))), "{enrolled:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_no_entry_can_hold_is_invited_in_parts() {
    let largest = 20_000;
    let cluster = cluster(largest, "large-list").await;
    for (at, replica) in [0, 1].into_iter().enumerate() {
        let groups = cluster.groups(replica);
        let list: Vec<_> = (0..2_000).map(|number| member(format!("{at}-{number}"))).collect();
        let before = cluster.journal.entries().len();
        let invited = groups.invite(&group(), list.clone(), InvitedMembers::New).await.expect("they are invited");
        let written = cluster.journal.entries().len() - before;
        assert!(written > 10, "{written} entries");
        assert_eq!(invited.unchanged, 0);
        let named: Vec<_> = invited.invitations.iter().map(|(member, _, _)| member.clone()).collect();
        assert_eq!(named, list, "in the order of the list");
        // The same again writes nothing.
        let again = groups.invite(&group(), list, InvitedMembers::New).await.expect("an answer");
        assert_eq!((again.invitations.len(), again.unchanged), (0, 2_000));
        assert_eq!(cluster.journal.entries().len(), before + written);
        // The first and the last link work.
        for (position, (_, invitation, _)) in
            [&invited.invitations[0], &invited.invitations[1_999]].into_iter().enumerate()
        {
            let person = (2 * at + position + 1) as u64;
            let enrolled = groups.enrol(&group(), join(&invitation.code, person, person), None).await;
            assert!(matches!(enrolled, Ok(EnrolmentAnswer::At(_))), "{enrolled:?}");
        }
    }
    stop(&cluster, largest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_was_invited_in_part_is_sent_again_for_those_who_have_not_joined() {
    let largest = 20_000;
    let appends = Arc::new(AtomicUsize::new(usize::MAX));
    let counted = Arc::clone(&appends);
    let fails = move |call| {
        let left = call == JournalCall::Append && counted.load(Ordering::SeqCst) < usize::MAX;
        match left && counted.fetch_sub(1, Ordering::SeqCst) == 0 {
            true => JournalFault::NotSent,
            false => JournalFault::None,
        }
    };
    let cluster = with_faults(largest, "large-list-in-part", fails).await;
    let groups = cluster.groups(1);
    appends.store(3, Ordering::SeqCst);
    let refused = groups.invite(&group(), numbers(2_000), InvitedMembers::New).await;
    appends.store(usize::MAX, Ordering::SeqCst);
    let Err(GroupError::InvitedInPart { invited, listed }) = refused else { panic!("{refused:?}") };
    assert!((1..2_000).contains(&invited) && listed == 2_000, "{invited} of {listed}");
    let again = invite(&groups, 2_000, InvitedMembers::NotJoined).await;
    let new = again.invitations.iter().filter(|(_, invitation, _)| invitation.is_new).count();
    assert_eq!((again.invitations.len(), new, again.unchanged), (2_000, 2_000 - invited, 0));
    let status = groups.status().remove(0);
    assert_eq!((status.invited, status.open_codes), (2_000, 2_000), "a number has one open link");
    stop(&cluster, largest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joinings_rolls_and_leavings_in_more_pages_than_an_entry_holds_get_through() {
    // A full page of leaves takes 41 kB.
    let (largest, persons) = (45_000, 1_500);
    let cluster = cluster(largest, "large-pages").await;
    let groups = cluster.groups(1);
    join_all_of(&groups, persons).await;
    let described = agreed(&cluster).await;
    assert_eq!((u64::from(described.members), described.page_roots.len()), (persons, 2));

    // The pages of the roll take 48 kB.
    let name: RollName = "vote".parse().expect("a name");
    let roll = groups.take_roll(&group(), name.clone()).await.expect("it is taken");
    assert_eq!((u64::from(roll.members), &roll.page_roots), (persons, &described.page_roots));
    let described = agreed(&cluster).await;
    for replica in 0..REPLICAS {
        assert!(leaves(&cluster.groups(replica), &described).await.is_some(), "replica {replica} has the pages");
    }

    let leaving = (1..=persons).map(|person| (person, leave(person, person)));
    for (person, request) in leaving {
        let left = groups.enrol(&group(), request, None).await;
        assert!(matches!(left, Ok(EnrolmentAnswer::Left)), "{person}: {left:?}");
    }
    assert_eq!(u64::from(groups.describe(&group()).expect("the group").members), persons, "the tree follows later");
    cluster.clock.advance(Duration::from_secs(GATHERING_SECONDS));
    let clearing = async {
        while agreed(&cluster).await.members > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, clearing).await.expect("the leaves go");
    let members = groups.members(&group()).await.expect("the members");
    assert!(members.iter().all(|(_, member)| member.standing == Standing::Left));
    // The roll has its pages still.
    for root in &roll.page_roots {
        let page = groups.page(&group(), *root, None).await.expect("it is read");
        assert!(page.is_some());
    }
    groups.remove_roll(&group(), name).await.expect("it is removed");
    stop(&cluster, largest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_ends_more_roots_than_an_entry_holds_ends_all_of_them() {
    let (largest, persons) = (24_000, 400);
    let cluster = cluster(largest, "large-removal").await;
    let groups = cluster.groups(1);
    let invited = invite(&groups, persons, InvitedMembers::New).await;
    let mut roots = Vec::new();
    for ((_, invitation, _), person) in invited.invitations.iter().zip(1..) {
        let enrolled = groups.enrol(&group(), join(&invitation.code, person, person), None).await;
        assert!(matches!(enrolled, Ok(EnrolmentAnswer::At(_))), "{enrolled:?}");
        roots.push(groups.describe(&group()).expect("the group").root);
    }
    let now = cluster.clock.unix_seconds();
    assert!(roots.iter().all(|root| groups.root_age(&group(), *root, now).is_some()));
    let before = cluster.journal.entries().len();
    assert!(groups.remove(&group(), member(1)).await.expect("an answer"));
    assert!(cluster.journal.entries().len() > before + 1, "roots end in writes of their own");
    assert!(roots.iter().all(|root| groups.root_age(&group(), *root, now).is_none()), "none of them counts any more");
    let described = agreed(&cluster).await;
    assert_eq!(described.members as u64, persons - 1);
    for replica in 0..REPLICAS {
        let groups = cluster.groups(replica);
        assert_eq!(groups.status()[0].live_roots, 1);
        assert!(leaves(&groups, &described).await.is_some());
    }
    stop(&cluster, largest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_that_no_entry_can_hold_is_refused_by_name_and_others_go_on() {
    // A page of some forty leaves.
    let largest = 2_000;
    let cluster = cluster(largest, "large-act").await;
    let (groups, at_leader) = (cluster.groups(1), cluster.groups(0));
    let invited = invite(&groups, 100, InvitedMembers::New).await;
    let mut refused = None;
    for ((_, invitation, _), person) in invited.invitations.iter().zip(1..) {
        let request = join(&invitation.code, person, person);
        match groups.enrol(&group(), request.clone(), None).await {
            Ok(EnrolmentAnswer::At(_)) => {}
            Err(error) => {
                refused = Some((error, request));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let (error, request) = refused.expect("a page that is too large");
    let at_leader_too = at_leader.enrol(&group(), request, None).await.expect_err("it is the same there");
    for error in [error, at_leader_too] {
        assert!(
            matches!(error, GroupError::TooLarge { most, length } if most == largest && length > most),
            "{error:?}"
        );
        assert!(error.to_string().contains("takes 2000 at once; nothing was changed"), "{error}");
    }
    let again = invite(&groups, 100, InvitedMembers::NotJoined).await;
    assert!(!again.invitations.is_empty(), "other acts go on");
    stop(&cluster, largest).await;
}

/// With the size of entries that etcd takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_are_invited_in_entries_of_the_real_size() {
    let cluster = cluster(LARGEST_ENTRY, "large-real").await;
    let groups = cluster.groups(1);
    // An act has half a minute, in which a busy machine does not make twenty thousand links.
    for (listed, unchanged) in [(10_000, 0), (20_000, 10_000)] {
        let before = cluster.journal.entries().len();
        let invited = invite(&groups, listed, InvitedMembers::New).await;
        assert_eq!((invited.invitations.len(), invited.unchanged), (10_000, unchanged));
        let written = cluster.journal.entries().len() - before;
        assert!(written > 1, "{written} entries");
    }
    assert_eq!(agreed(&cluster).await.members, 0);
    assert_eq!(groups.status()[0].invited, 20_000);
    stop(&cluster, LARGEST_ENTRY).await;
}
