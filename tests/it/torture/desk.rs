//! What all clients share: where the daemon is, how it is asked, and where they write down what they were told.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::try_join_all;
use reqwest::RequestBuilder;
use reqwest::redirect::Policy;
use selfsame_actors::{Random, SystemRandom};
use selfsame_wallet::client::{Client, ClientError};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::SimulatedParty;
use serde_json::Value;
use tokio::sync::watch;

use super::chance::Chance;
use super::{check, registry, sign_in, verification};
use crate::sign_in_desk::APP;

/// How long an answer may take. A daemon that is killed is noticed at once: this is for one that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How many questions are asked at a time where there are many.
const AT_ONCE: usize = 16;

/// The daemon is gone: nobody knows what became of what was asked last. With what the connection said of it.
#[derive(Debug)]
pub struct Gone(pub String);

/// One run's desk.
pub struct Desk {
    pub seed: u64,
    /// The daemon's data folder.
    pub data: PathBuf,
    pub addresses: Addresses,
    pub http: reqwest::Client,
    pub client: Client,
    pub operator: Operator,
    /// How many answers were written down.
    pub answers: watch::Sender<usize>,
    pub tally: Tally,
    pub registry: registry::Notes,
    pub verification: verification::Notes,
    pub sign_in: sign_in::Notes,
    /// How far the ledger was walked.
    pub walk: tokio::sync::Mutex<check::Walk>,
    /// What is going on, for the words of a failure.
    pub now: Mutex<String>,
}

/// What a run counts for its summary.
#[derive(Default)]
pub struct Tally {
    pub receipts: AtomicUsize,
    pub codes: AtomicUsize,
    pub tokens: AtomicUsize,
    /// Answers that put clients off: too busy, stopping.
    pub put_off: AtomicUsize,
}

/// An answer that is not the wallet's to read.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

impl Desk {
    pub fn new(seed: u64, data: &Path) -> Self {
        let addresses = Addresses::choose();
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).timeout(ANSWER_TIMEOUT);
        Self {
            seed,
            data: data.to_owned(),
            http: http.build().expect("a client"),
            client: Client::new(&addresses.gateway(), &addresses.indexer()).expect("a client"),
            operator: Operator::new(&addresses.operator()).expect("a client"),
            addresses,
            answers: watch::Sender::new(0),
            tally: Tally::default(),
            registry: registry::Notes::default(),
            verification: verification::Notes::default(),
            sign_in: sign_in::Notes::default(),
            walk: tokio::sync::Mutex::default(),
            now: Mutex::default(),
        }
    }

    /// A stream of choices.
    pub fn chance(&self, name: &str) -> Chance {
        Chance::of(self.seed, name)
    }

    /// Somebody has written down an answer.
    pub fn told(&self) {
        self.answers.send_modify(|answers| *answers += 1);
    }

    /// Sends a request. `None` when the daemon puts us off, which leaves open what became of it.
    pub async fn send(&self, request: RequestBuilder) -> Result<Option<Reply>, Gone> {
        let response = request.send().await.map_err(gone)?;
        let status = response.status();
        let text = response.text().await.map_err(gone)?;
        if status.is_server_error() {
            self.tally.put_off.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {status} {text}"));
        Ok(Some(Reply { status: status.as_u16(), body }))
    }

    /// The same for what only reads: asked again until there is an answer.
    pub async fn read(&self, request: RequestBuilder) -> Result<Reply, Gone> {
        loop {
            let again = request.try_clone().expect("a request without a stream");
            if let Some(reply) = self.send(again).await? {
                return Ok(reply);
            }
        }
    }

    /// What a wallet's client was answered. A refusal is a failure of the daemon, but when it puts us off: then `None`.
    #[track_caller]
    pub fn unless_put_off<T>(&self, answer: Result<T, ClientError>) -> Result<Option<T>, Gone> {
        if let Err(ClientError::Service { status: 500.., .. }) = answer {
            self.tally.put_off.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        answered(answer).map(Some)
    }

    /// What the simulator's proofs are about, with the newest root.
    pub async fn simulated_party(&self) -> Result<SimulatedParty, Gone> {
        let root = answered(self.client.root().await)?.root;
        let simulation = answered(self.operator.simulation().await)?;
        Ok(SimulatedParty::of(simulation, APP, root).expect("known"))
    }
}

/// What a wallet's client was answered. A refusal is a failure of the daemon.
#[track_caller]
pub fn answered<T>(answer: Result<T, ClientError>) -> Result<T, Gone> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(ClientError::Unreachable { source, .. }) => Err(gone(source)),
        Err(error) => panic!("{error}"),
    }
}

/// No answer: because the daemon is gone, and not because it hangs.
#[track_caller]
fn gone(error: reqwest::Error) -> Gone {
    assert!(!error.is_timeout(), "the daemon hangs: {error}");
    Gone(format!("{error:?}"))
}

/// What is written down; whoever panics while writing ends the run anyway.
pub fn lock<T>(notes: &Mutex<T>) -> MutexGuard<'_, T> {
    notes.lock().expect("nobody panicked")
}

/// Does many things, several at a time.
pub async fn several<F: Future<Output = Result<(), Gone>>>(work: impl IntoIterator<Item = F>) -> Result<(), Gone> {
    let mut work = work.into_iter();
    loop {
        let some: Vec<F> = work.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return Ok(());
        }
        try_join_all(some).await?;
    }
}

/// Where the daemon listens. It keeps its addresses over restarts, as it would elsewhere: sign-in's are in what it gives out.
pub struct Addresses {
    gateway: SocketAddr,
    indexer: SocketAddr,
    operator: SocketAddr,
    verification: SocketAddr,
    sign_in: SocketAddr,
}

impl Addresses {
    /// Addresses of a loopback host that nobody else is likely to use while the daemon is down.
    fn choose() -> Self {
        let mut random = [0; 32];
        SystemRandom.fill(&mut random);
        let host = Ipv4Addr::new(127, random[0] | 1, random[1], random[2].clamp(1, 254));
        let bind = |_| TcpListener::bind((host, 0)).expect("a free port");
        let listeners: [TcpListener; 5] = std::array::from_fn(bind);
        let [gateway, indexer, operator, verification, sign_in] =
            listeners.map(|listener| listener.local_addr().expect("an address"));
        Self { gateway, indexer, operator, verification, sign_in }
    }

    /// The daemon's settings for them.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("SELFSAME_LISTEN__GATEWAY", self.gateway.to_string()),
            ("SELFSAME_LISTEN__INDEXER", self.indexer.to_string()),
            ("SELFSAME_LISTEN__OPERATOR", self.operator.to_string()),
            ("SELFSAME_LISTEN__VERIFY", self.verification.to_string()),
            ("SELFSAME_LISTEN__SIGN_IN", self.sign_in.to_string()),
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
