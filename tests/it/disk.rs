//! Failures of the disk: it is full, a write or a read fails, the log ends in the middle of a
//! write, a bit has flipped, a file is missing. The daemon keeps what it acknowledged or answers
//! with an error; it never gives a wrong answer.
//!
//! Positions and bits follow from a seed ([`seeds`]).
//!
//! | file | contents |
//! |---|---|
//! | `space.rs` | a full disk; a write error that RocksDB keeps until it is opened again |
//! | `errno.rs` | each error of a system call below RocksDB, and what heals it |
//! | `steps.rs` | each error at each call that makes something durable, under a service manager |
//! | `failing.rs` | writes and reads that fail for a while, through fault points |
//! | `log.rs` | a write-ahead log that is cut off or damaged |
//! | `damage.rs` | damage in RocksDB's other files |
//! | `rebuild.rs` | what `selfsame registry rebuild` mends |
//! | `missing.rs` | files that are missing or cannot be opened |

mod damage;
mod errno;
#[cfg(feature = "fault-injection")]
mod failing;
mod log;
mod missing;
mod rebuild;
mod space;
mod steps;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use alloy_primitives::keccak256;
use reqwest::RequestBuilder;
use selfsame::daemon::store_folder;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::harness::{DaemonProcess, Folder, PATIENCE, in_time, program, run, seeds, until};
use crate::registry_client::RegistryAnswer;
use crate::test_accounts::creation;

/// A client that checks every answer.
struct DiskTestClient {
    http: reqwest::Client,
    gateway: String,
    indexer: String,
    operator: String,
}

impl DiskTestClient {
    fn new(gateway: &str, indexer: &str, operator: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { http, gateway: gateway.to_owned(), indexer: indexer.to_owned(), operator: operator.to_owned() }
    }

    /// Sends a request; the answer must have the form of every answer.
    async fn ask(&self, request: RequestBuilder) -> RegistryAnswer {
        self.try_ask(request).await.expect("an answer")
    }

    /// The same of a daemon that may end meanwhile.
    async fn try_ask(&self, request: RequestBuilder) -> reqwest::Result<RegistryAnswer> {
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Ok(RegistryAnswer::checked(status, headers, &answer.bytes().await?))
    }

    async fn gateway(&self, path: &str) -> RegistryAnswer {
        self.ask(self.http.get(format!("{}{path}", self.gateway))).await
    }

    async fn indexer(&self, path: &str, body: &Value) -> RegistryAnswer {
        self.ask(self.http.post(format!("{}{path}", self.indexer)).json(body)).await
    }

    async fn root(&self) -> RegistryAnswer {
        self.ask(self.http.get(format!("{}/root", self.indexer))).await
    }

    /// Why the daemon is not ready; empty when it is ready.
    async fn reasons(&self) -> Vec<String> {
        let answer = self.http.get(format!("{}/ready", self.operator)).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let mut body: Value = answer.json().await.expect("JSON");
        let reasons: Vec<String> = serde_json::from_value(body["reasons"].take()).expect("reasons");
        let expected = if reasons.is_empty() { (200, json!(true)) } else { (503, json!(false)) };
        assert_eq!((status, &body["ready"]), (expected.0, &expected.1), "{reasons:?}");
        reasons
    }

    /// Waits until the daemon is ready.
    async fn wait_until_ready(&self) {
        until("a ready daemon", async || {
            let reasons = self.reasons().await;
            if reasons.is_empty() { Ok(()) } else { Err(reasons) }
        })
        .await;
    }

    /// Submits the creation of account `number` under an idempotency key of its own. `None` when it
    /// is refused, which must be a 503 with `Retry-After`.
    async fn submit(&self, number: u64) -> Option<String> {
        self.try_submit(number).await.expect("an answer")
    }

    /// The same to a daemon that may end meanwhile.
    async fn try_submit(&self, number: u64) -> reqwest::Result<Option<String>> {
        let url = format!("{}/create-account", self.gateway);
        let request = self.http.post(url).header("Idempotency-Key", number.to_string()).json(&creation(number));
        let answer = self.try_ask(request).await?;
        if answer.status == 200 {
            return Ok(Some(answer.request_id().to_owned()));
        }
        answer.expect_error(503, "batcher_unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        Ok(None)
    }

    /// Creates the first accounts of a store, and waits until all of them are final.
    async fn create_first(&self, count: u64) -> Vec<String> {
        let mut accepted = Vec::new();
        for number in 0..count {
            accepted.push(self.submit(number).await.expect("accepted"));
        }
        self.wait_until_final(accepted.last().expect("one at least")).await;
        accepted
    }

    /// Asserts that an accepted request becomes final.
    async fn wait_until_final(&self, request_id: &str) {
        let answer = self.gateway(&format!("/status/{request_id}?wait=60")).await;
        assert_eq!((answer.status, &answer.body["status"]["state"]), (200, &json!("finalized")), "{answer:?}");
    }

    /// The number of accounts.
    async fn accounts(&self) -> u64 {
        let root = self.root().await;
        root.body["leaf_count"].as_u64().unwrap_or_else(|| panic!("no leaf count in {root:?}")) - 1
    }

    /// Asserts that these accepted creations are all final, that each is in the ledger once, and
    /// that there are no others.
    async fn assert_each_final_once(&self, request_ids: &[String]) {
        for request_id in request_ids {
            self.wait_until_final(request_id).await;
        }
        let height = self.root().await.body["height"].as_u64().expect("a height");
        let mut walked = Vec::new();
        for height in 1..=height {
            let block = self.gateway(&format!("/block/{height}")).await;
            let ids: Vec<String> = serde_json::from_value(block.body["request_ids"].clone()).expect("request ids");
            walked.extend(ids);
        }
        assert_eq!(walked.len(), request_ids.len(), "the ledger has every request once");
        assert_eq!(walked.iter().collect::<BTreeSet<_>>(), request_ids.iter().collect::<BTreeSet<_>>());
        assert_eq!(self.accounts().await, request_ids.len() as u64);
    }
}

/// What a daemon has logged. A test that fails shows it.
struct DaemonLog(NamedTempFile);

impl DaemonLog {
    fn text(&self) -> String {
        std::fs::read_to_string(self.0.path()).expect("the log is text")
    }
}

impl Drop for DaemonLog {
    fn drop(&mut self) {
        // A second panic would end the process before the first one is shown.
        if std::thread::panicking()
            && let Ok(text) = std::fs::read_to_string(self.0.path())
        {
            eprintln!("the daemon's log:\n{text}");
        }
    }
}

/// A daemon in a process of its own, with its log in a file.
struct DiskTestDaemon {
    client: DiskTestClient,
    process: DaemonProcess,
    log: DaemonLog,
}

impl Deref for DiskTestDaemon {
    type Target = DiskTestClient;

