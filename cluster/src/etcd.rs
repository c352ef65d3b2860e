//! The members of etcd, one of which is asked at a time, and the keys of a cluster there.
//!
//! A question that a member does not answer in time moves this process to the next member, so that
//! a member that is stopped, cut off or without its others costs one question, not every second
//! one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256};
use bytes::Bytes;
use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use selfsame_storage::{JournalEntry, Position, Term};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tonic::Code;

/// The longest time until a member is connected to.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection on which nothing comes while an answer is awaited is asked this often whether it
/// stands. etcd refuses clients that ask more often.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The greatest answer that is read. An answer has at most 16 entries of the journal, of at most
/// 1 MiB each.
pub const LARGEST_ANSWER: usize = 32 << 20;

/// How etcd is reached.
#[derive(Clone, Debug)]
pub struct EtcdAccess {
    /// URLs of the members, `http://` or `https://`.
    pub endpoints: Vec<String>,
    /// What the keys of the cluster begin with, without a slash at its end.
    pub prefix: String,
    /// Whom etcd takes this client for; `None` for etcd without users, and when the client's
    /// certificate says it.
    pub user: Option<EtcdUser>,
    /// What members with `https://` are checked with; `None` for `http://`.
    pub tls: Option<EtcdTls>,
}

/// A user of etcd with a password.
#[derive(Clone)]
pub struct EtcdUser {
    /// The user.
    pub name: String,
    /// The password.
    pub password: String,
}

// The passwords and private keys are not in the debug forms, because embedders write them to logs.
impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// PEM texts for TLS.
#[derive(Clone)]
pub struct EtcdTls {
    /// Certificates of those who may have signed the members' certificates; `None` for those of the
    /// operating system.
    pub authorities: Option<String>,
    /// This client's certificate chain and private key.
    pub identity: Option<(String, String)>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls").finish_non_exhaustive()
    }
}

/// Why etcd did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No answer came in time. What was asked may be done, or be done later.
    #[error("{endpoint} gave no answer within {} ms", patience.as_millis())]
    Silent {
        /// URL of the member.
        endpoint: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The member answered with an error, or could not be reached.
    #[error("{endpoint}: {error}")]
    Failed {
        /// URL of the member.
        endpoint: String,
        /// Its error.
        error: Error,
    },
    /// No member is known.
    #[error("no member of etcd is given")]
    NoMember,
    /// A value in etcd that this program did not write.
    #[error("the key {key} of etcd has a value that this program cannot read; give the cluster a prefix of its own")]
    Foreign {
        /// The key.
        key: String,
    },
}

impl EtcdError {
    /// The status code and the message of a member's answer.
    fn status(&self) -> Option<(Code, &str)> {
        match self {
            Self::Failed { error: Error::GRpcStatus(status), .. } => Some((status.code(), status.message())),
            Self::Failed { .. } | Self::Silent { .. } | Self::NoMember | Self::Foreign { .. } => None,
        }
    }

    /// Whether what was asked was not done, and will not be.
    pub fn is_refusal(&self) -> bool {
        let refusals =
            [Code::PermissionDenied, Code::ResourceExhausted, Code::FailedPrecondition, Code::Unauthenticated];
        // A connection that breaks has some of these codes, too, but not etcd's own words.
        let is_refusal =
            |(code, message): (Code, &str)| refusals.contains(&code) && message.starts_with("etcdserver: ");
        self.status().is_some_and(is_refusal) && !self.is_full()
    }

    /// Whether etcd is full. It may have done what it was asked before it noticed.
    pub fn is_full(&self) -> bool {
        self.status().is_some_and(|(_, message)| message.contains("database space exceeded"))
    }

    /// Whether the question was larger than etcd takes.
    pub fn is_too_large(&self) -> bool {
        self.status().is_some_and(|(code, message)| match code {
            Code::InvalidArgument => message.contains("request is too large"),
            Code::ResourceExhausted => message.contains("received message larger than max"),
            _ => false,
        })
    }

    /// Whether etcd no longer has the revision that was asked for.
    pub fn is_compacted(&self) -> bool {
        self.status().is_some_and(|(code, message)| code == Code::OutOfRange && message.contains("compacted"))
    }
}

/// The members of an etcd cluster.
pub struct Etcd {
    members: Vec<Member>,
    /// The member that is asked next.
    current: AtomicUsize,
    options: ConnectOptions,
    keys: Keys,
}

