//! What all clients share: the daemon's addresses, the HTTP clients, and the record of what was
//! acknowledged.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use reqwest::RequestBuilder;
use reqwest::redirect::Policy;
use selfsame_actors::{Random, SystemRandom};
use selfsame_wallet::client::{Client, ClientError};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::SimulatedParty;
use serde_json::Value;
use tokio::sync::watch;

use super::choices::CrashChoices;
use super::{check, registry, sign_in, verification};
use crate::harness::{PATIENCE, until_in_task};
use crate::sign_in_client::APP;

/// The maximum number of requests at a time.
const AT_ONCE: usize = 16;

/// The daemon is gone, so the outcome of the last request is unknown. Holds the error of the
/// connection.
#[derive(Debug)]
pub struct DaemonGone(pub String);

/// The shared state of one run.
pub struct CrashTestContext {
    pub seed: u64,
    /// The daemon's data folder.
    pub data: PathBuf,
    pub addresses: DaemonAddresses,
    pub http: reqwest::Client,
    pub client: Client,
    pub operator: Operator,
    /// How many answers were recorded.
    pub answers: watch::Sender<usize>,
    pub counts: RunCounts,
    pub registry: registry::RegistryNotes,
    pub verification: verification::VerificationNotes,
    pub sign_in: sign_in::SignInNotes,
    /// The blocks of the ledger that were read so far.
    pub walk: tokio::sync::Mutex<check::LedgerWalk>,
    /// What the run is doing, for the message of a failure.
    pub now: Mutex<String>,
}

/// Counts for the summary of a run.
#[derive(Default)]
pub struct RunCounts {
    pub receipts: AtomicUsize,
    pub codes: AtomicUsize,
    pub tokens: AtomicUsize,
    /// Answers that refuse for now: too busy, stopping.
    pub put_off: AtomicUsize,
}

/// An answer with a JSON body.
#[derive(Debug)]
pub struct ServiceAnswer {
    pub status: u16,
    pub body: Value,
}

impl CrashTestContext {
    pub fn new(seed: u64, data: &Path) -> Self {
        let addresses = DaemonAddresses::choose();
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).timeout(PATIENCE);
        Self {
            seed,
            data: data.to_owned(),
            http: http.build().expect("a client"),
            client: Client::new(&addresses.gateway(), &addresses.indexer()).expect("a client"),
            operator: Operator::new(&addresses.operator()).expect("a client"),
            addresses,
            answers: watch::Sender::new(0),
            counts: RunCounts::default(),
            registry: registry::RegistryNotes::default(),
            verification: verification::VerificationNotes::default(),
            sign_in: sign_in::SignInNotes::default(),
            walk: tokio::sync::Mutex::default(),
            now: Mutex::default(),
        }
    }

    /// The stream of choices with this name.
    pub fn choices(&self, name: &str) -> CrashChoices {
        CrashChoices::of(self.seed, name)
    }

    /// Counts a recorded answer.
    pub fn count_answer(&self) {
        self.answers.send_modify(|answers| *answers += 1);
    }

    /// Sends a request. `None` when the daemon refuses for now, which leaves the outcome open.
    pub async fn send(&self, request: RequestBuilder) -> Result<Option<ServiceAnswer>, DaemonGone> {
        let response = request.send().await.map_err(gone)?;
        let status = response.status();
        let text = response.text().await.map_err(gone)?;
        if status.is_server_error() {
            self.counts.put_off.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {status} {text}"));
        Ok(Some(ServiceAnswer { status: status.as_u16(), body }))
    }

    /// The same for reads: sent again until there is an answer.
    pub async fn read(&self, request: RequestBuilder) -> Result<ServiceAnswer, DaemonGone> {
        let answer = async || {
            let again = request.try_clone().expect("a request without a stream");
            self.send(again).await.transpose().ok_or("refused for now")
        };
        until_in_task("an answer to a read", answer).await
    }

    /// The answer to a wallet's client; `None` when the daemon refuses for now. Any other refusal
    /// is a failure of the daemon.
    #[track_caller]
    pub fn unless_put_off<T>(&self, answer: Result<T, ClientError>) -> Result<Option<T>, DaemonGone> {
        if let Err(ClientError::Service { status: 500.., .. }) = answer {
            self.counts.put_off.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        answered(answer).map(Some)
    }

    /// The simulated party for proofs, with the newest root.
    pub async fn simulated_party(&self) -> Result<SimulatedParty, DaemonGone> {
        let root = answered(self.client.root().await)?.root;
        let simulation = answered(self.operator.simulation().await)?;
        Ok(SimulatedParty::of(simulation, APP, root).expect("a known application"))
    }
}

tokio::task_local! {
    /// Set for clients of a cluster that is being disturbed: there, a service that puts a client
    /// off again and again, or gives no answer, is one whose leader is gone.
    pub static IS_DISTURBED: bool;
}

fn is_disturbed() -> bool {
    IS_DISTURBED.try_with(|is_disturbed| *is_disturbed).unwrap_or(false)
}

/// How long a replica may show what another one has changed since: sign-in's answers about tokens
/// may be as old as `cluster.staleness`, and several times as old for a client on a busy machine.
const MOST_STALE: Duration = Duration::from_secs(30);

/// Whether what was read may be older than what was written before it.
pub fn may_be_stale(since: Instant) -> bool {
    is_disturbed() && since.elapsed() < MOST_STALE
}

/// The answer to a wallet's client. A refusal is a failure of the daemon.
#[track_caller]
pub fn answered<T>(answer: Result<T, ClientError>) -> Result<T, DaemonGone> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(ClientError::Unreachable { source, .. }) => Err(gone(source)),
        Err(error @ ClientError::Service { status: 503 | 504, .. }) if is_disturbed() => {
            Err(DaemonGone(error.to_string()))
        }
        Err(error) => panic!("{error}"),
    }
}

