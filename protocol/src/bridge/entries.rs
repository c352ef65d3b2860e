//! The entries of the bridge: requests that wait for an authenticator, and answers that wait for
//! the application.
//!
//! A request is handed out once, an answer is taken once and handed out once. Every operation first
//! removes the entries whose time has passed, so that none is used later.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{EntryId, Message, ResponseStatus};
use crate::rate_limit::networks_of;

/// What an entry takes besides its message and its id, in bytes: its places in three tables. It is
/// counted, so that many small messages are bounded, too.
const OVERHEAD: usize = 512;

/// The limits of all entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimits {
    /// How long an entry is kept after each change.
    pub lifetime: Duration,
    /// The most bytes of all messages and entries together. A source, and for IPv6 a /56, may have
    /// a quarter of them; an IPv4 /24 and an IPv6 /48 three quarters.
    pub bytes: usize,
}

impl Default for EntryLimits {
    fn default() -> Self {
        Self { lifetime: Duration::from_secs(900), bytes: 256 << 20 }
    }
}

/// Why a message is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum EntryError {
    /// The id of a new request is in use.
    #[error("the request id is taken")]
    Taken,
    /// The request to answer does not exist.
    #[error("there is no such request; it may have expired")]
    NoSuchRequest,
    /// The request has an answer.
    #[error("the request has been answered")]
    AlreadyAnswered,
    /// All messages together leave no room.
    #[error("the bridge has no room for another message")]
    Full,
    /// The source's messages leave no room.
    #[error("this address has as many messages here as it may have")]
    SourceFull,
}

/// A request, as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrieved {
    /// The request.
    pub message: Message,
    /// Random bytes that identify the flow for all who follow it.
    pub flow: [u8; 16],
}

/// The entries of the bridge. Times are those of a clock that does not go back.
#[derive(Debug)]
pub struct Entries {
    limits: EntryLimits,
    entries: HashMap<EntryId, Entry>,
    /// The ids by the time at which their entries expire.
    expiries: BTreeSet<(Duration, EntryId)>,
    bytes: usize,
    bytes_of: [HashMap<IpAddr, usize>; 3],
}

#[derive(Debug)]
struct Entry {
    stage: Stage,
    flow: [u8; 16],
    expires_at: Duration,
    /// Who sent what the entry holds; `None` for a caller without limits of its own.
    source: Option<IpAddr>,
    bytes: usize,
}

#[derive(Debug)]
enum Stage {
    /// A request that was not fetched.
    Initialized(Message),
    /// A request that was fetched.
    Retrieved,
    /// An answer that was not fetched.
    Completed(Message),
}

impl Stage {
    fn status(&self) -> ResponseStatus {
        match self {
            Self::Initialized(_) => ResponseStatus::Initialized,
            Self::Retrieved => ResponseStatus::Retrieved,
            Self::Completed(_) => ResponseStatus::Completed,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Initialized(message) | Self::Completed(message) => message.payload.len(),
            Self::Retrieved => 0,
        }
    }
}

impl Entries {
    /// No entries, under these limits.
    pub fn new(limits: EntryLimits) -> Self {
        let bytes_of = [HashMap::new(), HashMap::new(), HashMap::new()];
        Self { limits, entries: HashMap::new(), expiries: BTreeSet::new(), bytes: 0, bytes_of }
    }

    /// Changes the limits. Entries that exist keep their time and their room.
    pub fn set_limits(&mut self, limits: EntryLimits) {
        self.limits = limits;
    }

    /// Keeps a request under an id. `flow` are random bytes.
    ///
    /// # Errors
    /// [`EntryError::Taken`], [`EntryError::Full`] and [`EntryError::SourceFull`].
    pub fn insert_request(
        &mut self,
        id: EntryId,
        message: Message,
        flow: [u8; 16],
        source: Option<IpAddr>,
        now: Duration,
    ) -> Result<(), EntryError> {
        self.insert(id, Stage::Initialized(message), flow, source, now)
    }

    /// Keeps an answer that belongs to no request.
    ///
    /// # Errors
    /// As for [`Entries::insert_request`].
    pub fn insert_response(
        &mut self,
        id: EntryId,
        message: Message,
        source: Option<IpAddr>,
        now: Duration,
    ) -> Result<(), EntryError> {
        self.insert(id, Stage::Completed(message), [0; 16], source, now)
    }

    fn insert(
        &mut self,
        id: EntryId,
        stage: Stage,
        flow: [u8; 16],
        source: Option<IpAddr>,
        now: Duration,
    ) -> Result<(), EntryError> {
        self.expire(now);
        if self.entries.contains_key(&id) {
            return Err(EntryError::Taken);
        }
        self.check_room(size(&id, &stage), source)?;
        self.put(id, stage, flow, source, now);
        Ok(())
    }

