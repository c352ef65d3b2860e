//! A store that is one of several with the same journal.
//!
//! | who | what |
//! |---|---|
//! | the leader's [`crate::GroupCommit`] | decides on its own store, appends an entry, and writes the same changes with the entry's position in one batch |
//! | every other replica ([`Replica::apply`]) | writes what the entries say, with their positions, in their order; decides nothing |
//!
//! Neither batch is synced: the journal has the entry. A store that lost its last batches, by a
//! power failure, is an earlier state of the journal, and continues from its position. It is synced
//! from time to time ([`Replica::sync`]), so that the journal can forget its older entries.
//!
//! The leader decides while it has applied everything before the place that it appends to, so a
//! condition that holds in its store holds in the journal. An entry of another leader at that place
//! makes the append fail, and nothing of the group is written.

#[cfg(test)]
#[cfg(feature = "fault-injection")]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use selfsame_protocol::encoding::{DecodeError, decode};
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::ledger::{Block, Entry, Seal};

use crate::applied_blocks::{admission_changes, append_changes};
use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::facts::{self, LastEntry, Membership, Synced};
use crate::journal::{AppendError, Journal, JournalEntry, JournalError, Position, ReplicaError, Term, entry_digest};
use crate::reached::Reached;
use crate::schema::family;
use crate::schema::journal::{Admitted, JournalItem, SealedBlock, SealedEntries, decode_entry};
use crate::schema::records::{AppliedTip, RecordKey};
use crate::store::Store;

/// A store's place in a journal. The [`crate::GroupCommit`] and the task that follows the journal
/// share it.
pub struct Replica {
    journal: Arc<dyn Journal>,
    /// Held while an entry is written to the store. Only threads that may wait for a disk take it.
    applying: Mutex<()>,
    applying_since: Since,
    /// Never held during work on the store: tasks that must not wait look at it.
    state: Mutex<State>,
    /// The position of `state`, for those who wait for it.
    applied: Reached,
    /// What the last sync made durable. Held during a sync, so [`Replica::sync`] alone takes it.
    syncing: Mutex<Synced>,
    syncing_since: Since,
    /// The position in `syncing`, for tasks that must not wait for a disk.
    synced: AtomicU64,
}

/// When the work began that a thread does on the store; `None` while it does none.
#[derive(Default)]
struct Since(Mutex<Option<Instant>>);

/// Work on the store, which ends with the value.
struct Work<'a>(&'a Since);

impl Since {
    fn begin(&self) -> Work<'_> {
        *self.lock() = Some(Instant::now());
        Work(self)
    }

    fn elapsed(&self) -> Duration {
        self.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[derive(Clone)]
struct State {
    /// The last entry that the store has.
    last: LastEntry,
    /// Whether the journal was found to have that one, or one before it.
    is_compared: bool,
    /// The term in which this replica leads; `None` when it does not.
    leading: Option<Term>,
    /// The journal lacked entries that the store has. Whatever it gets later does not follow them.
    apart: Option<ReplicaError>,
    /// Why nothing is appended for now; `None` when something may be.
    held: Option<String>,
    /// Why the last leadership ended, if that was a write to the store that failed.
    failed_write: Option<StoreError>,
}

/// What an applied entry changed, for those who wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedEntry {
    /// The greatest sequence number of an admitted request.
    pub admitted: Option<u64>,
    /// The records with an expiry that were written: those of sign-in, signing keys.
    pub records: Vec<RecordKey>,
    /// Whether the operator decided about trusted roots.
    pub has_root_decisions: bool,
    /// Whether the log of events has new records.
    pub has_logged_events: bool,
    /// The groups that changed.
    pub groups: BTreeSet<GroupId>,
}

impl AppliedEntry {
    /// Notes that a record was written.
    ///
    /// # Errors
    /// Its key is none of its family.
    pub(crate) fn note(&mut self, family: &'static str, key: &[u8]) -> Result<(), DecodeError> {
        if family == family::RECORDS.name {
            self.records.push(decode(key)?);
        }
        self.has_root_decisions |= family == family::TRUSTED_ROOTS.name;
        self.has_logged_events |= family == family::EVENT_LOG.name;
        // Each write of a group counts the revision in its record.
        if family == family::GROUPS.name {
            self.groups.insert(decode(key)?);
        }
        Ok(())
    }
}

