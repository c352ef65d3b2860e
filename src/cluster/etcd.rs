//! The members of etcd, one of which is asked at a time.
//!
//! A question that a member does not answer in time moves this process to the next member, so that
//! a member that is stopped, cut off or without its others costs one question, not every second
//! one.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tonic::Code;

use super::keys::Keys;

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
