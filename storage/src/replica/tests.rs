//! Histories of three replicas on one journal that fails: calls that are lost, late or without an
//! answer, leaders that are deposed and do not know it, processes that die. Each is a list of
//! steps, so that a failing one is shortened to what matters.

mod cases;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use alloy_primitives::B256;
use futures_executor::block_on;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::UnixSeconds;

use super::*;
use crate::journal::LARGEST_ENTRY;
use crate::schema::family::{ALL, META};
use crate::tests::{DOMAIN, commit, create};
use crate::{
    Committer, Decision, EmbeddedLedger, EmbeddedRecords, GroupCommit, JournalCall, JournalFault, Ledger, LedgerError,
    LedgerReader, ManualOutcome, MemoryDisk, MemoryJournal, OpenOptions, RecordKey, RecordKind, RecordWrite, Records,
    RequestWriter, Resources, StoredRecord, TakenGroup,
};

const REPLICAS: usize = 3;

/// Something that happens to one of the replicas.
#[derive(Clone, Debug)]
enum Step {
    /// A client asks for an account.
    Admit(usize),
    /// A client writes a record that it has read.
    Write(usize, u8),
    /// The queued requests are sealed into a block.
    Seal(usize),
    /// The group commit takes what waits, or makes another attempt for what it took.
    Commit(usize),
    /// The next entry of the journal is applied.
    Follow(usize),
    /// The next block is applied.
    ApplyBlock(usize),
    /// The process dies, and another one starts.
    Restart(usize),
    /// The replica becomes the leader. The one before does not notice.
    Elect(usize),
    /// Something goes wrong with the replica's next call of this kind.
    Fault(usize, JournalCall, JournalFault),
    /// The store is synced.
    Sync(usize),
    /// What is late arrives.
    DeliverLate,
}

fn step() -> impl Strategy<Value = Step> {
    let replica = || 0..REPLICAS;
    let call = prop_oneof![3 => Just(JournalCall::Append), 1 => Just(JournalCall::Read)];
    let fault = prop_oneof![
        Just(JournalFault::NotSent),
        Just(JournalFault::RequestLost),
        Just(JournalFault::RequestLate),
        Just(JournalFault::AnswerLost),
    ];
    prop_oneof![
        6 => replica().prop_map(Step::Admit),
        6 => (replica(), 0..3u8).prop_map(|(replica, key)| Step::Write(replica, key)),
        3 => replica().prop_map(Step::Seal),
        12 => replica().prop_map(Step::Commit),
        5 => replica().prop_map(Step::Follow),
        3 => replica().prop_map(Step::ApplyBlock),
        1 => replica().prop_map(Step::Restart),
        2 => replica().prop_map(Step::Elect),
        4 => (replica(), call, fault).prop_map(|(replica, call, fault)| Step::Fault(replica, call, fault)),
        1 => replica().prop_map(Step::Sync),
        1 => Just(Step::DeliverLate),
    ]
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    /// Decided against: the condition did not hold.
    NotDone,
    /// Refused: nothing was written.
    Refused,
    /// Not known.
    Unknown,
}

impl Answer {
    fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Replica(error) if error.is_certain() => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

/// What was handed in, with its answer if there was one.
#[derive(Default)]
struct Answers {
    admissions: BTreeMap<RequestId, Option<Answer>>,
    /// By the new value of the record.
    writes: BTreeMap<u64, Option<Answer>>,
    /// By the hash of the block.
    blocks: BTreeMap<B256, Option<Answer>>,
}

type SharedAnswers = Arc<Mutex<Answers>>;

/// The process of a replica.
struct Process {
    store: Store,
    replica: Arc<Replica>,
    commits: GroupCommit,
    committer: Committer,
    taken: Option<TakenGroup>,
    /// The sequence number of the last request that this leadership admitted.
    last_sequence: u64,
}

/// A machine: its disk stays when the process dies.
struct Machine {
    disk: MemoryDisk,
    process: Option<Process>,
    faults: Arc<Mutex<Vec<(JournalCall, JournalFault)>>>,
}

impl Machine {
    fn new(journal: &MemoryJournal) -> Self {
        let disk = MemoryDisk::new().expect("a disk in memory");
        let mut machine = Self { disk, process: None, faults: Arc::default() };
        machine.start(journal);
        machine
    }

