//! Histories that were written by hand: what clients are told, and what a replica refuses.

use super::*;

/// What it shows, the steps, and the answers.
type Case = (&'static str, Vec<Step>, Vec<Option<Answer>>);

/// Replica 0 leads at the start. What clients of a few short histories are told.
#[test]
fn clients_are_told_what_is_known() {
    use Answer::{Done, NotDone, Refused};
    use JournalFault::{AnswerLost, NotSent, RequestLate, RequestLost};
    use Step::{Admit, Commit, DeliverLate, Elect, Fault, Follow, Restart, Write};
    let append = |replica, fault| Fault(replica, JournalCall::Append, fault);
    let read = |replica, fault| Fault(replica, JournalCall::Read, fault);
    let cases: Vec<Case> = vec![
        (
            "two clients with the same record",
            vec![Write(0, 1), Write(0, 1), Commit(0)],
            vec![Some(Done), Some(NotDone)],
        ),
        ("a follower decides nothing", vec![Admit(1), Write(1, 1), Commit(1)], vec![Some(Refused), Some(Refused)]),
        ("the journal is not reached", vec![append(0, NotSent), Admit(0), Commit(0)], vec![Some(Refused)]),
        ("the request is lost", vec![append(0, RequestLost), Admit(0), Commit(0), Commit(0)], vec![Some(Done)]),
        ("the answer is lost", vec![append(0, AnswerLost), Admit(0), Commit(0)], vec![Some(Done)]),
        (
            "the answer is lost, and the journal cannot be read",
            vec![append(0, AnswerLost), read(0, RequestLost), Admit(0), Commit(0), Commit(0)],
            vec![Some(Done)],
        ),
        (
            "the request comes late, after it was sent again",
            vec![append(0, RequestLate), Admit(0), Commit(0), Commit(0), DeliverLate],
            vec![Some(Done)],
        ),
        (
            "the request comes late, and another leader began",
            vec![append(0, RequestLate), Admit(0), Commit(0), Elect(2), DeliverLate],
            vec![Some(Refused)],
        ),
        (
            "the answer is lost, and another leader began",
            vec![append(0, AnswerLost), read(0, RequestLost), Admit(0), Commit(0), Elect(2), Admit(2), Commit(2)],
            vec![Some(Done), Some(Done)],
        ),
        (
            "a leader that was deposed does not know it",
            vec![Elect(2), Write(2, 1), Commit(2), Write(0, 1), Commit(0)],
            vec![Some(Done), Some(Refused)],
        ),
        (
            "what one leadership left is not written by the next one",
            vec![Admit(0), Elect(2), Admit(2), Commit(2), Elect(0), Commit(0)],
            vec![Some(Refused), Some(Done)],
        ),
        (
            "a process dies before it writes what the journal has",
            vec![
                append(0, AnswerLost),
                read(0, RequestLost),
                Write(0, 1),
                Commit(0),
                Restart(0),
                Elect(0),
                Write(0, 1),
            ],
            vec![None, Some(Refused)],
        ),
        (
            "a follower becomes the leader, and has what the leader before wrote",
            vec![Write(0, 1), Commit(0), Follow(1), Elect(1), Write(1, 1), Commit(1)],
            vec![Some(Done), Some(Done)],
        ),
    ];
    for (name, steps, expected) in cases {
        assert_eq!(play(&steps).of_steps(), expected, "{name}");
    }
}

/// What was before the first entry that the journal still has is in the stores of other replicas
/// only.
#[test]
fn a_replica_that_is_behind_the_journal_says_so() {
    let journal = MemoryJournal::default();
    let answers = SharedAnswers::default();
    let (mut ahead, mut behind) = (Machine::new(&journal), Machine::new(&journal));
    ahead.process().elect(&journal);
    for number in 1..=3 {
        ahead.process().admit(number, &answers);
        ahead.process().commit();
    }
    behind.process().follow(&journal);
    let client = journal.client(|_| JournalFault::None);
    block_on(client.truncate(Position(2))).expect("the first entry is removed");
    behind.process().catch_up().expect("it needs the second entry first");
    let mut empty = Machine::new(&journal);
    let refused = empty.process().catch_up().expect_err("the first entry is gone");
    let expected = "the journal begins at position 2: what was before it is in the stores of the other replicas";
    assert_eq!(refused.to_string(), expected);
    assert!(!refused.is_transient());
    block_on(client.truncate(Position(4))).expect("every entry is removed");
    assert_eq!(block_on(client.head()), Ok((Position(3), Term(1))), "the end stays");
    ahead.process().admit(4, &answers);
    ahead.process().commit();
    behind.process().catch_up().expect("it has what was removed");
    assert_eq!(behind.process().replica.position(), Position(4));
}

/// A leader that was replaced without notice may know less than who asks it.
#[test]
fn a_write_is_decided_against_only_with_all_that_the_journal_has() {
    let journal = MemoryJournal::default();
    let answers = SharedAnswers::default();
    let (mut old, mut new) = (Machine::new(&journal), Machine::new(&journal));
    old.process().elect(&journal);
    new.process().elect(&journal);
    new.process().write(1, 1, &answers);
    new.process().commit();
    let key = RecordKey { kind: RecordKind::AuthorizationCode, id: B256::repeat_byte(1) };
    let records = |machine: &mut Machine| {
        let process = machine.process();
        EmbeddedRecords::new(process.store.clone(), process.commits.clone())
    };
    let before = records(&mut new).get(&key).expect("the record is read");
    let decision = |machine: &mut Machine, before: &Option<StoredRecord>| {
        let (told, decision) = std::sync::mpsc::channel();
        let delete = RecordWrite { key, before: before.clone(), after: None };
        records(machine).compare_and_write(vec![delete], Box::new(move |decision| drop(told.send(decision))));
        machine.process().commit();
        decision.try_recv().expect("it is decided")
    };
    assert!(matches!(decision(&mut old, &before), Err(StoreError::Replica(ReplicaError::NotLeading))));
    new.faults.lock().expect("no panic").push((JournalCall::Read, JournalFault::NotSent));
    let unknown = decision(&mut new, &None).expect_err("the journal cannot be asked");
    assert!(matches!(&unknown, StoreError::Replica(ReplicaError::Journal(_))), "{unknown}");
    assert!(matches!(decision(&mut new, &None), Ok(Decision::Changed)));
    assert!(matches!(decision(&mut new, &before), Ok(Decision::Written)));
}

/// Without this, a leader would append after the end of a journal that lost its last entries.
/// Another replica has a disk of its own.
#[test]
fn a_leader_steps_down_at_the_first_write_that_its_store_refuses() {
    let journal = MemoryJournal::default();
    let answers = SharedAnswers::default();
    let mut machine = Machine::new(&journal);
    machine.process().elect(&journal);
    machine.process().admit(1, &answers);
    machine.process().commit();
    assert!(machine.process().replica.leading().is_some());
    machine.process().admit(2, &answers);
    machine.process().committer.commit_queued(ManualOutcome::Fail(StoreError::Injected { point: "a disk" }));
    assert_eq!(machine.process().replica.leading(), None);
    // It may lead again, and then has what the journal has.
    machine.process().elect(&journal);
    machine.process().admit(3, &answers);
    machine.process().commit();
    assert!(machine.process().replica.leading().is_some());
}

#[test]
fn a_journal_that_lacks_what_the_store_has_is_refused() {
    let (journal, other) = (MemoryJournal::default(), MemoryJournal::default());
    let answers = SharedAnswers::default();
    let mut machine = Machine::new(&journal);
    machine.process().elect(&journal);
    machine.process().admit(1, &answers);
    machine.process().commit();
    let store = &machine.process().store;
    let replica = Replica::open(store, other.client(|_| JournalFault::None)).expect("the store is read");
    let refused = block_on(replica.end()).expect_err("the journal is empty");
    let expected = "the store has the journal's entries up to 1, and the journal ends at 0: it is another journal, or an \
                    older copy of this one; see \"etcd has an older copy of its data\" in docs/cluster.md";
    assert_eq!(refused.to_string(), expected);
    assert!(!refused.is_transient());

    // What others append to it later does not follow what the store has.
    let mut another = Machine::new(&other);
    another.process().elect(&other);
    for number in 2..=3 {
        another.process().admit(number, &answers);
        another.process().commit();
    }
    assert_eq!(block_on(replica.end()), Err(refused.clone()));
    let entry = other.entries().remove(1);
    assert!(replica.apply(store, &entry).expect_err("the histories differ").to_string().contains(expected));

    // After a start, too, although the journal is longer than the store by then.
    let replica = Replica::open(store, other.client(|_| JournalFault::None)).expect("the store is read");
    let apart = block_on(replica.end()).expect_err("the first entries differ");
    let expected = "entry 1 of the journal is another one than the store's: it is another journal, or went on from an older \
                    copy of this one; see \"etcd has an older copy of its data\" in docs/cluster.md";
    assert_eq!(apart.to_string(), expected);
    assert!(replica.apply(store, &entry).expect_err("the histories differ").to_string().contains(expected));

    // What the journal no longer has cannot be compared.
    let client = other.client(|_| JournalFault::None);
    block_on(client.truncate(Position(2))).expect("the first entry is removed");
    let replica = Replica::open(store, client).expect("the store is read");
    assert_eq!(block_on(replica.end()), Ok(Position(2)));
}

#[test]
fn a_write_that_no_entry_can_hold_is_refused_alone() {
    let journal = MemoryJournal::default();
    let mut machine = Machine::new(&journal);
    let process = machine.process();
    process.elect(&journal);
    let records = EmbeddedRecords::new(process.store.clone(), process.commits.clone());
    let (sender, outcomes) = std::sync::mpsc::channel();
    for (number, length) in [(1, 10), (2, LARGEST_ENTRY), (3, LARGEST_ENTRY / 2), (4, LARGEST_ENTRY / 2)] {
        let key = RecordKey { kind: RecordKind::AuthorizationCode, id: B256::repeat_byte(number) };
        let after = Some(StoredRecord { value: vec![number; length], expires_at: UnixSeconds(1) });
        let sender = sender.clone();
        let decided = move |outcome| sender.send((number, outcome)).expect("the test waits");
        records.compare_and_write(vec![RecordWrite { key, before: None, after }], Box::new(decided));
    }
    for _ in 0..4 {
        process.commit();
    }
    let outcomes: BTreeMap<u8, Result<Decision, StoreError>> = outcomes.try_iter().collect();
    assert_eq!(outcomes.len(), 4);
    for (number, outcome) in outcomes {
        match number {
            2 => assert!(matches!(outcome, Err(StoreError::Replica(ReplicaError::TooLarge { .. }))), "{outcome:?}"),
            _ => assert!(matches!(outcome, Ok(Decision::Written)), "{number}: {outcome:?}"),
        }
    }
    assert!(journal.entries().iter().all(|entry| entry.bytes.len() <= LARGEST_ENTRY));
}

/// Why a store does not open again that has six entries and three applied blocks, synced after the
/// first of these, and then lost some records.
fn refusal_without(lost: &[(&'static str, Vec<u8>)]) -> Option<String> {
    let journal = MemoryJournal::default();
    let answers = SharedAnswers::default();
    let mut machine = Machine::new(&journal);
    let process = machine.process();
    process.elect(&journal);
    for number in 1..=3 {
        process.admit(number, &answers);
        process.commit();
        process.seal(number, &answers);
        process.commit();
        assert!(process.apply_block());
        if number == 1 {
            process.sync();
        }
    }
    assert_eq!(process.replica.position(), Position(6));
    let mut changes = Changes::default();
    for (family, key) in lost {
        let found = process.store.database().read(family, key).expect("it is read");
        assert!(found.is_some(), "{family} has the record");
        changes.delete_raw(family, key);
    }
    process.store.database().write(changes, true).expect("the records are deleted");
    machine.process = None;
    Store::open(Path::new("/replica"), &machine.options()).err().map(|error| error.to_string())
}

/// A power failure took the end of an older log, and a newer one has what came later.
#[test]
fn a_store_with_a_gap_is_refused() {
    let mark = |position: u64| (META, [b"journal_entry/".as_slice(), &encode(&position)].concat());
    assert_eq!(refusal_without(&[]), None);
    for position in 3..=6 {
        let refusal = refusal_without(&[mark(position)]).expect("a refusal");
        assert!(refusal.contains(&format!("the store lacks entry {position} of the journal")), "{refusal}");
    }
    let refusal = refusal_without(&[(family::BLOCKS.name, encode(&3u64))]).expect("a refusal");
    assert!(refusal.contains("the store lacks block 3") && refusal.contains("another replica"), "{refusal}");
    let refusal = refusal_without(&[(family::RESULTS.name, encode(&2u64))]).expect("a refusal");
    assert!(refusal.contains("result of block 2"), "{refusal}");
}
