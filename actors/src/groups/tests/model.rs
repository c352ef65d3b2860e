//! Random acts of several tasks at once, while the keeper dies and the service restarts. Each task
//! acts for persons of its own and knows what each act has to give; what all of them have done
//! together is compared when they pause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ractor::registry::where_is;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{EnrolmentError, EnrolmentRequest};
use selfsame_protocol::groups::names::{Day, FieldNumber, MemberNumber, RollName, SecretHash};
use selfsame_protocol::groups::records::{RollRecord, Standing};
use selfsame_protocol::groups::tree::{GroupTree, page_bytes, page_root, read_page};
use selfsame_protocol::groups::wire::InvitedMembers;
use selfsame_protocol::keccak256;
use selfsame_protocol::tree::Root;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::super::handle::{EnrolmentAnswer, GroupError, GroupsHandle, RollError};
use super::community::{
    Community, PATIENCE, group, join, leaf, leave, leaves, member, replace, replace_by_code, secret, with_bad_proof,
};
use crate::clock::Clock;

const TASKS: u64 = 4;
const PERSONS_OF_A_TASK: u64 = 6;
const ACTS_OF_A_ROUND: usize = 25;
const ROUNDS: usize = 4;

/// Random numbers of a seed.
#[derive(Clone, Copy)]
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        let hash = keccak256(self.0.to_be_bytes());
        let mut number = [0; 8];
        number.copy_from_slice(&hash[..8]);
        self.0 = u64::from_be_bytes(number);
        self.0 % bound
    }
}

/// What the model knows of a person.
struct Person {
    number: MemberNumber,
    /// The person's seed, by a number.
    seed: u64,
    standing: Option<Standing>,
    position: Option<u32>,
    /// The last leaf; its number is that of its replacement secret, too.
    leaf: Option<u64>,
    replaced_on: Option<Day>,
    open_code: Option<Code>,
    used_code: Option<(Code, u64)>,
    ended_code: Option<Code>,
    leaves_made: u64,
}

impl Person {
    fn new(number: u64) -> Self {
        Self {
            number: member(number),
            seed: number,
            standing: None,
            position: None,
            leaf: None,
            replaced_on: None,
            open_code: None,
            used_code: None,
            ended_code: None,
            leaves_made: 0,
        }
    }

    fn live_leaf(&self) -> Option<u64> {
        self.leaf.filter(|_| self.standing == Some(Standing::Member))
    }

    /// The number of a leaf that no member had.
    fn new_leaf(&mut self) -> u64 {
        self.leaves_made += 1;
        (self.seed + 1) * 10_000 + self.leaves_made
    }

    fn bring(&mut self, leaf: u64, answer: &EnrolmentAnswer) {
        let EnrolmentAnswer::At(enrolled) = answer else { panic!("{answer:?}") };
        assert!(self.position.is_none_or(|position| position == enrolled.position), "the position stays");
        self.position = Some(enrolled.position);
        (self.leaf, self.standing) = (Some(leaf), Some(Standing::Member));
    }
}

/// What was seen of the group at some moment.
#[derive(Default)]
struct Seen {
    roots: BTreeMap<Root, Vec<FieldNumber>>,
    /// Rolls with their leaves; `None` for one that was removed.
    rolls: BTreeMap<RollName, Option<(RollRecord, Vec<FieldNumber>)>>,
}

/// A task that acts for some persons.
struct Actor {
    groups: GroupsHandle,
    numbers: Numbers,
    persons: Vec<Person>,
    today: Day,
    seen: Arc<Mutex<Seen>>,
    task: u64,
}

impl Actor {
    /// Calls until the outcome is known. Returns whether an earlier call may have done it.
    async fn certain<T, F: Future<Output = Result<T, GroupError>>>(
        &self,
        call: impl Fn(GroupsHandle) -> F,
    ) -> (Result<T, GroupError>, bool) {
        let mut is_again = false;
        loop {
            match timeout(PATIENCE, call(self.groups.clone())).await.expect("an answer in time") {
                Err(GroupError::Unavailable { .. }) => is_again = true,
                outcome => return (outcome, is_again),
            }
            tokio::task::yield_now().await;
        }
    }

