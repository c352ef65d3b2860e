//! The wallet's commands, run by their command line, with a registry in memory that has the real
//! rules.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use clap::Parser;
use selfsame_protocol::time::UnixSeconds;
use selfsame_wallet::command::{Clocks, WalletCommand, run};
use selfsame_wallet::file::WalletFile;
use selfsame_wallet::head::LONGEST_WALK;
use serde_json::Value;

use crate::registry::{InMemoryRegistry, simulation};
use crate::server::{CannedAnswer, ReceivedRequest, serve};

/// The application of the simulator.
pub const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";

#[derive(Parser)]
struct TestCommandLine {
    #[command(flatten)]
    wallet: WalletCommand,
}

/// Runs wallet commands in a temporary folder, against a registry in memory.
pub struct WalletCli {
    folder: tempfile::TempDir,
    /// The address of the services.
    pub service: String,
    registry: Arc<Mutex<InMemoryRegistry>>,
    seeds_drawn: u8,
    /// The time, in Unix seconds.
    now: u64,
}

impl WalletCli {
    /// Creates a registry whose answers pass through `change` (path, body).
    async fn with_changed_answers(change: impl Fn(&str, &mut Value) + Send + Sync + 'static) -> Self {
        Self::with_service(move |request, answer| {
            let CannedAnswer(status, retry_after, body) = answer();
            let mut body = serde_json::from_str(&body).expect("JSON");
            change(&request.path, &mut body);
            CannedAnswer(status, retry_after, body.to_string())
        })
        .await
    }

    /// Creates a registry and a simulator, in front of which stands `service`: it gets each request
    /// and what they answer to it.
    pub async fn with_service(
        service: impl Fn(&ReceivedRequest, &dyn Fn() -> CannedAnswer) -> CannedAnswer + Send + Sync + 'static,
    ) -> Self {
        let registry = Arc::new(Mutex::new(InMemoryRegistry::default()));
        let answering = Arc::clone(&registry);
        let answer = move |request: ReceivedRequest| {
            service(&request, &|| match request.path.as_str() {
                "/simulator" => CannedAnswer::ok(simulation(&APP.into(), &"rp_6765160973bf7042".into())),
                _ => answering.lock().expect("no panic").answer(&request),
            })
        };
        Self {
            folder: tempfile::tempdir().expect("a folder for temporary files"),
            service: serve(answer).await,
            registry,
            seeds_drawn: 0,
            now: 1_800_000_000,
        }
    }

    pub async fn new() -> Self {
        Self::with_changed_answers(|_, _| ()).await
    }

    /// The registry that answers.
    fn registry(&self) -> MutexGuard<'_, InMemoryRegistry> {
        self.registry.lock().expect("no panic")
    }

    /// Runs a command line and returns its output or its error. `{name}` in the line stands for the
    /// file of the wallet `name`, and `SERVICE` for the address of the services.
    pub async fn run(&mut self, line: &str) -> Result<String, String> {
        let folder = self.folder.path().display().to_string();
        let words =
            line.split_whitespace().map(|word| match word.strip_prefix('{').and_then(|w| w.strip_suffix('}')) {
                Some(name) => format!("{folder}/{name}.json"),
                None => word.replace("SERVICE", &self.service),
            });
        let services = ["--gateway", &self.service, "--indexer", &self.service].map(str::to_owned);
        let command = TestCommandLine::try_parse_from(["wallet".to_owned()].into_iter().chain(words).chain(services))
            .map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        let mut random = |bytes: &mut [u8; 32]| {
            self.seeds_drawn += 1;
            *bytes = [self.seeds_drawn; 32];
        };
        let (started, now) = (Instant::now(), UnixSeconds(self.now));
        let clocks = Clocks { monotonic: &move || started, unix: &move || now };
        run(command.wallet, &mut random, &clocks, &mut out).await.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).expect("text"))
    }

    /// Sets the time, in Unix seconds.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Lets time pass, in seconds.
    pub fn advance(&mut self, seconds: u64) {
        self.now += seconds;
    }

    pub async fn run_ok(&mut self, line: &str) -> String {
        self.run(line).await.unwrap_or_else(|error| panic!("`{line}`: {error}"))
    }

    pub async fn check_refused(&mut self, line: &str, reason: &str) {
        let error = self.run(line).await.expect_err(line);
        assert!(error.contains(reason), "`{line}`: {error:?} should contain {reason:?}");
    }

    /// Creates wallets and returns their addresses.
    async fn wallets<const N: usize>(&mut self, names: [&str; N]) -> [String; N] {
        for name in names {
            self.run_ok(&format!("new --wallet {{{name}}}")).await;
        }
        names.map(|name| self.address(name))
    }

    /// The file of a wallet.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(Path::new(name).with_extension("json"))
    }

    fn address(&self, name: &str) -> String {
        let path = self.path(name);
        format!("{:#x}", WalletFile::open(&path).expect("the wallet is opened").key.address())
    }
}