    fn start(&mut self, journal: &MemoryJournal) {
        let store = Store::open(Path::new("/replica"), &self.options()).expect("the store opens");
        let faults = Arc::clone(&self.faults);
        let client = journal.client(move |call| {
            let mut faults = faults.lock().expect("no panic");
            let index = faults.iter().position(|(of, _)| *of == call);
            index.map_or(JournalFault::None, |index| faults.remove(index).1)
        });
        let replica = Arc::new(Replica::open(&store, client).expect("the position is read"));
        let (commits, committer) = GroupCommit::manual_on_journal(store.clone(), Arc::clone(&replica), None);
        self.process = Some(Process { store, replica, commits, committer, taken: None, last_sequence: 0 });
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            in_memory: Some(self.disk.clone()),
            resources: Resources::with_cache(1 << 20),
            ..OpenOptions::new(DOMAIN)
        }
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("a process runs")
    }
}

impl Process {
    fn elect(&mut self, journal: &MemoryJournal) {
        let term = journal.begin_term();
        if self.catch_up().is_ok() {
            self.replica.lead(term);
            self.last_sequence = self.store.last_sequence().expect("the queue is read");
        }
    }

    fn admit(&mut self, number: u64, answers: &SharedAnswers) {
        self.last_sequence += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let entry = Entry { request_id: RequestId::from_random(id), operation: create(number as u8) };
        let request_id = entry.request_id;
        answers.lock().expect("no panic").admissions.insert(request_id, None);
        let answers = Arc::clone(answers);
        let durable = move |result: Result<(), StoreError>| {
            let answer = result.map_or_else(|error| Answer::of(&error), |()| Answer::Done);
            answers.lock().expect("no panic").admissions.insert(request_id, Some(answer));
        };
        let writer = RequestWriter::new(self.store.clone(), self.commits.clone());
        writer.admit(self.last_sequence, entry, None, Box::new(durable));
    }

    fn write(&mut self, key: u8, number: u64, answers: &SharedAnswers) {
        let records = EmbeddedRecords::new(self.store.clone(), self.commits.clone());
        let key = RecordKey { kind: RecordKind::AuthorizationCode, id: B256::repeat_byte(key) };
        let before = records.get(&key).expect("the record is read");
        let after = Some(StoredRecord { value: encode(&number), expires_at: UnixSeconds(number) });
        answers.lock().expect("no panic").writes.insert(number, None);
        let answers = Arc::clone(answers);
        let decided = move |result: Result<Decision, StoreError>| {
            let answer = match result {
                Ok(Decision::Written) => Answer::Done,
                Ok(Decision::Changed) => Answer::NotDone,
                Err(error) => Answer::of(&error),
            };
            answers.lock().expect("no panic").writes.insert(number, Some(answer));
        };
        records.compare_and_write(vec![RecordWrite { key, before, after }], Box::new(decided));
    }

    fn seal(&mut self, number: u64, answers: &SharedAnswers) {
        let ledger = EmbeddedLedger::open(self.store.clone()).expect("the ledger opens");
        let queued = self.store.queued_after(0, 100).expect("the queue is read");
        let is_open = |entry: &Entry| ledger.place(&entry.request_id).expect("the place is read").is_none();
        let entries: Vec<_> = queued.into_iter().map(|(_, entry)| entry).filter(is_open).collect();
        if entries.is_empty() {
            return;
        }
        let block = Block::seal(&ledger.head(), DOMAIN, UnixSeconds(number), RuleParameters::default(), entries);
        let hash = block.header.hash();
        answers.lock().expect("no panic").blocks.insert(hash, None);
        let answers = Arc::clone(answers);
        let appended = move |result: Result<(), LedgerError>| {
            let answer = match result {
                Ok(()) => Answer::Done,
                Err(LedgerError::Store(error)) => Answer::of(&error),
                Err(_) => Answer::NotDone,
            };
            answers.lock().expect("no panic").blocks.insert(hash, Some(answer));
        };
        ledger.append(&block, &self.commits, Box::new(appended));
    }

    fn commit(&mut self) {
        let taken = self.taken.take().or_else(|| self.committer.take_queued());
        self.taken = taken.and_then(|taken| block_on(self.committer.attempt(taken)));
    }

