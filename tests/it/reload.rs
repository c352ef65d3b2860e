//! Reading the configuration again while the daemon runs: by command, by SIGHUP, and what is not
//! taken over.

use std::path::PathBuf;

use reqwest::Certificate;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{DaemonProcess, TestDaemon, exclusive, folder, operator_token, run_for_status, until_true};
use crate::tls::certificate;

/// A daemon with a configuration file.
struct ConfiguredDaemon {
    process: DaemonProcess,
    folder: TempDir,
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