/// The lines of the output about the account, without those about the operation.
fn account(output: &str) -> Vec<&str> {
    output.lines().skip_while(|line| !line.starts_with("leaf index")).collect()
}

#[tokio::test]
async fn an_account_can_be_created_changed_and_recovered() {
    let mut cli = WalletCli::new().await;
    let [laptop, phone, tablet, agent, other] = cli.wallets(["laptop", "phone", "tablet", "agent", "other"]).await;

    assert!(
        cli.run_ok("show --wallet {laptop}").await.ends_with("this wallet is not an authenticator of an account\n")
    );
    let output = cli.run_ok(&format!("create-account --wallet {{laptop}} --recovery-agent {agent}")).await;
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("accepted request gw_") && lines[0].ends_with("(create_account)"), "{output}");
    assert!(lines[1].starts_with("finalized in block 0x") && lines[1].ends_with("after 0s"), "{output}");
    assert_eq!(lines[2], "receipt verified: operation 0 of block 1");
    assert!(lines[3].starts_with("inclusion proof verified against root 0x"), "{output}");
    assert_eq!(lines[4], "signed head of block 1 verified");
    let (slot, has_agent) = (format!("slot 0: {laptop} (this wallet)"), format!("recovery agent {agent}"));
    assert_eq!(lines[5..], ["leaf index 0x1, nonce 0", &slot, &has_agent]);

    let output = cli.run_ok("insert --wallet {laptop} --new-wallet {phone}").await;
    let inserted = format!("slot 1: {phone}");
    assert_eq!(account(&output), ["leaf index 0x1, nonce 1", &slot, &inserted, &has_agent]);
    let output = cli.run_ok("update --wallet {phone} --new-wallet {tablet}").await;
    let (slot, updated) = (format!("slot 0: {laptop}"), format!("slot 1: {tablet}"));
    assert_eq!(account(&output), ["leaf index 0x1, nonce 2", &slot, &updated, &has_agent]);
    let output = cli.run_ok(&format!("remove {laptop} --wallet {{tablet}}")).await;
    let updated = format!("{updated} (this wallet)");
    assert_eq!(account(&output), ["leaf index 0x1, nonce 3", "slot 0: removed", &updated, &has_agent]);

    let output = cli.run_ok(&format!("recovery-agent set {other} --wallet {{tablet}}")).await;
    let pending = format!("recovery agent {other} can take office from 2027-01-15T08:00:00Z on");
    assert_eq!(account(&output)[3..], [has_agent.clone(), pending]);
    let output = cli.run_ok("recovery-agent cancel --wallet {tablet}").await;
    assert_eq!(account(&output)[3..], [has_agent.as_str()]);
    cli.run_ok(&format!("recovery-agent set {other} --wallet {{tablet}}")).await;
    let output = cli.run_ok("recovery-agent execute --leaf-index 1 --wallet {agent}").await;
    let in_office = format!("recovery agent {other}");
    assert_eq!(
        account(&output),
        ["leaf index 0x1, nonce 6", "slot 0: removed", &format!("slot 1: {tablet}"), &in_office]
    );

    cli.check_refused("recover --leaf-index 1 --wallet {agent} --new-wallet {phone}", "InvalidSignature").await;
    cli.run_ok("recover --leaf-index 0x1 --wallet {other} --new-wallet {phone}").await;
    let output = cli.run_ok("show --wallet {phone}").await;
    assert_eq!(account(&output), ["leaf index 0x1, nonce 7", &format!("slot 0: {phone} (this wallet)"), &in_office]);
    cli.check_refused("recovery-agent cancel --wallet {tablet}", "is not an authenticator of the account").await;
    cli.run_ok(&format!("remove {phone} --wallet {{phone}}")).await;
    assert_eq!(account(&cli.run_ok("show --wallet {phone} --leaf-index 1").await)[1], "slot 0: removed");
}

