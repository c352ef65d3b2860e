//! A client of the verification interface: a daemon with the applications, keys and roots of the
//! recorded proofs.

use std::path::Path;

use reqwest::header::CONTENT_TYPE;
use selfsame::config::Config;
use selfsame_protocol::number;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::{Value, json};

use crate::harness::{Folder, TestDaemon, folder, operator_token};
use crate::sign_in_client::random;
use crate::test_accounts::person_of;

/// The application of the recorded legacy proof.
pub const LEGACY_APP: &str = "app_staging_169e21f6afc84b304749830067809632";
/// The relying party of the recorded session proof.
pub const SESSION_PARTY: &str = "rp_0387df34f862cd4e";
/// The example application of `--dev`.
pub const DEV_APP: &str = "app_staging_5e1f5a3e000000000000000000000001";

pub const MODULUS: &str = "0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001";

pub fn vector(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

pub fn legacy_vector() -> Value {
    vector(include_str!("../../protocol/vectors/v3_depth30_verify_user.json"))
}

pub fn session_vector() -> Value {
    vector(include_str!("../../protocol/vectors/v4_session.json"))
}

/// The recorded legacy proof as a request.
pub fn legacy() -> Value {
    let case = legacy_vector();
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": "verify-user", "environment": "staging",
        "responses": [{
            "identifier": "orb", "merkle_root": case["root"], "nullifier": case["nullifier_hash"],
            "proof": case["proof"], "signal_hash": case["signal_hash"],
        }],
    })
}

/// The recorded session proof as a request.
pub fn session() -> Value {
    let case = session_vector();
    let named = &case["named"];
    let expires: u64 = number::parse(named["expires_at_min"].as_str().expect("text")).expect("a number");
    let commitment = named["session_id_commitment"].as_str().expect("text").trim_start_matches("0x");
    json!({
        "protocol_version": "4.0", "nonce": named["nonce"],
        "session_id": format!("session_{commitment}01{}", "0".repeat(62)),
        "responses": [{
            "identifier": "proof_of_human", "issuer_schema_id": 1,
            "session_nullifier": [named["nullifier"], named["action"]],
            "expires_at_min": expires, "signal_hash": named["signal_hash"], "proof": case["proof"],
        }],
    })
}

/// A request with one value changed.
pub fn with(mut request: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    match request.pointer_mut(parent).expect("a place") {
        Value::Array(items) => items[name.parse::<usize>().expect("an index")] = value,
        parent => parent[name] = value,
    }
    request
}

/// The applications, keys and roots of the recorded proofs, in the form of a configuration file.
pub fn recorded_configuration() -> Config {
    let named = session_vector()["named"].clone();
    let root = legacy_vector()["root"].clone();
    let text = format!(
        r#"
        [[apps]]
        id = "{LEGACY_APP}"
        [[apps]]
        id = "app_session"
        [[apps]]
        id = "app_both"
        environments = ["production", "staging"]
        [[relying_parties]]
        app_id = "app_session"
        rp_id = "{SESSION_PARTY}"
        oprf_public_key = {{ x = {}, y = {} }}
        [[issuers]]
        id = 1
        environments = ["production"]
        public_key = {{ x = {}, y = {} }}
        [[trusted_roots]]
        root = {root}
        time = 2026-06-30T00:00:00Z
        environment = "staging"
        kind = "legacy"
        identifiers = ["orb"]
        [[trusted_roots]]
        root = {}
        time = 2026-06-30T00:00:00Z
        kind = "current"
        "#,
        named["oprf_pubkey_x"],
        named["oprf_pubkey_y"],
        named["issuer_pubkey_x"],
        named["issuer_pubkey_y"],
        named["merkle_root"],
    );
    let folder = folder();
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, text).expect("written");
    Config::load(Some(&file), std::iter::empty(), false, None).expect("a good configuration")
}

/// A client of a daemon that has the configuration of the recorded proofs.
pub struct VerificationClient {
    pub daemon: TestDaemon,
    pub http: reqwest::Client,
    pub folder: Folder,
}

