//! Signed heads: the daemon signs one head for each block, also after it was killed; the wallet and
//! `selfsame registry compare-heads` find out when a store was set back.

use std::path::PathBuf;

use selfsame_protocol::ledger::{Head, HeadError, RegistryKey, RegistryPublicKey, SignedHead};
use selfsame_protocol::{Address, B256};

use crate::harness::{DaemonProcess, Folder, TestDaemon, copy_folder, folder, run, run_for_status};

/// A folder with the data of a daemon, wallets and heads.
struct Workplace {
    folder: Folder,
}

impl Workplace {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.file(name).to_str().expect("text").to_owned()
    }

    fn start(&self, data: &str) -> DaemonProcess {
        DaemonProcess::start(&self.file(data), &[], &[])
    }

    /// Runs a wallet command against a daemon.
    fn wallet(&self, process: &DaemonProcess, name: &str, command: &[&str]) -> (bool, String) {
        let wallet = self.text(name);
        let services = ["--wallet", &wallet, "--gateway", &process.gateway, "--indexer", &process.indexer];
        run(&[&["wallet"], command, &services].concat())
    }

    fn wallet_ok(&self, process: &DaemonProcess, name: &str, command: &[&str]) -> String {
        let (success, text) = self.wallet(process, name, command);
        assert!(success, "{command:?}: {text}");
        text
    }

    fn expect_refused(&self, process: &DaemonProcess, name: &str, command: &[&str], reason: &str) {
        let (success, text) = self.wallet(process, name, command);
        assert!(!success && text.contains(reason), "{command:?}: {text:?} should contain {reason:?}");
    }

    /// Reads the head of a daemon and writes it to a file.
    async fn keep_head(&self, process: &DaemonProcess, name: &str) -> SignedHead {
        let answer = reqwest::get(format!("{}/head", process.gateway)).await.expect("an answer");
        let text = answer.text().await.expect("a body");
        std::fs::write(self.file(name), &text).expect("written");
        serde_json::from_str(&text).expect("a signed head")
    }

    /// Checks the data of the stopped daemon; returns the exit status and the first line.
    fn fsck(&self, arguments: &[&str]) -> (i32, String) {
        let data = self.text("data");
        let (status, text) = run_for_status(&[&["registry", "fsck", "--data", &data], arguments].concat(), &[]);
        (status.code().expect("it ends by itself"), text.lines().next().expect("a line").to_owned())
    }

    /// Compares two files; returns the exit status and the output.
    fn compare(&self, first: &str, second: &str) -> (i32, String) {
        let (status, text) = run_for_status(&["registry", "compare-heads", &self.text(first), &self.text(second)], &[]);
        (status.code().expect("it ends by itself"), text)
    }
}

