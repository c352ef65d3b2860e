//! Clients of single records at several services. As sign-in does with its codes and sessions, they
//! write a record only if it is still as they read it; and they look for it at the journal's end.
//!
//! What they are answered has to be linearizable, for each record.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::B256;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{
    Decision, EmbeddedRecords, OnDecided, RecordKey, RecordKind, RecordWrite, Records, StoreError, StoredRecord,
    is_certainly_unwritten,
};
use tokio::sync::oneshot;

use super::clients::{ClientLog, LiveService};
use super::linearizability::{Call, SequentialObject, linearize};
use crate::simulation::SeededRandom;

/// Records that a write replaces whatever they are by then: a mistake that is planted.
pub(super) struct CarelessRecords(pub EmbeddedRecords);

impl Records for CarelessRecords {
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        self.0.get(key)
    }

    fn compare_and_write(&self, mut writes: Vec<RecordWrite>, decided: OnDecided) {
        for write in &mut writes {
            write.before = self.get(&write.key).expect("the read succeeds");
        }
        self.0.compare_and_write(writes, decided);
    }

    fn expire(&self, time: UnixSeconds, limit: usize) -> Result<usize, StoreError> {
        self.0.expire(time, limit)
    }
}

/// Few records, so that the clients meet.
const CELLS: u8 = 2;

/// The most calls of a client.
const MAX_CALLS: u64 = 12;

/// The longest pause of a client between two calls.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// The value of a record; `None` for a record that does not exist. No two writes have the same
/// value.
type Value = Option<u64>;

/// What was called, and what was answered.
#[derive(Clone, Copy, Debug)]
enum Access {
    Write {
        before: Value,
        after: Value,
        /// `None` when it is not known whether it was written.
        decision: Option<Decision>,
    },
    /// A read of what the journal had when it was asked.
    Read(Value),
}

/// A record that is read, and written if it is as its writer expects.
struct Cell;

impl SequentialObject for Cell {
    type State = Value;
    type Call = Access;

    fn serve(&self, state: &Value, call: &Access) -> Option<Value> {
        match *call {
            Access::Write { before, after, decision } => match decision {
                Some(Decision::Changed) => (*state != before).then_some(*state),
                Some(Decision::Written) | None => (*state == before).then_some(after),
            },
            Access::Read(value) => (*state == value).then_some(value),
        }
    }

    fn is_read(&self, call: &Access) -> bool {
        matches!(call, Access::Read(_) | Access::Write { decision: Some(Decision::Changed), .. })
    }
}

/// The calls of a history, each with its cell.
type Calls = Vec<(u8, Call<Access>)>;

/// The calls so far.
#[derive(Clone, Default)]
pub(super) struct CellLog(Arc<Mutex<Calls>>);

impl CellLog {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asserts that the calls of each record are linearizable.
    pub fn check(&self) {
        for cell in 0..CELLS {
            let of_cell = |(other, call): &(u8, Call<Access>)| (*other == cell).then(|| call.clone());
            let calls: Vec<_> = self.calls().iter().filter_map(of_cell).collect();
            if let Err(unexplained) = linearize(&Cell, None, &calls) {
                let unexplained: Vec<_> = unexplained.into_iter().map(|index| &calls[index]).collect();
                panic!("cell {cell} is no single record: {unexplained:?} among {calls:#?}");
            }
        }
    }
}

/// A client that goes to another service for each call; `pick` chooses it.
pub(super) async fn run_client(
    pick: impl Fn() -> Option<LiveService>,
    random: SeededRandom,
    log: ClientLog,
    cells: CellLog,
) {
    for _ in 0..=random.below(MAX_CALLS) {
        random.pause(MAX_PAUSE).await;
        if let Some(service) = pick() {
            match random.once_in(3) {
                true => read(&service, random.below(CELLS.into()) as u8, &log, &cells).await,
                false => write(&service, &random, &log, &cells).await,
            }
        }
    }
}

/// Reads every cell at a service.
pub(super) async fn read_all(service: &LiveService, log: &ClientLog, cells: &CellLog) {
    for cell in 0..CELLS {
        read(service, cell, log, cells).await;
    }
}

fn key(cell: u8) -> RecordKey {
    RecordKey { kind: RecordKind::AccessToken, id: B256::with_last_byte(cell) }
}

fn value_of(record: &StoredRecord) -> u64 {
    u64::from_be_bytes(record.value.clone().try_into().expect("eight bytes"))
}

async fn read(service: &LiveService, cell: u8, log: &ClientLog, cells: &CellLog) {
    let began = log.moment();
    if service.registry.catch_up().await.is_err() {
        return;
    }
    let found = service.records.get(&key(cell)).expect("the read succeeds").as_ref().map(value_of);
    let ended = Some(log.moment());
    log.note(|| format!("cell {cell} is {found:?}"));
    cells.calls().push((cell, Call { content: Access::Read(found), began, ended }));
}

/// Writes a cell if it is still as this service shows it, which may be older than what another one
/// has.
async fn write(service: &LiveService, random: &SeededRandom, log: &ClientLog, cells: &CellLog) {
    let (cell, deletes) = (random.below(CELLS.into()) as u8, random.once_in(4));
    let began = log.moment();
    let key = key(cell);
    let before = service.records.get(&key).expect("the read succeeds");
    let after = (!deletes).then_some(began);
    // The client thinks about it, while others write.
    random.pause(MAX_PAUSE / 10).await;
    let record = |value: u64| StoredRecord { expires_at: UnixSeconds::NEVER, value: value.to_be_bytes().into() };
    let write = RecordWrite { key, before: before.clone(), after: after.map(record) };
    let (decided, decision) = oneshot::channel();
    service.records.compare_and_write(vec![write], Box::new(move |outcome| drop(decided.send(outcome))));
    let before = before.as_ref().map(value_of);
    let decision = match decision.await {
        Ok(Ok(decision)) => Some(decision),
        Ok(Err(error)) if is_certainly_unwritten(&error) => {
            return log.note(|| format!("cell {cell} does not become {after:?}: {error}"));
        }
        Ok(Err(_)) | Err(_) => None,
    };
    log.note(|| format!("cell {cell}, {before:?} becomes {after:?}: {decision:?}"));
    let ended = decision.map(|_| log.moment());
    cells.calls().push((cell, Call { content: Access::Write { before, after, decision }, began, ended }));
}
