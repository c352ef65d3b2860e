//! The entries of the bridge: requests that wait for an authenticator, and answers that wait for
//! the application.
//!
//! A request is handed out once, an answer is taken once and handed out once. Every operation first
//! removes the entries whose time has passed, so that none is used later.
//!
//! The service has entries of its own: the requests of sign-ins over the bridge. Authenticators
//! fetch and answer them as any other. Such a request is not kept: the service seals it each time
//! that it is fetched, so that it is fresh, and a fetch by a stranger takes it from no one. Their
//! answers are handed to the service alone, an entry stays until the service removes it or its time
//! has passed, and no client can make an entry under such an id ([`EntryId::is_of_service`]).
//! Otherwise a client that saw the code on the page of a sign-in could take the answer and put a
//! request of its own in the place of the first one.
//!
//! Room is given in this order, so that a flood silences no one: a client's request comes with the
//! room for an answer of usual length; long messages have a part of the room alone, and go first
//! when it is full.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use alloy_primitives::{B256, keccak256};
use serde::{Deserialize, Serialize};

use super::request::LONGEST_REQUEST;
use super::sign_in::LONGEST_ANSWER;
use super::wire::TAG_LENGTH;
use super::{EntryId, Message, ResponseStatus};
use crate::shares::{SourceShares, quarter};

/// What an entry takes besides its messages and its id, in bytes: its places in three tables. It is
/// counted, so that many small messages are bounded, too.
const OVERHEAD: usize = 512;

/// The longest encrypted answer to an entry of the service, in bytes.
pub const LONGEST_OWN_PAYLOAD: usize = LONGEST_ANSWER + TAG_LENGTH;

/// What an entry of the service keeps alive, in bytes: the task that follows the sign-in, with its
/// timers, its place in the registries that wake it, and what its request is made from. The test
/// `a_bridged_page_takes_no_more_memory_than_is_counted` in `tests/it/bridged_sign_in` measures it.
pub const OWN_ENTRY: usize = 12 * 1024;

/// The room for its answer that each request of a client comes with, in bytes. The longest useful
/// answer, of eleven credentials, has less.
pub const ANSWER_ROOM: usize = 8 * 1024;

/// Messages with more bytes than this are long.
pub const LONG: usize = 64 * 1024;

/// Long messages together have this part of the room of clients.
pub const PART_OF_LONG: usize = 4;

/// The limits of all entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimits {
    /// How long an entry is kept after each change. Those of the service have a time of their own.
    pub lifetime: Duration,
    /// The most bytes of all messages and entries of clients together, and as many of the service's
    /// own. A source, and for IPv6 a /56, may have a quarter of either; an IPv4 /24 and an IPv6 /48
    /// three quarters. Messages of more than [`LONG`] bytes have a quarter of it, and go when
    /// others need the room.
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
    /// The id of a new request is in use, or is one that only the service makes.
    #[error("the request id is taken")]
    Taken,
    /// The request to answer does not exist.
    #[error("there is no such request; it may have expired")]
    NoSuchRequest,
    /// The request has an answer.
    #[error("the request has been answered")]
    AlreadyAnswered,
    /// The answer to a request of the service is longer than any useful one.
    #[error("the answer is too long; an answer to this request has at most {LONGEST_OWN_PAYLOAD} bytes")]
    TooLong,
    /// All messages together leave no room.
    #[error("the bridge has no room for another message")]
    Full,
    /// The source's messages leave no room.
    #[error("this address has as many messages here as it may have")]
    SourceFull,
}

/// A request that is handed out or shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestText<M> {
    /// A client's: the message that was handed in.
    OfClient(M),
    /// The service's, which it seals now.
    OfService,
}

/// A request, as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrieved<M = Message> {
    /// The request.
    pub message: M,
    /// Random bytes that identify the flow for all who follow it.
    pub flow: [u8; 16],
}

/// A request of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRequest {
    /// Random bytes that identify the flow.
    pub flow: [u8; 16],
    /// Where the person is whose sign-in it belongs to. The entry counts for this address.
    pub source: Option<IpAddr>,
    /// How long it is kept, whatever happens to it.
    pub lifetime: Duration,
}

/// The entries of the bridge. Times are those of a clock that does not go back.
#[derive(Debug)]
pub struct Entries {
    limits: EntryLimits,
    entries: HashMap<EntryId, Entry>,
    /// The ids by the time at which their entries expire.
    expiries: BTreeSet<(Duration, EntryId)>,
    /// The bytes of entries, in all and by source.
    of_clients: SourceShares,
    of_service: SourceShares,
    /// The ids of entries with a long message, by the time at which they expire, and their bytes.
    long: BTreeSet<(Duration, EntryId)>,
    long_bytes: usize,
    /// The ids of entries that have gone by themselves since the last call of [`Entries::expire`].
    gone: Vec<EntryId>,
}

