//! Trouble with the disk: it is full, a write or a read fails, the log ends in the middle of a write, a bit has flipped, a file is
//! missing. What was acknowledged stays true, or is honestly not to be had; nobody is told anything wrong.
//!
//! Places and bits are chosen from a seed, which is random and shown by a test that fails; the variable `DISK_SEED` gives one.
//!
//! | file | what it has |
//! |---|---|
//! | `space.rs` | a full disk; a write error that the database does not forget |
//! | `failing.rs` | writes and reads that fail for a while, through fault points |
//! | `log.rs` | a write-ahead log that is cut off or damaged |
//! | `damage.rs` | damage in the database's other files |
//! | `missing.rs` | files that are missing, or not to be had |

mod damage;
#[cfg(feature = "fault-injection")]
mod failing;
mod log;
mod missing;
mod space;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use alloy_primitives::{Address, U256, keccak256};
use reqwest::RequestBuilder;
use selfsame::daemon::store_folder;
use selfsame_actors::{Random, SystemRandom};
use selfsame_protocol::ids::{Commitment, CompressedKey};
use selfsame_protocol::registry::{CreateAccount, Operation};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::time::{Instant, sleep, timeout};

use crate::calls::Answer;
use crate::harness::{Process, run};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks whether something has come about.
const PAUSE: Duration = Duration::from_millis(20);

/// Somebody who asks a daemon and takes nothing on trust.
struct Visitor {
    http: reqwest::Client,
    gateway: String,
    indexer: String,
    operator: String,
}

impl Visitor {
    fn new(gateway: &str, indexer: &str, operator: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { http, gateway: gateway.to_owned(), indexer: indexer.to_owned(), operator: operator.to_owned() }
    }

    /// Asks; the answer has the form that every answer has.
    async fn ask(&self, request: RequestBuilder) -> Answer {
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer::checked(status, headers, &answer.bytes().await.expect("a body"))
    }

    async fn gateway(&self, path: &str) -> Answer {
        self.ask(self.http.get(format!("{}{path}", self.gateway))).await
    }

    async fn indexer(&self, path: &str, body: &Value) -> Answer {
        self.ask(self.http.post(format!("{}{path}", self.indexer)).json(body)).await
    }

    async fn root(&self) -> Answer {
        self.ask(self.http.get(format!("{}/root", self.indexer))).await
    }

    /// Why the daemon is not ready; nothing when it is.
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
    async fn is_ready(&self) {
        until("a ready daemon", async || self.reasons().await.is_empty().then_some(())).await;
    }

