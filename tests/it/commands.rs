//! The commands, run as programs: output and exit status.

#[cfg(feature = "fault-injection")]
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use selfsame::config::Config;
use selfsame_protocol::ledger::{Entry, RequestId};
use selfsame_storage::{GroupCommit, Layout, RequestWriter, Store};
use selfsame_wallet::file::WalletFile;
use selfsame_wallet::operations::create_account;

#[cfg(feature = "fault-injection")]
use crate::harness::run_for_status;
use crate::harness::{DaemonProcess, folder, refused_start, run, run_with, write_secret};
use crate::sign_in_client::wait_for_signing_keys;
use crate::test_accounts::{final_state, key, seed};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/protocol/vectors/registry_trace_1.json");

#[test]
fn a_recorded_trace_replays_without_a_difference() {
    let (success, text) = run(&["registry", "replay", TRACE]);
    assert_eq!((success, text.as_str()), (true, "600 rows, 0 differences\n"));
}

#[test]
fn a_tampered_trace_fails_at_its_row() {
    let folder = folder();
    let recorded = std::fs::read_to_string(TRACE).expect("the trace is read");
    let lines: Vec<&str> = recorded.lines().collect();
    // The file has one row in each line, after the line with the parameters.
    let tampered = |row: usize, from: &str, to: &str| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let changed = lines[row].replacen(from, to, 1);
        assert_ne!(lines[row], changed, "row {row} has {from}");
        lines[row] = changed;
        let file = folder.path().join("tampered.json");
        std::fs::write(&file, lines.join("\n")).expect("written");
        run(&["registry", "replay", &file.display().to_string()])
    };
    let (success, text) = tampered(1, "\"signature_nonce\": \"0x0\"", "\"signature_nonce\": \"0x1\"");
    assert!(!success);
    assert_eq!(
        text,
        "row 1 (create_account): after.signature_nonce is 0x0, the trace has 0x1\n600 rows, 1 differences\n"
    );
    let (success, text) = tampered(1, "\"root\": \"0x0", "\"root\": \"0x1");
    assert!(!success && text.starts_with("row 1 (create_account): after.root is 0x0"), "{text}");
    let (success, text) = tampered(1, "\"kind\": \"create_account\"", "\"kind\": \"close_account\"");
    assert!(!success && text.contains("row 1: "), "{text}");
    let (success, text) = run(&["registry", "replay", &folder.path().join("none.json").display().to_string()]);
    assert!(!success && text.contains("none.json"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_described_also_beside_its_daemon() {
    let folder = folder();
    let data = folder.path().display().to_string();
    let process = DaemonProcess::start(folder.path(), &[], &[]);
    let step = create_account(&[key("alice").authenticator()], Default::default());
    let client = process.client();
    let request_id = client.submit(&step.operation, &seed("key")).await.expect("accepted").request_id;
    final_state(&client, request_id).await;
    let describe = |data: &str| run(&["store", "info", "--data", data]);
    let mut process = Some(process);
    for is_running in [true, false] {
        let (success, text) = describe(&data);
        let first = format!("{}\n", Layout::PRESENT);
        assert!(success && text.starts_with(&first), "{is_running}: {text}");
        assert!(text.contains("on chain 31337\nblock 1 of ") && text.contains(", 1 applied\n1 accounts\n"), "{text}");
        let (success, json) = run(&["store", "info", "--json", "--data", &data]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(success && json["ledger_height"] == 1 && json["accounts"] == 1, "{json}");
        let families = json["families"].as_array().expect("a list");
        let accounts = families.iter().find(|family| family["name"] == "accounts").expect("the family");
        assert_eq!(accounts["records"], 1, "{accounts}");
        assert!(process.take().is_none_or(|process| process.terminate().success()));
    }
    let (success, text) = describe("/nowhere");
    assert!(!success && text.contains("/nowhere"), "{text}");
}

/// What an operator sees of a store that a build with another format made.
#[cfg(feature = "fault-injection")]
#[test]
fn every_command_refuses_the_store_of_another_build_with_one_sentence() {
    let folder = folder();
    let data = folder.path().display().to_string();
    assert!(DaemonProcess::start(folder.path(), &[], &[]).terminate().success());
    let other = Layout { schema: 9, draft: None };
    Store::pretend_layout(&selfsame::daemon::store_folder(folder.path()), other).expect("written");
    let names = || -> BTreeSet<_> {
        std::fs::read_dir(folder.path()).expect("read").map(|entry| entry.expect("read").file_name()).collect()
    };
    let before = names();
    let sentence = format!(
        "selfsame: the store has schema 9, and this program reads {} alone; start with an empty data folder, or use the \
         build that wrote the store: until 0.1.0 is released, the format changes without migrations\n",
        Layout::PRESENT
    );
    for command in [
        &["store", "info"][..],
        &["registry", "fsck"],
        &["registry", "rebuild"],
        &["keys", "revoke", "--all"],
        &["serve", "--dev"],
    ] {
        let (status, text) = run_for_status(&[command, &["--data", &data]].concat(), &[]);
        // A service manager does not start the daemon again.
        let expected = if command[0] == "serve" { 78 } else { 1 };
        assert_eq!(status.code(), Some(expected), "{command:?}: {text}");
        assert!(text.ends_with(&sentence), "{command:?}: {text}");
    }
    assert_eq!(names(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fsck_tells_good_stores_from_damaged_ones() {
    let folder = folder();
    let data = folder.path().display().to_string();
    let (success, text) = run(&["registry", "fsck", "--data", &data]);
    assert!(!success && text.contains("cannot open the store"), "{text}");

    let process = DaemonProcess::start(folder.path(), &[], &[]);
    let registry = crate::test_accounts::registry(process.client()).await;
    crate::test_accounts::create(&registry, &key("one"), key("agent").address()).await;
    crate::test_accounts::create(&registry, &key("two"), key("agent").address()).await;
    process.kill();
    let (success, text) = run(&["registry", "fsck", "--data", &data]);
    let summary = "2 blocks, 2 applied with 2 operations, 2 accounts, 0 requests queued, 0 findings\n";
    assert_eq!((success, text.as_str()), (true, summary));

    queue_two_requests_with_one_lock(folder.path());
    let (success, text) = run(&["registry", "fsck", "--data", &data]);
    assert!(!success && text.contains("both hold the lock on"), "{text}");
    assert!(text.ends_with("2 requests queued, 1 findings\n"), "{text}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).expect("read").map(|entry| entry.expect("read").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("fsck")), "{left:?}");
}

/// Queues two requests in the store of a stopped daemon that hold one lock, which the daemon never
/// admits: only the second one holds it.
pub fn queue_two_requests_with_one_lock(data: &Path) {
    let store = Store::open_existing(&selfsame::daemon::store_folder(data), 1 << 20).expect("the store opens");
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("it starts");
    let operation = create_account(&[key("three").authenticator()], key("agent").address()).operation;
    let requests = RequestWriter::new(store, group_commit);
    for number in 1..=2 {
        let entry = Entry { request_id: RequestId::from_random([number; 16]), operation: operation.clone() };
        requests.admit(100 + u64::from(number), entry, None, Box::new(|result| result.expect("written")));
    }
    drop(requests);
    committing.join().expect("it ends");
}

#[test]
fn new_app_prints_a_configuration_that_loads() {
    let folder = folder();
    let arguments =
        ["app", "new", "--name", "An \"example\"", "--redirect-uri", "https://app.example/callback", "--staging"];
    let (success, first) = run(&arguments);
    assert!(success, "{first}");
    let (_, second) = run(&arguments);
    let secret = |text: &str| {
        let shown = text.lines().find_map(|line| line.strip_prefix("# The client secret, shown this once: "));
        shown.expect("a secret").to_owned()
    };
    assert_ne!(secret(&first), secret(&second));
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, format!("{first}\n{second}")).expect("written");
    let config = Config::load(Some(&file), std::iter::empty(), false, None).expect("it loads");
    assert_eq!(config.apps.len(), 2);
    for (app, text) in config.apps.iter().zip([&first, &second]) {
        assert_eq!(
            (app.name(), app.redirect_uris.as_slice()),
            ("An \"example\"", ["https://app.example/callback".parse().expect("a redirect URI")].as_slice())
        );
        assert!(app.id.starts_with("app_staging_"));
        let hash = app.client_secret_hash.as_ref().expect("a hash");
        assert!(*hash == selfsame::config::SecretHash::of(hash.salt(), &secret(text)));
        assert!(!text.contains(&format!("\"{}\"", secret(text))), "the secret is only in the comment");
    }
    std::fs::write(&file, format!("{first}\n{first}")).expect("written");
    let error = Config::load(Some(&file), std::iter::empty(), false, None).expect_err("one id twice");
    assert!(error.to_string().contains("apps"), "{error}");
}

#[test]
fn a_new_application_with_a_relying_partys_key_has_accounts() {
    let (folder, usual) = (folder(), ["app", "new", "--name", "A", "--redirect-uri", "https://app.example/"]);
    let key = "5299619240641551281634865583518297030282874472190772894086521144482721001553,\
               16950150798460657717958625567821834550301663161624707787222815936182638968203";
    let (success, text) = run(&[&usual[..], &["--oprf-public-key", key, "--rp-id", "rp_00000000000000ff"]].concat());
    assert!(success, "{text}");
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, &text).expect("written");
    let config = Config::load(Some(&file), std::iter::empty(), false, None).expect("it loads");
    assert_eq!(config.apps[0].proof, selfsame::config::SignInProof::Account);
    assert!(config.takes_current_proofs(&config.apps[0]), "{text}");
    assert_eq!(config.relying_party_id(&config.apps[0].id).to_string(), "rp_00000000000000ff");
    for (wrong, says) in [
        (["--rp-id", "rp_00000000000000ff"], "--signing-key-file"),
        (["--rp-id", "7"], "rp_ and 16 hex digits"),
        (["--oprf-public-key", "1,2"], "not a point of BabyJubJub"),
        (["--signing-key-file", ""], "--signing-key-file"),
    ] {
        let (success, text) = run(&[&usual[..], &wrong].concat());
        assert!(!success && text.contains(says), "{wrong:?}: {text}");
    }
}

#[tokio::test]
async fn a_bad_configuration_is_refused_with_its_key() {
    let folder = folder();
    let cases = [
        ("SELFSAME_REGISTRY__CHAIN_ID", "mainnet", "registry.chain_id"),
        ("SELFSAME_REGISTRY__MAX_AUTHENTICATORS", "8", "registry.max_authenticators"),
        ("SELFSAME_REGISTRY__VERIFYING_CONTRACT", "0x12", "registry.verifying_contract"),
        ("SELFSAME_BATCHER__MAX_WAIT", "soon", "batcher.max_wait"),
        ("SELFSAME_LISTEN__VERIFY", "everywhere", "listen.verify"),
        ("SELFSAME_LISTEN__SIGN_IN", "0.0.0.0:8080", "listen.sign_in"),
        ("SELFSAME_REGISTRY__NETWORK", "mainnet", "registry.network"),
    ];
    for (variable, value, key) in cases {
        let message = refused_start(folder.path(), &[(variable, value)]).await;
        assert!(message.contains(key) && message.contains(variable), "{message:?} should name {key} and {variable}");
        assert!(!message.contains("panicked"), "{message}");
    }
    assert!(!folder.path().join("store").exists(), "a bad configuration creates no store");

    let file = folder.path().join("selfsame.toml");
    let cases = [
        ("[registry]\nchain_id = 1\nnetwork = \"x\"", "registry.network"),
        ("[batcher]\nmax_operations = 0", "batcher.max_operations"),
        ("[registry", "line 1"),
    ];
    for (text, part) in cases {
        std::fs::write(&file, text).expect("written");
        let (success, message) = run(&["serve", "--config", &file.display().to_string()]);
        assert!(!success && message.contains(part) && message.contains("selfsame.toml"), "{message}");
    }
    let (success, message) = run(&["serve", "--config", "/no/such/file.toml"]);
    assert!(!success && message.contains("/no/such/file.toml"), "{message}");
    let (success, message) = run(&["serve", "--clock", "2027-01-01T00:00:00Z"]);
    assert!(!success && message.contains("--dev"), "{message}");
}

/// The wallet commands, with wallet files in a folder, on one daemon.
struct WalletCommands<'a> {
    folder: &'a Path,
    process: &'a DaemonProcess,
}

impl WalletCommands<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension("json")
    }

    /// Runs `selfsame wallet` with these words for a wallet; `@name` stands for the path of a
    /// wallet's file.
    fn wallet(&self, name: &str, words: &str) -> (bool, String) {
        let words = words.split_whitespace().map(|word| match word.strip_prefix('@') {
            Some(name) => self.file(name).display().to_string(),
            None => word.to_owned(),
        });
        let own = self.file(name).display().to_string();
        let options = ["--wallet", &own, "--gateway", &self.process.gateway, "--indexer", &self.process.indexer];
        let arguments: Vec<String> =
            ["wallet".to_owned()].into_iter().chain(words).chain(options.map(str::to_owned)).collect();
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs the same, which must succeed; returns the lines about the account.
    fn run_operation(&self, name: &str, words: &str) -> Vec<String> {
        let (success, text) = self.wallet(name, words);
        assert!(success, "`{words}`: {text}");
        let (operation, account): (Vec<&str>, Vec<&str>) = {
            let lines: Vec<&str> = text.lines().collect();
            let (operation, account) = lines.split_at(5);
            (operation.to_vec(), account.to_vec())
        };
        let begin = [
            "accepted request gw_",
            "finalized in block 0x",
            "receipt verified: operation 0 of block ",
            "inclusion proof verified against root 0x",
            "signed head of block ",
        ];
        assert!(operation.iter().zip(begin).all(|(line, begin)| line.starts_with(begin)), "{text}");
        account.into_iter().map(str::to_owned).collect()
    }

    fn address(&self, name: &str) -> String {
        format!("{:#x}", WalletFile::open(&self.file(name)).expect("a wallet").key.address())
    }
}

#[test]
fn wallet_commands_run_all_operations() {
    let (folder, wallets) = (folder(), folder());
    let process =
        DaemonProcess::start(folder.path(), &[], &[("SELFSAME_REGISTRY__RECOVERY_AGENT_UPDATE_COOLDOWN", "0s")]);
    let wallet_commands = WalletCommands { folder: wallets.path(), process: &process };
    let names = ["laptop", "phone", "tablet", "agent", "spare"];
    for name in names {
        let (success, text) = wallet_commands.wallet(name, "new");
        assert!(success, "{text}");
        let mode = std::fs::metadata(wallet_commands.file(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        assert!(text.contains(&format!("address {}", wallet_commands.address(name))), "{text}");
    }
    let [laptop, phone, tablet, agent, spare] = names.map(|name| wallet_commands.address(name));

    let own = |slot: u32, address: &str| format!("slot {slot}: {address} (this wallet)");
    let slot = |slot: u32, address: &str| format!("slot {slot}: {address}");
    assert_eq!(
        wallet_commands.run_operation("laptop", "create-account"),
        ["leaf index 0x1, nonce 0".to_owned(), own(0, &laptop)]
    );
    assert_eq!(
        wallet_commands.run_operation("laptop", "insert --new-wallet @phone"),
        ["leaf index 0x1, nonce 1".to_owned(), own(0, &laptop), slot(1, &phone)]
    );
    assert_eq!(
        wallet_commands.run_operation("phone", "update --new-wallet @tablet"),
        ["leaf index 0x1, nonce 2".to_owned(), slot(0, &laptop), slot(1, &tablet)]
    );
    assert_eq!(
        wallet_commands.run_operation("tablet", &format!("remove {laptop}")),
        ["leaf index 0x1, nonce 3".to_owned(), "slot 0: removed".to_owned(), own(1, &tablet)]
    );
    let lines = wallet_commands.run_operation("tablet", &format!("recovery-agent set {agent}"));
    assert!(lines[3].starts_with(&format!("recovery agent {agent} can take office from ")), "{lines:?}");
    assert_eq!(
        wallet_commands.run_operation("tablet", "recovery-agent cancel").len(),
        3,
        "no recovery agent is pending"
    );
    wallet_commands.run_operation("tablet", &format!("recovery-agent set {agent}"));
    let in_office = format!("recovery agent {agent}");
    assert_eq!(
        wallet_commands.run_operation("spare", "recovery-agent execute --leaf-index 1").last(),
        Some(&in_office)
    );
    let (success, text) = wallet_commands.wallet("spare", "recover --leaf-index 1 --new-wallet @spare");
    assert!(!success && text.contains("InvalidSignature"), "{text}");
    assert_eq!(
        wallet_commands.run_operation("agent", "recover --leaf-index 1 --new-wallet @spare"),
        ["leaf index 0x1, nonce 7".to_owned(), slot(0, &spare), in_office]
    );

    let (success, text) = wallet_commands.wallet("tablet", "show");
    assert!(success && text.ends_with("this wallet is not an authenticator of an account\n"), "{text}");
    let (success, text) = wallet_commands.wallet("spare", "new");
    assert!(!success && text.contains("exists already"), "{text}");
    std::fs::set_permissions(wallet_commands.file("spare"), std::fs::Permissions::from_mode(0o644)).expect("changed");
    let (success, text) = wallet_commands.wallet("spare", "show");
    assert!(!success && text.contains("chmod 600"), "{text}");
}

#[test]
fn the_token_is_not_sent_in_clear_to_another_machine() {
    let folder = folder();
    write_secret(&folder.path().join("operator.token"), "a token");
    let data = folder.path().to_str().expect("text");
    for operator in ["http://192.0.2.1:8084", "http://selfsame.example:8084", "http://127.0.0.1.example:8084"] {
        let (succeeded, text) = run(&["status", "--operator", operator, "--data", data]);
        assert!(!succeeded && text.contains("in clear text") && text.contains("--in-clear"), "{text}");
    }
    let (succeeded, text) = run(&["status", "--operator", "http://127.0.0.1:1", "--data", data]);
    assert!(!succeeded && text.contains("no answer from"), "{text}");
}

#[test]
fn the_wallet_sends_the_token_neither_in_clear_nor_to_a_proxy() {
    let folder = folder();
    write_secret(&folder.path().join("operator.token"), "a token");
    let data = folder.path().to_str().expect("text");
    let wallet = folder.path().join("wallet.json").display().to_string();
    let (made, text) = run(&["wallet", "new", "--wallet", &wallet]);
    assert!(made, "{text}");
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.set_nonblocking(true).expect("the listener does not wait");
    let proxy_url = format!("http://{}", proxy.local_addr().expect("an address"));
    let prove = |operator: &str| {
        let proxy = proxy_url.as_str();
        let proof = ["wallet", "prove", "--wallet", &wallet, "--app", "app_staging_5e1f5a3e000000000000000000000001"];
        let daemon = ["--kind", "legacy", "--action", "a", "--operator", operator, "--data", data];
        run_with(&[&proof[..], &daemon].concat(), &[("HTTP_PROXY", proxy), ("http_proxy", proxy)])
    };
    for operator in ["http://192.0.2.1:8084", "http://selfsame.example:8084", "http://127.0.0.1.example:8084"] {
        let (succeeded, text) = prove(operator);
        assert!(!succeeded && text.contains("in clear text"), "{text}");
    }
    let (succeeded, text) = prove("http://127.0.0.1:1");
    assert!(!succeeded && text.contains("no answer from"), "{text}");
    assert!(proxy.accept().is_err(), "the proxy was called");
}

#[tokio::test]
async fn an_invalid_log_filter_is_refused() {
    let folder = folder();
    let text = refused_start(folder.path(), &[("RUST_LOG", "info,selfsame=loud")]).await;
    assert!(text.contains("RUST_LOG is \"info,selfsame=loud\"") && text.contains("write it like info"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_from_the_command_line_verify() {
    const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
    let folder = folder();
    let data = folder.path().join("data").display().to_string();
    let process = DaemonProcess::start(Path::new(&data), &[], &[]);
    let wallet = folder.path().join("wallet.json").display().to_string();
    let (gateway, indexer, operator) = (&process.gateway, &process.indexer, &process.operator.clone());
    let (made, text) = run(&["wallet", "new", "--wallet", &wallet, "--gateway", gateway, "--indexer", indexer]);
    assert!(made, "{text}");
    let (made, text) = run(&["wallet", "create-account", "--wallet", &wallet]);
    assert!(made, "{text}");
    let url = format!("{}/api/v4/verify/{APP}", process.verification);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for (kind, message) in [
        ("legacy", "Proof verified successfully"),
        ("uniqueness", "Proof verified successfully"),
        ("session", "Session proof verified successfully"),
    ] {
        let action = if kind == "session" { "" } else { kind };
        let arguments = ["wallet", "prove", "--wallet", &wallet, "--app", APP, "--kind", kind, "--action", action];
        let daemon = ["--signal", "hello", "--operator", operator, "--data", &data];
        let (proved, body) = run(&[&arguments[..], &daemon[..]].concat());
        assert!(proved, "{kind}: {body}");
        let request = http.post(&url).header("content-type", "application/json").body(body);
        let answer: serde_json::Value = request.send().await.expect("an answer").json().await.expect("JSON");
        assert_eq!(answer["message"], message, "{kind}: {answer}");
    }
    // A Selfie Check has a bundle of version 2 by itself; others have the one that is asked for.
    for (words, issuer, version) in [
        (&["--issuer", "11", "--score", "12", "--device-system", "ios"][..], 11, 2),
        (&["--bundle", "1"][..], 1, 1),
        (&["--bundle", "2", "--identity-attested", "true"][..], 1, 2),
    ] {
        let action = format!("bundle of {issuer}, {version}");
        let arguments = ["wallet", "prove", "--wallet", &wallet, "--app", APP, "--kind", "uniqueness"];
        let daemon = ["--action", &action, "--operator", operator, "--data", &data];
        let (proved, text) = run(&[&arguments[..], &daemon, words].concat());
        assert!(proved, "{text}");
        let body: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(body["responses"][0]["issuer_schema_id"], issuer, "{body}");
        assert_eq!(body["integrity_bundle"]["version"], version, "{body}");
        assert_eq!(body.get("identity_attested").is_some(), words.contains(&"true"), "{body}");
        let request = http.post(&url).header("content-type", "application/json").body(text);
        let answer: serde_json::Value = request.send().await.expect("an answer").json().await.expect("JSON");
        assert_eq!((&answer["success"], &answer["integrity"]), (&true.into(), &"verified".into()), "{answer}");
    }
    let legacy = ["wallet", "prove", "--wallet", &wallet, "--app", APP, "--action", "bundled", "--bundle", "1"];
    let (proved, text) = run(&[&legacy[..], &["--operator", operator, "--data", &data]].concat());
    assert!(proved, "{text}");
    let request = http.post(&url).header("content-type", "application/json").body(text);
    let answer: serde_json::Value = request.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!((&answer["success"], &answer["integrity"]), (&true.into(), &"verified".into()), "{answer}");

    // The operator's commands list the root that the wallet trusted, and can trust one themselves.
    let daemon = ["--operator", operator.as_str(), "--data", &data];
    let (listed, text) = run(&[&["roots", "list"][..], &daemon].concat());
    assert!(listed && text.starts_with("legacy staging 20") && text.lines().count() == 1, "{text}");
    let add =
        ["roots", "add", "0x12", "--kind", "current", "--environment", "production", "--time", "2026-01-31T12:00:00Z"];
    let (added, text) = run(&[&add[..], &daemon].concat());
    assert_eq!((added, text.as_str()), (true, "current production 2026-01-31T12:00:00Z - 0x12\n"));
    let legacy = ["roots", "add", "0x13", "--kind", "legacy", "--environment", "staging"];
    let (added, text) = run(&[&legacy[..], &["--identifier", "orb", "--identifier", "face"], &daemon].concat());
    assert!(added && text.starts_with("legacy staging 20") && text.ends_with(" orb,face 0x13\n"), "{text}");
    let (added, text) = run(&[&legacy[..], &daemon].concat());
    assert!(!added && text.contains("identifiers: is missing"), "{text}");
    let (_, text) = run(&[&["roots", "list"][..], &daemon].concat());
    assert_eq!(text.lines().count(), 3, "{text}");
    let remove = ["roots", "remove", "0x12", "--kind", "current", "--environment", "production"];
    let (removed, text) = run(&[&remove[..], &daemon].concat());
    assert_eq!((removed, text.as_str()), (true, "current production 0x12 is no longer trusted\n"));
    let (removed, text) = run(&[&remove[..], &daemon].concat());
    assert!(!removed && text.contains("0x12 is not a trusted root"), "{text}");
    let nowhere = ["--operator", operator.as_str(), "--data", "no-such-folder"];
    let (added, text) = run(&[&add[..], &nowhere].concat());
    assert!(!added && text.contains("operator.token") && text.contains("--data"), "{text}");
    // Also when the disk of the tests is nearly full, which needs attention.
    let (is_ready, text) = run(&["status", "--ready", "--operator", operator, "--data", &data]);
    assert!(is_ready && text.starts_with("ready") && text.contains("/verifier"), "{text}");
    process.kill();
    let (is_ready, text) = run(&["status", "--operator", operator, "--data", &data]);
    assert!(!is_ready && text.contains("check that the daemon is running"), "{text}");
    let mode =
        std::fs::metadata(Path::new(&data).join("operator.token")).expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Signs in with the programs alone. The redirect has the ID token.
fn subject(sign_in: &str, wallet: &Path, app: &str) -> Result<String, String> {
    let query = [
        ("client_id", app),
        ("redirect_uri", "http://localhost:3000/callback"),
        ("response_type", "id_token"),
        ("scope", "openid"),
        ("nonce", "a nonce"),
    ];
    let url = reqwest::Url::parse_with_params(&format!("{sign_in}/authorize"), query).expect("a URL");
    let (success, text) = run(&["wallet", "sign-in", "--yes", url.as_str(), "--wallet", &wallet.display().to_string()]);
    if !success {
        return Err(text);
    }
    let target = text.lines().last().and_then(|line| reqwest::Url::parse(line).ok()).expect("a redirect URI");
    let token =
        target.fragment().and_then(|fields| fields.split('&').find_map(|field| field.strip_prefix("id_token=")));
    let claims = crate::sign_in_client::unverified_claims(token.unwrap_or_else(|| panic!("no ID token: {text}")));
    Ok(claims["sub"].as_str().expect("a subject").to_owned())
}

/// A second device and a recovered account are the same person, a removed authenticator is none:
/// with legacy proofs and with current ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_account_is_one_person_whichever_wallet_proves() {
    const CURRENT_APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
    const LEGACY_APP: &str = "app_staging_5e1f5a3e000000000000000000000009";
    let (folder, wallets) = (folder(), folder());
    let config = wallets.path().join("selfsame.toml");
    let app = |id, proof| {
        format!(
            "[[apps]]\nid = '{id}'\nname = 'An application'\npublic = true\nproof = '{proof}'\n\
             redirect_uris = ['http://localhost:3000/callback']\nresponse_types = ['id_token']\n"
        )
    };
    std::fs::write(&config, app(CURRENT_APP, "current") + &app(LEGACY_APP, "legacy")).expect("written");
    let process = DaemonProcess::start(folder.path(), &["--config", &config.display().to_string()], &[]);
    let data = folder.path().display().to_string();
    let wallet_commands = WalletCommands { folder: wallets.path(), process: &process };
    let remembered = format!("new --operator {} --data {data}", process.operator);
    for name in ["laptop", "phone", "tablet", "agent"] {
        let (success, text) = wallet_commands.wallet(name, &remembered);
        assert!(success, "{text}");
    }
    let subjects =
        |name: &str| [CURRENT_APP, LEGACY_APP].map(|app| subject(&process.sign_in, &wallet_commands.file(name), app));
    wait_for_signing_keys(&process.sign_in).await;
    let is_nobody = |name: &str| {
        for refused in subjects(name) {
            let text = refused.expect_err(name);
            assert!(text.contains("is not, or no longer, an authenticator of an account"), "{name}: {text}");
        }
    };
    is_nobody("laptop");
    let agent = wallet_commands.address("agent");
    wallet_commands.run_operation("laptop", &format!("create-account --recovery-agent {agent}"));
    let person = subjects("laptop");
    assert!(person.iter().all(Result::is_ok), "{person:?}");
    wallet_commands.run_operation("laptop", "insert --new-wallet @phone");
    assert_eq!(subjects("phone"), person, "a second device");
    wallet_commands.run_operation("phone", &format!("remove {}", wallet_commands.address("laptop")));
    is_nobody("laptop");
    wallet_commands.run_operation("agent", "recover --leaf-index 1 --new-wallet @tablet");
    assert_eq!(subjects("tablet"), person, "a recovered account");
    is_nobody("phone");
    assert!(process.terminate().success());
}