struct Member {
    endpoint: String,
    client: OnceCell<Client>,
}

impl Etcd {
    /// The members. No connection is made yet.
    pub fn new(access: &EtcdAccess) -> Self {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE_TIMEOUT)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(EtcdUser { name, password }) = &access.user {
            options = options.with_user(name, password);
        }
        if let Some(tls) = &access.tls {
            options = options.with_tls(tls_options(tls));
        }
        let members =
            access.endpoints.iter().map(|endpoint| Member { endpoint: endpoint.clone(), client: OnceCell::new() });
        Self { members: members.collect(), current: AtomicUsize::new(0), options, keys: Keys::new(&access.prefix) }
    }

    /// The keys of the cluster.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Asks a member, and moves to the next one when it does not answer.
    ///
    /// # Errors
    /// [`EtcdError::Silent`] or [`EtcdError::Failed`].
    pub async fn ask<T>(
        &self,
        patience: Duration,
        question: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, EtcdError> {
        Ok(self.ask_of(patience, question).await?.0)
    }

    /// The same, with the member that answered.
    ///
    /// # Errors
    /// [`EtcdError::Silent`] or [`EtcdError::Failed`].
    pub async fn ask_of<T>(
        &self,
        patience: Duration,
        question: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<(T, Asked), EtcdError> {
        let asked = Asked(self.current.load(Ordering::Relaxed));
        let index = asked.0.checked_rem(self.members.len()).ok_or(EtcdError::NoMember)?;
        let Member { endpoint, client } = &self.members[index];
        let asking = async {
            let connecting = Client::connect([endpoint], Some(self.options.clone()));
            let client = client.get_or_try_init(|| connecting).await?;
            question(client.clone()).await
        };
        let error = match timeout(patience, asking).await {
            Ok(Ok(answer)) => return Ok((answer, asked)),
            Ok(Err(error)) => EtcdError::Failed { endpoint: endpoint.clone(), error },
            Err(_) => EtcdError::Silent { endpoint: endpoint.clone(), patience },
        };
        // Every member would say these two.
        if !error.is_too_large() && !error.is_compacted() {
            self.leave(asked);
        }
        Err(error)
    }

    /// Asks the next member from now on, unless this process has left that one already.
    pub fn leave(&self, Asked(index): Asked) {
        let next = index.wrapping_add(1);
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A member that was asked, at one of the turns.
#[derive(Clone, Copy, Debug)]
pub struct Asked(usize);

fn tls_options(tls: &EtcdTls) -> TlsOptions {
    let options = match &tls.authorities {
        Some(authorities) => TlsOptions::new().ca_certificate(Certificate::from_pem(authorities)),
        None => TlsOptions::new().with_enabled_roots(),
    };
    // The other time-out ends with the TCP connection.
    let options = options.timeout(CONNECT_TIMEOUT);
    match &tls.identity {
        Some((chain, private_key)) => options.identity(Identity::from_pem(chain, private_key)),
        None => options,
    }
}

// The keys of a cluster in etcd, below its prefix.
//
// | key | value |
// |---|---|
// | `<prefix>/journal/<position>` | an entry: its leader's term, 8 bytes, big-endian; then the entry |
// | `<prefix>/head` | position and term of the last entry, as text |
// | `<prefix>/leader` | who leads, as JSON; the key's create revision is the term |
// | `<prefix>/cluster` | what the cluster is, as JSON, written once |
// | `<prefix>/replicas/<name>` | how far a replica is, as JSON |
//
// Positions have 20 decimal digits, so that etcd's order of keys is theirs.

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

/// The value of the leader's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The replica's name.
    pub name: String,
    /// The URL at which the other replicas reach it.
    pub address: String,
}

/// The value of the cluster's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Chosen at random by the first replica, 32 hex digits.
    pub id: String,
    /// Name of the first replica.
    pub founder: String,
    /// Chain id of the registry.
    pub chain_id: u64,
    /// Contract address of the registry.
    pub verifying_contract: Address,
}

/// The value of a replica's key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaRecord {
    /// The replica's name.
    pub name: String,
    /// Chosen at random when its store became a replica, 32 hex digits: a second replica of the
    /// same name has another one.
    pub store_id: String,
    /// The URL at which the other replicas reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// The last entry of the journal that its store has.
    pub position: u64,
    /// The last entry that survives a power failure of its machine.
    pub synced: u64,
    /// Height of the newest block that it has applied.
    pub height: u64,
    /// Hash of the result of that block, which follows from all blocks before; zeros before the
    /// first one.
    pub result: B256,
    /// Grows each time that the replica writes this: one that does not write it is not running, or
    /// cut off.
    pub beat: u64,
    /// For each other replica that runs, the seconds since this one could last reach it; 0 for one
    /// that the last attempt reached. Empty for a program that does not attempt it.
    #[serde(default)]
    pub unreached: BTreeMap<String, u64>,
    /// It was elected within the last minutes, and could not do a leader's work.
    #[serde(default)]
    pub unfit: bool,
}