/// An entry that the leader appends.
pub(crate) struct Pending {
    at: Position,
    term: Term,
    bytes: Bytes,
    /// Whether an attempt was made whose outcome is unknown.
    is_uncertain: bool,
}

/// What is known after an attempt to append.
#[derive(Debug)]
pub(crate) enum Appending {
    /// The journal has the entry.
    Done,
    /// The journal does not have it, and will not.
    Refused(ReplicaError),
    /// The next attempt will know more. It must be made before anything else is appended.
    Open(String),
}

impl Replica {
    /// The replica in a store, which leads nothing yet.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: &Store, journal: Arc<dyn Journal>) -> Result<Self, StoreError> {
        let last = facts::last_journal_entry(store.database())?.unwrap_or_default();
        let synced = facts::journal_synced(store.database())?;
        let applied = Reached::new(last.position);
        let state =
            Mutex::new(State { last, is_compared: false, leading: None, apart: None, held: None, failed_write: None });
        Ok(Self {
            journal,
            applying: Mutex::default(),
            applying_since: Since::default(),
            state,
            applied,
            synced: AtomicU64::new(synced.position),
            syncing: Mutex::new(synced),
            syncing_since: Since::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work ends before the lock is given back.
    fn lock_applying(&self) -> (Work<'_>, MutexGuard<'_, ()>) {
        let locked = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        (self.applying_since.begin(), locked)
    }

    /// The store has the journal's entries up to this position.
    pub fn position(&self) -> Position {
        self.state().position()
    }

    /// The last entry that a power failure of the machine leaves in the store.
    pub fn synced(&self) -> Position {
        Position(self.synced.load(Ordering::Relaxed))
    }

    /// How long the entry that is being written, or the sync that runs, has taken: on a disk that
    /// gives no answer, neither ends. Zero when nothing is being done.
    pub fn busy_for(&self) -> Duration {
        self.applying_since.elapsed().max(self.syncing_since.elapsed())
    }

    /// Waits until the store has the journal's entries up to a position.
    pub async fn applied(&self, position: Position) {
        self.applied.wait_for(position.0).await;
    }

    /// The term in which this replica leads; `None` when it does not, as far as it knows.
    pub fn leading(&self) -> Option<Term> {
        self.state().leading
    }

    /// The journal's entries after those that the store has.
    pub fn follow(&self) -> BoxStream<'_, Result<JournalEntry, ReplicaError>> {
        self.journal.follow(self.position()).map(|entry| entry.map_err(ReplicaError::from)).boxed()
    }

    /// Stops leading. What is being appended may still become durable.
    pub fn step_down(&self) {
        self.state().leading = None;
    }

    /// Stops leading, because the store of this replica could not be written. A panic says nothing
    /// about the store.
    pub fn step_down_after(&self, error: &StoreError) {
        let mut state = self.state();
        let was_leading = state.leading.take().is_some();
        if was_leading && !matches!(error, StoreError::Panicked) {
            state.failed_write = Some(error.clone());
        }
    }

    /// The failed write that ended the last leadership; `None` when something else did, and while
    /// this replica leads.
    pub fn failed_write(&self) -> Option<StoreError> {
        self.state().failed_write.clone()
    }

    /// Appends nothing for this reason, or something again. A leader goes on to lead.
    pub fn hold(&self, reason: Option<String>) {
        self.state().held = reason;
    }

    /// Why nothing is appended for now; `None` when something may be.
    pub fn held(&self) -> Option<String> {
        self.state().held.clone()
    }

    /// Leads from now on.
    ///
    /// Call it when the journal accepts appends of `term`, and when the store has everything up to
    /// [`Replica::end`]: nobody else can append then, so the end stays where it is. State that is
    /// kept beside the store has to be read from it again in between.
    pub fn lead(&self, term: Term) {
        let mut state = self.state();
        (state.leading, state.failed_write) = (Some(term), None);
    }

    /// The place of the journal's last entry. The first call compares the store's last entry with
    /// the journal's at its place, if the journal still has that.
    ///
    /// # Errors
    /// The journal cannot be read; [`ReplicaError::Behind`] or [`ReplicaError::Apart`] when it is
    /// not the one that the store has entries of. This replica neither applies an entry nor leads
    /// after that.
    pub async fn end(&self) -> Result<Position, ReplicaError> {
        let State { last, is_compared, .. } = self.state().clone();
        let position = Position(last.position);
        let (end, _) = self.journal.head().await?;
        let apart = match end < position {
            true => Some(ReplicaError::Behind { position, end }),
            false if is_compared => None,
            false => self.compare(last).await?,
        };
        let mut state = self.state();
        state.is_compared = true;
        if let (Some(error), None) = (apart, &state.apart) {
            (state.apart, state.leading) = (Some(error), None);
        }
        state.apart.clone().map_or(Ok(end), Err)
    }

    /// Compares an entry that the store has with that of the journal.
    async fn compare(&self, last: LastEntry) -> Result<Option<ReplicaError>, ReplicaError> {
        let Some(before) = last.position.checked_sub(1) else { return Ok(None) };
        match self.journal.follow(Position(before)).next().await {
            Some(Ok(entry)) if entry.digest() == last.digest => Ok(None),
            Some(Ok(entry)) => Ok(Some(ReplicaError::Apart { position: entry.position })),
            Some(Err(JournalError::Truncated(_))) => Ok(None),
            Some(Err(error)) => Err(error.into()),
            None => Err(JournalError::Unavailable("it ended".to_owned()).into()),
        }
    }

    /// Writes what an entry says to the store. Does nothing with an entry that the store has.
    /// Blocks the thread.
    ///
    /// # Errors
    /// [`ReplicaError::Gap`] when entries before it are missing; [`ReplicaError::Damaged`]
    /// when it is none of this version of the program, or does not fit the store; the store cannot
    /// be read or written.
    pub fn apply(&self, store: &Store, entry: &JournalEntry) -> Result<AppliedEntry, StoreError> {
        let _applying = self.lock_applying();
        let position = self.position();
        if let Some(error) = self.state().apart.clone() {
            return Err(error.into());
        }
        if entry.position <= position {
            return Ok(AppliedEntry::default());
        }
        if entry.position != position.next() {
            return Err(ReplicaError::Gap { position, found: entry.position }.into());
        }
        let damaged = |reason: String| ReplicaError::Damaged { position: entry.position, reason };
        let items = decode_entry(&entry.bytes).map_err(|error| damaged(error.to_string()))?;
        let mut entry_changes =
            EntryChanges { store, changes: Changes::default(), sealed: None, applied: AppliedEntry::default() };
        for item in items {
            entry_changes.add(item, &damaged)?;
        }
        let EntryChanges { changes, sealed, applied, .. } = entry_changes;
        if let Some(seal) = sealed {
            store.sealed_head().begin(seal.height);
        }
        self.write_at(store, entry.position, entry.digest(), changes).inspect_err(|_| store.sealed_head().forget())?;
        {
            let mut state = self.state();
            state.leading = state.leading.filter(|term| *term >= entry.term);
        }
        if let Some(seal) = sealed {
            store.sealed_head().advance(seal);
        }
        Ok(applied)
    }

    /// Makes durable what the store has, and returns the last entry of it: the journal need not
    /// keep that one and those before it for this replica. Blocks the thread.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sync(&self, store: &Store) -> Result<Position, StoreError> {
        let mut synced = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let _syncing = self.syncing_since.begin();
        let position = self.position();
        let applied: AppliedTip = store.database().get(&family::APPLIED, &())?.unwrap_or_default();
        let now = Synced { position: position.0, height: applied.tip.seal.height };
        if now == *synced {
            return Ok(position);
        }
        // A synced write syncs every log before it. The marks are removed by another one, which
        // cannot reach the disk before what they stand for.
        for (record, sync) in [(*synced, true), (now, false)] {
            let mut changes = Changes::default();
            facts::put_journal_synced(&mut changes, *synced, record);
            store.database().write(changes, sync)?;
        }
        *synced = now;
        self.synced.store(now.position, Ordering::Relaxed);
        Ok(position)
    }