    /// Submits the creation of account `number` under an idempotency key of its own. `None` when it is refused, which must be an
    /// honest "not now".
    async fn submit(&self, number: u64) -> Option<String> {
        let url = format!("{}/create-account", self.gateway);
        let request = self.http.post(url).header("Idempotency-Key", number.to_string()).json(&creation(number));
        let answer = self.ask(request).await;
        if answer.status == 200 {
            return Some(answer.request_id().to_owned());
        }
        answer.refused(503, "batcher_unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        None
    }

    /// Asserts that an accepted request becomes final.
    async fn is_final(&self, request_id: &str) {
        let answer = self.gateway(&format!("/status/{request_id}?wait=20")).await;
        assert_eq!((answer.status, &answer.body["status"]["state"]), (200, &json!("finalized")), "{answer:?}");
    }

    /// How many accounts there are.
    async fn accounts(&self) -> u64 {
        let root = self.root().await;
        root.body["leaf_count"].as_u64().unwrap_or_else(|| panic!("no leaf count in {root:?}")) - 1
    }

    /// Asserts that these accepted creations are all final, each of them once, and that there are no others.
    async fn each_is_final_once(&self, request_ids: &[String]) {
        for request_id in request_ids {
            self.is_final(request_id).await;
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

/// A daemon in a process of its own, its log in a file.
struct Daemon {
    visitor: Visitor,
    process: Process,
    log: NamedTempFile,
}

impl Deref for Daemon {
    type Target = Visitor;

    fn deref(&self) -> &Visitor {
        &self.visitor
    }
}

impl Daemon {
    fn start(data: &Path) -> Self {
        Self::try_start(data, &[]).unwrap_or_else(|message| panic!("the daemon refuses to start: {message}"))
    }

    /// Starts a daemon that may refuse to; then what it says.
    fn try_start(data: &Path, variables: &[(&str, &str)]) -> Result<Self, String> {
        let log = NamedTempFile::new().expect("a file for the log");
        let stderr = Stdio::from(log.reopen().expect("the log opens"));
        match Process::try_start(data, &[], variables, stderr) {
            Ok(process) => {
                let visitor = Visitor::new(&process.gateway, &process.indexer, &process.operator);
                Ok(Self { visitor, process, log })
            }
            Err(status) => {
                let text = std::fs::read_to_string(log.path()).expect("the log is text");
                assert_eq!(status.code(), Some(1), "{status}: {text}");
                Err(text.lines().last().unwrap_or_default().to_owned())
            }
        }
    }

    /// SIGKILL. The daemon must have lived until then, and nothing in it may have panicked.
    fn kill(self) {
        let status = self.process.kill();
        let log = std::fs::read_to_string(self.log.path()).expect("the log is text");
        assert!(status.signal() == Some(9) && !log.contains("panicked"), "{status}: {log}");
    }

    /// SIGTERM, and the same.
    fn stop(self) {
        let status = self.process.terminate();
        let log = std::fs::read_to_string(self.log.path()).expect("the log is text");
        assert!(status.success() && !log.contains("panicked"), "{status}: {log}");
    }
}

/// Looks again and again, for a bounded time.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} in time");
        sleep(PAUSE).await;
    }
}

/// Makes an account. Nobody has the keys of these accounts: all that matters is that each is another.
fn creation(number: u64) -> Operation {
    let number = U256::from(number + 1);
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::from_word(number.into())],
        authenticator_pubkeys: vec![CompressedKey(number)],
        offchain_signer_commitment: Commitment(number),
    };
    operation.into()
}

/// Checks the store of a daemon that has ended; whether it is sound, and what is said about it.
fn fsck(data: &Path) -> (bool, String) {
    run(&["registry", "fsck", "--data", &data.display().to_string()])
}

fn assert_sound(data: &Path) {
    let (is_sound, text) = fsck(data);
    assert!(is_sound && text.contains(", 0 faults"), "{text}");
}

/// The same, within a time; `None` when it takes longer.
async fn fsck_in_time(data: &Path) -> Option<(bool, String)> {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_selfsame"));
    command.args(["registry", "fsck", "--data"]).arg(data).kill_on_drop(true);
    let output = timeout(Duration::from_secs(5), command.output()).await.ok()?.expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Copies the data folder of a daemon that has ended into a new one.
fn copy(data: &Path) -> tempfile::TempDir {
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

/// The files of a store whose names end so.
fn store_files(data: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = files(&store_folder(data));
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files
}

/// The write-ahead log that is written at the moment: numbers have leading zeros, so the last name is the newest.
fn newest_log(data: &Path) -> PathBuf {
    store_files(data, ".log").pop().expect("a log")
}

fn flip(file: &Path, at: usize, bit: usize) {
    let mut bytes = std::fs::read(file).expect("read");
    bytes[at] ^= 1 << bit;
    std::fs::write(file, bytes).expect("written");
}

/// Choices that a seed decides.
struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    /// Of the variable `DISK_SEED`, or a new one. Shown when the test fails.
    fn new() -> Self {
        let given = std::env::var("DISK_SEED").ok().map(|text| text.parse().expect("DISK_SEED is a number"));
        let seed = given.unwrap_or_else(|| {
            let mut bytes = [0; 32];
            SystemRandom.fill(&mut bytes);
            // Short enough to be typed again.
            u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        });
        println!("DISK_SEED={seed}");
        Self { seed, drawn: 0 }
    }

    /// A number below a bound that is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let [a, b, c, d, ..] = keccak256(format!("{} {}", self.seed, self.drawn)).0;
        u32::from_be_bytes([a, b, c, d]) as usize % bound
    }
}