    /// Applies everything that the journal has.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        let end = block_on(self.replica.end())?;
        while self.replica.position() < end {
            let next = block_on(self.replica.follow().next());
            self.replica.apply(&self.store, &next.expect("the stream ends with an error")?)?;
        }
        Ok(())
    }

    /// Applies the next entry that the journal has.
    fn follow(&mut self, journal: &MemoryJournal) {
        let after = self.replica.position();
        if let Some(entry) = journal.entries().into_iter().find(|entry| entry.position > after) {
            self.replica.apply(&self.store, &entry).expect("the entry is applied");
        }
    }

    fn sync(&mut self) {
        let synced = self.replica.sync(&self.store).expect("the store is synced");
        assert_eq!(synced, self.replica.position());
    }

    /// Applies the next block, if there is one.
    fn apply_block(&mut self) -> bool {
        let ledger = EmbeddedLedger::open(self.store.clone()).expect("the ledger opens");
        let height = self.store.snapshot().expect("a snapshot").tip().seal.height + 1;
        let Some(block) = ledger.block(height).expect("the block is read") else { return false };
        commit(&self.store, &block).expect("the block is applied");
        true
    }
}

/// Plays the steps, then ends all faults and checks what is left. Returns what clients were told.
fn play(steps: &[Step]) -> Answers {
    let journal = MemoryJournal::default();
    let answers = SharedAnswers::default();
    let mut machines: Vec<_> = (0..REPLICAS).map(|_| Machine::new(&journal)).collect();
    machines[0].process().elect(&journal);
    for (number, step) in (1..).zip(steps) {
        match *step {
            Step::Admit(replica) => machines[replica].process().admit(number, &answers),
            Step::Write(replica, key) => machines[replica].process().write(key, number, &answers),
            Step::Seal(replica) => machines[replica].process().seal(number, &answers),
            Step::Commit(replica) => machines[replica].process().commit(),
            Step::Follow(replica) => machines[replica].process().follow(&journal),
            Step::ApplyBlock(replica) => drop(machines[replica].process().apply_block()),
            Step::Restart(replica) => {
                machines[replica].process = None;
                machines[replica].start(&journal);
            }
            Step::Elect(replica) => machines[replica].process().elect(&journal),
            Step::Fault(replica, call, fault) => machines[replica].faults.lock().expect("no panic").push((call, fault)),
            Step::Sync(replica) => machines[replica].process().sync(),
            Step::DeliverLate => journal.deliver_late(),
        }
    }
    machines.iter().for_each(|machine| machine.faults.lock().expect("no panic").clear());
    journal.deliver_late();
    machines[1].process().elect(&journal);
    for machine in &mut machines {
        let process = machine.process();
        // Everything that waits gets its answer.
        for _ in 0..2 * steps.len() {
            process.commit();
        }
        assert!(process.taken.is_none(), "an append has no outcome");
    }
    for machine in &mut machines {
        let process = machine.process();
        process.catch_up().expect("it catches up");
        while process.apply_block() {}
        process.sync();
    }
    check_journal(&journal, &answers.lock().expect("no panic"));
    let first = contents(&machines[0].process().store);
    for machine in &mut machines[1..] {
        assert_eq!(contents(&machine.process().store), first, "the replicas' records differ");
    }
    drop(machines);
    Arc::into_inner(answers).expect("no callback is left").into_inner().expect("no panic")
}

impl Answers {
    /// The answers to admissions and writes, in the order of the steps.
    fn of_steps(&self) -> Vec<Option<Answer>> {
        let number =
            |request_id: &RequestId| u64::from_be_bytes(request_id.bytes()[..8].first_chunk().copied().expect("8"));
        let admissions = self.admissions.iter().map(|(request_id, answer)| (number(request_id), *answer));
        let all: BTreeMap<_, _> =
            admissions.chain(self.writes.iter().map(|(number, answer)| (*number, *answer))).collect();
        all.into_values().collect()
    }
}

/// Every record of a store.
fn contents(store: &Store) -> BTreeMap<(&'static str, Vec<u8>), Vec<u8>> {
    let records = ALL.into_iter().flat_map(|family| {
        let records = store.database().raw_records(family).expect("the records are read");
        records.map(move |record| {
            let (key, value) = record.expect("the record is read");
            ((family, key.into_vec()), value.into_vec())
        })
    });
    let records: BTreeMap<_, _> = records.collect();
    assert!(records.keys().any(|(family, _)| *family == META));
    records
}