#[derive(Debug)]
struct Entry {
    /// A client's request, as long as it can be handed out.
    request: Option<Message>,
    stage: Stage,
    flow: [u8; 16],
    expires_at: Duration,
    owner: Owner,
    /// Who sent what the entry holds; `None` for a caller without limits of its own.
    source: Option<IpAddr>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Client,
    Service,
}

#[derive(Debug)]
enum Stage {
    /// A request that was not fetched.
    Initialized,
    /// A request that was fetched.
    Retrieved,
    /// An answer that was not fetched.
    Completed(Message),
    /// An answer that the service has fetched, and judges.
    Judged,
}

impl Stage {
    fn status(&self) -> ResponseStatus {
        match self {
            Self::Initialized => ResponseStatus::Initialized,
            Self::Retrieved => ResponseStatus::Retrieved,
            Self::Completed(_) | Self::Judged => ResponseStatus::Completed,
        }
    }
}

impl Entries {
    /// No entries, under these limits.
    pub fn new(limits: EntryLimits) -> Self {
        let (of_clients, of_service) = (SourceShares::default(), SourceShares::default());
        let (entries, expiries, long) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { limits, entries, expiries, of_clients, of_service, long, long_bytes: 0, gone: Vec::new() }
    }

    /// Changes the limits. Entries that exist keep their time and their room.
    pub fn set_limits(&mut self, limits: EntryLimits) {
        self.limits = limits;
    }

