//! The commands, through their command line, on a registry that keeps the real rules.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use selfsame_wallet::command::{WalletCommand, run};
use selfsame_wallet::file::WalletFile;
use serde_json::Value;

use crate::registry::Registry;
use crate::server::{Answer, Call, serve};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    wallet: WalletCommand,
}

/// Wallets in a folder of their own, and a registry.
struct Desk {
    folder: tempfile::TempDir,
    service: String,
    draws: u8,
}

impl Desk {
    /// A desk whose registry's answers pass through `change` (path, answer).
    async fn new(change: impl Fn(&str, &mut Value) + Send + Sync + 'static) -> Self {
        let registry = Arc::new(Mutex::new(Registry::default()));
        let answer = move |call: Call| {
            let Answer(status, retry_after, body) = registry.lock().expect("no panic").answer(&call);
            let mut body = serde_json::from_str(&body).expect("JSON");
            change(&call.path, &mut body);
            Answer(status, retry_after, body.to_string())
        };
        Self { folder: tempfile::tempdir().expect("a folder"), service: serve(answer).await, draws: 0 }
    }

    async fn honest() -> Self {
        Self::new(|_, _| ()).await
    }

    /// Runs a command line; `{name}` in it is a wallet file of this desk. Its output, or its error.
    async fn run(&mut self, line: &str) -> Result<String, String> {
        let folder = self.folder.path().display().to_string();
        let words =
            line.split_whitespace().map(|word| match word.strip_prefix('{').and_then(|w| w.strip_suffix('}')) {
                Some(name) => format!("{folder}/{name}.json"),
                None => word.to_owned(),
            });
        let services = ["--gateway", &self.service, "--indexer", &self.service].map(str::to_owned);
        let command = CommandLine::try_parse_from(["wallet".to_owned()].into_iter().chain(words).chain(services))
            .map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        let mut random = |bytes: &mut [u8; 32]| {
            self.draws += 1;
            *bytes = [self.draws; 32];
        };
        let started = Instant::now();
        run(command.wallet, &mut random, &move || started, &mut out).await.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).expect("text"))
    }

    async fn ok(&mut self, line: &str) -> String {
        self.run(line).await.unwrap_or_else(|error| panic!("`{line}`: {error}"))
    }

    async fn refused(&mut self, line: &str, reason: &str) {
        let error = self.run(line).await.expect_err(line);
        assert!(error.contains(reason), "`{line}`: {error:?} should contain {reason:?}");
    }

    /// Makes wallets and tells their addresses.
    async fn wallets<const N: usize>(&mut self, names: [&str; N]) -> [String; N] {
        for name in names {
            self.ok(&format!("new --wallet {{{name}}}")).await;
        }
        names.map(|name| self.address(name))
    }

    fn address(&self, name: &str) -> String {
        let path = self.folder.path().join(Path::new(name).with_extension("json"));
        format!("{:#x}", WalletFile::open(&path).expect("a wallet").key.address())
    }
}

/// The lines about the account, after those about the operation.
fn account(output: &str) -> Vec<&str> {
    output.lines().skip_while(|line| !line.starts_with("leaf index")).collect()
}

#[tokio::test]
async fn the_life_of_an_account() {
    let mut desk = Desk::honest().await;
    let [laptop, phone, tablet, agent, other] = desk.wallets(["laptop", "phone", "tablet", "agent", "other"]).await;

    assert!(desk.ok("show --wallet {laptop}").await.ends_with("an authenticator of no account\n"));
    let output = desk.ok(&format!("create-account --wallet {{laptop}} --recovery-agent {agent}")).await;
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("accepted request gw_") && lines[0].ends_with("(create_account)"), "{output}");
    assert!(lines[1].starts_with("finalized in block 0x") && lines[1].ends_with("after 0s"), "{output}");
    assert_eq!(lines[2], "receipt verified: operation 0 of block 1");
    assert!(lines[3].starts_with("inclusion proof verified against root 0x"), "{output}");
    let (slot, has_agent) = (format!("slot 0: {laptop} (this wallet)"), format!("recovery agent {agent}"));
    assert_eq!(lines[4..], ["leaf index 0x1, nonce 0", &slot, &has_agent]);

    let output = desk.ok("insert --wallet {laptop} --new-wallet {phone}").await;
    let inserted = format!("slot 1: {phone}");
    assert_eq!(account(&output), ["leaf index 0x1, nonce 1", &slot, &inserted, &has_agent]);
    let output = desk.ok("update --wallet {phone} --new-wallet {tablet}").await;
    let (slot, updated) = (format!("slot 0: {laptop}"), format!("slot 1: {tablet}"));
    assert_eq!(account(&output), ["leaf index 0x1, nonce 2", &slot, &updated, &has_agent]);
    let output = desk.ok(&format!("remove {laptop} --wallet {{tablet}}")).await;
    let updated = format!("{updated} (this wallet)");
    assert_eq!(account(&output), ["leaf index 0x1, nonce 3", "slot 0: removed", &updated, &has_agent]);

    let output = desk.ok(&format!("recovery-agent set {other} --wallet {{tablet}}")).await;
    let pending = format!("recovery agent {other} can take office from 2027-01-15T08:00:00Z on");
    assert_eq!(account(&output)[3..], [has_agent.clone(), pending]);
    let output = desk.ok("recovery-agent cancel --wallet {tablet}").await;
    assert_eq!(account(&output)[3..], [has_agent.as_str()]);
    desk.ok(&format!("recovery-agent set {other} --wallet {{tablet}}")).await;
    let output = desk.ok("recovery-agent execute --leaf-index 1 --wallet {agent}").await;
    let in_office = format!("recovery agent {other}");
    assert_eq!(
        account(&output),
        ["leaf index 0x1, nonce 6", "slot 0: removed", &format!("slot 1: {tablet}"), &in_office]
    );

    desk.refused("recover --leaf-index 1 --wallet {agent} --new-wallet {phone}", "InvalidSignature").await;
    desk.ok("recover --leaf-index 0x1 --wallet {other} --new-wallet {phone}").await;
    let output = desk.ok("show --wallet {phone}").await;
    assert_eq!(account(&output), ["leaf index 0x1, nonce 7", &format!("slot 0: {phone} (this wallet)"), &in_office]);
    desk.refused("recovery-agent cancel --wallet {tablet}", "is not an authenticator of the account").await;
    desk.ok(&format!("remove {phone} --wallet {{phone}}")).await;
    assert_eq!(account(&desk.ok("show --wallet {phone} --leaf-index 1").await)[1], "slot 0: removed");
}

