//! Rolls that are taken when their time comes, also while the service is down.

use std::time::Duration;

use selfsame_protocol::groups::names::{Day, RollName};
use selfsame_protocol::groups::records::{GroupRecord, RollPageRecord};
use selfsame_protocol::groups::tree::page_root;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::Decision;
use tokio::time::timeout;

use super::super::group_keeper::decided;
use super::super::handle::GroupError;
use super::super::settings::AwaitedRoll;
use super::community::{Community, PATIENCE, START, group, join, leaf, member};
use crate::clock::Clock;
use crate::{RollError, Settings};

fn name() -> RollName {
    "vote".parse().expect("a name")
}

fn with_time(at: u64) -> impl FnOnce(&mut Settings) {
    move |settings| settings.groups.groups[0].rolls = vec![AwaitedRoll { name: name(), at: UnixSeconds(at) }]
}

/// Waits for a look of the keeper.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long until {what}"));
}

async fn with_member(instance: &str) -> Community {
    let community = Community::start(instance).await;
    let code = community.code(&member("A")).await;
    community.groups.enrol(&group(), join(&code, 1, 1), None).await.expect("A joins");
    community
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_is_taken_at_its_time_and_once() {
    let at = START + 100_000;
    let community = with_member("roll-at-its-time").await.restart_later(Duration::ZERO, with_time(at)).await;
    assert_eq!(community.groups.roll_root(&group(), &name()), None, "its time is to come");
    community.clock.advance(Duration::from_secs(100_000));
    until("the roll is taken", || community.groups.roll_root(&group(), &name()).is_some()).await;
    let rolls = community.groups.rolls(&group()).expect("the rolls");
    assert_eq!((rolls[0].1.members, rolls[0].1.taken_on), (1, Day::of(UnixSeconds(at))));
    community.groups.remove_roll(&group(), name()).await.expect("it is removed");
    let community = community.restart_later(Duration::from_secs(5), with_time(at)).await;
    // An act comes after a look for what is due.
    community.code(&member("B")).await;
    assert_eq!(community.groups.roll_root(&group(), &name()), None, "a removed roll is not taken again");
    community.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_whose_time_passed_while_the_service_was_down_is_taken_at_the_start() {
    let at = START + 100;
    let community = with_member("roll-while-down").await.restart_later(Duration::ZERO, with_time(at)).await;
    let days = Duration::from_secs(3 * 86_400);
    let community = community.restart_later(days, with_time(at)).await;
    until("the roll is taken", || community.groups.roll_root(&group(), &name()).is_some()).await;
    let rolls = community.groups.rolls(&group()).expect("the rolls");
    assert_eq!(rolls[0].1.taken_on, Day::of(UnixSeconds(at)), "nothing has changed since its time");
    community.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_past_time_that_was_not_seen_before_is_refused() {
    let community = with_member("roll-of-the-past").await;
    let mut settings = super::community::settings("roll-of-the-past");
    with_time(START)(&mut settings);
    let refused = community.service.groups().set_settings(settings.groups);
    assert!(matches!(refused, Err(GroupError::Roll(RollError::Past { .. }))), "{refused:?}");
    community.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_that_was_taken_by_hand_is_not_taken_again_at_its_time() {
    let at = START + 100;
    for is_known_before in [true, false] {
        let instance = format!("roll-by-hand-{is_known_before}");
        let mut community = with_member(&instance).await;
        if is_known_before {
            community = community.restart_later(Duration::ZERO, with_time(at)).await;
        }
        community.groups.take_roll(&group(), name()).await.expect("it is taken");
        community = community.restart_later(Duration::ZERO, with_time(at)).await;
        // The keeper has looked at the rolls of the configuration when it carries out an act.
        community.code(&member("B")).await;
        community.clock.advance(Duration::from_secs(200));
        community.groups.remove_roll(&group(), name()).await.expect("it is removed");
        for _ in 0..2 {
            community.code(&member("C")).await;
            assert_eq!(community.groups.roll_root(&group(), &name()), None);
            community = community.restart_later(Duration::ZERO, with_time(at)).await;
        }
        assert!(community.clock.unix_seconds() > UnixSeconds(at));
        community.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_that_gets_a_time_after_it_was_taken_keeps_nothing_waiting_then() {
    let community = with_member("roll-then-time").await;
    community.groups.take_roll(&group(), name()).await.expect("it is taken");
    let mut settings = super::community::settings("roll-then-time");
    with_time(START + 100)(&mut settings);
    community.service.groups().set_settings(settings.groups).expect("a time to come");
    // An act comes after a look at the rolls of the configuration.
    community.code(&member("B")).await;
    community.clock.advance(Duration::from_secs(200));
    community.code(&member("C")).await;
    community.groups.remove_roll(&group(), name()).await.expect("it is removed");
    community.code(&member("D")).await;
    assert_eq!(community.groups.roll_root(&group(), &name()), None);
    community.stop().await;
}

/// As of a replica that died while it wrote a large roll, and whose store left its cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_no_roll_has_are_removed_after_a_start() {
    let community = with_member("roll-pages-alone").await;
    community.groups.take_roll(&group(), name()).await.expect("it is taken");
    let records = community.groups.state.records.clone();
    let before = records.group(&group()).expect("read").expect("the group");
    let after = GroupRecord { revision: before.revision + 1, ..before };
    let pages = [7, 8].map(|number| {
        let leaves = vec![leaf(number)];
        (page_root(&leaves), RollPageRecord { leaves })
    });
    let written = decided(|decided| records.write_roll_pages(&group(), (&before, &after), &pages, decided))
        .await
        .expect("written");
    assert_eq!(written, Decision::Written);
    assert_eq!(records.roll_page_roots(&group()).expect("read").len(), 3);
    drop(records);
    let community = community.restart().await;
    let groups = community.groups.clone();
    let stored = || groups.state.records.roll_page_roots(&group()).expect("read").len();
    until("the pages that no roll has are gone", || stored() == 1).await;
    drop(groups);
    community.stop().await;
}