    async fn enrol(&self, request: &EnrolmentRequest) -> Result<EnrolmentAnswer, EnrolmentError> {
        let (answer, _) =
            self.certain(|groups| async move { groups.enrol(&group(), request.clone(), None).await }).await;
        match answer {
            Ok(answer) => Ok(answer),
            Err(GroupError::Enrolment(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    async fn act(&mut self) {
        let (index, kind) = (self.numbers.below(PERSONS_OF_A_TASK) as usize, self.numbers.below(16));
        let mut person = std::mem::replace(&mut self.persons[index], Person::new(0));
        match kind {
            0..3 => self.invite(&mut person).await,
            3..8 => self.use_code(&mut person).await,
            8 | 9 => self.replace(&mut person).await,
            10 => self.leave(&mut person).await,
            11 => self.remove(&mut person).await,
            12 => self.send_refused(&mut person).await,
            13 => self.roll().await,
            _ => self.look().await,
        }
        self.persons[index] = person;
    }

    async fn invite(&self, person: &mut Person) {
        let invited = self.certain(|groups| {
            let number = person.number.clone();
            async move { groups.invite(&group(), vec![number], InvitedMembers::All).await }
        });
        let (invited, is_again) = invited.await;
        let (number, invitation, last_day) = invited.expect("it is invited").invitations.remove(0);
        assert_eq!((&number, last_day), (&person.number, self.today.plus(30)));
        assert_eq!(invitation.replaces, person.live_leaf().is_some());
        assert!(is_again || invitation.is_new == person.standing.is_none());
        if let Some(ended) = person.open_code.replace(invitation.code) {
            person.ended_code = Some(ended);
        }
        if person.position.is_none() {
            person.standing = Some(Standing::Invited);
        }
    }

    /// Joins, comes back, or replaces with a link.
    async fn use_code(&self, person: &mut Person) {
        let Some(code) = person.open_code.clone() else { return };
        let new = person.new_leaf();
        let has_leaf = person.live_leaf().is_some();
        let (right, wrong) = (join(&code, person.seed, new), replace_by_code(&code, person.seed, new));
        let (right, wrong, error) = match has_leaf {
            true => (wrong, right, EnrolmentError::UseReplace),
            false => (right, wrong, EnrolmentError::UseJoin),
        };
        assert_eq!(self.enrol(&wrong).await, Err(error));
        assert_eq!(self.enrol(&with_bad_proof(right.clone())).await, Err(EnrolmentError::LinkProofInvalid));
        let answer = self.enrol(&right).await.expect("the leaf is brought");
        person.bring(new, &answer);
        person.open_code = None;
        person.used_code = Some((code, new));
        let EnrolmentAnswer::At(again) = self.enrol(&right).await.expect("it is answered as before") else {
            panic!("a position");
        };
        assert_eq!(Some(again.position), person.position);
    }

    async fn replace(&self, person: &mut Person) {
        let Some(present) = person.leaf else { return };
        let new = person.new_leaf();
        let answer = self.enrol(&replace(present, person.seed, new)).await;
        if person.live_leaf().is_none() {
            assert_eq!(answer, Err(EnrolmentError::NotAMember));
        } else if person.replaced_on == Some(self.today) {
            assert_eq!(answer, Err(EnrolmentError::ReplacedToday));
        } else {
            person.bring(new, &answer.expect("the leaf is replaced"));
            person.replaced_on = Some(self.today);
            // The older secret is over.
            let again = self.enrol(&replace(present, person.seed, new + 5_000)).await;
            assert_eq!(again, Err(EnrolmentError::ReplacementSecretWrong));
        }
    }

    async fn leave(&self, person: &mut Person) {
        let Some(present) = person.leaf else { return };
        let answer = self.enrol(&leave(present, person.seed)).await;
        match person.standing {
            Some(Standing::Member | Standing::Leaving | Standing::Left) => {
                assert_eq!(answer, Ok(EnrolmentAnswer::Left));
                if person.live_leaf().is_some() {
                    person.standing = Some(Standing::Leaving);
                }
            }
            _ => assert_eq!(answer, Err(EnrolmentError::NotAMember)),
        }
    }

    async fn remove(&self, person: &mut Person) {
        let before = self.groups.describe(&group()).ok();
        let had = match &before {
            Some(before) => leaves(&self.groups, before).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let removed = self.certain(|groups| {
            let number = person.number.clone();
            async move { groups.remove(&group(), number).await }
        });
        let (removed, is_again) = removed.await;
        let is_removed = removed.expect("an answer");
        let is_there = |standing| standing != Standing::Removed || person.open_code.is_some();
        let is_expected = person.standing.is_some_and(is_there);
        assert!(is_removed == is_expected || (is_again && !is_removed), "{is_removed} for {:?}", person.standing);
        // From the answer on no root counts that has the leaf.
        if let (Some(before), Some(live)) = (&before, person.live_leaf())
            && had.contains(&leaf(live))
        {
            assert_eq!(self.groups.root_age(&group(), before.root, self.today.begins_at()), None);
        }
        if person.standing.is_some() {
            person.standing = Some(Standing::Removed);
        }
        if let Some(ended) = person.open_code.take() {
            person.ended_code = Some(ended);
        }
    }

    /// Sends what has to be refused.
    async fn send_refused(&self, person: &mut Person) {
        let (new, seed) = (person.new_leaf(), person.seed);
        if let Some(ended) = &person.ended_code {
            assert_eq!(self.enrol(&join(ended, seed, new)).await, Err(EnrolmentError::UnknownCode));
        }
        if let Some((used, of)) = &person.used_code {
            assert_eq!(self.enrol(&join(used, seed, new)).await, Err(EnrolmentError::CodeUsed));
            if person.live_leaf() != Some(*of) {
                assert_eq!(self.enrol(&join(used, seed, *of)).await, Err(EnrolmentError::CodeUsed));
            }
        }
        if person.live_leaf().is_some() {
            let wrong = self.enrol(&replace(new, seed, new)).await;
            assert_eq!(wrong, Err(EnrolmentError::ReplacementSecretWrong));
        }
        // Another member's seed.
        if let Some(code) = &person.open_code
            && person.live_leaf().is_none()
            && let Some(other) = self.persons.iter().find(|other| other.leaf.is_some() && other.seed != seed)
        {
            let under_two = self.enrol(&join(code, other.seed, new)).await;
            assert_eq!(under_two, Err(EnrolmentError::EnrolledUnderAnotherNumber));
        }
    }

    /// Takes a roll, or removes one of this task's.
    async fn roll(&mut self) {
        let number = self.numbers.below(3);
        let name: RollName = format!("roll-{}-{number}", self.task).parse().expect("a name");
        let is_there = self.seen.lock().await.rolls.get(&name).is_some_and(Option::is_some);
        if is_there {
            let removed = self.certain(|groups| {
                let name = name.clone();
                async move { groups.remove_roll(&group(), name).await }
            });
            let (removed, is_again) = removed.await;
            let is_unknown = matches!(removed, Err(GroupError::Roll(RollError::Unknown(_))));
            assert!(removed.is_ok() || (is_again && is_unknown), "{removed:?}");
            self.seen.lock().await.rolls.insert(name, None);
            return;
        }
        let taken = self.certain(|groups| {
            let name = name.clone();
            async move { groups.take_roll(&group(), name).await }
        });
        let (taken, is_again) = taken.await;
        let roll = match taken {
            Ok(roll) => roll,
            Err(GroupError::Roll(RollError::Taken(_))) if is_again => {
                let rolls = self.certain(|groups| async move { groups.rolls(&group()) }).await.0.expect("the rolls");
                rolls.into_iter().find(|(other, _)| *other == name).expect("the roll").1
            }
            Err(error) => panic!("{error}"),
        };
        let mut of_roll = Vec::new();
        for root in &roll.page_roots {
            let page = self.certain(|groups| async move { groups.page(&group(), *root, None).await }).await.0;
            of_roll.extend(read_page(&page.expect("it is read").expect("a roll has its pages")).expect("a page"));
        }
        of_roll.truncate(roll.size as usize);
        assert_eq!(GroupTree::of_leaves(&of_roll).root(), roll.root);
        self.seen.lock().await.rolls.insert(name, Some((roll, of_roll)));
    }

    /// Notes the root of this moment with its leaves.
    async fn look(&self) {
        let Ok(described) = self.groups.describe(&group()) else { return };
        // No proof is made against the tree without positions.
        if described.size > 0
            && let Some(leaves) = leaves(&self.groups, &described).await
        {
            self.seen.lock().await.roots.insert(described.root, leaves);
        }
    }
}

async fn kill_keeper(instance: &str) {
    let name = format!("{instance}/group-keeper");
    let killing = async {
        while match where_is(name.clone()) {
            Some(cell) => cell.kill_and_wait(Some(PATIENCE)).await.is_err(),
            None => true,
        } {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, killing).await.expect("the keeper dies");
}

/// Restarts the keeper, and waits until it has taken the leaves of those who have left out of the
/// tree. Then nothing changes by itself.
async fn settle(community: &Community) {
    kill_keeper(&community.instance).await;
    let settling = async {
        loop {
            let members = community.groups.members(&group()).await.expect("the members");
            let status = community.groups.status().remove(0);
            let is_leaving = members.iter().any(|(_, record)| record.standing == Standing::Leaving);
            let shown = members.iter().filter(|(_, record)| record.standing == Standing::Member).count();
            if !is_leaving && status.members as usize == shown {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, settling).await.expect("the leaves of those who have left go");
}

/// What the group has, beside what the model and the observers know.
async fn check(community: &Community, persons: &[&Person], seen: &Seen) {
    let groups = &community.groups;
    let now = community.clock.unix_seconds();
    let described = groups.describe(&group()).expect("the group");
    let present = leaves(groups, &described).await.expect("the newest root has its pages");
    // Members and their leaves. The leaf of a member who has left may be there still.
    let members: BTreeMap<_, _> = groups.members(&group()).await.expect("the members").into_iter().collect();
    let known: Vec<_> = persons.iter().filter(|person| person.standing.is_some()).collect();
    assert_eq!(members.len(), known.len());
    let mut expected = vec![FieldNumber::ZERO; present.len()];
    for person in &known {
        let record = &members[&person.number];
        let standing = person.standing.expect("it is known");
        let has_left = standing == Standing::Leaving && record.standing == Standing::Left;
        assert!(record.standing == standing || has_left, "{:?} {record:?}", person.standing);
        assert_eq!((record.position, record.leaf), (person.position, person.leaf.map(leaf)));
        assert_eq!(record.open_code, person.open_code.as_ref().map(Code::hash));
        assert_eq!(record.replaced_on, person.replaced_on);
        assert_eq!(record.replacement_hash, person.leaf.map(|leaf| SecretHash::of(&secret(leaf).0)));
        if let Some(position) = person.position
            && matches!(record.standing, Standing::Member | Standing::Leaving)
        {
            expected[position as usize] = leaf(person.leaf.expect("a leaf"));
        }
    }
    assert_eq!(present, expected);
    let positions: BTreeSet<_> = known.iter().filter_map(|person| person.position).collect();
    assert_eq!(positions, (0..described.size).collect::<BTreeSet<_>>(), "each position is one number's");
    let in_tree = present.iter().filter(|leaf| **leaf != FieldNumber::ZERO).count();
    assert_eq!(described.members as usize, in_tree);
    let status = groups.status().remove(0);
    let open = known.iter().filter(|person| person.open_code.is_some()).count();
    assert_eq!((status.invited as usize, status.open_codes as usize), (known.len(), open));
    assert_eq!(status.failure, None);
    // Each root that was ever seen counts exactly while its leaves are there.
    for (root, leaves) in &seen.roots {
        let is_live = leaves.iter().zip(&present).all(|(leaf, now)| *leaf == FieldNumber::ZERO || leaf == now);
        assert_eq!(groups.root_age(&group(), *root, now).is_some(), is_live, "{root:?}");
        for page in leaves.chunks(1024) {
            let root = page_root(page);
            let served = groups.page(&group(), root, None).await.expect("it is read");
            assert!(served.is_some() || !is_live, "a live root has its pages");
            assert!(served.is_none_or(|served| served == page_bytes(page)));
        }
    }
    // The rolls have what they had.
    let rolls: BTreeMap<_, _> = groups.rolls(&group()).expect("the rolls").into_iter().collect();
    let there = seen.rolls.iter().filter_map(|(name, roll)| Some((name.clone(), roll.as_ref()?.0.clone())));
    assert_eq!(rolls, there.collect::<BTreeMap<_, _>>());
    assert_eq!(described.rolls.len(), rolls.len());
    for (roll, leaves) in seen.rolls.values().flatten() {
        for (root, page) in roll.page_roots.iter().zip(leaves.chunks(1024)) {
            let served = groups.page(&group(), *root, None).await.expect("it is read").expect("a roll has its pages");
            assert_eq!(served, page_bytes(page));
        }
    }
}

/// Faults at the steps of the keeper, in this service.
#[cfg(feature = "fault-injection")]
fn faults(instance: &str) -> crate::faults::Running {
    use crate::faults::{Fault, FaultPoint, Plan};
    Plan::for_instance(instance)
        .strike_with_probability(FaultPoint::GroupStepBefore, Fault::Error, 5)
        .strike_with_probability(FaultPoint::GroupStepAfter, Fault::Error, 5)
        .strike_with_probability(FaultPoint::GroupKeeperHandle, Fault::Panic, 2)
        .run()
}

async fn play(seed: u64) {
    eprintln!("seed {seed}; TEST_SEED sets the first of three");
    let instance = format!("group-model-{seed}");
    let mut community = Community::start(&instance).await;
    let mut numbers = Numbers(seed);
    let seen = Arc::<Mutex<Seen>>::default();
    let mut persons: Vec<Vec<Person>> = (0..TASKS)
        .map(|task| (0..PERSONS_OF_A_TASK).map(|person| Person::new(100 * (task + 1) + person)).collect())
        .collect();
    for round in 0..ROUNDS {
        let today = Day::of(community.clock.unix_seconds());
        #[cfg(feature = "fault-injection")]
        let plan = faults(&instance);
        let acting = persons.into_iter().zip(0..).map(|(persons, task)| {
            let mut actor = Actor {
                groups: community.groups.clone(),
                numbers: Numbers(seed ^ (task << 32) ^ ((round as u64) << 48)),
                persons,
                today,
                seen: Arc::clone(&seen),
                task,
            };
            tokio::spawn(async move {
                for _ in 0..ACTS_OF_A_ROUND {
                    actor.act().await;
                }
                actor.persons
            })
        });
        let acting: Vec<_> = acting.collect();
        for _ in 0..numbers.below(4) {
            kill_keeper(&instance).await;
        }
        let acted = join_all(acting).await;
        persons =
            acted.into_iter().map(|persons| persons.unwrap_or_else(|error| panic!("seed {seed}: {error}"))).collect();
        #[cfg(feature = "fault-injection")]
        drop(plan);
        settle(&community).await;
        let all: Vec<&Person> = persons.iter().flatten().collect();
        check(&community, &all, &*seen.lock().await).await;
        if numbers.below(2) == 0 {
            community = community.restart().await;
        } else {
            kill_keeper(&instance).await;
        }
        check(&community, &all, &*seen.lock().await).await;
        // The leaves of those who have left go within the hour, and a day has one replacement.
        community.clock.advance(Duration::from_secs(numbers.below(100_000)));
    }
    assert!(seen.lock().await.roots.len() > 5, "seed {seed}: too little was seen");
    community.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acts_of_many_at_once_give_what_a_model_says_through_deaths_and_restarts() {
    let first = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    for seed in first..first + 3 {
        play(seed).await;
    }
}
