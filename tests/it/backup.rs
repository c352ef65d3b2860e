//! Backups: made while the daemon runs and is killed, checked, restored.
//!
//! | file | contents |
//! |---|---|
//! | `making.rs` | what a backup has, under load and with kills at each step; where none is made |
//! | `scheduled.rs` | backups at regular times, and which of them are kept |
//! | `verifying.rs` | damaged backups, each with its message |
//! | `restoring.rs` | restores and their refusals; what a restored store has forgotten on purpose |

mod making;
mod restoring;
mod scheduled;
mod verifying;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::harness::{DaemonProcess, Folder, folder, run_for_status};
use crate::test_accounts::creation;

/// A folder with the data of a daemon and its backups.
struct BackupWorkplace {
    folder: Folder,
}

impl BackupWorkplace {
    fn new() -> Self {
        Self { folder: folder() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    fn start(&self, data: &str) -> DaemonProcess {
        DaemonProcess::start(&self.path(data), &[], &[])
    }

    /// Runs `selfsame`; paths that begin with `@` are in this folder. Returns exit status and
    /// output.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| argument.strip_prefix('@').map_or_else(|| (*argument).to_owned(), |name| self.text(name)))
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (status, text) = run_for_status(&arguments, &[]);
        (status.code().expect("it ends by itself"), text)
    }

    /// Runs a command that must succeed.
    fn run_ok(&self, arguments: &[&str]) -> String {
        let (status, text) = self.run(arguments);
        assert_eq!(status, 0, "{arguments:?}: {text}");
        text
    }

    /// Runs a command that must fail, with a text in its output.
    fn expect_refused(&self, arguments: &[&str], expected: &str) {
        let (status, text) = self.run(arguments);
        assert!(status == 1 && text.contains(expected), "{arguments:?}: {status} {text:?} should contain {expected:?}");
    }

    /// Lets the daemon on the data folder `data` make a backup.
    fn back_up(&self, data: &str, backup: &str) -> String {
        self.run_ok(&["backup", &format!("@{backup}"), "--data", &format!("@{data}")])
    }

    /// The names in this folder.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Everything that a file can show, by its path.
type Contents = BTreeMap<PathBuf, (SystemTime, Vec<u8>)>;

/// The files below a folder, with the times of their last changes.
fn contents(folder: &Path) -> Contents {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let changed = path.metadata().expect("metadata").modified().expect("a time");
        if path.is_dir() {
            found.extend(contents(&path));
            found.insert(path, (changed, Vec::new()));
        } else {
            found.insert(path.clone(), (changed, std::fs::read(&path).expect("read")));
        }
    }
    found
}

/// Submits the creation of account `number`; returns the request's id when it is acknowledged, and
/// `None` when the daemon is gone.
async fn submit(http: &reqwest::Client, gateway: &str, number: u64) -> Option<String> {
    let request = http.post(format!("{gateway}/create-account")).json(&creation(number));
    let answer = request.send().await.ok()?;
    let body: serde_json::Value = answer.json().await.ok()?;
    Some(body["request_id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
}

/// Asserts that a request ended well; waits for it.
pub async fn expect_final(http: &reqwest::Client, gateway: &str, request_id: &str) {
    let request = http.get(format!("{gateway}/status/{request_id}?wait=60"));
    let body: serde_json::Value = request.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(body["status"]["state"], "finalized", "{body}");
}

/// The height of the registry's last applied block.
async fn height(http: &reqwest::Client, indexer: &str) -> u64 {
    let answer = http.get(format!("{indexer}/root")).send().await.expect("an answer");
    let body: serde_json::Value = answer.json().await.expect("JSON");
    body["height"].as_u64().unwrap_or_else(|| panic!("{body}"))
}