#[derive(Debug)]
pub struct VerificationAnswer {
    pub status: u16,
    pub body: Value,
}

impl VerificationAnswer {
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// The code of the only item.
    pub fn item_code(&self) -> &str {
        assert_eq!((self.status, self.code()), (400, "all_verifications_failed"), "{self:?}");
        assert_eq!(self.body["results"].as_array().map(Vec::len), Some(1), "{self:?}");
        assert!(self.body["results"][0]["detail"].is_string(), "{self:?}");
        self.body["results"][0]["code"].as_str().expect("a code")
    }
}

impl VerificationClient {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        let daemon = Self::start_daemon(folder.path(), change).await;
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { daemon, http, folder }
    }

    async fn start_daemon(data: &Path, change: impl FnOnce(&mut Config)) -> TestDaemon {
        TestDaemon::start_with(data, |config| {
            let recorded = recorded_configuration();
            config.apps.extend(recorded.apps);
            config.relying_parties.extend(recorded.relying_parties);
            config.issuers.extend(recorded.issuers);
            config.trusted_roots.extend(recorded.trusted_roots);
            config.verifier.simulator_seed = Some("integration tests".to_owned());
            change(config);
        })
        .await
    }

    /// Stops the daemon and starts it again on the same data, without the changes of
    /// [`VerificationClient::start_with`].
    pub async fn restart_with_defaults(self) -> Self {
        self.restart_with(|_| {}).await
    }

    /// Stops the daemon and starts it again on the same data, with these changes of its settings
    /// and no others.
    pub async fn restart_with(self, change: impl FnOnce(&mut Config)) -> Self {
        let Self { daemon, http, folder } = self;
        daemon.stop().await;
        let daemon = Self::start_daemon(folder.path(), change).await;
        Self { daemon, http, folder }
    }

    pub async fn send(&self, path: &str, body: impl Into<reqwest::Body>) -> VerificationAnswer {
        let url = self.daemon.verify(&format!("/api/v4/verify/{path}"));
        let request = self.http.post(url).header(CONTENT_TYPE, "application/json").body(body);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body["success"], json!(status == 200), "{body}");
        VerificationAnswer { status, body }
    }

    pub async fn ask(&self, path: &str, request: &Value) -> VerificationAnswer {
        self.send(path, request.to_string()).await
    }

    /// Posts a body to the operator interface with the token; status and body of the answer.
    pub async fn post_to_operator(&self, path: &str, body: &Value) -> (u16, Value) {
        let token = operator_token(self.folder.path());
        let request = self.http.post(self.daemon.operator(path)).json(body).bearer_auth(token);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// The answer of `GET /roots`.
    pub async fn list_roots(&self) -> Vec<Value> {
        let token = operator_token(self.folder.path());
        let request = self.http.get(self.daemon.operator("/roots")).bearer_auth(token);
        request.send().await.expect("an answer").json().await.expect("JSON")
    }

    /// The simulated party for the example application.
    pub async fn simulated(&self) -> SimulatedParty {
        let operator = Operator::new(&self.daemon.operator("")).expect("an address");
        let root = self.daemon.client().root().await.expect("an answer").root;
        let simulation = operator.simulation().await.expect("an answer");
        SimulatedParty::of(simulation, DEV_APP, root).expect("a known application")
    }
}

/// A uniqueness proof of the simulator.
pub fn uniqueness(person: &str, action: &str, party: &SimulatedParty) -> Value {
    let asked = ProofParameters { app_id: DEV_APP, action, signal: "", environment: Environment::Staging, nonce: None };
    prove::uniqueness(&person_of(person), &asked, party, &mut random()).expect("a proof")
}

/// A uniqueness proof of the simulator that is bound to a new session.
pub fn bound_uniqueness(person: &str, action: &str, party: &SimulatedParty) -> Value {
    let asked = ProofParameters { app_id: DEV_APP, action, signal: "", environment: Environment::Staging, nonce: None };
    prove::bound_uniqueness(&person_of(person), &asked, party, &mut random()).expect("a proof")
}
