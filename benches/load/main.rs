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
mod folder;
mod large_store;
#[path = "../machine/mod.rs"]
mod machine;
mod process;
mod proofs;
mod report;
mod settings;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{Accounts, queries};
use bare_server::{BareServer, Work};
use client::{Answer, Call, Connection, Pace, Run, run};
use daemon::Daemon;
use report::{Figures, print_fact, print_heading, print_line};
use selfsame_protocol::commitment::{commitment, decompress_slots};
use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse};
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::indexer::{
    AuthenticatorPubkeysResponse, InclusionProofResponse, PackedAccountResponse, RootResponse, SignatureNonceResponse,
};
use selfsame_protocol::verification::ProofKind;
use selfsame_protocol::{B256, U256};
use selfsame_wallet::account::Registry;
use selfsame_wallet::client::Client;
use serde::de::DeserializeOwned;
use settings::Settings;
use tokio::task::JoinHandle;

/// Any error that ends a run early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of accounts that are created one by one on the idle daemon, and of syncs of the disk.
const SINGLE_CALLS: usize = 50;

/// Longest time that requests may stay open after the last call; it also limits the reading of
/// their states.
const FINAL_WITHIN: Duration = Duration::from_secs(60);

/// Time in which the bare server prepares what it checks proofs with.
const PREPARING: Duration = Duration::from_millis(200);

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
        let folder = folder::of_this_run(&settings.folder)?;
        let data = folder.path().join("data");
        machine::print();
        println!("{} connections, {} s a measurement", settings.connections, settings.limit.as_secs());
        let before = settings.large.as_ref().map_or(0, |large| large.accounts);
        let accounts = Accounts::new(settings.inserts, before / settings.inserts.max(1) as u64)?;
        if let Some(large) = &settings.large {
            large_store::provide(large, &accounts, &data)?;
            print_fact("disk, an account", format!("{} bytes", bytes_of(&data)? / large.accounts));
        }
        let bare = BareServer::start()?;
        let started = Instant::now();
        let daemon = Daemon::of_environment(&data)?;
        daemon.wait_until_ready().await?;
        print_fact("ready after a clean stop", format!("{:.2} s", started.elapsed().as_secs_f64()));
        let mut load = Load { settings, daemon, bare, accounts, present: before, wrong_answers: Vec::new() };
        print_heading();
        let synced = disk::sync_latencies(folder.path(), SINGLE_CALLS)?;
        print_line("write and sync 512 bytes", &Figures::of(&synced), &Figures::default());
        load.measure().await?;
        load.verifications(&data).await?;
        load.wrong_answers_fail()?;
        load.end(&data).await
    })
}