#[tokio::test]
async fn commands_that_are_refused() {
    let mut desk = Desk::honest().await;
    let [own, _] = desk.wallets(["own", "new"]).await;
    desk.refused("new --wallet {own}", "exists already").await;
    desk.refused("show --wallet {none}", "selfsame wallet new --wallet").await;
    desk.refused("insert --wallet {own} --new-wallet {new}", "is not an authenticator of any account").await;
    desk.refused("show --wallet {own} --leaf-index 9", "400 account_does_not_exist").await;
    desk.ok("create-account --wallet {own}").await;
    desk.refused("create-account --wallet {own}", "failed: AuthenticatorAddressAlreadyInUse").await;
    desk.refused("insert --wallet {own} --new-wallet {none}", "there is no wallet").await;
    desk.refused("insert --wallet {own} --new-wallet {own}", "already").await;
    desk.refused("insert --wallet {own} --new-wallet {new} --slot 0", &format!("slot 0 holds {own}")).await;
    desk.refused("insert --wallet {own} --new-wallet {new} --slot 7", "slot 7 does not exist").await;
    desk.refused("remove 0x12 --wallet {own}", "40 hex digits").await;
    desk.refused("recover --leaf-index one --wallet {own} --new-wallet {new}", "not a decimal digit").await;
}

#[tokio::test]
async fn answers_that_do_not_hold_are_refused() {
    type Lie = fn(&mut Value);
    let lies: [(&'static str, Lie, &str); 12] = [
        ("/config", |body| body["registry_version"] = "v2".into(), "version `v2`"),
        ("/authenticators", |body| body["offchain_signer_commitment"] = "0x5".into(), "its public keys make"),
        ("/authenticators", |body| body["authenticator_pubkeys"] = vec!["0x1"].into(), "slot 0 does not decode"),
        ("/authenticators", |body| body["authenticator_addresses"] = vec![Value::Null].into(), "do not fit together"),
        ("/receipt", |body| body["block"]["height"] = 9.into(), "the block's hash is not that of its header"),
        ("/receipt", |body| body["kind"] = "create_account".into(), "the operation's encoding is not that"),
        ("/status", |body| body["status"]["tx_hash"] = "0x00".into(), "another block than the state named"),
        ("/inclusion-proof", |body| body["leaf_index"] = "0x2".into(), "of another account"),
        ("/inclusion-proof", |body| body["root"] = format!("0x{:064}", 1).into(), "does not lead from"),
        ("/inclusion-proof", |body| body["siblings"] = Value::Array(Vec::new()), "30 siblings"),
        ("/inclusion-proof", |body| body["authenticator_pubkeys"][0] = Value::Null, "not the account's"),
        ("/is-valid-root", |body| body["valid"] = false.into(), "does not hold its root valid"),
    ];
    let told = Arc::new(Mutex::new(None::<(&str, Lie)>));
    let tell = Arc::clone(&told);
    let mut desk = Desk::new(move |called, body| {
        if let Some((path, lie)) = *tell.lock().expect("no panic")
            && called.starts_with(path)
        {
            lie(body);
        }
    })
    .await;
    let [own] = desk.wallets(["own"]).await;
    desk.ok("create-account --wallet {own}").await;
    let command = format!("recovery-agent set {own} --wallet {{own}}");
    for (path, lie, reason) in lies {
        *told.lock().expect("no panic") = Some((path, lie));
        desk.refused(&command, reason).await;
    }
    *told.lock().expect("no panic") = None;
    desk.ok(&command).await;
}
