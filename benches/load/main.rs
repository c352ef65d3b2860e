//! The load benchmark: many clients call the daemon, which runs in a process of its own, and then a
//! server that does nothing but HTTP. Every answer is checked; a wrong answer fails the run.
//! docs/benchmarks.md explains the lines and the settings.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark ends when a step fails"
)]

mod accounts;
mod bare_server;
mod client;
mod daemon;
mod disk;
mod process;
mod report;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{Accounts, queries};
use bare_server::BareServer;
use client::{Answer, Call, Connection, Run, run};
use daemon::Daemon;
use report::{Figures, print_heading, print_line};
use selfsame_protocol::commitment::{commitment, decompress_slots};
use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse};
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::indexer::{
    AuthenticatorPubkeysResponse, InclusionProofResponse, PackedAccountResponse, RootResponse, SignatureNonceResponse,
};
use selfsame_protocol::{B256, U256};
use selfsame_wallet::account::Registry;
use selfsame_wallet::client::Client;
use serde::de::DeserializeOwned;

/// Any error that ends a run early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of accounts that are created one by one on the idle daemon, and of syncs of the disk.
const SINGLE_CALLS: usize = 50;

/// Longest time that requests may stay open after the last call; it also limits the reading of
/// their states.
const FINAL_WITHIN: Duration = Duration::from_secs(60);

/// Pause between two readings of the number of open requests.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One of this many inclusion proofs is verified.
const VERIFY_EVERY: usize = 50;

fn main() -> ExitCode {
    let is_argument = |wanted: &str| std::env::args().skip(1).any(|argument| argument == wanted);
    let done = if is_argument(bare_server::ARGUMENT) {
        bare_server::serve()
    } else if is_argument("--bench") {
        measure()
    } else {
        // `cargo test --benches` passes no `--bench`; there is nothing to test here.
        Ok(())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Failure> {
    let settings = Settings::from_environment()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let folder = tempfile::tempdir_in(&settings.folder)?;
        let bare = BareServer::start()?;
        let daemon = Daemon::of_environment(&folder.path().join("data"))?;
        let mut load = Load { settings, daemon, bare, wrong_answers: Vec::new() };
        println!(
            "{} cores, {} connections, at most {} s a measurement",
            std::thread::available_parallelism()?,
            load.settings.connections,
            load.settings.limit.as_secs()
        );
        print_heading();
        let synced = disk::sync_latencies(folder.path(), SINGLE_CALLS)?;
        print_line("write and sync 512 bytes", &Figures::of(&synced), &Figures::default());
        load.measure().await
    })
}

/// The sizes of a run, from the environment variables `LOAD_…`.
struct Settings {
    accounts: usize,
    inserts: usize,
    reads: u64,
    connections: usize,
    limit: Duration,
    folder: PathBuf,
}

impl Settings {
    fn from_environment() -> Result<Self, Failure> {
        let number = |name: &str, default: u32| match std::env::var(name) {
            Ok(text) => text.parse().map_err(|_| format!("{name} is {text:?}, it must be a whole number")),
            Err(_) => Ok(default),
        };
        let accounts = number("LOAD_ACCOUNTS", 20_000)?.max(1) as usize;
        Ok(Self {
            accounts,
            inserts: (number("LOAD_INSERTS", 4_000)? as usize).min(accounts),
            reads: number("LOAD_READS", 20_000)?.into(),
            connections: number("LOAD_CONNECTIONS", 64)?.max(1) as usize,
            limit: Duration::from_secs(number("LOAD_SECONDS", 8)?.into()),
            folder: std::env::var_os("LOAD_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from),
        })
    }
}

/// A run in progress.
struct Load {
    settings: Settings,
    daemon: Daemon,
    bare: BareServer,
    /// One text for each wrong answer.
    wrong_answers: Vec<String>,
}

impl Load {
    async fn measure(&mut self) -> Result<(), Failure> {
        let accounts = Accounts::new(self.settings.accounts + SINGLE_CALLS, self.settings.inserts)?;
        let mut creates = accounts.creates()?;
        let single = creates.split_off(self.settings.accounts);
        self.single_accounts(&single).await?;
        let created = self.operations("create-account", creates).await?;
        let root = self.leaf_count(created + single.len()).await?;

        let leaf_count = (created + single.len()) as u64;
        self.reads::<InclusionProofResponse>("/inclusion-proof", leaf_count, |position, leaf_index, proof| {
            let is_whole = proof.leaf_index == LeafIndex(leaf_index) && proof.root == root.root;
            is_whole && (position % VERIFY_EVERY != 0 || leads_to_root(proof))
        })
        .await?;
        self.reads::<SignatureNonceResponse>("/signature-nonce", leaf_count, |_, _, answer| {
            answer.signature_nonce == Nonce(U256::ZERO)
        })
        .await?;
        self.reads::<AuthenticatorPubkeysResponse>("/authenticator-pubkeys", leaf_count, |_, _, answer| {
            answer.authenticator_pubkeys.len() == 1
        })
        .await?;

        let leaf_indices = self.leaf_indices(accounts.packed_accounts().iter().take(created)).await?;
        let registry = Registry::connect(Client::new(&url(self.daemon.gateway), &url(self.daemon.indexer))?).await?;
        let inserts = accounts.inserts(registry.domain(), &leaf_indices)?;
        let inserted = self.operations("insert-authenticator", inserts).await?;
        self.leaf_count(created + single.len()).await?;
        self.second_keys(&leaf_indices[..inserted]).await?;

        match self.wrong_answers.as_slice() {
            [] => Ok(()),
            wrong => {
                Err(format!("{} answers were wrong:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n")).into())
            }
        }
    }