    /// Where and in which term the next entry is appended; `None` when this replica does not lead.
    pub(crate) fn place(&self) -> Option<(Position, Term)> {
        let state = self.state();
        state.leading.map(|term| (state.position().next(), term))
    }

    /// The most bytes of an entry.
    pub(crate) fn largest_entry(&self) -> usize {
        self.journal.largest_entry()
    }

    /// Checks that an entry of so many bytes can be appended.
    ///
    /// # Errors
    /// [`ReplicaError::TooLarge`].
    pub(crate) fn check_length(&self, length: usize) -> Result<(), ReplicaError> {
        let most = self.largest_entry();
        if length > most { Err(ReplicaError::TooLarge { length, most }) } else { Ok(()) }
    }

    /// Attempts to append an entry.
    pub(crate) async fn attempt(&self, pending: &mut Pending) -> Appending {
        let Pending { at, term, bytes, is_uncertain } = pending;
        if let (Some(reason), false) = (self.held(), *is_uncertain) {
            return Appending::Refused(ReplicaError::Held { reason });
        }
        if let Err(error) = self.check_length(bytes.len()) {
            // A single write: a group of several is bounded.
            return Appending::Refused(error);
        }
        let error = match self.journal.append(*at, *term, bytes.clone()).await {
            Ok(()) => return Appending::Done,
            Err(error) => error,
        };
        match error {
            error @ (AppendError::TooLarge { .. } | AppendError::Unavailable(_)) if !pending.is_uncertain => {
                Appending::Refused(ReplicaError::Unavailable { reason: error.to_string() })
            }
            error => {
                pending.is_uncertain = true;
                self.read_back(pending, error).await
            }
        }
    }