#[tokio::test]
async fn invalid_commands_are_refused_with_a_reason() {
    let mut cli = WalletCli::new().await;
    let [own, _] = cli.wallets(["own", "new"]).await;
    cli.check_refused("new --wallet {own}", "exists already").await;
    cli.check_refused("show --wallet {none}", "selfsame wallet new --wallet").await;
    cli.check_refused("insert --wallet {own} --new-wallet {new}", "is not an authenticator of any account").await;
    cli.check_refused("show --wallet {own} --leaf-index 9", "400 account_does_not_exist").await;
    cli.run_ok("create-account --wallet {own}").await;
    cli.check_refused("create-account --wallet {own}", "failed: AuthenticatorAddressAlreadyInUse").await;
    cli.check_refused("insert --wallet {own} --new-wallet {none}", "there is no wallet").await;
    cli.check_refused("insert --wallet {own} --new-wallet {own}", "already").await;
    cli.check_refused("insert --wallet {own} --new-wallet {new} --slot 0", &format!("slot 0 holds {own}")).await;
    cli.check_refused("insert --wallet {own} --new-wallet {new} --slot 7", "slot 7 does not exist").await;
    cli.check_refused("remove 0x12 --wallet {own}", "40 hex digits").await;
    cli.check_refused("recover --leaf-index one --wallet {own} --new-wallet {new}", "not a decimal digit").await;
}