    /// Keeps a client's request under an id. `flow` are random bytes.
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
        self.insert_of_client(id, Some(message), Stage::Initialized, flow, source, now)
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
        self.insert_of_client(id, None, Stage::Completed(message), [0; 16], source, now)
    }

    /// Keeps a request of the service under an id of [`EntryId::of_service`]. Its room is the
    /// service's own, so the messages of clients do not take it.
    ///
    /// # Errors
    /// As for [`Entries::insert_request`].
    pub fn insert_own(&mut self, id: EntryId, own: OwnRequest, now: Duration) -> Result<(), EntryError> {
        let OwnRequest { flow, source, lifetime } = own;
        let expires_at = now.saturating_add(lifetime);
        let entry = Entry::new(None, Stage::Initialized, flow, Owner::Service, source, expires_at);
        self.insert(id, entry, now)
    }

    fn insert_of_client(
        &mut self,
        id: EntryId,
        request: Option<Message>,
        stage: Stage,
        flow: [u8; 16],
        source: Option<IpAddr>,
        now: Duration,
    ) -> Result<(), EntryError> {
        if id.is_of_service() {
            return Err(EntryError::Taken);
        }
        let expires_at = now.saturating_add(self.limits.lifetime);
        self.insert(id, Entry::new(request, stage, flow, Owner::Client, source, expires_at), now)
    }

    fn insert(&mut self, id: EntryId, entry: Entry, now: Duration) -> Result<(), EntryError> {
        self.drop_expired(now);
        if self.entries.contains_key(&id) {
            return Err(EntryError::Taken);
        }
        let (size, is_long) = (entry.size(&id), entry.is_long());
        match entry.owner {
            Owner::Client => self.make_room(size, is_long, entry.source)?,
            Owner::Service => check_room(&self.of_service, self.limits.bytes, size, entry.source)?,
        }
        self.put(id, entry);
        Ok(())
    }

    /// Makes room for further bytes of clients, where long messages take it.
    fn make_room(&mut self, bytes: usize, is_long: bool, source: Option<IpAddr>) -> Result<(), EntryError> {
        let limit = self.limits.bytes;
        loop {
            let checked = check_room(&self.of_clients, limit, bytes, source);
            if is_long {
                let has_part = self.long_bytes + bytes <= limit / PART_OF_LONG;
                return checked.and(if has_part { Ok(()) } else { Err(EntryError::Full) });
            }
            match self.long.first().cloned().filter(|_| checked == Err(EntryError::Full)) {
                Some((_, id)) => {
                    self.remove(&id);
                    self.gone.push(id);
                }
                None => return checked,
            }
        }
    }

    /// Hands a request out. A client's is kept for its full lifetime from now on, without its
    /// message. `None` when it does not exist, or was handed out; one of the service is handed out
    /// as often as it is asked for.
    pub fn take_request(&mut self, id: &EntryId, now: Duration) -> Option<Retrieved<RequestText<Message>>> {
        self.drop_expired(now);
        let entry = self.entries.get(id)?;
        let (flow, is_new) = (entry.flow, entry.stage.status() == ResponseStatus::Initialized);
        let message = match (entry.owner, &entry.request) {
            (Owner::Service, _) => RequestText::OfService,
            (Owner::Client, Some(message)) if is_new => RequestText::OfClient(message.clone()),
            (Owner::Client, _) => return None,
        };
        if is_new {
            self.change(id, now, |entry| (entry.stage, entry.request) = (Stage::Retrieved, None));
        }
        Some(Retrieved { message, flow })
    }

    /// A request that can be handed out. It is not handed out by this. `None` also for a request
    /// that is longer than those that can be read.
    pub fn read_request(&mut self, id: &EntryId, now: Duration) -> Option<RequestText<&Message>> {
        self.drop_expired(now);
        let entry = self.entries.get(id)?;
        if entry.owner == Owner::Service {
            return Some(RequestText::OfService);
        }
        let request = entry.request.as_ref().filter(|_| entry.stage.status() == ResponseStatus::Initialized);
        let is_short = |message: &&Message| message.payload.len() <= LONGEST_REQUEST + TAG_LENGTH;
        request.filter(is_short).map(RequestText::OfClient)
    }

    /// Keeps the first answer to a request, for a full lifetime. A client's request that was not
    /// handed out is not handed out any more. There is always room for an answer of at most
    /// [`ANSWER_ROOM`] bytes, and the room for one to a request of the service is bounded by its
    /// length, so strangers cannot take it.
    ///
    /// # Errors
    /// [`EntryError::NoSuchRequest`], [`EntryError::AlreadyAnswered`], [`EntryError::TooLong`],
    /// [`EntryError::Full`] and [`EntryError::SourceFull`]; the request then stays as it is.
    pub fn answer(
        &mut self,
        id: &EntryId,
        message: Message,
        source: Option<IpAddr>,
        now: Duration,
    ) -> Result<(), EntryError> {
        self.drop_expired(now);
        let entry = self.entries.get(id).ok_or(EntryError::NoSuchRequest)?;
        if entry.stage.status() == ResponseStatus::Completed {
            return Err(EntryError::AlreadyAnswered);
        }
        let length = message.payload.len();
        if entry.owner == Owner::Service && length > LONGEST_OWN_PAYLOAD {
            return Err(EntryError::TooLong);
        }
        // A short one takes the room that came with its request, and counts as that did.
        if entry.owner == Owner::Client
            && length > ANSWER_ROOM
            && let Some(mut entry) = self.remove(id)
        {
            let bytes = OVERHEAD + 2 * id.as_str().len() + length;
            let has_room = self.make_room(bytes, length > LONG, source);
            if has_room.is_ok() {
                entry.source = source;
            }
            self.put(id.clone(), entry);
            has_room?;
        }
        self.change(id, now, |entry| (entry.stage, entry.request) = (Stage::Completed(message), None));
        Ok(())
    }

    /// How far a request is; `None` when there is none.
    pub fn status(&mut self, id: &EntryId, now: Duration) -> Option<ResponseStatus> {
        self.drop_expired(now);
        self.entries.get(id).map(|entry| entry.stage.status())
    }

    /// How far a client's request is, with its answer. An answer is handed out once: the entry
    /// ends. For callers of this, the requests of the service do not exist.
    pub fn take_response(&mut self, id: &EntryId, now: Duration) -> Option<(ResponseStatus, Option<Message>)> {
        self.drop_expired(now);
        let entry = self.entries.get(id).filter(|entry| entry.owner == Owner::Client)?;
        let status = entry.stage.status();
        if status != ResponseStatus::Completed {
            return Some((status, None));
        }
        match self.remove(id)?.stage {
            Stage::Completed(message) => Some((status, Some(message))),
            Stage::Initialized | Stage::Retrieved | Stage::Judged => None,
        }
    }

    /// The same for a request of the service, by the service. The entry stays: it takes no further
    /// answer until the service asks for one by calling this again, and the request can be handed
    /// out again from then on.
    pub fn take_own_response(&mut self, id: &EntryId, now: Duration) -> Option<(ResponseStatus, Option<Message>)> {
        self.drop_expired(now);
        let entry = self.entries.get(id).filter(|entry| entry.owner == Owner::Service)?;
        match entry.stage.status() {
            ResponseStatus::Completed => {}
            status => return Some((status, None)),
        }
        let mut answer = None;
        self.change(id, now, |entry| {
            entry.stage = match std::mem::replace(&mut entry.stage, Stage::Judged) {
                Stage::Completed(message) => {
                    answer = Some(message);
                    Stage::Judged
                }
                _ => Stage::Initialized,
            };
        });
        let status = if answer.is_some() { ResponseStatus::Completed } else { ResponseStatus::Initialized };
        Some((status, answer))
    }

    /// Removes a request of the service. Returns whether there was one.
    pub fn remove_own(&mut self, id: &EntryId) -> bool {
        let is_own = self.entries.get(id).is_some_and(|entry| entry.owner == Owner::Service);
        is_own && self.remove(id).is_some()
    }

    /// Removes the entries whose time has passed. Returns the ids of all that have gone since the
    /// last call by themselves: those, and long ones that made room.
    pub fn expire(&mut self, now: Duration) -> Vec<EntryId> {
        self.drop_expired(now);
        std::mem::take(&mut self.gone)
    }

    fn drop_expired(&mut self, now: Duration) {
        while self.expiries.first().is_some_and(|(expires_at, _)| *expires_at <= now) {
            if let Some((_, id)) = self.expiries.pop_first() {
                self.remove(&id);
                self.gone.push(id);
            }
        }
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all entries, as the limits count them.
    pub fn bytes(&self) -> usize {
        self.of_clients.all() + self.of_service.all()
    }

    /// Changes an entry. A client's is kept for a full lifetime from now on.
    fn change(&mut self, id: &EntryId, now: Duration, change: impl FnOnce(&mut Entry)) {
        if let Some(mut entry) = self.remove(id) {
            change(&mut entry);
            if entry.owner == Owner::Client {
                entry.expires_at = now.saturating_add(self.limits.lifetime);
            }
            self.put(id.clone(), entry);
        }
    }

    fn put(&mut self, id: EntryId, mut entry: Entry) {
        entry.bytes = entry.size(&id);
        if entry.is_long() {
            self.long.insert((entry.expires_at, id.clone()));
            self.long_bytes += entry.bytes;
        }
        self.room(entry.owner).take(entry.bytes, entry.source);
        self.expiries.insert((entry.expires_at, id.clone()));
        self.entries.insert(id, entry);
    }

    fn remove(&mut self, id: &EntryId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.expiries.remove(&(entry.expires_at, id.clone()));
        if self.long.remove(&(entry.expires_at, id.clone())) {
            self.long_bytes -= entry.bytes;
        }
        self.room(entry.owner).give_back(entry.bytes, entry.source);
        Some(entry)
    }

    fn room(&mut self, owner: Owner) -> &mut SourceShares {
        match owner {
            Owner::Client => &mut self.of_clients,
            Owner::Service => &mut self.of_service,
        }
    }
}

