//! Damage in RocksDB's files: the daemon gives the same answers as before, or an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::Address;
use selfsame_protocol::ids::PubkeyId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{DamageChoices, DiskTestDaemon, assert_sound, copy, flip, fsck, fsck_in_time, store_files};
use crate::harness::{Folder, folder, run};
use crate::sign_in_client::wait_for_signing_keys;
use crate::test_accounts::{carry_out, create, key, registry};

/// A query: path, and a body when it goes to the indexer.
type StoreQuery = (String, Option<Value>);

/// A store whose log is empty, and the answers of a daemon on it.
struct RestartedStore {
    data: Folder,
    answers: Vec<(StoreQuery, (u16, Value))>,
}

/// Starts and ends a daemon, so that the contents of the log go to RocksDB's other files.
fn restart(data: &Path) {
    DiskTestDaemon::start(data).stop();
    // A further opening removes files of an unfinished compaction: every file is in use then.
    assert_sound(data);
}

impl RestartedStore {
    const ACCOUNTS: u64 = 60;

    async fn make() -> Self {
        let data = folder();
        let daemon = DiskTestDaemon::start(data.path());
        let mut request_ids = Vec::new();
        for number in 0..Self::ACCOUNTS {
            let request_id = daemon.submit(number).await.expect("accepted");
            if number % 10 == 0 {
                daemon.wait_until_final(&request_id).await;
            }
            request_ids.push(request_id);
        }
        let registry = registry(daemon.process.client()).await;
        let (owner, guest) = (key("owner"), key("guest"));
        let account = create(&registry, &owner, Address::ZERO).await;
        let account =
            account.insert(registry.domain(), &owner, guest.authenticator(), PubkeyId(1)).expect("a valid operation");
        let report = carry_out(&registry, account).await;
        let account = report
            .account
            .update_recovery_agent(registry.domain(), &owner, guest.address())
            .expect("a valid operation");
        request_ids.push(carry_out(&registry, account).await.receipt.request_id.to_string());

        let root = daemon.root().await;
        let height = root.body["height"].as_u64().expect("a height");
        let mut questions: Vec<StoreQuery> = vec![
            (format!("/is-valid-root?root={}", root.text("root")), None),
            (format!("/block/{}", root.text("block_hash")), None),
        ];
        questions.extend((1..=height).map(|height| (format!("/block/{height}"), None)));
        for request_id in request_ids {
            questions.extend([(format!("/status/{request_id}"), None), (format!("/receipt/{request_id}"), None)]);
        }
        for number in 0..=Self::ACCOUNTS {
            for path in [
                "/inclusion-proof",
                "/authenticators",
                "/signature-nonce",
                "/recovery-agent",
                "/pending-recovery-agent",
            ] {
                questions.push((path.to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
            }
            let address = Address::from_word(alloy_primitives::U256::from(number + 1).into());
            questions.push(("/packed-account".to_owned(), Some(json!({"authenticator_address": address}))));
        }
        questions.push(("/packed-account".to_owned(), Some(json!({"authenticator_address": key("guest").address()}))));
        daemon.stop();
        restart(data.path());
        // A daemon on a copy is asked, so that the store stays as it is.
        let copied = copy(data.path());
        let daemon = DiskTestDaemon::start(copied.path());
        let mut answers = Vec::new();
        for question in questions {
            let answer = ask(&daemon, &question).await;
            // The address of the last account has no packed account.
            assert!(answer.0 == 200 || question.0 == "/packed-account", "{question:?}: {answer:?}");
            answers.push((question, answer));
        }
        daemon.stop();
        Self { data, answers }
    }

    /// Starts a daemon on a copy in which one bit of a file is flipped. Asserts that it refuses to
    /// start or gives no wrong answer; returns whether it noticed the damage, and the copy.
    async fn noticed(&self, damage: &FlippedBit) -> (bool, Folder) {
        let copied = copy(self.data.path());
        flip(&super::store_folder(copied.path()).join(&damage.file), damage.at, damage.bit);
        let daemon = match DiskTestDaemon::try_start(copied.path(), &[]) {
            Ok(daemon) => daemon,
            Err(message) => {
                assert!(message.contains("Corruption"), "{damage}: {message}");
                return (true, copied);
            }
        };
        let mut errors = 0;
        for (question, expected) in &self.answers {
            let (status, body) = ask(&daemon, question).await;
            if status >= 500 {
                errors += 1;
            } else {
                assert_eq!((status, &body), (expected.0, &expected.1), "{damage}: {question:?}");
            }
        }
        daemon.kill();
        (errors > 0, copied)
    }
}

/// Sends a query; the answer must have the form of every answer.
async fn ask(daemon: &DiskTestDaemon, (path, body): &StoreQuery) -> (u16, Value) {
    let answer = match body {
        None => daemon.gateway(path).await,
        Some(body) => daemon.indexer(path, body).await,
    };
    (answer.status, answer.body)
}

/// A flipped bit.
struct FlippedBit {
    family: String,
    file: PathBuf,
    at: usize,
    bit: usize,
}

/// The column family whose records are in a file. It is among the file's properties, after the part
/// of its name's key that the key before it does not share.
fn family(file: &Path) -> String {
    let bytes = std::fs::read(file).expect("read");
    let found = bytes.windows(7).position(|window| window[..2] == [22, 4] && &window[3..] == b"name");
    let at = found.unwrap_or_else(|| panic!("{} names no column family", file.display()));
    let name = &bytes[at + 7..][..usize::from(bytes[at + 2])];
    String::from_utf8(name.to_vec()).expect("text")
}

impl std::fmt::Display for FlippedBit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { family, file, at, bit } = self;
        write!(f, "bit {bit} of byte {at} of {} ({family})", file.display())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_makes_no_answer_wrong() {
    let store = Arc::new(RestartedStore::make().await);
    for choices in DamageChoices::of("damage::a_flipped_bit_makes_no_answer_wrong") {
        expect_right_answers(&store, choices).await;
    }
}

/// Damages copies of a store, and asserts that none of them leads to a wrong answer.
async fn expect_right_answers(store: &Arc<RestartedStore>, mut choices: DamageChoices) {
    let mut damages = Vec::new();
    let files = store_files(store.data.path(), ".sst");
    let mut damage = |file: &Path, within: usize| FlippedBit {
        family: family(file),
        file: file.file_name().expect("a name").into(),
        at: choices.below(within),
        bit: choices.below(8),
    };
    let length = |file: &Path| std::fs::metadata(file).expect("a file").len() as usize;
    for wanted in ["accounts", "tree_pages", "blocks", "requests", "results", "places"] {
        let found: Vec<_> = files.iter().filter(|file| family(file) == wanted).collect();
        let [file] = found.as_slice() else { panic!("{wanted}: {found:?}") };
        // The first quarter of a file is records, also of small ones; the bytes that describe them
        // follow.
        damages.extend((0..2).map(|_| (damage(file, length(file) / 4), true)));
    }
    damages.extend(files.iter().step_by(3).map(|file| (damage(file, length(file)), false)));

    // Two files are checked at a time.
    let mut workers = JoinSet::new();
    let mut halves = [Vec::new(), Vec::new()];
    for (number, damage) in damages.into_iter().enumerate() {
        halves[number % 2].push(damage);
    }
    for half in halves {
        let store = Arc::clone(store);
        workers.spawn(async move {
            for (damage, is_in_records) in half {
                let (noticed, copied) = store.noticed(&damage).await;
                let (is_sound, text) = fsck(copied.path());
                if is_in_records {
                    assert!(noticed, "{damage} went unnoticed");
                    assert!(!is_sound && text.contains("Corruption"), "{damage}: {text}");
                }
            }
        });
    }
    workers.join_all().await;
}

/// `fsck` says that a store is sound only when every record can be read, even records that nothing
/// is rebuilt from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fsck_finds_damage_in_every_family() {
    const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
    let data = folder();
    let daemon = DiskTestDaemon::start(data.path());
    daemon.wait_until_final(&daemon.submit(0).await.expect("accepted")).await;
    let process = &daemon.process;
    let (data_text, wallet) =
        (data.path().display().to_string(), data.path().join("wallet.json").display().to_string());
    run(&["wallet", "new", "--wallet", &wallet, "--gateway", &process.gateway, "--indexer", &process.indexer]);
    let (made, text) = run(&["wallet", "create-account", "--wallet", &wallet]);
    assert!(made, "{text}");
    let of_daemon = ["--wallet", &wallet, "--operator", &process.operator, "--data", &data_text];
    let (proved, body) = run(&[&["wallet", "prove", "--app", APP, "--action", "vote"][..], &of_daemon].concat());
    assert!(proved, "{body}");
    let request = daemon.http.post(format!("{}/api/v4/verify/{APP}", process.verification)).body(body);
    let verified = request.header("content-type", "application/json").send().await.expect("an answer");
    assert_eq!(verified.status(), 200);
    let url = format!(
        "{}/authorize?client_id={APP}&redirect_uri=http://localhost:3000/callback&response_type=code&scope=openid",
        process.sign_in
    );
    wait_for_signing_keys(&process.sign_in).await;
    let (signed_in, text) = run(&[&["wallet", "sign-in", "--yes", &url][..], &of_daemon].concat());
    assert!(signed_in, "{text}");
    daemon.kill();
    std::fs::remove_file(&wallet).expect("removed");
    restart(data.path());

    let mut missed = Vec::new();
    let by_family: BTreeMap<_, _> =
        store_files(data.path(), ".sst").into_iter().map(|file| (family(&file), file)).collect();
    for (family, file) in by_family {
        let copied = copy(data.path());
        // Every file begins with records.
        flip(&super::store_folder(copied.path()).join(file.file_name().expect("a name")), 10, 3);
        let (is_sound, _) = fsck(copied.path());
        if is_sound {
            missed.push(family);
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

/// RocksDB's list of files has the format of a log (see `log.rs`): a record whose length is damaged
/// looks like the end of the list. Files that are not listed are deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_list_of_files_is_refused() {
    const ACCOUNTS: u64 = 3;
    let data = folder();
    let daemon = DiskTestDaemon::start(data.path());
    for number in 0..ACCOUNTS {
        daemon.wait_until_final(&daemon.submit(number).await.expect("accepted")).await;
    }
    daemon.kill();
    // Now the list has the empty column families first, and then the files that this start wrote
    // from the log.
    DiskTestDaemon::start(data.path()).stop();
    let current = std::fs::read_to_string(super::store_folder(data.path()).join("CURRENT")).expect("read");
    let list = PathBuf::from("store").join(current.trim());
    let bytes = std::fs::read(data.path().join(&list)).expect("read");
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        records.push((at, length));
        at += 7 + length;
    }
    let flipped = |byte: usize, bit| {
        let copied = copy(data.path());
        flip(&copied.path().join(&list), byte, bit);
        copied
    };
    // The short records between families and files, and some of the others.
    let short = records.iter().skip(1).filter(|(_, length)| *length < 20 && *length != 7).take(8);
    for (at, _) in short.chain(records.iter().step_by(16)) {
        let copied = flipped(at + 5, 7);
        match DiskTestDaemon::try_start(copied.path(), &[]) {
            Ok(daemon) => assert_eq!(daemon.accounts().await, ACCOUNTS, "the length of the record at {at}"),
            Err(message) => assert!(message.contains("Corruption"), "the length of the record at {at}: {message}"),
        }
        let damage = format!("the length of the record at {at}");
        let (is_sound, text) = fsck_in_time(flipped(at + 5, 7).path(), &damage).await;
        assert!(is_sound || text.contains("Corruption"), "{damage}: {text}");
    }
    let (at, _) = records[records.len() / 2];
    let damage = format!("the type of the record at {at}");
    let (is_sound, text) = fsck_in_time(flipped(at + 6, 2).path(), &damage).await;
    assert!(!is_sound && text.contains("Corruption"), "{damage}: {text}");
}