    /// Creates accounts one by one, and measures the time from the call to the final state.
    async fn single_accounts(&mut self, creates: &[Call]) -> Result<(), Failure> {
        let mut gateway = Connection::open(self.daemon.gateway).await?;
        let mut daemon = Vec::new();
        let mut sizes = (0, 0);
        for create in creates {
            let started = Instant::now();
            let accepted = gateway.call(create).await?;
            let request_id = decode::<GatewayStatusResponse>(&accepted)?.request_id;
            let state = gateway.call(&Call::get(format!("/status/{request_id}?wait=10"))).await?;
            daemon.push(started.elapsed());
            sizes = (accepted.body.len(), state.body.len());
            self.check("create-account, single", is_finalized(&state));
        }
        let mut server = Connection::open(self.bare.address).await?;
        let mut bare = Vec::new();
        for create in creates {
            let started = Instant::now();
            server.call(&Call::post(bare_server::path(sizes.0), create.body.clone())).await?;
            server.call(&Call::get(bare_server::path(sizes.1))).await?;
            bare.push(started.elapsed());
        }
        daemon.sort_unstable();
        bare.sort_unstable();
        print_line("create-account to final, single", &Figures::of(&daemon), &Figures::of(&bare));
        Ok(())
    }

    /// Submits operations, waits until they are final, and checks that all were carried out.
    /// Returns how many were accepted.
    async fn operations(&mut self, name: &str, calls: Vec<Call>) -> Result<usize, Failure> {
        let calls = Arc::new(calls);
        let processor = self.daemon.processor_time();
        let accepted = self.run(self.daemon.gateway, &calls).await?;
        self.wait_until_final().await?;
        let until_final = accepted.started.elapsed();
        let processor = difference(processor, self.daemon.processor_time());

        let bare = self.run_bare(&calls, &accepted).await?;
        let count = accepted.answers.len();
        let figures = Figures::of(&accepted.latencies).with(count, accepted.elapsed, None);
        print_line(&format!("{name}, accepted"), &figures, &bare);
        let bare = Figures { median: None, slowest_percent: None, ..bare };
        print_line(&format!("{name}, finalized"), &Figures::default().with(count, until_final, processor), &bare);

        let mut states = Vec::with_capacity(count);
        for (_, answer) in &accepted.answers {
            match decode::<GatewayStatusResponse>(answer) {
                Ok(accepted) => states.push(Call::get(format!("/status/{}", accepted.request_id))),
                Err(failure) => self.wrong_answers.push(format!("{name}: {failure}")),
            }
        }
        let states = Arc::new(states);
        let states = run(self.daemon.gateway, states, self.settings.connections, FINAL_WITHIN).await?;
        for (_, state) in &states.answers {
            self.check(name, is_finalized(state));
        }
        self.check(&format!("{name}: the number of states"), states.answers.len() == count);
        Ok(count)
    }

    /// Queries `path` about accounts. `is_right` checks an answer, given its call's position and
    /// leaf index.
    async fn reads<T: DeserializeOwned>(
        &mut self,
        path: &str,
        accounts: u64,
        is_right: impl Fn(usize, u64, &T) -> bool,
    ) -> Result<(), Failure> {
        let (leaf_indices, calls): (Vec<_>, Vec<_>) = queries(path, accounts, self.settings.reads).into_iter().unzip();
        let calls = Arc::new(calls);
        let processor = self.daemon.processor_time();
        let answered = self.run(self.daemon.indexer, &calls).await?;
        let processor = difference(processor, self.daemon.processor_time());
        let bare = self.run_bare(&calls, &answered).await?;
        let figures = Figures::of(&answered.latencies).with(answered.answers.len(), answered.elapsed, processor);
        print_line(path.trim_start_matches('/'), &figures, &bare);
        for (position, answer) in &answered.answers {
            match decode(answer) {
                Ok(answer) => self.check(path, is_right(*position, leaf_indices[*position], &answer)),
                Err(failure) => self.wrong_answers.push(format!("{path}: {failure}")),
            }
        }
        Ok(())
    }