/// The daemon gave no answer because it is gone, and not because it hangs.
#[track_caller]
fn gone(error: reqwest::Error) -> DaemonGone {
    assert!(!error.is_timeout() || is_disturbed(), "the daemon hangs: {error}");
    DaemonGone(format!("{error:?}"))
}

/// Locks a record; a panic of another holder has ended the run already.
pub fn lock<T>(notes: &Mutex<T>) -> MutexGuard<'_, T> {
    notes.lock().expect("no holder panicked")
}

/// Runs many tasks, several at a time.
pub async fn several<F: Future<Output = Result<(), DaemonGone>>>(
    work: impl IntoIterator<Item = F>,
) -> Result<(), DaemonGone> {
    let mut work = work.into_iter();
    loop {
        let some: Vec<F> = work.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return Ok(());
        }
        try_join_all(some).await?;
    }
}

/// The daemon's addresses. They stay the same over restarts, because sign-in's address is in what
/// it issues.
pub struct DaemonAddresses {
    gateway: SocketAddr,
    indexer: SocketAddr,
    operator: SocketAddr,
    verification: SocketAddr,
    sign_in: SocketAddr,
    bridge: SocketAddr,
    wallet: SocketAddr,
}

impl DaemonAddresses {
    /// Chooses addresses of a loopback host that other programs are unlikely to use while the
    /// daemon is down.
    fn choose() -> Self {
        let mut random = [0; 32];
        SystemRandom.fill(&mut random);
        let host = Ipv4Addr::new(127, random[0] | 1, random[1], random[2].clamp(1, 254));
        let bind = |_| TcpListener::bind((host, 0)).expect("a free port");
        let listeners: [TcpListener; 7] = std::array::from_fn(bind);
        let [gateway, indexer, operator, verification, sign_in, bridge, wallet] =
            listeners.map(|listener| listener.local_addr().expect("an address"));
        Self { gateway, indexer, operator, verification, sign_in, bridge, wallet }
    }

    /// The addresses as variables of the daemon's environment.
    pub fn variables(&self) -> [(&'static str, String); 7] {
        [
            ("SELFSAME_LISTEN__GATEWAY", self.gateway.to_string()),
            ("SELFSAME_LISTEN__INDEXER", self.indexer.to_string()),
            ("SELFSAME_LISTEN__OPERATOR", self.operator.to_string()),
            ("SELFSAME_LISTEN__VERIFY", self.verification.to_string()),
            ("SELFSAME_LISTEN__SIGN_IN", self.sign_in.to_string()),
            ("SELFSAME_LISTEN__BRIDGE", self.bridge.to_string()),
            ("SELFSAME_LISTEN__WALLET", self.wallet.to_string()),
        ]
    }

    /// Where the daemon listens, by the interface's key in `[listen]`.
    pub fn all(&self) -> [(&'static str, SocketAddr); 7] {
        [
            ("gateway", self.gateway),
            ("indexer", self.indexer),
            ("operator", self.operator),
            ("verify", self.verification),
            ("sign_in", self.sign_in),
            ("bridge", self.bridge),
            ("wallet", self.wallet),
        ]
    }

    fn gateway(&self) -> String {
        format!("http://{}", self.gateway)
    }

    fn indexer(&self) -> String {
        format!("http://{}", self.indexer)
    }

    pub fn operator(&self) -> String {
        format!("http://{}", self.operator)
    }

    pub fn verification(&self) -> String {
        format!("http://{}", self.verification)
    }

    pub fn sign_in(&self) -> String {
        format!("http://{}", self.sign_in)
    }
}