#[tokio::test]
async fn false_answers_of_the_services_are_refused() {
    type AnswerChange = fn(&mut Value);
    let changes: [(&'static str, AnswerChange, &str); 17] = [
        ("/config", |body| body["registry_version"] = "v2".into(), "version `v2`"),
        ("/authenticators", |body| body["offchain_signer_commitment"] = "0x5".into(), "its public keys make"),
        ("/authenticators", |body| body["authenticator_pubkeys"] = vec!["0x1"].into(), "slot 0 does not decode"),
        ("/authenticators", |body| body["authenticator_addresses"] = vec![Value::Null].into(), "are inconsistent"),
        ("/receipt", |body| body["block"]["height"] = 9.into(), "the block's hash is not that of its header"),
        ("/receipt", |body| body["kind"] = "create_account".into(), "the operation's encoding is not that"),
        ("/status", |body| body["status"]["tx_hash"] = "0x00".into(), "another block than the state named"),
        ("/inclusion-proof", |body| body["leaf_index"] = "0x2".into(), "of another account"),
        ("/inclusion-proof", |body| body["root"] = format!("0x{:064}", 1).into(), "does not lead from"),
        ("/inclusion-proof", |body| body["siblings"] = Value::Array(Vec::new()), "30 siblings"),
        ("/inclusion-proof", |body| body["authenticator_pubkeys"][0] = Value::Null, "not the account's"),
        ("/is-valid-root", |body| body["valid"] = false.into(), "does not accept its root"),
        ("/head", |body| body["height"] = 9.into(), "the signature of the head of block 9 is not"),
        ("/head", |body| body["root"] = format!("0x{:064}", 1).into(), "the signature of the head of block"),
        ("/head", |body| body["domain"]["chain_id"] = 1.into(), "the signature of the head of block"),
        ("/head", |body| body["public_key"] = format!("0x{:064}", 1).into(), "the signature of the head of block"),
        ("/head", |body| body["signature"] = "0x00".into(), "0x and 128 hex digits"),
    ];
    let current_change = Arc::new(Mutex::new(None::<(&str, AnswerChange)>));
    let current = Arc::clone(&current_change);
    let mut cli = WalletCli::with_changed_answers(move |called, body| {
        if let Some((path, change)) = *current.lock().expect("no panic")
            && called.starts_with(path)
        {
            change(body);
        }
    })
    .await;
    let [own] = cli.wallets(["own"]).await;
    cli.run_ok("create-account --wallet {own}").await;
    let command = format!("recovery-agent set {own} --wallet {{own}}");
    for (path, change, reason) in changes {
        *current_change.lock().expect("no panic") = Some((path, change));
        cli.check_refused(&command, reason).await;
    }
    *current_change.lock().expect("no panic") = None;
    cli.run_ok(&command).await;
}

/// Heads that are signed with another key, or that do not continue what the wallet has seen.
#[tokio::test]
async fn a_registry_that_changes_its_history_is_refused() {
    let mut cli = WalletCli::new().await;
    let [own, _] = cli.wallets(["own", "other"]).await;
    let empty = cli.registry().clone();
    cli.run_ok("create-account --wallet {own}").await;
    let one_block = cli.registry().clone();
    let change = format!("recovery-agent set {own} --wallet {{own}}");
    let output = cli.run_ok(&change).await;
    assert!(output.contains("signed head of block 2 verified, it continues block 1\n"), "{output}");
    let two_blocks = cli.registry().clone();

    // Set back, to one block and to none.
    *cli.registry() = one_block.clone();
    let went_back = "stands at block 1, and this wallet has seen its signed head of block 2";
    cli.check_refused("show --wallet {own}", went_back).await;
    cli.check_refused(&change, went_back).await;
    *cli.registry() = empty;
    cli.check_refused("show --wallet {own}", "stands at block 0").await;

    // Another history of the same height, and one that is longer.
    *cli.registry() = one_block;
    cli.run_ok("create-account --wallet {other}").await;
    cli.check_refused("show --wallet {own}", "has signed two different heads of block 2").await;
    cli.registry().seal_empty_blocks(1);
    let other_history = "head of block 3 does not continue the history of the head of block 2";
    cli.check_refused("show --wallet {own}", other_history).await;
    cli.check_refused(&change, other_history).await;
    // The other wallet has seen no other history.
    cli.run_ok("show --wallet {other}").await;

    // The same history, signed with another key.
    *cli.registry() = two_blocks.clone();
    cli.registry().seed = [8; 32];
    cli.check_refused("show --wallet {own}", "this wallet knows the registry by the key 0x").await;
    *cli.registry() = two_blocks;
    cli.run_ok(&change).await;
}

/// Beyond the longest walk the wallet says that the blocks between were not checked, and asks only
/// for the block that it knows.
#[tokio::test]
async fn a_head_that_is_far_ahead_is_accepted_with_a_remark() {
    let mut cli = WalletCli::new().await;
    let [_, _] = cli.wallets(["own", "other"]).await;
    cli.run_ok("create-account --wallet {own}").await;
    let one_block = cli.registry().clone();
    cli.registry().seal_empty_blocks(LONGEST_WALK);
    let output = cli.run_ok("show --wallet {own}").await;
    assert!(!output.contains("were not checked"), "{output}");
    cli.registry().seal_empty_blocks(LONGEST_WALK + 1);
    let remark = "block 257 is more than 256 blocks before the head: the blocks between were not checked\n";
    let output = cli.run_ok("show --wallet {own}").await;
    assert!(output.contains(remark), "{output}");
    let output = cli.run_ok("show --wallet {own}").await;
    assert!(!output.contains("were not checked"), "{output}");

    *cli.registry() = one_block;
    cli.run_ok("create-account --wallet {other}").await;
    cli.registry().seal_empty_blocks(3 * LONGEST_WALK);
    cli.check_refused(
        "show --wallet {own}",
        "head of block 770 does not continue the history of the head of block 514",
    )
    .await;
}

/// A head whose history lacks the block that the receipt named, and a block that is not the one
/// that its successor names.
#[tokio::test]
async fn a_head_must_have_the_block_of_the_receipt_in_its_history() {
    let shown = Arc::new(Mutex::new(None::<Value>));
    let replaced = Arc::clone(&shown);
    let mut cli = WalletCli::with_changed_answers(move |called, body| {
        if let Some(head) = replaced.lock().expect("no panic").as_ref()
            && called.starts_with("/head")
        {
            *body = head.clone();
        }
    })
    .await;
    let [own] = cli.wallets(["own"]).await;
    cli.run_ok("create-account --wallet {own}").await;
    let old = cli.registry().signed_head();
    *shown.lock().expect("no panic") = Some(serde_json::to_value(old).expect("JSON"));
    let change = format!("recovery-agent set {own} --wallet {{own}}");
    cli.check_refused(
        &change,
        "block 2, which the receipt names, is not in the history of the registry's head of block 1",
    )
    .await;
    *shown.lock().expect("no panic") = None;
    cli.run_ok("show --wallet {own}").await;
    cli.registry().seal_empty_blocks(2);
    let other = cli.registry().blocks[0].clone();
    cli.registry().blocks[2] = other;
    cli.check_refused("show --wallet {own}", "block 3 is not the one that the signed head is linked to").await;
}

impl WalletCli {
    /// The nullifier and the session of a wallet's current proofs, made without the guard.
    async fn person(&mut self, wallet: &str) -> Result<(Value, Value), String> {
        let mut proofs = Vec::new();
        for (kind, options) in [("uniqueness", "--action vote --no-guard"), ("session", "")] {
            let line = format!("prove --app {APP} --kind {kind} {options} --operator SERVICE --wallet {{{wallet}}}");
            let body = self.run(&line).await?;
            proofs.push(serde_json::from_str::<Value>(&body).expect("JSON"));
        }
        Ok((proofs[0]["responses"][0]["nullifier"].clone(), proofs[1]["session_id"].clone()))
    }
}

#[tokio::test]
async fn every_wallet_of_an_account_proves_one_person_and_a_removed_one_none() {
    let mut cli = WalletCli::new().await;
    let [laptop, _, _, agent, _] = cli.wallets(["laptop", "phone", "tablet", "agent", "other"]).await;
    let no_account = "is not, or no longer, an authenticator of an account";
    let error = cli.person("laptop").await.expect_err("no account yet");
    assert!(error.contains(no_account) && error.contains("selfsame wallet create-account --wallet"), "{error}");
    cli.run_ok(&format!("create-account --wallet {{laptop}} --recovery-agent {agent}")).await;
    cli.run_ok("create-account --wallet {other}").await;
    let person = cli.person("laptop").await.expect("proofs");
    assert_ne!(cli.person("other").await.expect("proofs"), person, "another account");
    cli.run_ok("insert --wallet {laptop} --new-wallet {phone}").await;
    assert_eq!(cli.person("phone").await, Ok(person.clone()), "a second device");
    cli.run_ok(&format!("remove {laptop} --wallet {{phone}}")).await;
    let error = cli.person("laptop").await.expect_err("removed");
    assert!(error.contains(no_account), "{error}");
    cli.run_ok("recover --leaf-index 1 --wallet {agent} --new-wallet {tablet}").await;
    assert_eq!(cli.person("tablet").await, Ok(person), "a recovered account");
    // This indexer still knows the revoked address, and the account's keys decide.
    let error = cli.person("phone").await.expect_err("revoked by the recovery");
    assert!(error.contains("this wallet's key is not among the public keys of account 0x1"), "{error}");
}

/// The wallet does not take the indexer's word for being an authenticator.
#[tokio::test]
async fn a_wallet_proves_only_with_an_inclusion_proof_that_has_its_key() {
    type AnswerChange = fn(&mut Value);
    let changes: [(AnswerChange, &str); 3] = [
        (|body| body["authenticator_pubkeys"][0] = Value::Null, "does not lead from its public keys to its root"),
        (|body| body["root"] = format!("0x{:064}", 1).into(), "does not lead from its public keys to its root"),
        (|body| body["siblings"] = Value::Array(Vec::new()), "does not lead from its public keys to its root"),
    ];
    let current = Arc::new(Mutex::new(None::<AnswerChange>));
    let changing = Arc::clone(&current);
    let other_account = Arc::new(Mutex::new(false));
    let misleading = Arc::clone(&other_account);
    let mut cli = WalletCli::with_changed_answers(move |called, body| {
        if called == "/inclusion-proof"
            && let Some(change) = *changing.lock().expect("no panic")
        {
            change(body);
        }
        if called == "/packed-account" && *misleading.lock().expect("no panic") {
            body["packed_account_data"] = "0x2".into();
        }
    })
    .await;
    cli.wallets(["own", "other"]).await;
    cli.run_ok("create-account --wallet {own}").await;
    cli.run_ok("create-account --wallet {other}").await;
    for (change, reason) in changes {
        *current.lock().expect("no panic") = Some(change);
        let error = cli.person("own").await.expect_err(reason);
        assert!(error.contains(reason), "{error}");
    }
    *current.lock().expect("no panic") = None;
    *other_account.lock().expect("no panic") = true;
    let error = cli.person("own").await.expect_err("another account");
    assert!(error.contains("this wallet's key is not among the public keys of account 0x2"), "{error}");
    *other_account.lock().expect("no panic") = false;
    assert!(cli.person("own").await.is_ok());
}

#[tokio::test]
async fn a_nullifier_is_given_again_for_ten_minutes_and_then_refused() {
    let mut cli = WalletCli::new().await;
    cli.wallets(["own", "phone"]).await;
    cli.run_ok("create-account --wallet {own}").await;
    cli.run_ok("insert --wallet {own} --new-wallet {phone}").await;
    let prove =
        |options: &str| format!("prove --app {APP} --kind uniqueness --action vote --operator SERVICE {options}");
    let again = prove("--wallet {own}");
    cli.run_ok(&again).await;
    cli.now += 600;
    cli.run_ok(&again).await;
    cli.now += 1;
    let bound = again.replace("uniqueness", "bound");
    for refused in [&again, &bound] {
        cli.check_refused(refused, "nullifier_replayed: this wallet gave the same proof of uniqueness 601 s ago").await;
    }
    // Another action, a session, another installation, and what the options ask for.
    cli.run_ok(&again.replace("--action vote", "--action another")).await;
    cli.run_ok(&again.replace("uniqueness", "session")).await;
    cli.run_ok(&prove("--wallet {phone}")).await;
    cli.run_ok(&prove("--wallet {own} --no-guard")).await;
    cli.check_refused(&again, "nullifier_replayed").await;
    cli.run_ok(&prove("--wallet {own} --forget")).await;
    cli.run_ok(&again).await;
    cli.now += 31_536_000;
    cli.check_refused(&again, "nullifier_replayed").await;
    cli.now += 1;
    cli.run_ok(&again).await;
}

/// A proof that is bound to a new session has the nullifier of an unbound one, and the guard
/// remembers it too.
#[tokio::test]
async fn a_bound_proof_names_a_new_session_and_counts_as_given() {
    let mut cli = WalletCli::new().await;
    cli.wallets(["own"]).await;
    cli.run_ok("create-account --wallet {own}").await;
    let line = format!("prove --app {APP} --kind bound --action vote --operator SERVICE --wallet {{own}}");
    let mut bodies = Vec::new();
    for line in [&line, &line, &line.replace("bound", "uniqueness"), &line.replace("bound", "session")] {
        bodies.push(serde_json::from_str::<Value>(&cli.run_ok(line).await).expect("JSON"));
    }
    let of = |name: &str| bodies.iter().map(|body| body[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("proof_type"), ["uniqueness".into(), "uniqueness".into(), Value::Null, Value::Null]);
    assert_eq!(of("action"), ["vote".into(), "vote".into(), "vote".into(), Value::Null]);
    let nullifiers: Vec<_> = bodies.iter().map(|body| body["responses"][0]["nullifier"].clone()).collect();
    assert!(nullifiers[0].is_string() && nullifiers[1..3].iter().all(|other| *other == nullifiers[0]));
    let sessions = of("session_id");
    assert!(sessions[0] != sessions[1] && sessions[0] != sessions[3] && sessions[2].is_null(), "{sessions:?}");
    cli.now += 601;
    for kind in ["bound", "uniqueness"] {
        cli.check_refused(&line.replace("bound", kind), "nullifier_replayed").await;
    }
}

/// A default address silently reaches another daemon.
#[tokio::test]
async fn a_wallet_remembers_its_daemon_and_names_it() {
    let mut cli = WalletCli::new().await;
    cli.run_ok("new --wallet {own} --operator SERVICE --data data").await;
    cli.run_ok("create-account --wallet {own}").await;
    cli.run_ok(&format!("prove --wallet {{own}} --app {APP} --kind uniqueness")).await;
    let reason = format!("the daemon at {} has no application app_unknown", cli.service);
    cli.check_refused("prove --wallet {own} --app app_unknown --kind uniqueness", &reason).await;
    let wallet = WalletFile::open(&cli.folder.path().join("own.json")).expect("the wallet is opened");
    assert!(wallet.data.is_some_and(|data| data.is_absolute() && data.ends_with("data")));
}