    fn deref(&self) -> &DiskTestClient {
        &self.client
    }
}

impl DiskTestDaemon {
    fn start(data: &Path) -> Self {
        Self::try_start(data, &[]).unwrap_or_else(|message| panic!("the daemon refuses to start: {message}"))
    }

    /// Starts a daemon that may refuse to start; then returns its message.
    fn try_start(data: &Path, variables: &[(&str, &str)]) -> Result<Self, String> {
        Self::start_or_refusal(data, variables).map_err(|(_, message)| message)
    }

    /// Starts a daemon that may refuse to start; then returns its exit status and its message.
    fn start_or_refusal(data: &Path, variables: &[(&str, &str)]) -> Result<Self, (i32, String)> {
        let log = DaemonLog(NamedTempFile::new().expect("a file for the log"));
        let stderr = Stdio::from(log.0.reopen().expect("the log opens"));
        match DaemonProcess::try_start(data, &[], variables, stderr) {
            Ok(process) => {
                let client = DiskTestClient::new(&process.gateway, &process.indexer, &process.operator);
                Ok(Self { client, process, log })
            }
            Err(status) => {
                let text = log.text();
                let message = text.lines().last().unwrap_or_default().to_owned();
                // A refusal, by its reason: docs/operations/running.md.
                match status.code() {
                    Some(code @ (1 | 75 | 78)) => Err((code, message)),
                    _ => panic!("{status}: {text}"),
                }
            }
        }
    }

    /// Sends SIGKILL. The daemon must have run until then without a panic.
    fn kill(self) {
        let status = self.process.kill();
        let log = self.log.text();
        assert!(status.signal() == Some(9) && !log.contains("panicked"), "{status}: {log}");
    }

    /// Sends SIGTERM; the daemon must end with success and without a panic.
    fn stop(self) {
        let status = self.process.terminate();
        let log = self.log.text();
        assert!(status.success() && !log.contains("panicked"), "{status}: {log}");
    }
}

/// Plays cases at the same time, each in a thread of its own. A case waits for processes to start
/// and to end, and holds its thread meanwhile: in one task with others it would let them open a
/// connection and send the request only after ten seconds, when the daemon has closed it.
fn side_by_side<Played: Future<Output = ()>>(cases: impl IntoIterator<Item = impl FnOnce() -> Played + Send>) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(case());
            });
        }
    });
}

/// Checks the store of a daemon that has ended; returns whether it is sound, and the output.
fn fsck(data: &Path) -> (bool, String) {
    run(&["registry", "fsck", "--data", &data.display().to_string()])
}

fn assert_sound(data: &Path) {
    let (is_sound, text) = fsck(data);
    assert!(is_sound && text.contains(", 0 findings"), "{text}");
}

/// Like [`fsck`] of a store with damage at which an opening might not end.
async fn fsck_in_time(data: &Path, damage: &str) -> (bool, String) {
    let mut command = tokio::process::Command::from(program());
    command.args(["registry", "fsck", "--data"]).arg(data).kill_on_drop(true);
    let output = in_time(format!("the end of a check: {damage}"), command.output()).await.expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Copies the data folder of a daemon that has ended into a new folder.
fn copy(data: &Path) -> Folder {
    let copied = crate::harness::folder();
    std::fs::create_dir(store_folder(copied.path())).expect("a folder for the store");
    for folder in [PathBuf::new(), PathBuf::from("store")] {
        for file in files(&data.join(&folder)) {
            let name = file.file_name().expect("a name");
            std::fs::copy(&file, copied.path().join(&folder).join(name)).expect("copied");
        }
    }
    copied
}

/// The files of a folder in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// The files of a store whose names have this ending.
fn store_files(data: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = files(&store_folder(data));
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files
}

/// The write-ahead log in use: the numbers have leading zeros, so the last name is the newest.
fn newest_log(data: &Path) -> PathBuf {
    store_files(data, ".log").pop().expect("a log")
}

fn flip(file: &Path, at: usize, bit: usize) {
    let mut bytes = std::fs::read(file).expect("read");
    bytes[at] ^= 1 << bit;
    std::fs::write(file, bytes).expect("written");
}

/// Choices that follow from a seed.
struct DamageChoices {
    seed: u64,
    drawn: u64,
}

impl DamageChoices {
    /// The choices of a test, for each of its seeds.
    fn of(test: &str) -> impl Iterator<Item = Self> {
        seeds("disk", test).into_iter().map(|seed| Self { seed, drawn: 0 })
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let [a, b, c, d, ..] = keccak256(format!("{} {}", self.seed, self.drawn)).0;
        u32::from_be_bytes([a, b, c, d]) as usize % bound
    }
}