    /// The leaf indices of the signers' accounts, in the order of `calls`.
    async fn leaf_indices(&self, calls: impl Iterator<Item = &Call>) -> Result<Vec<u64>, Failure> {
        let mut indexer = Connection::open(self.daemon.indexer).await?;
        let mut leaf_indices = Vec::new();
        for call in calls {
            let packed = decode::<PackedAccountResponse>(&indexer.call(call).await?)?.packed_account_data;
            leaf_indices.push(packed.as_limbs()[0]);
        }
        Ok(leaf_indices)
    }

    /// Checks that the tree has this many accounts and no other leaf in use but the reserved leaf
    /// 0.
    async fn leaf_count(&mut self, accounts: usize) -> Result<RootResponse, Failure> {
        let root = self.call_indexer(&Call::get("/root")).await?;
        let root = decode::<RootResponse>(&root)?;
        self.check("the leaf count", root.leaf_count == accounts as u64 + 1);
        Ok(root)
    }

    /// Checks that the inclusion proofs of accounts with a second authenticator have both keys and
    /// are valid. Checks one of [`VERIFY_EVERY`] accounts.
    async fn second_keys(&mut self, leaf_indices: &[u64]) -> Result<(), Failure> {
        for leaf_index in leaf_indices.iter().step_by(VERIFY_EVERY) {
            let query = Call::post("/inclusion-proof", format!("{{\"leaf_index\":\"{leaf_index}\"}}"));
            let proof = decode::<InclusionProofResponse>(&self.call_indexer(&query).await?)?;
            self.check("a second key", proof.authenticator_pubkeys.len() == 2 && leads_to_root(&proof));
        }
        Ok(())
    }

    async fn call_indexer(&self, call: &Call) -> Result<Answer, Failure> {
        Connection::open(self.daemon.indexer).await?.call(call).await
    }

    /// Waits until no request is open, by the operator interface's metrics.
    async fn wait_until_final(&self) -> Result<(), Failure> {
        let mut operator = Connection::open(self.daemon.operator).await?;
        let deadline = Instant::now() + FINAL_WITHIN;
        while Instant::now() < deadline {
            let metrics = operator.call(&Call::get("/metrics")).await?;
            let text = String::from_utf8_lossy(&metrics.body);
            if text.lines().any(|line| line == "selfsame_registry_open_requests 0") {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(format!("requests are still open after {} s", FINAL_WITHIN.as_secs()).into())
    }

    async fn run(&self, address: SocketAddr, calls: &Arc<Vec<Call>>) -> Result<Run, Failure> {
        run(address, Arc::clone(calls), self.settings.connections, self.settings.limit).await
    }

    /// Makes the same calls to the bare server, with answers of the daemon's mean size.
    async fn run_bare(&mut self, calls: &[Call], daemon: &Run) -> Result<Figures, Failure> {
        let bytes: usize = daemon.answers.iter().map(|(_, answer)| answer.body.len()).sum();
        let length = bytes / daemon.answers.len().max(1);
        let path = bare_server::path(length);
        let calls = Arc::new(calls.iter().map(|call| Call { path: path.clone(), ..call.clone() }).collect());
        let processor = self.bare.process.processor_time();
        let run = run(self.bare.address, calls, self.settings.connections, self.settings.limit).await?;
        let processor = difference(processor, self.bare.process.processor_time());
        for (_, answer) in &run.answers {
            self.check("the bare server", answer.status.is_success() && answer.body.len() == length);
        }
        Ok(Figures::of(&run.latencies).with(run.answers.len(), run.elapsed, processor))
    }

    fn check(&mut self, what: &str, is_right: bool) {
        if !is_right {
            self.wrong_answers.push(format!("{what}: the answer is not what it should be"));
        }
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn difference(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    after?.checked_sub(before?)
}

fn decode<T: DeserializeOwned>(answer: &Answer) -> Result<T, Failure> {
    if !answer.status.is_success() {
        return Err(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

fn is_finalized(state: &Answer) -> bool {
    let state = decode::<GatewayStatusResponse>(state);
    state.is_ok_and(|state| matches!(state.status, GatewayRequestState::Finalized { .. }))
}

/// Whether a proof leads from the leaf, which is computed from the proof's public keys, to its
/// root.
fn leads_to_root(proof: &InclusionProofResponse) -> bool {
    let slots = decompress_slots(proof.authenticator_pubkeys.iter().copied());
    let leaf = slots.map(|slots| commitment(&slots).leaf()).unwrap_or(B256::ZERO);
    proof.path().is_some_and(|path| path.root_from(&leaf) == path.root)
}