    /// Hands a request out. It is kept for its full lifetime from now on, without its message.
    /// `None` when it does not exist, or was handed out.
    pub fn take_request(&mut self, id: &EntryId, now: Duration) -> Option<Retrieved> {
        self.expire(now);
        if !matches!(self.entries.get(id)?.stage, Stage::Initialized(_)) {
            return None;
        }
        let Entry { stage, flow, source, .. } = self.remove(id)?;
        self.put(id.clone(), Stage::Retrieved, flow, source, now);
        match stage {
            Stage::Initialized(message) => Some(Retrieved { message, flow }),
            Stage::Retrieved | Stage::Completed(_) => None,
        }
    }

    /// A request that can be handed out. It is not handed out by this.
    pub fn read_request(&mut self, id: &EntryId, now: Duration) -> Option<&Message> {
        self.expire(now);
        match &self.entries.get(id)?.stage {
            Stage::Initialized(message) => Some(message),
            Stage::Retrieved | Stage::Completed(_) => None,
        }
    }

    /// Whether a request can be handed out.
    pub fn has_request(&mut self, id: &EntryId, now: Duration) -> bool {
        self.status(id, now) == Some(ResponseStatus::Initialized)
    }

    /// Keeps the first answer to a request, for a full lifetime. A request that was not handed out
    /// is not handed out any more.
    ///
    /// # Errors
    /// [`EntryError::NoSuchRequest`], [`EntryError::AlreadyAnswered`], [`EntryError::Full`] and
    /// [`EntryError::SourceFull`]; the request then stays as it is.
    pub fn answer(
        &mut self,
        id: &EntryId,
        message: Message,
        source: Option<IpAddr>,
        now: Duration,
    ) -> Result<(), EntryError> {
        match self.status(id, now) {
            None => return Err(EntryError::NoSuchRequest),
            Some(ResponseStatus::Completed) => return Err(EntryError::AlreadyAnswered),
            Some(ResponseStatus::Initialized | ResponseStatus::Retrieved) => {}
        }
        let stage = Stage::Completed(message);
        self.check_room(size(id, &stage), source)?;
        let flow = self.remove(id).map_or([0; 16], |entry| entry.flow);
        self.put(id.clone(), stage, flow, source, now);
        Ok(())
    }

    /// How far a request is; `None` when there is none.
    pub fn status(&mut self, id: &EntryId, now: Duration) -> Option<ResponseStatus> {
        self.expire(now);
        self.entries.get(id).map(|entry| entry.stage.status())
    }

    /// How far a request is, with its answer. An answer is handed out once: the entry ends.
    pub fn take_response(&mut self, id: &EntryId, now: Duration) -> Option<(ResponseStatus, Option<Message>)> {
        let status = self.status(id, now)?;
        if status != ResponseStatus::Completed {
            return Some((status, None));
        }
        match self.remove(id)?.stage {
            Stage::Completed(message) => Some((status, Some(message))),
            Stage::Initialized(_) | Stage::Retrieved => None,
        }
    }

