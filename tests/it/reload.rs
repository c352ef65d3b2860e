//! Reading the configuration again while the daemon runs: by command, by SIGHUP, and what is not
//! taken over.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use alloy_primitives::Address;
use reqwest::Certificate;
use rustix::process::{Pid, Signal, kill_process};
use selfsame::config::SecretHash;
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};

use crate::harness::{
    DaemonProcess, Folder, TestDaemon, exclusive, folder, in_time, operator_token, program, run_for_status, until,
    until_true, wait_for_end,
};
use crate::test_accounts::key;
use crate::tls::certificate;

/// A daemon with a configuration file.
struct ConfiguredDaemon {
    process: DaemonProcess,
    folder: Folder,
}

impl ConfiguredDaemon {
    fn start(text: &str) -> Self {
        Self::start_with(text, &[])
    }

    /// The same with variables.
    fn start_with(text: &str, variables: &[(&str, &str)]) -> Self {
        let folder = folder();
        let file = folder.path().join("selfsame.toml");
        std::fs::write(&file, text).expect("written");
        let arguments = ["--config", file.to_str().expect("text")];
        let process = DaemonProcess::start(&folder.path().join("data"), &arguments, variables);
        Self { process, folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("selfsame.toml"), text).expect("written");
    }

    /// Runs a command that calls the daemon; its exit status and output.
    fn run(&self, command: &[&str]) -> (i32, String) {
        let data = self.data();
        let (status, text) = run_for_status(&[command, &["--data", data.to_str().expect("text")]].concat(), &[]);
        (status.code().expect("an exit status"), text)
    }