/// Bytes of all files of a folder.
fn bytes_of(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// Creations of accounts that are made beside something else, at a rate.
struct Writes {
    creates: Vec<Call>,
    per_second: f64,
}

impl Writes {
    /// The same rate with the first and with the second half of the creations.
    fn halves(mut self) -> (Self, Self) {
        let second = self.creates.split_off(self.creates.len() / 2);
        let per_second = self.per_second;
        (self, Self { creates: second, per_second })
    }
}

/// A run in progress.
struct Load {
    settings: Settings,
    daemon: Daemon,
    bare: BareServer,
    accounts: Accounts,
    /// How many accounts there are.
    present: u64,
    /// One text for each wrong answer.
    wrong_answers: Vec<String>,
}

impl Load {
    async fn measure(&mut self) -> Result<(), Failure> {
        let mut creates = self.accounts.creates(self.present, self.settings.accounts + SINGLE_CALLS)?;
        let single = creates.split_off(self.settings.accounts);
        self.single_accounts(&single).await?;
        // Half of them are left for the reads while blocks are applied.
        let later = creates.split_off(creates.len() / 2);
        let created = self.operations("create-account", creates, Work::ReadCreation).await?;
        let writes = Writes { per_second: created as f64 / self.settings.limit.as_secs_f64() / 2.0, creates: later };
        self.present += (created + single.len()) as u64;
        self.check_leaf_count().await?;

        self.proofs("inclusion-proof, 10000 accounts", 10_000, None).await?;
        self.proofs("inclusion-proof, all accounts", u64::MAX, None).await?;
        self.proofs("inclusion-proof, all, while writing", u64::MAX, Some(writes)).await?;
        self.reads::<SignatureNonceResponse>("signature-nonce", u64::MAX, |_, _, answer| {
            answer.signature_nonce == Nonce(U256::ZERO)
        })
        .await?;
        self.reads::<AuthenticatorPubkeysResponse>("authenticator-pubkeys", u64::MAX, |_, _, answer| {
            answer.authenticator_pubkeys.len() == 1
        })
        .await?;

        let leaf_indices = self.leaf_indices(&self.accounts.packed_accounts()).await?;
        let registry = Registry::connect(Client::new(&url(self.daemon.gateway), &url(self.daemon.indexer))?).await?;
        let inserts = self.accounts.inserts(registry.domain(), &leaf_indices)?;
        let inserted = self.operations("insert-authenticator", inserts, Work::Recover).await?;
        self.check_leaf_count().await?;
        self.second_keys(&leaf_indices[..inserted.min(leaf_indices.len())]).await
    }

    /// Sends proofs of both kinds, from one connection and from all together. A daemon that was
    /// running before may not know the simulator's key, and is not asked.
    async fn verifications(&mut self, data: &Path) -> Result<(), Failure> {
        let Some(address) = self.daemon.verification else { return Ok(()) };
        for kind in ProofKind::ALL {
            let calls = Arc::new(proofs::requests(kind, &self.daemon, data).await?);
            let work = Work::Check(kind);
            // Each proof once, so that both servers have prepared what they keep.
            let once = Pace { limit: Duration::MAX, ..self.settings.pace() };
            let first = run(address, Arc::clone(&calls), once).await?;
            self.run_bare(&calls, &first, work, Pace { limit: PREPARING, ..once }).await?;
            let all = Pace { repeats: true, ..self.settings.pace() };
            for (how, pace) in [("single", Pace { connections: 1, ..all }), ("together", all)] {
                let name = format!("verify {}, {how}", kind.name());
                let processor = self.daemon.processor_time();
                let verified = run(address, Arc::clone(&calls), pace).await?;
                let processor = difference(processor, self.daemon.processor_time());
                let bare = self.run_bare(&calls, &verified, work, pace).await?;
                let count = verified.latencies.len();
                let figures = Figures::of(&verified.latencies).with(count, verified.elapsed, processor);
                print_line(&name, &figures, &bare);
                self.check(&name, verified.refused == 0);
            }
            self.check("each proof for the first time", first.refused == 0);
        }
        Ok(())
    }

    /// Fails if an answer was wrong.
    fn wrong_answers_fail(&self) -> Result<(), Failure> {
        match self.wrong_answers.as_slice() {
            [] => Ok(()),
            wrong => {
                Err(format!("{} answers were wrong:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n")).into())
            }
        }
    }

    /// Prints what the daemon takes, and kills it under load and starts it again.
    async fn end(self, data: &Path) -> Result<(), Failure> {
        let Self { daemon, settings, accounts, present, .. } = self;
        if let Some(bytes) = daemon.resident_bytes() {
            print_fact("memory of the daemon", format!("{} MiB", bytes >> 20));
        }
        if !daemon.is_own() {
            return Ok(());
        }
        let creates = Arc::new(accounts.creates(present + u64::from(u32::MAX), settings.connections * 100)?);
        let pace = Pace { limit: Duration::MAX, ..settings.pace() };
        let gateway = daemon.gateway;
        let loading = tokio::spawn(async move { run(gateway, creates, pace).await.is_ok() });
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(daemon);
        let _ = loading.await;
        let started = Instant::now();
        let daemon = Daemon::start(data)?;
        daemon.wait_until_ready().await?;
        print_fact("ready after a kill", format!("{:.2} s", started.elapsed().as_secs_f64()));
        daemon.stop()
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
            server.call(&Call::post(bare_server::path(Work::ReadCreation, sizes.0), create.body.clone())).await?;
            server.call(&Call::get(bare_server::path(Work::Nothing, sizes.1))).await?;
            bare.push(started.elapsed());
        }
        daemon.sort_unstable();
        bare.sort_unstable();
        print_line("create-account to final, single", &Figures::of(&daemon), &Figures::of(&bare));
        Ok(())
    }

    /// Submits operations, waits until they are final, and checks that all were carried out.
    /// Returns how many were accepted.
    async fn operations(&mut self, name: &str, calls: Vec<Call>, work: Work) -> Result<usize, Failure> {
        let calls = Arc::new(calls);
        let processor = self.daemon.processor_time();
        let accepted = run(self.daemon.gateway, Arc::clone(&calls), self.settings.pace()).await?;
        self.wait_until_final().await?;
        let until_final = accepted.started.elapsed();
        let processor = difference(processor, self.daemon.processor_time());

        let bare = self.run_bare(&calls, &accepted, work, self.settings.pace()).await?;
        let count = accepted.latencies.len();
        let figures = Figures::of(&accepted.latencies).with(count, accepted.elapsed, None);
        print_line(&format!("{name}, accepted"), &figures, &bare);
        let bare = Figures { median: None, slowest_percent: None, ..bare };
        print_line(&format!("{name}, finalized"), &Figures::default().with(count, until_final, processor), &bare);

        let mut states = Vec::new();
        for (_, answer) in &accepted.answers {
            match decode::<GatewayStatusResponse>(answer) {
                Ok(accepted) => states.push(Call::get(format!("/status/{}", accepted.request_id))),
                Err(failure) => self.wrong_answers.push(format!("{name}: {failure}")),
            }
        }
        let (asked, states) = (states.len(), Arc::new(states));
        let pace = Pace { limit: FINAL_WITHIN, ..self.settings.pace() };
        let states = run(self.daemon.gateway, states, pace).await?;
        for (_, state) in &states.answers {
            self.check(name, is_finalized(state));
        }
        self.check(&format!("{name}: an answer"), accepted.refused == 0);
        self.check(&format!("{name}: the number of states"), states.latencies.len() == asked);
        Ok(count)
    }

    /// Reads proofs of the first accounts, beside writes, if there are any.
    async fn proofs(&mut self, name: &str, accounts: u64, writes: Option<Writes>) -> Result<(), Failure> {
        self.reads_beside::<InclusionProofResponse>(name, accounts, writes, |position, leaf_index, proof| {
            proof.leaf_index == LeafIndex(leaf_index) && (position % VERIFY_EVERY != 0 || leads_to_root(proof))
        })
        .await
    }

    /// Queries about accounts at the path that `name` begins with: about the first `accounts`.
    /// `is_right` checks an answer, given its call's position and leaf index.
    async fn reads<T: DeserializeOwned>(
        &mut self,
        name: &str,
        accounts: u64,
        is_right: impl Fn(usize, u64, &T) -> bool,
    ) -> Result<(), Failure> {
        self.reads_beside(name, accounts, None, is_right).await
    }

    /// The same beside writes to the daemon, also while the bare server is measured: both then have
    /// what the writes leave of the machine.
    async fn reads_beside<T: DeserializeOwned>(
        &mut self,
        name: &str,
        accounts: u64,
        writes: Option<Writes>,
        is_right: impl Fn(usize, u64, &T) -> bool,
    ) -> Result<(), Failure> {
        let (beside_daemon, beside_bare) = writes.map(Writes::halves).unzip();
        let path = format!("/{}", name.split(',').next().unwrap_or(name));
        let among = accounts.min(self.present);
        // A cold account is asked for once.
        let count = if among > 10_000 { self.settings.reads.max(among.min(1_000_000)) } else { self.settings.reads };
        let (leaf_indices, calls): (Vec<_>, Vec<_>) = queries(&path, among, count).into_iter().unzip();
        let calls = Arc::new(calls);
        let pace = Pace { repeats: true, ..self.settings.pace() };
        let processor = self.daemon.processor_time();
        let writing = self.begin_writing(beside_daemon);
        let answered = run(self.daemon.indexer, Arc::clone(&calls), pace).await?;
        let processor = difference(processor, self.daemon.processor_time());
        let written = self.end_writing(writing).await?;
        let writing = self.begin_writing(beside_bare);
        let bare = self.run_bare(&calls, &answered, Work::Nothing, self.settings.pace()).await?;
        let written_beside_bare = self.end_writing(writing).await?;
        // The processor's time is for the writes, too.
        let processor = processor.filter(|_| written.is_none());
        let figures = Figures::of(&answered.latencies).with(answered.latencies.len(), answered.elapsed, processor);
        print_line(name, &figures, &bare);
        if let (Some(daemon), Some(bare)) = (written, written_beside_bare) {
            print_line("  accounts created meanwhile", &daemon, &bare);
        }
        self.check(name, answered.refused == 0);
        for (position, answer) in &answered.answers {
            match decode(answer) {
                Ok(answer) => self.check(name, is_right(*position, leaf_indices[*position], &answer)),
                Err(failure) => self.wrong_answers.push(format!("{name}: {failure}")),
            }
        }
        Ok(())
    }

    /// Begins to write, if there are writes.
    fn begin_writing(&self, writes: Option<Writes>) -> Option<JoinHandle<Result<Run, Failure>>> {
        let Writes { creates, per_second } = writes?;
        let pace = Pace { per_second: Some(per_second), ..self.settings.pace() };
        Some(tokio::spawn(run(self.daemon.gateway, Arc::new(creates), pace)))
    }

    /// Waits until the writes are final, and checks them.
    async fn end_writing(
        &mut self,
        writing: Option<JoinHandle<Result<Run, Failure>>>,
    ) -> Result<Option<Figures>, Failure> {
        let Some(writing) = writing else { return Ok(None) };
        let written = writing.await??;
        self.check("create-account, beside reads", written.refused == 0);
        let count = written.latencies.len();
        self.present += count as u64;
        self.wait_until_final().await?;
        self.check_leaf_count().await?;
        Ok(Some(Figures::of(&written.latencies).with(count, written.elapsed, None)))
    }

    /// The leaf indices of the signers' accounts, in the order of `calls`.
    async fn leaf_indices(&self, calls: &[Call]) -> Result<Vec<u64>, Failure> {
        let mut indexer = Connection::open(self.daemon.indexer).await?;
        let mut leaf_indices = Vec::new();
        for call in calls {
            let packed = decode::<PackedAccountResponse>(&indexer.call(call).await?)?.packed_account_data;
            leaf_indices.push(packed.as_limbs()[0]);
        }
        Ok(leaf_indices)
    }

    /// Checks that the tree has as many accounts as were created, and no other leaf in use but the
    /// reserved leaf 0.
    async fn check_leaf_count(&mut self) -> Result<(), Failure> {
        let root = self.call_indexer(&Call::get("/root")).await?;
        let root = decode::<RootResponse>(&root)?;
        self.check("the leaf count", root.leaf_count == self.present + 1);
        Ok(())
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

    /// Makes the same calls to the bare server, with answers of the daemon's mean size.
    async fn run_bare(&mut self, calls: &[Call], daemon: &Run, work: Work, pace: Pace) -> Result<Figures, Failure> {
        let length = daemon.bytes / daemon.latencies.len().max(1);
        let path: Arc<str> = bare_server::path(work, length).into();
        let calls: Vec<_> = calls.iter().map(|call| Call { path: Arc::clone(&path), ..call.clone() }).collect();
        let processor = self.bare.process.processor_time();
        let pace = Pace { repeats: true, ..pace };
        let run = run(self.bare.address, Arc::new(calls), pace).await?;
        let processor = difference(processor, self.bare.process.processor_time());
        self.check("the bare server", run.refused == 0 && run.bytes == length * run.latencies.len());
        Ok(Figures::of(&run.latencies).with(run.latencies.len(), run.elapsed, processor))
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
