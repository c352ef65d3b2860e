//! Histories of proof verification: clients race to verify the same people for one action, while
//! commits are refused or their outcome is unknown, and actors and the process die. All answers,
//! and the counts that are stored at the end, could be those of one counter for each person that is
//! asked one time after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::NullifierKey;
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_storage::{GroupCommit, Store, VerificationRecords};

use super::linearizability::{Call, SequentialObject, linearize};
use super::people::{self, ACTION, APP, HERE, nullifier};
use super::{CLIENTS, DOMAIN, check_repeats, checks, play_and_count};
use crate::simulation::{EventLog, FaultRates, Run, Simulation};
use crate::{Settings, VerificationError, VerificationHandle};

/// Few people, so that clients meet.
const PEOPLE: usize = 3;

/// The longest run, in simulated time.
const MAX_RUN: Duration = Duration::from_secs(1);

/// The longest pause of a client between two calls.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// People, each once, and what came of their request.
#[derive(Clone, Debug)]
struct Verified {
    people: Vec<usize>,
    outcome: Outcome,
}

#[derive(Clone, Debug)]
enum Outcome {
    /// The first person's count, and whether any of them had been seen before.
    Counted { first: u64, is_reuse: bool },
    /// One of them had acted as often as the action allows.
    Refused,
    /// The counts that are stored.
    Read(Vec<u64>),
    /// An error: it may have been counted or not.
    Unknown,
}

/// How often each person has acted.
struct Counters {
    most: u64,
}

impl Counters {
    fn is_full(&self, count: u64) -> bool {
        self.most > 0 && count >= self.most
    }
}

impl SequentialObject for Counters {
    type State = Vec<u64>;
    type Call = Verified;

    fn serve(&self, counts: &Vec<u64>, call: &Verified) -> Option<Vec<u64>> {
        let is_refused = call.people.iter().any(|person| self.is_full(counts[*person]));
        let counted = || {
            let mut counts = counts.clone();
            call.people.iter().for_each(|person| counts[*person] += 1);
            counts
        };
        match &call.outcome {
            Outcome::Refused => is_refused.then(|| counts.clone()),
            Outcome::Read(read) => (read == counts).then(|| counts.clone()),
            _ if is_refused => None,
            Outcome::Unknown => Some(counted()),
            Outcome::Counted { first, is_reuse } => {
                let was_seen = call.people.iter().any(|person| counts[*person] > 0);
                (counts[call.people[0]] + 1 == *first && was_seen == *is_reuse).then(counted)
            }
        }
    }

    fn is_read(&self, call: &Verified) -> bool {
        matches!(call.outcome, Outcome::Refused | Outcome::Read(_))
    }
}

/// The calls of a history.
#[derive(Clone)]
struct Calls {
    calls: Arc<Mutex<Vec<Call<Verified>>>>,
    moments: Arc<Mutex<u64>>,
    log: EventLog,
}

impl Calls {
    fn new(log: EventLog) -> Self {
        Self { calls: Arc::default(), moments: Arc::default(), log }
    }

    fn moment(&self) -> u64 {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        *moments += 1;
        *moments
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call<Verified>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the begin of a call, which has no outcome yet.
    fn begin(&self, people: Vec<usize>) -> usize {
        self.log.note(format!("verify {people:?}"));
        let content = Verified { people, outcome: Outcome::Unknown };
        let call = Call { content, began: self.moment(), ended: None };
        self.calls().push(call);
        self.calls().len() - 1
    }

    fn end(&self, number: usize, outcome: Outcome) {
        self.log.note(format!("{number}: {outcome:?}"));
        let ended = self.moment();
        let call = &mut self.calls()[number];
        (call.content.outcome, call.ended) = (outcome, Some(ended));
    }
}

async fn run_client(verification: VerificationHandle, run: Run, calls: Calls) {
    let random = run.random();
    for _ in 0..=random.below(4) {
        random.pause(MAX_PAUSE).await;
        let first = random.below(PEOPLE as u64) as usize;
        let second = (first + 1) % PEOPLE;
        let people = if random.once_in(3) { vec![first, second] } else { vec![first] };
        let request = VerificationRequest::read(&people::request(&people, ACTION)).expect("it is well-formed");
        let number = calls.begin(people);
        match verification.verify(None, APP, request, verification.deadline()).await {
            Ok(verified) => {
                assert!(verified.results.iter().all(|result| result.success), "every proof is accepted");
                let first = verified.nullifier.expect("it is recorded").verifications;
                calls.end(number, Outcome::Counted { first, is_reuse: verified.is_reuse });
            }
            Err(VerificationError::MaxVerifications { .. }) => calls.end(number, Outcome::Refused),
            Err(VerificationError::Unavailable { .. } | VerificationError::Store(_)) => {
                run.note(format!("{number} has no answer"));
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
}

/// The counts in a store that no service uses.
fn stored_counts(store: &Store) -> Vec<u64> {
    let (group_commit, _) = GroupCommit::manual(store.clone());
    let records = VerificationRecords::new(store.clone(), group_commit);
    let action = ActionKey::new(APP, HERE.0, ACTION);
    let count = |person| {
        let record = records.nullifier(&NullifierKey { action, nullifier: nullifier(person) });
        record.expect("the read succeeds").map_or(0, |record| record.verifications)
    };
    (0..PEOPLE).map(count).collect()
}

/// Plays a history, and returns how many verifications were counted. The model lets people act
/// `most_extra` times more often than the service does.
pub(super) fn play(simulation: &mut Simulation, rates: FaultRates, most_extra: u64) -> u64 {
    let store = simulation.new_store(DOMAIN).expect("the store opens");
    let most = *simulation.random().pick(&[0, 1, 2, 5]);
    let calls = Calls::new(simulation.log().clone());
    for _ in 0..=simulation.random().below(3) {
        simulation.run(rates, async |run| {
            let settings = Settings { verification: people::settings(most), ..Settings::for_instance("verification") };
            let service = run.service(settings, &store).start().await.expect("the service starts");
            for _ in 0..CLIENTS {
                run.spawn(run_client(service.verification(), run.clone(), calls.clone()));
            }
            run.random().pause(MAX_RUN).await;
        });
    }
    let number = calls.begin(Vec::new());
    calls.end(number, Outcome::Read(stored_counts(&store)));
    let most = if most == 0 { 0 } else { most + most_extra };
    let all = calls.calls().clone();
    if let Err(unexplained) = linearize(&Counters { most }, vec![0; PEOPLE], &all) {
        let unexplained: Vec<_> = unexplained.into_iter().map(|index| &all[index]).collect();
        panic!("the counts are not those of one counter for each person: {unexplained:?} among {all:#?}");
    }
    checks::check_store(&store);
    all.iter().filter(|call| matches!(call.content.outcome, Outcome::Counted { .. })).count() as u64
}

fn play_right(simulation: &mut Simulation) -> u64 {
    play(simulation, FaultRates::default(), 0)
}

#[test]
fn every_verification_is_counted_once() {
    play_and_count("verification", "TEST_VERIFICATION_HISTORIES", 3, play_right);
}

#[test]
fn a_seed_repeats_its_history_of_verification() {
    check_repeats(1..11, play_right);
}