    /// Looks for an entry in the journal after an attempt that ended with `error`.
    async fn read_back(&self, pending: &Pending, error: AppendError) -> Appending {
        let end = match self.journal.head().await {
            Ok((end, _)) => end,
            Err(error) => return Appending::Open(error.to_string()),
        };
        if end < pending.at {
            // After another leader began, the entry cannot come any more.
            return match error {
                AppendError::Fenced => self.deposed(pending.term),
                error => Appending::Open(error.to_string()),
            };
        }
        let before = Position(pending.at.0 - 1);
        match self.journal.follow(before).next().await {
            Some(Ok(found)) if found.term == pending.term && found.bytes == pending.bytes => Appending::Done,
            Some(Ok(_)) => self.deposed(pending.term),
            Some(Err(error)) => Appending::Open(error.to_string()),
            None => Appending::Open("the journal ended".to_owned()),
        }
    }

    /// Another replica began to lead after this one's `term`.
    fn deposed(&self, term: Term) -> Appending {
        let mut state = self.state();
        state.leading = state.leading.filter(|leading| *leading > term);
        Appending::Refused(ReplicaError::NotLeading)
    }

    /// Writes the changes of an appended entry to the leader's own store. Does nothing when they
    /// were written already, as the entry of a follower.
    ///
    /// # Errors
    /// The store cannot be written: it lacks an entry, so this replica cannot lead.
    pub(crate) fn record(&self, store: &Store, pending: &Pending, changes: Changes) -> Result<(), StoreError> {
        let _applying = self.lock_applying();
        match self.position() >= pending.at {
            true => Ok(()),
            false => self.write_at(store, pending.at, entry_digest(pending.term, &pending.bytes), changes),
        }
    }

    /// Writes changes together with the place and the digest of their entry, unsynced. The caller
    /// holds `applying`.
    fn write_at(
        &self,
        store: &Store,
        position: Position,
        digest: B256,
        mut changes: Changes,
    ) -> Result<(), StoreError> {
        let last = LastEntry { position: position.0, digest };
        facts::put_last_journal_entry(&mut changes, last);
        store.database().write(changes, false)?;
        self.state().last = last;
        self.applied.advance(position.0);
        Ok(())
    }