    /// Removes the entries whose time has passed.
    pub fn expire(&mut self, now: Duration) {
        while self.expiries.first().is_some_and(|(expires_at, _)| *expires_at <= now) {
            if let Some((_, id)) = self.expiries.pop_first() {
                self.remove(&id);
            }
        }
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all entries, as the limits count them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn check_room(&self, bytes: usize, source: Option<IpAddr>) -> Result<(), EntryError> {
        if let Some(source) = source {
            let quarter = self.limits.bytes / 4;
            for ((counted, network), limit) in
                self.bytes_of.iter().zip(networks_of(source)).zip([quarter, quarter, 3 * quarter])
            {
                if counted.get(&network).copied().unwrap_or_default() + bytes > limit {
                    return Err(EntryError::SourceFull);
                }
            }
        }
        if self.bytes + bytes > self.limits.bytes { Err(EntryError::Full) } else { Ok(()) }
    }

    fn put(&mut self, id: EntryId, stage: Stage, flow: [u8; 16], source: Option<IpAddr>, now: Duration) {
        let bytes = size(&id, &stage);
        self.bytes += bytes;
        if let Some(source) = source {
            for (counted, network) in self.bytes_of.iter_mut().zip(networks_of(source)) {
                *counted.entry(network).or_default() += bytes;
            }
        }
        let expires_at = now.saturating_add(self.limits.lifetime);
        self.expiries.insert((expires_at, id.clone()));
        self.entries.insert(id, Entry { stage, flow, expires_at, source, bytes });
    }

    fn remove(&mut self, id: &EntryId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.expiries.remove(&(entry.expires_at, id.clone()));
        self.bytes -= entry.bytes;
        if let Some(source) = entry.source {
            for (counted, network) in self.bytes_of.iter_mut().zip(networks_of(source)) {
                give_back(counted, network, entry.bytes);
            }
        }
        Some(entry)
    }
}

/// What an entry takes, in bytes. Its id is in two tables.
fn size(id: &EntryId, stage: &Stage) -> usize {
    OVERHEAD + 2 * id.as_str().len() + stage.bytes()
}

/// Counts less for a key, and forgets a key without anything.
fn give_back<Key: Eq + Hash>(counted: &mut HashMap<Key, usize>, key: Key, bytes: usize) {
    if let Some(count) = counted.get_mut(&key) {
        *count -= bytes;
        if *count == 0 {
            counted.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(900);

    fn entries() -> Entries {
        Entries::new(EntryLimits::default())
    }

    fn id(number: u8) -> EntryId {
        EntryId::from_random_bytes([number; 16])
    }

    fn message(number: u8) -> Message {
        Message { iv: [number; 12], payload: vec![number; 100].into() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_message_is_handed_out_once() {
        let mut entries = entries();
        let (id, now) = (id(1), seconds(0));
        entries.insert_request(id.clone(), message(1), [5; 16], None, now).expect("there is room");
        assert!(entries.has_request(&id, now));
        assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Initialized, None)));
        assert_eq!(entries.take_request(&id, now), Some(Retrieved { message: message(1), flow: [5; 16] }));
        assert_eq!(entries.take_request(&id, now), None);
        assert!(!entries.has_request(&id, now));
        assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Retrieved, None)));
        assert_eq!(entries.answer(&id, message(2), None, now), Ok(()));
        assert_eq!(entries.answer(&id, message(3), None, now), Err(EntryError::AlreadyAnswered));
        assert_eq!(entries.status(&id, now), Some(ResponseStatus::Completed));
        assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Completed, Some(message(2)))));
        assert_eq!(entries.take_response(&id, now), None);
        assert_eq!(entries.answer(&id, message(3), None, now), Err(EntryError::NoSuchRequest));
        assert_eq!((entries.count(), entries.bytes()), (0, 0));
    }

    #[test]
    fn an_answer_ends_a_request_that_was_not_fetched() {
        let mut entries = entries();
        let (id, now) = (id(1), seconds(0));
        entries.insert_request(id.clone(), message(1), [0; 16], None, now).expect("there is room");
        assert_eq!(entries.answer(&id, message(2), None, now), Ok(()));
        assert_eq!(entries.take_request(&id, now), None);
        assert_eq!(entries.insert_request(id.clone(), message(3), [0; 16], None, now), Err(EntryError::Taken));
        assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Completed, Some(message(2)))));
    }

    #[test]
    fn each_change_begins_a_new_lifetime() {
        let mut entries = entries();
        let id = id(1);
        let last = LIFETIME - seconds(1);
        entries.insert_request(id.clone(), message(1), [0; 16], None, seconds(0)).expect("there is room");
        assert!(entries.has_request(&id, last));
        assert!(entries.take_request(&id, last).is_some());
        assert_eq!(entries.status(&id, last + last), Some(ResponseStatus::Retrieved));
        assert_eq!(entries.answer(&id, message(2), None, last + last), Ok(()));
        assert_eq!(entries.status(&id, last * 3), Some(ResponseStatus::Completed));
        assert_eq!(entries.take_response(&id, last * 2 + LIFETIME), None);
        assert_eq!((entries.count(), entries.bytes()), (0, 0));
    }

    #[test]
    fn an_answer_needs_no_request() {
        let mut entries = entries();
        entries.insert_response(id(1), message(1), None, seconds(0)).expect("there is room");
        assert_eq!(entries.take_request(&id(1), seconds(1)), None);
        let answered = entries.take_response(&id(1), seconds(1));
        assert_eq!(answered, Some((ResponseStatus::Completed, Some(message(1)))));
    }

    #[test]
    fn the_room_is_bounded_in_all_and_by_source() {
        let of_each = OVERHEAD + 2 * 36 + 100;
        let mut entries = Entries::new(EntryLimits { bytes: 8 * of_each, lifetime: LIFETIME });
        let address = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        let mut number = 0;
        let mut insert = |entries: &mut Entries, source| {
            number += 1;
            entries.insert_request(id(number), message(1), [0; 16], source, seconds(0))
        };
        let one = address("192.0.2.1");
        assert_eq!([(); 3].map(|()| insert(&mut entries, one)), [Ok(()), Ok(()), Err(EntryError::SourceFull)]);
        let near = address("192.0.2.2");
        assert_eq!([(); 2].map(|()| insert(&mut entries, near)), [Ok(()), Ok(())]);
        let third = address("192.0.2.3");
        let answers = [(); 3].map(|()| insert(&mut entries, third));
        assert_eq!(answers, [Ok(()), Ok(()), Err(EntryError::SourceFull)]);
        assert_eq!(insert(&mut entries, address("192.0.2.4")), Err(EntryError::SourceFull), "its /24 has six");
        assert_eq!(insert(&mut entries, address("198.51.100.1")), Ok(()));
        assert_eq!(insert(&mut entries, None), Ok(()));
        assert_eq!(insert(&mut entries, None), Err(EntryError::Full));
        // An answer needs room of its own, also where its request is from the same source.
        assert_eq!(entries.answer(&id(1), message(2), one, seconds(0)), Err(EntryError::SourceFull));
        assert!(entries.take_request(&id(1), seconds(0)).is_some());
        assert_eq!(entries.status(&id(1), seconds(0)), Some(ResponseStatus::Retrieved));
        entries.expire(LIFETIME);
        assert_eq!((entries.count(), entries.bytes()), (0, 0));
        assert!(entries.bytes_of.iter().all(HashMap::is_empty) && entries.expiries.is_empty());
    }

    /// What a client does, with one of three ids.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u8),
        TakeRequest(u8),
        Answer(u8),
        TakeResponse(u8),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let number = || 0..3_u8;
        prop_oneof![
            number().prop_map(Step::Insert),
            number().prop_map(Step::TakeRequest),
            number().prop_map(Step::Answer),
            number().prop_map(Step::TakeResponse),
            (1..600_u64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Every message that is taken is handed out at most once, and only the first answer to a
        /// request is; what is held is counted.
        #[test]
        fn nothing_is_handed_out_twice(steps in vec(step(), 1..60)) {
            let mut entries = entries();
            let mut now = Duration::ZERO;
            // For each id, the status and the time of the last change.
            let mut expected: HashMap<u8, (ResponseStatus, u8, Duration)> = HashMap::new();
            for (index, step) in steps.into_iter().enumerate() {
                let written = index as u8;
                expected.retain(|_, (_, _, changed)| now < *changed + LIFETIME);
                match step {
                    Step::Insert(number) => {
                        let inserted = entries.insert_request(id(number), message(written), [0; 16], None, now);
                        prop_assert_eq!(inserted.is_ok(), !expected.contains_key(&number));
                        expected.entry(number).or_insert((ResponseStatus::Initialized, written, now));
                    }
                    Step::TakeRequest(number) => {
                        let taken = entries.take_request(&id(number), now).map(|taken| taken.message);
                        match expected.get_mut(&number) {
                            Some((status @ ResponseStatus::Initialized, was, changed)) => {
                                prop_assert_eq!(taken, Some(message(*was)));
                                (*status, *changed) = (ResponseStatus::Retrieved, now);
                            }
                            _ => prop_assert_eq!(taken, None),
                        }
                    }
                    Step::Answer(number) => {
                        let answered = entries.answer(&id(number), message(written), None, now);
                        match expected.get_mut(&number) {
                            None => prop_assert_eq!(answered, Err(EntryError::NoSuchRequest)),
                            Some((ResponseStatus::Completed, ..)) => {
                                prop_assert_eq!(answered, Err(EntryError::AlreadyAnswered));
                            }
                            Some(entry) => {
                                prop_assert_eq!(answered, Ok(()));
                                *entry = (ResponseStatus::Completed, written, now);
                            }
                        }
                    }
                    Step::TakeResponse(number) => {
                        let taken = entries.take_response(&id(number), now);
                        let status = expected.get(&number).map(|(status, was, _)| (*status, *was));
                        match status {
                            Some((ResponseStatus::Completed, was)) => {
                                prop_assert_eq!(taken, Some((ResponseStatus::Completed, Some(message(was)))));
                                expected.remove(&number);
                            }
                            other => prop_assert_eq!(taken, other.map(|(status, _)| (status, None))),
                        }
                    }
                    Step::Wait(length) => now += seconds(length),
                }
                let held: usize = entries.entries.values().map(|entry| entry.bytes).sum();
                prop_assert_eq!(entries.bytes(), held);
                prop_assert_eq!(entries.expiries.len(), entries.count());
            }
        }
    }
}