    /// The same for JSON.
    fn run_json(&self, command: &[&str]) -> (i32, Value) {
        let (status, text) = self.run(&[command, &["--json"]].concat());
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    async fn metric(&self, name: &str) -> f64 {
        let answer = reqwest::get(format!("{}/metrics", self.process.operator)).await.expect("an answer");
        let text = answer.text().await.expect("text");
        let sample = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        sample.unwrap_or_else(|| panic!("{name} is not in {text}"))
    }

    /// Whether a page of an origin may read answers of the gateway.
    async fn allows(&self, origin: &str) -> bool {
        let request = reqwest::Client::new().get(format!("{}/health", self.process.gateway));
        let answer = request.header("origin", origin).send().await.expect("an answer");
        answer.headers().get("access-control-allow-origin").is_some_and(|allowed| allowed == origin)
    }
}

const GOOD: &str = "
log.format = 'text'
limits.in_flight = 7
cors.allowed_origins = ['https://wallet.example']
[[apps]]
id = 'app_more'
[[trusted_roots]]
root = '0x77'
time = 2026-01-31T12:00:00Z
environment = 'staging'
kind = 'current'
";

/// Of an attack that creates accounts without end, the registry is closed without a restart, which
/// would end the sign-ins that are under way.
#[tokio::test]
async fn a_reload_closes_and_opens_the_registry_for_strangers() {
    let daemon = ConfiguredDaemon::start("");
    let needs = async || {
        let answer = reqwest::get(format!("{}/config", daemon.process.gateway)).await.expect("an answer");
        answer.json::<Value>().await.expect("JSON")["create_account"].clone()
    };
    let create = async |number: usize, token: Option<&str>| {
        let creation = create_account(&[key(&format!("reload {number}")).authenticator()], Address::ZERO).operation;
        let request = reqwest::Client::new().post(format!("{}/create-account", daemon.process.gateway)).json(&creation);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!((needs().await, create(1, None).await), (Value::Null, 200));
    let hash = SecretHash::of([3; 16], "the token");
    let hash = hash.to_text();
    daemon.write(&format!("registry.create_account = 'token'\nregistry.create_account_token_hash = '{hash}'\n"));
    let (status, report) = daemon.run_json(&["reload"]);
    let changed = json!(["registry.create_account", "registry.create_account_token_hash"]);
    assert_eq!((status, &report["changed"], &report["needs_restart"]), (0, &changed, &json!([])));
    assert_eq!(needs().await, json!({"needs": "token"}));
    for (token, expected) in [(None, 401), (Some("another"), 401), (Some("the token"), 200)] {
        assert_eq!(create(2, token).await, expected, "{token:?}");
    }
    // Closed without a token: the configuration is refused, and the registry stays closed.
    daemon.write("registry.create_account = 'token'\n");
    assert_eq!(daemon.run(&["reload"]).0, 78);
    assert_eq!(create(3, None).await, 401);
    daemon.write("");
    assert_eq!(daemon.run(&["reload"]).0, 0);
    assert_eq!((needs().await, create(3, None).await), (Value::Null, 200));
}

#[tokio::test]
async fn a_reload_takes_over_what_it_can_and_names_the_rest() {
    let daemon = ConfiguredDaemon::start("");
    let started = daemon.metric("selfsame_config_last_reload_success_timestamp_seconds").await;
    assert!(started > 0.0);
    assert_eq!(daemon.run_json(&["status"]).1["reload"], Value::Null);
    assert_eq!(daemon.run(&["reload"]), (0, "read again; no setting in force has changed\n".to_owned()));
    assert!(!daemon.allows("https://wallet.example").await);

    daemon.write(GOOD);
    let (status, report) = daemon.run_json(&["reload"]);
    assert_eq!((status, &report["outcome"]), (0, &json!("success")));
    let changed = json!(["limits.in_flight", "cors.allowed_origins", "apps", "trusted_roots"]);
    assert_eq!((&report["changed"], &report["needs_restart"]), (&changed, &json!(["log.format"])));
    assert!(daemon.allows("https://wallet.example").await);
    assert!(!daemon.allows("https://other.example").await);
    let (_, roots) = daemon.run(&["roots", "list"]);
    assert!(roots.contains("current staging 2026-01-31T12:00:00Z - 0x77\n"), "{roots}");
    let (status, text) = daemon.run(&["status"]);
    assert!(status == 0 && text.contains("configuration last read again 20"), "{text}");
    assert_eq!(daemon.run_json(&["status"]).1["reload"], report);

    // A root that the operator removed stays removed, also when it is read again.
    let remove = ["roots", "remove", "0x77", "--kind", "current", "--environment", "staging"];
    assert_eq!(daemon.run(&remove).0, 0);
    assert_eq!(daemon.run(&["reload"]).0, 0);
    assert!(!daemon.run(&["roots", "list"]).1.contains("0x77"));

    // A wrong one changes nothing, neither what is wrong in it nor the rest.
    daemon.write("cors.allowed_origins = ['https://other.example']\nlimits.in_flight = 0\nlimit.in_flight = 1\n");
    let (status, text) = daemon.run(&["reload"]);
    assert_eq!(status, 78, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "refused; the old configuration stays in force");
    assert!(lines[1].contains("limit: is not a known key (did you mean limits?)"), "{text}");
    assert!(lines[2].contains("limits.in_flight: 0 is out of range") && lines[2].contains("line 2"), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    assert!(daemon.allows("https://wallet.example").await && !daemon.allows("https://other.example").await);
    let (_, shown) = daemon.run_json(&["status"]);
    assert_eq!((&shown["reload"]["outcome"], shown["ready"].as_bool()), (&json!("refused"), Some(true)));
    assert_eq!(daemon.metric("selfsame_config_last_reload_successful").await, 0.0);
    // Files that the settings name are checked as at a start.
    daemon.write("verifier.keys.staging.legacy = '/nowhere/key.json'");
    let (status, text) = daemon.run(&["reload"]);
    assert!(status == 78 && text.contains("verifier.keys.staging.legacy: /nowhere/key.json"), "{text}");

    // SIGHUP does the same.
    daemon.write("");
    daemon.process.hang_up();
    let is_successful = async || daemon.metric("selfsame_config_last_reload_successful").await == 1.0;
    until_true("the reload by SIGHUP", is_successful).await;
    assert!(!daemon.allows("https://wallet.example").await);
    let (_, shown) = daemon.run_json(&["status"]);
    assert_eq!(shown["reload"]["changed"], changed);
    assert!(daemon.metric("selfsame_config_last_reload_success_timestamp_seconds").await >= started);
    assert!(daemon.process.terminate().success());
}

#[tokio::test]
async fn a_reload_takes_over_another_certificate() {
    let (first, second) = (folder(), folder());
    let text = |tls: &selfsame::config::Tls| {
        let (certificate, private_key) = (tls.certificate.display(), tls.private_key.display());
        format!("[tls]\ncertificate = '{certificate}'\nprivate_key = '{private_key}'\n")
    };
    let (first_files, first_certificate) = certificate(&first);
    let (second_files, second_certificate) = certificate(&second);
    let daemon = ConfiguredDaemon::start(&text(&first_files));
    let is_served = async |trusted: &Certificate| {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([trusted.clone()]).build().expect("a client");
        http.get(format!("{}/health", daemon.process.gateway)).send().await.is_ok()
    };
    assert!(is_served(&first_certificate).await);
    // Other files.
    daemon.write(&text(&second_files));
    assert_eq!(daemon.run_json(&["reload"]).1["changed"], json!(["tls"]));
    assert!(is_served(&second_certificate).await && !is_served(&first_certificate).await);
    // Others in the same files.
    let (_, third_certificate) = certificate(&second);
    assert_eq!(daemon.run_json(&["reload"]).1["changed"], json!(["tls"]));
    assert!(is_served(&third_certificate).await && !is_served(&second_certificate).await);
    // Files that cannot be used.
    std::fs::write(&second_files.certificate, "not a certificate").expect("written");
    let (status, text) = daemon.run(&["reload"]);
    assert!(status == 78 && text.contains("tls.certificate: "), "{text}");
    assert!(is_served(&third_certificate).await);
    // A listener does not change between TLS and plain HTTP.
    daemon.write("");
    assert_eq!(daemon.run_json(&["reload"]).1["needs_restart"], json!(["tls"]));
    assert!(is_served(&third_certificate).await);
}

#[tokio::test]
async fn only_the_operator_of_a_daemon_with_a_configuration_reloads_it() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let post = || reqwest::Client::new().post(daemon.operator("/reload"));
    assert_eq!(post().send().await.expect("an answer").status(), 401);
    // The daemon of this process was given its configuration as a value.
    let token = operator_token(folder.path());
    let answer = post().bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(answer.status(), 503);
    let body: Value = answer.json().await.expect("JSON");
    assert!(body["message"].as_str().is_some_and(|text| text.contains("is not read again")), "{body}");
    let (status, text) = run_for_status(&["reload", "--data", folder.path().to_str().expect("text")], &[]);
    assert_eq!(status.code(), Some(1), "{text}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_without_its_message_bridge_takes_no_application_over_that_needs_it() {
    // Where the default address is free, this test has it.
    let _alone = exclusive("default-address-of-the-bridge");
    let _taken = std::net::TcpListener::bind("127.0.0.1:8085");
    let daemon = ConfiguredDaemon::start_with("", &[("SELFSAME_LISTEN__BRIDGE", "127.0.0.1:8085")]);
    daemon.write("[[apps]]\nid = 'app_more'\nwallet_link = 'bridge'\n");
    let (status, text) = daemon.run(&["reload"]);
    assert_eq!(status, 78, "{text}");
    assert!(text.contains("wallet_link = \"bridge\" needs the message bridge") && text.contains("restart"), "{text}");
    daemon.write("[[apps]]\nid = 'app_more'\nwallet_link = 'wallet:{request}'\n");
    assert_eq!(daemon.run(&["reload"]).0, 0);
    assert!(daemon.process.terminate().success());
}

/// A daemon of which nothing is known but its process.
struct StartingDaemon {
    child: Child,
    log: PathBuf,
}

impl StartingDaemon {
    /// Starts it with a configuration file, its data and its log in this folder.
    fn start(folder: &Path) -> Self {
        let log = folder.join("log");
        let mut command = program();
        command.args(["serve", "--dev", "--config"]).arg(folder.join("selfsame.toml"));
        command.arg("--data").arg(folder.join("data"));
        for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"] {
            command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
        }
        let errors = std::fs::File::create(&log).expect("a file");
        let child = command.stdout(Stdio::null()).stderr(errors).spawn().expect("the program starts");
        Self { child, log }
    }

    fn hang_up(&self) {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::HUP).expect("the process is not waited for yet");
    }

    /// Whether SIGHUP would not end the process now: it is ignored or caught.
    fn survives_hangup(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let has_hangup = |mask: &str| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1);
        let masks = |name: &'static str| status.lines().filter_map(move |line| line.strip_prefix(name));
        masks("SigIgn:").chain(masks("SigCgt:")).any(has_hangup)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("text")
    }

    fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the process is not waited for yet");
        wait_for_end(&mut self.child)
    }
}

impl Drop for StartingDaemon {
    fn drop(&mut self) {
        // Both fail only when the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The configuration is a pipe, so the start waits for the test while it reads.
#[tokio::test]
async fn a_hangup_while_the_start_reads_its_configuration_is_a_reload_after_it() {
    let folder = folder();
    let file = folder.path().join("selfsame.toml");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
    let mut daemon = StartingDaemon::start(folder.path());
    let open = {
        let file = file.clone();
        // This returns when the daemon reads.
        tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(file).expect("opened"))
    };
    let mut pipe = in_time("a daemon that reads its configuration", open).await.expect("no panic");
    daemon.hang_up();
    assert!(daemon.child.try_wait().expect("waited for").is_none(), "the signal ended the start");
    // The daemon may have ended.
    let _ = pipe.write_all(b"limits.in_flight = 7\n");
    drop(pipe);
    until("a daemon that serves", async || {
        let log = daemon.log();
        let has_ended = daemon.child.try_wait().expect("waited for").is_some();
        if log.contains("\"serving\"") || has_ended { Ok(()) } else { Err(log) }
    })
    .await;
    let second = tokio::task::spawn_blocking(move || std::fs::write(file, "limits.in_flight = 8\n"));
    until("a reload", async || {
        if let Some(status) = daemon.child.try_wait().expect("waited for") {
            panic!("the daemon ended: {status}: {}", daemon.log());
        }
        let log = daemon.log();
        let is_reloaded = log.lines().any(|line| line.contains("read again") && line.contains("limits.in_flight"));
        if is_reloaded { Ok(()) } else { Err(log) }
    })
    .await;
    second.await.expect("no panic").expect("written");
    assert!(daemon.terminate().success());
}

/// From the first moment of the program on, whatever the start does.
#[tokio::test]
async fn hangups_all_through_a_start_do_not_end_it() {
    let folder = folder();
    std::fs::write(folder.path().join("selfsame.toml"), "").expect("written");
    let mut daemon = StartingDaemon::start(folder.path());
    until_true("a process that SIGHUP does not end", async || daemon.survives_hangup()).await;
    until("a reload", async || {
        daemon.hang_up();
        if let Some(status) = daemon.child.try_wait().expect("waited for") {
            panic!("the daemon ended: {status}: {}", daemon.log());
        }
        let log = daemon.log();
        if log.contains("configuration was read again") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(daemon.terminate().success());
}