    /// Does work during which no entry is applied. Blocks the thread until the one that is being
    /// applied is.
    pub(crate) fn without_applying<T>(&self, work: impl FnOnce() -> T) -> T {
        let _applying = self.lock_applying();
        work()
    }
}

impl State {
    fn position(&self) -> Position {
        Position(self.last.position)
    }
}

impl Pending {
    pub(crate) fn new(at: Position, term: Term, bytes: Vec<u8>) -> Self {
        Self { at, term, bytes: bytes.into(), is_uncertain: false }
    }

    /// An attempt ended without an outcome.
    pub(crate) fn doubt(&mut self) {
        self.is_uncertain = true;
    }

    /// Where it is appended.
    pub(crate) fn position(&self) -> Position {
        self.at
    }
}

/// What the items of an entry change.
struct EntryChanges<'store> {
    store: &'store Store,
    changes: Changes,
    /// The last sealed block.
    sealed: Option<Seal>,
    applied: AppliedEntry,
}

impl EntryChanges<'_> {
    fn add(&mut self, item: JournalItem, damaged: &impl Fn(String) -> ReplicaError) -> Result<(), StoreError> {
        match item {
            JournalItem::Admitted(Admitted { sequence, entry, idempotency }) => {
                self.changes.append(admission_changes(sequence, entry, idempotency));
                self.applied.admitted = self.applied.admitted.max(Some(sequence));
            }
            JournalItem::Written(records) => {
                for record in records {
                    let family = record.family().map_err(|error| damaged(error.to_string()))?;
                    self.applied.note(family, &record.key).map_err(|error| damaged(error.to_string()))?;
                    match record.value {
                        Some(value) => self.changes.put_raw(family, record.key, value),
                        None => self.changes.delete_raw(family, record.key),
                    }
                }
            }
            JournalItem::Sealed(SealedBlock { header, entries }) => {
                let entries = self.entries(entries, header.count, damaged)?;
                let block = Block { header, entries };
                let seal = Seal::of(&block.header);
                self.changes.append(append_changes(&block, &seal));
                self.sealed = Some(seal);
            }
        }
        Ok(())
    }
    /// The entries of a sealed block.
    fn entries(
        &self,
        sealed: Vec<SealedEntries>,
        count: u32,
        damaged: &impl Fn(String) -> ReplicaError,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for part in sealed {
            match part {
                SealedEntries::Whole(entry) => entries.push(entry),
                SealedEntries::Queued(first, last) => {
                    // A false range is not read further than the block can be long.
                    let most = (count as usize).saturating_sub(entries.len());
                    let queued = self.store.queued_after(first.saturating_sub(1), most)?;
                    let taken = queued.into_iter().zip(first..=last).take_while(|((found, _), wanted)| found == wanted);
                    entries.extend(taken.map(|((_, entry), _)| entry));
                }
            }
        }
        match entries.len() == count as usize {
            true => Ok(entries),
            false => Err(damaged(format!("a block of {count} requests takes some that are not queued here")).into()),
        }
    }
}

// Whether a store is a replica of a cluster, and how it begins and ends to be one.

impl Store {
    /// The cluster that the store is a replica of; `None` when it is alone.
    pub fn membership(&self) -> Result<Option<Membership>, StoreError> {
        facts::membership(self.database())
    }

    /// Makes the store a replica: the first one of a new cluster, or a copy of another replica's.
    /// Durable when it returns. No other part of the process may write the store.
    pub fn join_cluster(&self, membership: &Membership) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        facts::put_membership(&mut changes, membership);
        self.database().write(changes, true)
    }

    /// Makes the store of a replica that of a service that is alone; what it holds stays. Durable
    /// when it returns. No other part of the process may use the store.
    pub fn leave_cluster(&self) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        facts::delete_journal(self.database(), &mut changes)?;
        self.database().write(changes, true)
    }

    /// The last entry of its cluster's journal that the store has.
    pub fn journal_position(&self) -> Result<Position, StoreError> {
        Ok(Position(facts::last_journal_entry(self.database())?.unwrap_or_default().position))
    }
}