impl Entry {
    fn new(
        request: Option<Message>,
        stage: Stage,
        flow: [u8; 16],
        owner: Owner,
        source: Option<IpAddr>,
        expires_at: Duration,
    ) -> Self {
        Self { request, stage, flow, expires_at, owner, source, bytes: 0 }
    }

    /// What it takes, in bytes, with what it keeps alive and the room for its answer. Its id is in
    /// two tables.
    fn size(&self, id: &EntryId) -> usize {
        let answer = match (self.owner, &self.stage) {
            (_, Stage::Completed(message)) => message.payload.len(),
            (Owner::Client, Stage::Initialized | Stage::Retrieved) => ANSWER_ROOM,
            (Owner::Client, Stage::Judged) | (Owner::Service, _) => 0,
        };
        let kept_alive = if self.owner == Owner::Service { OWN_ENTRY } else { 0 };
        OVERHEAD + 2 * id.as_str().len() + kept_alive + self.request_length() + answer
    }

    /// Whether it is one of those that have a part of the room alone.
    fn is_long(&self) -> bool {
        let answer = if let Stage::Completed(message) = &self.stage { message.payload.len() } else { 0 };
        self.owner == Owner::Client && self.request_length().max(answer) > LONG
    }

    fn request_length(&self) -> usize {
        self.request.as_ref().map_or(0, |message| message.payload.len())
    }
}

/// Checks that there is room for further bytes when there may be `limit` in all.
fn check_room(held: &SourceShares, limit: usize, bytes: usize, source: Option<IpAddr>) -> Result<(), EntryError> {
    match (held.has_share(bytes, source, quarter(limit)), held.has_room(bytes, limit)) {
        (true, true) => Ok(()),
        (true, false) => Err(EntryError::Full),
        (false, _) => Err(EntryError::SourceFull),
    }
}

// Which of several replicas holds an entry of the bridge.

/// The replicas in the order in which they are asked for an entry, the holder first (rendezvous
/// hashing, Thaler and Ravishankar 1998): when a replica comes or goes, only the entries that it
/// holds, or that it would hold, get another first one.
pub fn holders(id: &EntryId, mut replicas: Vec<String>) -> Vec<String> {
    let weight = |replica: &String| -> B256 { keccak256([replica.as_bytes(), b"\0", id.as_str().as_bytes()].concat()) };
    replicas.sort_by_cached_key(|replica| std::cmp::Reverse(weight(replica)));
    replicas.dedup();
    replicas
}