/// Walks the journal, as one that decides itself: every entry is what a store may do that has the
/// entries before it, and every client was told the truth.
fn check_journal(journal: &MemoryJournal, answers: &Answers) {
    let (mut queue, mut records, mut head) = (BTreeMap::new(), BTreeMap::new(), Seal::default());
    let (mut admitted, mut written, mut blocks, mut sealed) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut term = Term(0);
    for (position, entry) in (1..).zip(journal.entries()) {
        assert_eq!(entry.position, Position(position));
        assert!(entry.term >= term, "an entry of an earlier term follows");
        term = entry.term;
        for item in decode_entry(&entry.bytes).expect("an entry") {
            match item {
                JournalItem::Admitted(Admitted { sequence, entry, .. }) => {
                    assert!(
                        queue.last_key_value().is_none_or(|(last, _)| *last < sequence),
                        "{sequence} is used twice"
                    );
                    assert!(admitted.insert(entry.request_id), "{} is admitted twice", entry.request_id);
                    queue.insert(sequence, entry);
                }
                JournalItem::Written(items) => {
                    // A write has the new record, and changes of the index of expiries: the entry
                    // of the record before it is deleted.
                    let expiries: Vec<_> = items.iter().filter(|item| item.value.is_none()).collect();
                    let record = items.iter().find(|item| item.family() == Ok(family::RECORDS.name));
                    let record = record.expect("a record is written");
                    let value: StoredRecord = decode(record.value.as_ref().expect("a value")).expect("a record");
                    let before = records.insert(record.key.clone(), value.clone());
                    let expected = before.map(|before: StoredRecord| {
                        let key: RecordKey = decode(&record.key).expect("a key");
                        encode(&(before.expires_at, key))
                    });
                    let found: Vec<_> = expiries.into_iter().map(|item| item.key.clone()).collect();
                    assert_eq!(found, Vec::from_iter(expected), "the record was another one when this was decided");
                    written.insert(value.expires_at.0);
                }
                JournalItem::Sealed(block) => {
                    let mut entries = Vec::new();
                    for part in block.entries {
                        match part {
                            SealedEntries::Queued(first, last) => {
                                entries.extend((first..=last).map(|sequence| queue[&sequence].clone()));
                            }
                            SealedEntries::Whole(entry) => panic!("{} was admitted", entry.request_id),
                        }
                    }
                    let taken = entries.iter().all(|entry| sealed.insert(entry.request_id));
                    assert!(taken, "a request is in two blocks");
                    let block = Block { header: block.header, entries };
                    assert!(block.follows(&head), "block {} does not follow", block.header.height);
                    head = Seal::of(&block.header);
                    blocks.insert(head.hash);
                }
            }
        }
    }
    check_answers(&answers.admissions, &admitted);
    check_answers(&answers.writes, &written);
    check_answers(&answers.blocks, &blocks);
}

/// Checks that clients were told the truth about what the journal has.
fn check_answers<Id: Ord + std::fmt::Debug>(answers: &BTreeMap<Id, Option<Answer>>, recorded: &BTreeSet<Id>) {
    for (id, answer) in answers {
        match answer {
            Some(Answer::Done) => assert!(recorded.contains(id), "{id:?} was acknowledged and is lost"),
            Some(Answer::Refused | Answer::NotDone) => {
                assert!(!recorded.contains(id), "{id:?} was refused ({answer:?}) and is in the journal");
            }
            // The process died, or could not know.
            Some(Answer::Unknown) | None => {}
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: histories(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn replicas_agree_and_acknowledge_only_what_the_journal_has(steps in vec(step(), 1..120)) {
        drop(play(&steps));
    }

    /// Bytes that are no entry are refused and change nothing.
    #[test]
    fn a_damaged_entry_is_refused(bytes in vec(any::<u8>(), 0..200)) {
        let journal = MemoryJournal::default();
        let mut machine = Machine::new(&journal);
        let Process { store, replica, .. } = machine.process();
        let entry = JournalEntry { position: Position(1), term: Term(1), bytes: bytes.clone().into() };
        if decode_entry(&bytes).is_err() {
            let refused = replica.apply(store, &entry).expect_err("the entry is refused");
            assert!(matches!(refused, StoreError::Replica(ReplicaError::Damaged { .. })), "{refused}");
            assert_eq!(replica.position(), Position(0));
        }
    }
}

fn histories() -> u32 {
    std::env::var("TEST_REPLICA_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// A sync of a disk that gives no answer does not end.
#[test]
fn the_synced_position_is_known_while_a_sync_runs() {
    let machine = Machine::new(&MemoryJournal::default());
    let replica = &machine.process.as_ref().expect("a process runs").replica;
    assert_eq!(replica.busy_for(), Duration::ZERO);
    let running = replica.syncing.lock().expect("no panic");
    let work = replica.syncing_since.begin();
    assert_eq!(replica.synced(), Position(0));
    assert!(replica.busy_for() > Duration::ZERO);
    drop((work, running));
    assert_eq!(replica.busy_for(), Duration::ZERO);
}