/// The address that a wallet command printed.
fn address(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("address ")).expect("an address").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_was_set_back_is_found_out() {
    let workplace = Workplace { folder: folder() };
    let process = workplace.start("data");
    let own = address(&workplace.wallet_ok(&process, "own.json", &["new"]));
    workplace.wallet_ok(&process, "other.json", &["new"]);
    workplace.wallet_ok(&process, "own.json", &["create-account"]);
    let first = workplace.keep_head(&process, "first.json").await;
    assert_eq!((first.head.height, first.verify()), (1, Ok(())));
    process.kill();

    // A daemon that was killed signs the same again.
    let process = workplace.start("data");
    assert_eq!(workplace.keep_head(&process, "again.json").await, first);
    assert!(process.terminate().success());
    copy_folder(&workplace.file("data"), &workplace.file("backup"));

    let process = workplace.start("data");
    let change = ["recovery-agent", "set", &own];
    let text = workplace.wallet_ok(&process, "own.json", &change);
    assert!(text.contains("signed head of block 2 verified, it continues block 1\n"), "{text}");
    let second = workplace.keep_head(&process, "second.json").await;
    assert_eq!((second.head.height, second.public_key), (2, first.public_key));
    process.kill();

    // The operator restores the backup, and the registry seals another block 2.
    std::fs::remove_dir_all(workplace.file("data")).expect("removed");
    copy_folder(&workplace.file("backup"), &workplace.file("data"));
    // The store agrees with itself; only a head that was kept elsewhere shows that a block is lost.
    let sound = "1 blocks, 1 applied with 1 operations, 1 accounts, 0 requests queued, 0 findings".to_owned();
    assert_eq!(workplace.fsck(&[]), (0, sound.clone()));
    assert_eq!(workplace.fsck(&["--head", &workplace.text("first.json")]), (0, sound.clone()));
    let lost = format!(
        "the head of block 2 has the hash {:#x}, but the store lacks block 2; its ledger ends at block 1",
        second.head.block_hash
    );
    assert_eq!(workplace.fsck(&["--head", &workplace.text("second.json")]), (1, lost));
    let process = workplace.start("data");
    let went_back = "the registry stands at block 1, and this wallet has seen its signed head of block 2";
    workplace.expect_refused(&process, "own.json", &["show"], went_back);
    workplace.expect_refused(&process, "own.json", &change, went_back);
    workplace.wallet_ok(&process, "other.json", &["create-account"]);
    let contradiction = "the registry has signed two different heads of block 2";
    workplace.expect_refused(&process, "own.json", &change, contradiction);
    let forked = workplace.keep_head(&process, "forked.json").await;
    workplace.wallet_ok(&process, "other.json", &["recovery-agent", "set", &own]);
    let other_history = "head of block 3 does not continue the history of the head of block 2";
    workplace.expect_refused(&process, "own.json", &["show"], other_history);
    workplace.wallet_ok(&process, "other.json", &["show"]);
    process.kill();

    let (status, text) = workplace.compare("second.json", "forked.json");
    assert_eq!(status, 1, "{text}");
    assert!(text.starts_with("contradiction: the registry has signed two different heads of block 2\n"), "{text}");
    for head in [second.head, forked.head] {
        assert!(text.contains(&format!("block {:#x}", head.block_hash)), "{text}");
    }
    for (one, other, expected) in [
        ("first.json", "again.json", "no contradiction: both are the head of block 1\n"),
        ("first.json", "forked.json", "no contradiction: the heads are of blocks 1 and 2;"),
    ] {
        let (status, text) = workplace.compare(one, other);
        assert!(status == 0 && text.starts_with(expected), "{one}, {other}: {status} {text}");
    }
    // Only good signatures of one key prove anything.
    let altered = SignedHead { head: Head { block_hash: B256::ZERO, ..second.head }, ..second };
    let foreign = second.head.sign(&RegistryKey::from_seed(&[7; 32]).expect("a key")).expect("signed");
    let table = [
        ("altered.json", serde_json::to_string(&altered).expect("JSON"), "the signature of the head of block 2 is not"),
        ("foreign.json", serde_json::to_string(&foreign).expect("JSON"), "the heads are signed with two keys"),
        ("text.json", "no head".to_owned(), "text.json: the body is not valid JSON"),
        ("long.json", " ".repeat(70_000), "longer than 65536 bytes"),
    ];
    for (name, text, reason) in table {
        std::fs::write(workplace.file(name), text).expect("written");
        for (status, text) in [workplace.compare("second.json", name), workplace.compare(name, "second.json")] {
            assert!(status == 2 && text.contains(reason), "{name}: {status} {text}");
        }
    }
    let (status, text) = workplace.compare("second.json", "none.json");
    assert!(status == 2 && text.contains("none.json"), "{status} {text}");

    // A new store of the same chain and contract has another key.
    let process = workplace.start("new-data");
    let other_key = format!("this wallet knows the registry by the key {}", first.public_key);
    workplace.expect_refused(&process, "own.json", &["show"], &other_key);
    process.kill();
}

#[tokio::test]
async fn an_altered_head_does_not_verify() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let signed = daemon.client().head().await.expect("a head");
    assert_eq!((signed.head.height, signed.head.domain, signed.verify()), (0, daemon.registry.domain(), Ok(())));
    let alterations: [fn(&mut SignedHead); 9] = [
        |signed| signed.head.domain.chain_id += 1,
        |signed| signed.head.domain.verifying_contract = Address::ZERO,
        |signed| signed.head.height += 1,
        |signed| signed.head.block_hash.0[31] ^= 1,
        |signed| signed.head.result_hash.0[0] ^= 1,
        |signed| signed.head.root.0.0[0] ^= 1,
        |signed| signed.head.time.0 += 1,
        |signed| signed.signature.0[63] ^= 1,
        |signed| signed.public_key = RegistryPublicKey(B256::ZERO),
    ];
    for (number, alter) in alterations.iter().enumerate() {
        let mut altered = signed;
        alter(&mut altered);
        assert!(matches!(altered.verify(), Err(HeadError::Signature { .. })), "alteration {number}");
    }
    daemon.stop().await;
}
