//! Two who want the same at once: one of them gets it.

use selfsame_protocol::groups::enrolment::EnrolmentError;
use selfsame_protocol::groups::names::RollName;

use super::super::handle::{EnrolmentAnswer, GroupError, RollError};
use super::community::{Community, group, join, leaf, leaves, member, replace, replace_by_code};
use crate::clock::Clock;

type Enrolled = Result<EnrolmentAnswer, GroupError>;

fn refusal(enrolled: &Enrolled) -> Option<EnrolmentError> {
    match enrolled {
        Ok(EnrolmentAnswer::At(_)) => None,
        Err(GroupError::Enrolment(error)) => Some(error.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_holders_of_one_code_one_joins() {
    let community = Community::start("races-one-code").await;
    let (groups, id) = (&community.groups, group());
    for number in 0..30_u64 {
        let code = community.code(&member(number)).await;
        let [one, other] = [2 * number + 1, 2 * number + 2];
        let (first, second) = (join(&code, one, one), join(&code, other, other));
        let (first, second) = match number % 2 {
            0 => tokio::join!(groups.enrol(&id, first, None), groups.enrol(&id, second, None)),
            _ => {
                let second = groups.enrol(&id, second, None).await;
                (groups.enrol(&id, first, None).await, second)
            }
        };
        let refused = [refusal(&first), refusal(&second)];
        assert!(
            matches!(refused, [None, Some(EnrolmentError::CodeUsed)] | [Some(EnrolmentError::CodeUsed), None]),
            "{refused:?}"
        );
        let winner = if refused[0].is_none() { one } else { other };
        let described = groups.describe(&id).expect("the group");
        assert_eq!((described.size, described.members), (number as u32 + 1, number as u32 + 1));
        assert_eq!(leaves(groups, &described).await.expect("its pages").last(), Some(&leaf(winner)));
    }
    community.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thief_and_owner_the_first_replaces_and_the_enroller_overrides() {
    let community = Community::start("races-thief").await;
    let (groups, id) = (&community.groups, group());
    for number in 0..30_u64 {
        // Person, leaf, and the leaves that the two would bring: both know seed and secret.
        let [person, old, owner, thief, new] = [1, 2, 3, 4, 5].map(|part| 10 * (number + 1) + part);
        let code = community.code(&member(number)).await;
        groups.enrol(&id, join(&code, person, old), None).await.expect("the owner joins");
        let with_old = groups.describe(&id).expect("the group").root;
        let (of_owner, of_thief) = (replace(old, person, owner), replace(old, person, thief));
        let (by_owner, by_thief) = match number % 3 {
            0 => {
                let by_owner = groups.enrol(&id, of_owner, None).await;
                (by_owner, groups.enrol(&id, of_thief, None).await)
            }
            1 => {
                let by_thief = groups.enrol(&id, of_thief, None).await;
                (groups.enrol(&id, of_owner, None).await, by_thief)
            }
            _ => tokio::join!(groups.enrol(&id, of_owner, None), groups.enrol(&id, of_thief, None)),
        };
        let is_owner = match [refusal(&by_owner), refusal(&by_thief)] {
            [None, Some(EnrolmentError::ReplacementSecretWrong)] => true,
            [Some(EnrolmentError::ReplacementSecretWrong), None] => false,
            other => panic!("{other:?}"),
        };
        assert!(number % 3 == 2 || is_owner == (number % 3 == 0));
        let now = community.clock.unix_seconds();
        assert_eq!(groups.root_age(&id, with_old, now), None, "the root with the old leaf has ended");
        let present = if is_owner { owner } else { thief };
        let described = groups.describe(&id).expect("the group");
        let position = number as usize;
        assert_eq!(leaves(groups, &described).await.expect("its pages")[position], leaf(present));

        // The enroller's link needs no secret, and brings a new seed.
        let code = community.code(&member(number)).await;
        let overriding = groups.enrol(&id, replace_by_code(&code, person + 5_000, new), None).await;
        assert_eq!(refusal(&overriding), None);
        for next in [thief, owner] {
            let again = groups.enrol(&id, replace(present, person, next + 5_000), None).await;
            assert_eq!(refusal(&again), Some(EnrolmentError::NotAMember));
        }
        let described = groups.describe(&id).expect("the group");
        assert_eq!(leaves(groups, &described).await.expect("its pages")[position], leaf(new));
    }
    community.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_has_the_members_of_its_moment_and_one_name() {
    let community = Community::start("races-roll").await;
    let (groups, id) = (&community.groups, group());
    let name = "vote".parse::<RollName>().expect("a name");
    let code = community.code(&member("A")).await;
    groups.enrol(&id, join(&code, 1, 1), None).await.expect("A joins");
    let taking = || groups.take_roll(&id, name.clone());
    let (one, other) = tokio::join!(taking(), taking());
    let is_taken = |roll: &Result<_, GroupError>| matches!(roll, Err(GroupError::Roll(RollError::Taken(_))));
    assert!(one.is_ok() && is_taken(&other) || is_taken(&one) && other.is_ok());
    let roll = one.or(other).expect("one of them took it");
    assert!(groups.remove(&id, member("A")).await.expect("it is removed"));
    // The root ended, the roll did not.
    assert_eq!(groups.root_age(&id, roll.root, community.clock.unix_seconds()), None);
    assert_eq!(groups.roll_root(&id, &name), Some(roll.root));
    let page = groups.page(&id, roll.page_roots[0], None).await.expect("it is read").expect("the roll's page");
    assert_eq!(page[..32], leaf(1).to_bytes());
    groups.remove_roll(&id, name.clone()).await.expect("it is removed");
    assert_eq!(groups.page(&id, roll.page_roots[0], None).await.expect("it is read"), None);
    let again = groups.remove_roll(&id, name).await;
    assert!(matches!(again, Err(GroupError::Roll(RollError::Unknown(_)))), "{again:?}");
    community.stop().await;
}