impl Keys {
    /// The keys below a prefix, which has no slash at its end.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The key of an entry.
    pub fn entry(&self, position: Position) -> String {
        format!("{}/journal/{:020}", self.prefix, position.0)
    }

    /// What comes after the keys of all entries.
    pub fn after_entries(&self) -> String {
        // The character after the slash.
        format!("{}/journal0", self.prefix)
    }

    /// The position in the key of an entry; `None` for other keys.
    pub fn position(&self, key: &[u8]) -> Option<Position> {
        let digits = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("/journal/")?;
        digits.parse().ok().map(Position).filter(|position| self.entry(*position).as_bytes() == key)
    }

    /// The key of the journal's end.
    pub fn head(&self) -> String {
        format!("{}/head", self.prefix)
    }

    /// The leader's key.
    pub fn leader(&self) -> String {
        format!("{}/leader", self.prefix)
    }

    /// The cluster's key.
    pub fn cluster(&self) -> String {
        format!("{}/cluster", self.prefix)
    }

    /// A replica's key.
    pub fn replica(&self, name: &str) -> String {
        format!("{}/replicas/{name}", self.prefix)
    }

    /// What the keys of all replicas begin with.
    pub fn replicas(&self) -> String {
        format!("{}/replicas/", self.prefix)
    }
}

/// The value of [`Keys::head`].
pub fn head_text(position: Position, term: Term) -> String {
    format!("{} {}", head_prefix(position), term.0)
}

/// What [`head_text`] begins with: values with a smaller position are less than this, and those
/// with this position greater.
pub fn head_prefix(position: Position) -> String {
    format!("{:020}", position.0)
}

/// Reads a [`head_text`].
pub fn read_head(value: &[u8]) -> Option<(Position, Term)> {
    let (position, term) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    Some((Position(position.parse().ok()?), Term(term.parse().ok()?)))
}

/// The value of an entry's key.
pub fn entry_value(term: Term, entry: &[u8]) -> Vec<u8> {
    [&term.0.to_be_bytes(), entry].concat()
}

/// Reads an [`entry_value`].
pub fn read_entry(position: Position, value: &[u8]) -> Option<JournalEntry> {
    let (term, bytes) = value.split_first_chunk()?;
    Some(JournalEntry { position, term: Term(u64::from_be_bytes(*term)), bytes: Bytes::copy_from_slice(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_orders_keys_and_ends_as_their_positions() {
        let keys = Keys::new("/c");
        let positions = [1, 2, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX].map(Position);
        for pair in positions.windows(2) {
            let [less, greater] = [pair[0], pair[1]];
            assert!(keys.entry(less) < keys.entry(greater));
            assert!(keys.entry(greater) < keys.after_entries());
            let head = head_text(less, Term(7));
            assert!(head_prefix(less) < head && head < head_prefix(greater), "{head}");
        }
        for position in positions {
            assert_eq!(keys.position(keys.entry(position).as_bytes()), Some(position));
        }
        for other in ["/c/head", "/c/journal/7", "/d/journal/00000000000000000007", "/c/journal/0000000000000000000x"] {
            assert_eq!(keys.position(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let entry = JournalEntry { position: Position(3), term: Term(9), bytes: Bytes::from_static(b"entry") };
        assert_eq!(read_entry(entry.position, &entry_value(entry.term, &entry.bytes)), Some(entry));
        assert_eq!(read_entry(Position(3), &[0; 7]), None);
        assert_eq!(read_head(head_text(Position(3), Term(9)).as_bytes()), Some((Position(3), Term(9))));
        for wrong in ["", "3", "3 x", "x 9"] {
            assert_eq!(read_head(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
